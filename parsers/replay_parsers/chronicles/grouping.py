"""Which of an entry's drafts belong together: one incident is one trouble or one decision."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta

from replay_parsers.chronicles.drafts import Draft, settle
from replay_parsers.chronicles.entries import Entry, Part
from replay_parsers.records import EventKind, Role

K = EventKind

MOVES = frozenset({K.RESTART, K.ROLLBACK})
HARDWARE = frozenset({K.NODE_FAILURE, K.GPU_FAILURE, K.NETWORK_FAILURE, K.STORAGE_FAILURE, K.MEMORY_ERROR})
_MISTAKE = frozenset({K.CONFIG_BUG, K.SOFTWARE_BUG, K.OPERATOR_ERROR})


_AGAIN = re.compile(r"\bre-?(?:start|run|train|init)|\bagain\b|\banew\b|\bover\b|重新|再", re.IGNORECASE)


def groups(entry: Entry, launcher: timedelta | None, *, first: bool = False) -> list[list[Draft]]:
    """The drafts of an entry, one list an incident: a further launch opens one, and so does a further cause that
    has nothing to do with the first.  In the ``first`` entry of a book there is nothing to start anew."""
    told: list[list[Draft]] = []
    for number, part in enumerate(entry.parts):
        drafts = _with_launch(_exact(settle(_with_curve(part))), part, launcher)
        if part.launch is None and told:
            # What follows the last launch without one of its own belongs to it.
            told[-1] = _exact(settle([*told[-1], *drafts]))
            continue
        if number and part.launch and launcher is not None:
            # The heading's time is that of the first launch.
            at = part.launch.utc(launcher)
            drafts = [replace(draft, at=draft.at or at) for draft in drafts]
        told.append(_begun(drafts) if first and not told else drafts)
    groups = [group for drafts in told for group in _by_cause(drafts)]
    return [group for group in groups if group] or [[]]


def episodes(entry: Entry) -> list[list[Draft]]:
    """The drafts of running prose, one list an incident: what was seen or found after something had been done, in a
    later sentence, opens the next one."""
    episodes: list[_Episode] = []
    for draft in entry.drafts:
        if not episodes or episodes[-1].ends_before(draft):
            episodes.append(_Episode())
        episodes[-1].add(draft)
    return [_exact(settle(episode.drafts)) for episode in episodes]


@dataclass(slots=True)
class _Episode:
    """What the open incident of running prose has told so far."""

    drafts: list[Draft] = field(default_factory=list)
    acted: bool = False
    done: bool = False
    settled: bool = False
    started: bool = False
    run: str | None = None

    def add(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self.settled = self.settled or (self.acted and draft.role is Role.OUTCOME)
        self.acted = self.acted or draft.role is Role.INTERVENTION
        self.done = self.done or not _is_trouble(draft)
        self.started = self.started or draft.kind is K.START
        self.run = draft.detail.get("run_name") or self.run

    def ends_before(self, draft: Draft) -> bool:
        """Whether ``draft`` begins something new: another run, a trouble after something was done, something done
        after its outcome; within one sentence only after a start or with another run's name."""
        run = draft.detail.get("run_name")
        if self.done and run and self.run and run != self.run:
            return True
        if _is_trouble(draft) and self.started:
            return True
        last = self.drafts[-1]
        if draft.quote == last.quote:
            # "... until finally we swapped the optimizer": what was done before had not helped.
            return draft.role is Role.INTERVENTION and last.kind is K.RECURRED and self.acted
        if _is_trouble(draft):
            if not self.done and self._lists(draft):
                return False
            if draft.role is Role.SYMPTOM and draft.line == last.line and self._by_mistake():
                return False
            # Running prose takes up one trouble a paragraph.
            return self.done or draft.line != last.line
        return draft.role is Role.INTERVENTION and self.settled

    def _lists(self, draft: Draft) -> bool:
        """Whether ``draft`` is an item of a list that a sentence opens: the first, or one of a kind told already."""
        openers = [place for place, told in enumerate(self.drafts) if told.quote.endswith(":")]
        if not openers:
            return False
        return openers[-1] == len(self.drafts) - 1 or draft.kind in {told.kind for told in self.drafts}

    def _by_mistake(self) -> bool:
        """Whether so far somebody has done something by mistake, and nothing was seen of it yet."""
        mistake = any(draft.kind is K.OPERATOR_ERROR for draft in self.drafts)
        return mistake and self.acted and not any(draft.role is Role.SYMPTOM for draft in self.drafts)


def _is_trouble(draft: Draft) -> bool:
    return draft.role in (Role.SYMPTOM, Role.CAUSE)


def _exact(drafts: list[Draft]) -> list[Draft]:
    """The text beats the heading: "node failure" above a sentence about an NVLink error is a network failure."""
    exact = [draft for draft in drafts if draft.kind in HARDWARE and draft.kind is not K.NODE_FAILURE]
    told = any(not draft.heading and draft.kind is not K.STORAGE_FAILURE for draft in exact)
    drafts = [draft for draft in drafts if not (told and draft.kind is K.NODE_FAILURE and draft.heading)]
    # "It blew up" beside "the loss exploded at 33740" is the same thing, less exactly.
    exploded = any(draft.kind is K.LOSS_EXPLOSION for draft in drafts)
    return [draft for draft in drafts if not (exploded and draft.kind is K.DIVERGENCE and draft.step is None)]


def _with_curve(part: Part) -> list[Draft]:
    """A curve record named after a step says where the entry's symptom was seen, if the text does not."""
    drafts = list(part.drafts)
    if part.curve_step is None or any(draft.role is Role.SYMPTOM and draft.step is not None for draft in drafts):
        return drafts
    for index, draft in enumerate(drafts):
        if draft.role is Role.SYMPTOM:
            detail = {**draft.detail, "approximate": "step"}
            drafts[index] = replace(draft, step=part.curve_step, detail=detail)
            break
    return drafts


def _with_launch(drafts: list[Draft], part: Part, launcher: timedelta | None) -> list[Draft]:
    if any(draft.kind is K.START for draft in drafts):
        # A heading that says that training starts also says "start training": that is no restart.
        drafts = [draft for draft in drafts if draft.kind is not K.RESTART or draft.step is not None]
        # Nor is "from scratch" there, unless it says that it was done again.
        drafts = [draft for draft in drafts if draft.kind is not K.RESTART_FROM_SCRATCH or _AGAIN.search(draft.quote)]
    if part.launch is None:
        return drafts
    at = part.launch.utc(launcher) if launcher is not None else None
    for index in reversed(range(len(drafts))):
        draft = drafts[index]
        if draft.kind in MOVES or draft.kind is K.START:
            detail = {**draft.detail, "run_name": part.launch.name}
            drafts[index] = replace(draft, at=at, detail=detail)
            return drafts
    return [*drafts, Draft(kind=K.RESTART, at=at, detail={"run_name": part.launch.name})]


def _begun(drafts: list[Draft]) -> list[Draft]:
    """The drafts with which a book opens: "from scratch" begins the run, unless something was before it."""
    scratch = next((draft for draft in drafts if draft.kind is K.RESTART_FROM_SCRATCH), None)
    place = drafts.index(scratch) if scratch else 0
    if scratch is None or _AGAIN.search(scratch.quote) or any(_is_trouble(draft) for draft in drafts[:place]):
        return drafts
    # With what a run began was not changed.
    rest = [
        draft
        for draft in drafts[place + 1 :]
        if draft.quote != scratch.quote or not draft.field or draft.before is not None
    ]
    return [*drafts[:place], replace(scratch, kind=K.START, step=0), *rest]


def _family(kind: EventKind) -> str:
    if kind is K.STORAGE_FAILURE:
        return "storage"
    return "hardware" if kind in HARDWARE else "mistake" if kind in _MISTAKE else "data"


def _by_cause(drafts: list[Draft]) -> list[list[Draft]]:
    """Split drafts whose causes have nothing to do with each other; what the heading names comes first.

    A draft belongs to the cause that its own sentence tells, else to the first; moves and launches to the first.
    """
    causes = [draft for draft in drafts if draft.role is Role.CAUSE and "certainty" not in draft.detail]
    causes.sort(key=lambda draft: draft.line if not draft.heading else 0)
    headed = [draft for draft in causes if draft.heading][:1]
    rest = [draft for draft in causes if not draft.heading]
    families = list(dict.fromkeys(_family(draft.kind) for draft in (*headed, *rest)))
    if set(families) == {"mistake", "data"} and len({draft.line for draft in causes}) == 1:
        return [drafts]  # a bug of the loader that gave bad data is one thing
    if len(families) < 2 or families == ["data"]:
        return [drafts]
    # By paragraph where each tells one cause, else by sentence.
    lines = {draft.line for draft in rest}
    by_line = len(lines) == len({_family(draft.kind) for draft in rest})
    of_place = {(draft.line if by_line else draft.quote): _family(draft.kind) for draft in rest}
    groups: dict[str, list[Draft]] = {family: [] for family in families}
    for draft in drafts:
        if draft.role is Role.CAUSE and "certainty" not in draft.detail:
            groups[_family(draft.kind)].append(draft)
        elif draft.kind in MOVES:
            groups[families[0]].append(draft)
        else:
            groups[of_place.get(draft.line if by_line else draft.quote, families[0])].append(draft)
    return list(groups.values())
