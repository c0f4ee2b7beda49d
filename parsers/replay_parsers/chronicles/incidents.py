"""From dated entries to incidents, by the conventions of ``logbooks/README.md``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.entries import Entry
from replay_parsers.chronicles.grouping import MOVES, episodes, groups
from replay_parsers.chronicles.logged import with_log_lines
from replay_parsers.records import EventKind, Role, incident_id

K = EventKind

DAMAGE = frozenset({K.LOSS_EXPLOSION, K.DIVERGENCE, K.NAN_LOSS, K.LOSS_SPIKE, K.LOSS_SCALE_DROP, K.LOSS_SCALE_FLOOR})
# What concerns machines and people rather than the model has a step only where the text gives it one.
_NOT_OF_THE_MODEL = frozenset(
    {K.NODE_REPLACEMENT, K.CHECKPOINT_INTERVAL_CHANGE, K.MONITORING_CHANGE, K.TOPOLOGY_CHANGE, K.CODE_FIX, K.WAIT,
     K.SKIP_BATCHES, K.ROLLBACK}
)  # fmt: skip
_MACHINES_AT_FAULT = frozenset(
    {K.NODE_FAILURE, K.GPU_FAILURE, K.NETWORK_FAILURE, K.STORAGE_FAILURE, K.MEMORY_ERROR, K.CRASH, K.HANG,
     K.MAINTENANCE, K.NODE_REPLACEMENT, K.THROUGHPUT_DROP}
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Incident:
    """One trouble or decision: its id, its entry, and its settled drafts."""

    name: str
    entry: Entry
    place: int
    drafts: list[Draft] = field(default_factory=list)

    def kinds(self) -> set[EventKind]:
        """The kinds of the drafts."""
        return {draft.kind for draft in self.drafts}

    def first(self, kinds: Iterable[EventKind]) -> Draft | None:
        """The first draft of one of ``kinds``."""
        wanted = set(kinds)
        return next((draft for draft in self.drafts if draft.kind in wanted), None)


def build(
    run: str,
    entries: Sequence[Entry],
    *,
    launcher: timedelta | None,
    samples_per_step: int | None = None,
    prose: bool = False,
    settings: bool = False,
) -> list[Incident]:
    """The incidents of ``entries`` in order, numbered where several carry the same print.

    ``launcher`` is how far the clock of launch names is ahead of UTC; ``samples_per_step`` converts lengths in
    samples to steps; ``settings`` keeps account of options, so that one shown again with the value it has is no
    change, and one with another value has a value before.
    """
    numbers: Counter[str] = Counter()
    incidents: list[Incident] = []
    tried: set[int] = set()
    known: dict[str, float] = {}
    for place, entry in enumerate(entries):
        for group in episodes(entry) if prose else groups(entry, launcher, first=not place):
            numbers[entry.label] += 1
            name = incident_id(run, entry.label, numbers[entry.label])
            group = with_log_lines(_told_once(group, incidents), entry.logged)
            drafts = _finish(group, tried, samples_per_step)
            if settings:
                drafts = _changed(drafts, known)
            incidents.append(Incident(name=name, entry=entry, place=place, drafts=drafts))
            tried |= {draft.step for draft in drafts if draft.kind in MOVES and draft.step is not None}
    return incidents


def _told_once(drafts: list[Draft], incidents: list[Incident]) -> list[Draft]:
    """Leave out a restart that only repeats the rollback with which the incident before ended ("Restarted from
    800" at the head of the next experiment)."""
    if not incidents or not drafts or incidents[-1].entry.printed is not None:
        return drafts
    told = incidents[-1].drafts
    place = next((place for place in reversed(range(len(told))) if told[place].kind in MOVES), None)
    # What was seen after that move came of it: the next start from there is another one.
    if place is None or any(draft.role is Role.SYMPTOM and draft.quote for draft in told[place + 1 :]):
        return drafts
    last = told[place]
    first = next((draft for draft in drafts if draft.kind in MOVES), None)
    if first is None or first.step is None or last.step != first.step or first.kind is K.ROLLBACK:
        return drafts
    return [draft for draft in drafts if draft is not first]


def _changed(drafts: list[Draft], known: dict[str, float]) -> list[Draft]:
    """Drafts of options compared with the settings ``known`` so far, which they bring up to date."""
    kept: list[Draft] = []
    kinds = {draft.kind for draft in drafts}
    # What is given up before anything came of it does not last.
    tried = K.ABANDONED in kinds and not kinds & DAMAGE
    lasting = dict(known)
    for draft in drafts:
        if draft.field is None or draft.after is None or draft.role is not Role.INTERVENTION:
            kept.append(draft)
            continue
        before = known.get(draft.field)
        known[draft.field] = draft.after
        if draft.before is None and draft.detail.get("flag"):
            if before == draft.after or (draft.onset and before is None):
                continue
            draft = replace(draft, before=before)
        kept.append(draft)
    if tried:
        known.clear()
        known.update(lasting)
    rate = next((draft for draft in kept if draft.field == "learning_rate"), None)
    # A rate set to zero takes its minimum along.
    return [draft for draft in kept if not (draft.field == "min_learning_rate" and rate and rate.after == draft.after)]


def _finish(drafts: list[Draft], tried: set[int], samples_per_step: int | None) -> list[Draft]:
    """Decide between restart and rollback, and give steps to what holds from the loaded checkpoint on."""
    drafts = _not_given_up(_converted_before(_saved_before(drafts)))
    seen = [draft.step for draft in drafts if draft.role is Role.SYMPTOM and draft.step is not None]
    kinds = {draft.kind for draft in drafts}
    # Starting twice from one checkpoint is trying another variant, unless machines were at fault.
    tried = tried if not kinds & _MACHINES_AT_FAULT else set()
    damaged = next((place for place, draft in enumerate(drafts) if draft.kind in DAMAGE), len(drafts))
    finished = [_as_move(draft, damaged < place, tried, max(seen, default=None)) for place, draft in enumerate(drafts)]
    moves = [draft for draft in finished if draft.kind in MOVES and draft.step is not None]
    step = moves[0].step if len({move.step for move in moves}) == 1 else None
    return [_with_length(_holding_from(draft, step), samples_per_step) for draft in finished]


def _saved_before(drafts: list[Draft]) -> list[Draft]:
    """A checkpoint said to be saved before a change is what the restart told above it loaded, if that has no step."""
    filled = list(drafts)
    for draft in drafts:
        if draft.kind is not K.CHECKPOINT_SAVE or not draft.quote:
            continue
        place = filled.index(draft)
        open_moves = [
            index
            for index in range(place)
            if filled[index].kind is K.RESTART and filled[index].step is None and filled[index].quote
        ]
        if open_moves and not filled[open_moves[-1]].detail.get("run_name"):
            index = open_moves[-1]
            filled[index] = replace(filled[index], step=draft.step)
            filled.remove(draft)
    return filled


def _converted_before(drafts: list[Draft]) -> list[Draft]:
    """A checkpoint said to be converted is what the restart told below it loaded, if that has no step."""
    filled = list(drafts)
    converted = next((draft for draft in drafts if draft.detail.get("converted")), None)
    if converted is None:
        return filled
    below = range(filled.index(converted) + 1, len(filled))
    place = next((place for place in below if filled[place].kind is K.RESTART and filled[place].step is None), None)
    if place is not None:
        detail = {"checkpoint": converted.detail["checkpoint"], **filled[place].detail}
        filled[place] = replace(filled[place], step=converted.step, detail=detail)
        filled.remove(converted)
    return filled


_COMPLETED = re.compile(r"\b(?:complet|finish|conclud)\w*|完成|完毕", re.IGNORECASE)


def _not_given_up(drafts: list[Draft]) -> list[Draft]:
    """A run said to be completed was not given up by stopping it: "Training completed: ... we stopped the run"."""
    if not any(draft.kind is K.END and _COMPLETED.search(draft.quote) for draft in drafts):
        return drafts
    return [draft for draft in drafts if draft.kind is not K.ABANDONED]


_STARTED = re.compile(
    r"^\W*(?:training |(?:the )?run )?start(?:ed|ing|s)? (?:from|at) (?:step|iteration) 0\b", re.IGNORECASE
)


def _as_move(draft: Draft, damage: bool, tried: set[int], reached: int | None) -> Draft:
    if draft.kind in MOVES and draft.step == 0:
        if draft.kind is K.RESTART and _STARTED.search(draft.quote):
            return replace(draft, kind=K.START)
        return replace(draft, kind=K.RESTART_FROM_SCRATCH, step=None)
    if draft.kind not in MOVES or draft.step is None:
        told = draft.detail.get("checkpoint") or draft.lost_steps
        return replace(draft, kind=K.RESTART) if draft.kind is K.ROLLBACK and not told else draft
    # A second start from the same checkpoint is another variant tried from there.
    back = draft.kind is K.ROLLBACK or damage or draft.step in tried
    if not back:
        return draft
    before = float(reached) if reached is not None and reached >= draft.step else draft.before
    unit = "step" if before is not None else draft.unit
    return replace(draft, kind=K.ROLLBACK, before=before, unit=unit)


def _holding_from(draft: Draft, step: int | None) -> Draft:
    if step is None or draft.step is not None or draft.role is not Role.INTERVENTION or draft.kind in _NOT_OF_THE_MODEL:
        return draft
    return replace(draft, step=step)


def _with_length(draft: Draft, samples_per_step: int | None) -> Draft:
    detail = dict(draft.detail)
    if draft.kind is K.LR_REWARM and draft.field is None:
        draft = replace(draft, field="learning_rate")
    if "samples" in detail and "steps" not in detail and samples_per_step and detail["samples"].isdigit():
        detail["steps"] = f"{int(detail['samples']) / samples_per_step:g}"
        draft = replace(draft, detail=detail)
    ramps = draft.kind in (K.LR_REWARM, K.DATA_MIX_RAMP) or (draft.field is not None and draft.before is not None)
    if ramps and draft.step is not None and draft.step_end is None and detail.get("steps", "").isdigit():
        return replace(draft, step_end=draft.step + int(detail["steps"]))
    return draft
