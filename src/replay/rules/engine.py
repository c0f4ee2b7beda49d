"""Rules on signals, over a whole store or a live tail: the same code, so the same flags.

Detectors and episode builders take points as they come.  Everything above them (combinations, recurrences, leads)
is a pure function of the episodes so far, so that it does not depend on how the points arrived.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from replay.rules.cleaning import Cleaner
from replay.rules.detectors import DETECTORS
from replay.rules.episodes import Episode, EpisodeBuilder, all_of, any_of, one_then_another
from replay.rules.messages import message
from replay.rules.model import Checked, Combination, Condition, Evaluation, Flag, Rule, Severity, Unchecked
from replay.rules.series import Series
from replay_parsers.kinds import EventKind

LEAD_STEPS = 500
"""A sign further ahead than this is not counted as having announced what followed."""
_LOSS_SYMPTOMS = frozenset({EventKind.LOSS_SPIKE, EventKind.LOSS_EXPLOSION, EventKind.DIVERGENCE, EventKind.NAN_LOSS})
_COMBINED = {"any": any_of, "all": all_of, "then": one_then_another}


def evaluate(rules: Sequence[Rule], series: Mapping[str, Series]) -> Evaluation:
    """Run ``rules`` over whole series, by signal.

    Points may come in any order: they are sorted by attempt and step.  Returns flags, recurrences of them in later
    attempts, and what was checked and what was not, with reasons.  Pure: the same input gives the same output.
    """
    watch = Watch(rules)
    watch.update({signal: _sorted(columns) for signal, columns in series.items()})
    return watch.evaluation()


class Watch:
    """Rules over a run that is still being written.

    ``update`` takes further points by signal, each signal in order of attempts and steps; signals need not be level
    with each other.  After the same points, :meth:`evaluation` is what :func:`evaluate` gives of them at once.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        signals = dict.fromkeys(signal for rule in rules for signal in rule.signals)
        self._cleaners = {signal: Cleaner(signal) for signal in signals}
        self._trackers = {rule.name: [_Tracker(rule, condition) for condition in rule.conditions] for rule in rules}
        self._reported: dict[tuple[str, int, int], Severity] = {}

    def update(self, series: Mapping[str, Series]) -> list[Flag]:
        """Take further points; returns the flags that have not been returned before, or were less severe then."""
        cleaned = {
            signal: self._cleaners[signal].clean(batch) for signal, batch in series.items() if signal in self._cleaners
        }
        for tracker in self._all_trackers():
            batch = cleaned.get(tracker.condition.signal)
            if batch is not None and len(batch):
                tracker.update(batch)
        new = []
        for flag in self.evaluation().flags:
            key = (flag.rule, flag.attempt, flag.step)
            # The first point of a long excursion looks like a single odd one: that it goes on must be told.
            if self._reported.get(key) != flag.severity:
                self._reported[key] = flag.severity
                new.append(flag)
        return new

    def evaluation(self) -> Evaluation:
        """What the rules say of all points so far."""
        found: list[Flag] = []
        recurrences: list[Flag] = []
        for rule in self.rules:
            flags, again = _without_recurrences(self._flags(rule))
            found += flags
            recurrences += again
        checked, unchecked = self._coverage()
        return Evaluation(
            flags=tuple(_with_leads(sorted(found, key=_place))),
            recurrences=tuple(sorted(recurrences, key=_place)),
            checked=tuple(checked),
            unchecked=tuple(unchecked),
        )

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered, as plain data; belongs to the rules it was made with."""
        return {
            "cleaners": {signal: cleaner.state_dict() for signal, cleaner in self._cleaners.items()},
            "trackers": {
                name: [tracker.state_dict() for tracker in trackers] for name, trackers in self._trackers.items()
            },
            "reported": sorted([*key, str(severity)] for key, severity in self._reported.items()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict` of a watch of the same rules.  Raises :class:`KeyError` for other rules."""
        for signal, cleaner in self._cleaners.items():
            cleaner.load_state_dict(state["cleaners"][signal])
        for name, trackers in self._trackers.items():
            for tracker, saved in zip(trackers, state["trackers"][name], strict=True):
                tracker.load_state_dict(saved)
        self._reported = {
            (rule, attempt, step): Severity(severity) for rule, attempt, step, severity in state["reported"]
        }

    def _all_trackers(self) -> Iterator[_Tracker]:
        for trackers in self._trackers.values():
            yield from trackers

    def _flags(self, rule: Rule) -> list[Flag]:
        waiting = iter(self._trackers[rule.name])

        def episodes(node: Condition | Combination) -> list[Episode]:
            if isinstance(node, Condition):
                return next(waiting).episodes()
            return _COMBINED[node.how]([episodes(part) for part in node.parts], node.within)

        return [_flag(rule, episode) for episode in episodes(rule.when)]

    def _coverage(self) -> tuple[list[Checked], list[Unchecked]]:
        checked: list[Checked] = []
        unchecked: list[Unchecked] = []
        for rule in self.rules:
            for tracker in self._trackers[rule.name]:
                signal = tracker.condition.signal
                cleaner = self._cleaners[signal]
                if tracker.judged:
                    checked.append(
                        Checked(
                            rule=rule.name,
                            signal=signal,
                            points=cleaner.kept,
                            judged=tracker.judged,
                            first_step=cleaner.first_step or 0,
                            last_step=cleaner.last_step or 0,
                            cautious=tracker.cautious,
                            caution=tracker.caution if tracker.cautious else "",
                        )
                    )
                else:
                    unchecked.append(
                        Unchecked(
                            rule=rule.name,
                            signal=signal,
                            reason=_why_not(tracker, cleaner),
                            points=cleaner.kept,
                            needs=tracker.needs if cleaner.kept else 0,
                        )
                    )
        return list(dict.fromkeys(checked)), list(dict.fromkeys(unchecked))


class _Tracker:
    """One condition of one rule on its signal."""

    def __init__(self, rule: Rule, condition: Condition) -> None:
        self.condition = condition
        self._detector = DETECTORS[condition.detector].build(condition.settings)
        self._builder = EpisodeBuilder(
            condition.signal,
            condition.detector,
            for_points=rule.for_points,
            for_steps=rule.for_steps,
            tolerate=rule.tolerate,
        )
        self.judged = 0
        self.cautious = 0

    @property
    def caution(self) -> str:
        """What more the detector asks for while history is short."""
        return self._detector.caution

    @property
    def needs(self) -> int:
        """Points without which the detector says nothing."""
        return self._detector.needs

    def update(self, batch: Series) -> None:
        """Take further points."""
        verdicts = self._detector.update(batch)
        judged = ~np.isnan(verdicts.baseline) | verdicts.firing
        # A condition on the value by itself needs nothing to compare with.
        self.judged += len(verdicts.seen) if self._detector.needs == 1 else int(np.count_nonzero(judged))
        self.cautious += int(np.count_nonzero(verdicts.cautious))
        self._builder.take(batch, verdicts)

    def episodes(self) -> list[Episode]:
        """Where the condition held."""
        return self._builder.episodes()

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered."""
        return {
            "detector": self._detector.state_dict(),
            "builder": self._builder.state_dict(),
            "judged": self.judged,
            "cautious": self.cautious,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        self._detector.load_state_dict(state["detector"])
        self._builder.load_state_dict(state["builder"])
        self.judged = state["judged"]
        self.cautious = state["cautious"]


def _sorted(series: Series) -> Series:
    order = np.lexsort((series.step, series.attempt))
    return series[order]


def _why_not(tracker: _Tracker, cleaner: Cleaner) -> str:
    name = tracker.condition.signal.replace("_", " ")
    if not cleaner.kept:
        return f"{name} is 0 throughout: printed, but not measured" if cleaner.zeros else f"no {name} in the logs"
    if cleaner.kept < tracker.needs:
        return f"{name} has {cleaner.kept:,} values; {tracker.needs:,} are needed"
    return f"{name} has {cleaner.kept:,} values, none with enough usable ones before it"


def _flag(rule: Rule, episode: Episode) -> Flag:
    severity = rule.severity
    if rule.single_severity is not None and episode.points == 1:
        severity = rule.single_severity
    return Flag(
        rule=rule.name,
        signal=episode.signal,
        detector=episode.detector,
        announces=rule.announces,
        severity=severity,
        attempt=episode.attempt,
        step=episode.step,
        step_end=episode.step_end,
        time=episode.time,
        value=episode.value,
        baseline=episode.baseline,
        score=episode.score,
        points=episode.points,
        known_at=episode.step if episode.known_at is None else episode.known_at,
        message=message(episode),
        advice=rule.advice,
    )


def _place(flag: Flag) -> tuple[int, int, int, str]:
    return flag.attempt, flag.step, flag.step_end, flag.rule


def _without_recurrences(flags: Sequence[Flag]) -> tuple[list[Flag], list[Flag]]:
    """A rule's flags, and those at steps where an earlier attempt has one already: told again, not anew."""
    first: list[Flag] = []
    again: list[Flag] = []
    for _, of_attempt in itertools.groupby(sorted(flags, key=_place), key=lambda flag: flag.attempt):
        begins, ends = _covered(first)
        for flag in of_attempt:
            at = bisect_right(begins, flag.step_end) - 1
            (again if at >= 0 and ends[at] >= flag.step else first).append(flag)
    return first, again


def _covered(flags: Sequence[Flag]) -> tuple[list[int], list[int]]:
    """The steps that flags cover, as ascending beginnings and ends of stretches that do not overlap."""
    begins: list[int] = []
    ends: list[int] = []
    for flag in sorted(flags, key=lambda flag: flag.step):
        if ends and flag.step <= ends[-1]:
            ends[-1] = max(ends[-1], flag.step_end)
        else:
            begins.append(flag.step)
            ends.append(flag.step_end)
    return begins, ends


def _with_leads(flags: Sequence[Flag]) -> list[Flag]:
    """Flags on other signals than the loss with the number of steps by which they came before its next symptom."""
    symptoms: dict[int, list[int]] = {}
    for flag in flags:
        if flag.announces in _LOSS_SYMPTOMS and _is_on_the_loss(flag):
            symptoms.setdefault(flag.attempt, []).append(flag.step)
    for steps in symptoms.values():
        steps.sort()
    result = []
    for flag in flags:
        steps = symptoms.get(flag.attempt, [])
        at = bisect_left(steps, flag.known_at)
        lead = steps[at] - flag.known_at if at < len(steps) else LEAD_STEPS + 1
        result.append(replace(flag, lead_steps=lead) if lead <= LEAD_STEPS and not _is_on_the_loss(flag) else flag)
    return result


def _is_on_the_loss(flag: Flag) -> bool:
    return flag.signal.split("/")[0] == "loss"
