"""When two facts are the same, and how well they agree."""

from __future__ import annotations

from collections.abc import Iterable

from replay.chronicle_evaluation.facts import Fact
from replay_parsers.records import Event, EventKind, Role

_RELATIVE = 1e-3
_STEPS = 100
_STORY = ({Role.SYMPTOM, Role.CAUSE}, {Role.INTERVENTION}, {Role.LIFECYCLE}, {Role.OUTCOME})
_UNKNOWN = {EventKind.UNKNOWN_CAUSE, EventKind.NOT_STATED}
_OUTCOMES = {
    EventKind.RECOVERED: "good",
    EventKind.RECOVERED_BY_ITSELF: "good",
    EventKind.COMPLETED: "good",
    EventKind.RECURRED: "bad",
    EventKind.DELAYED: "bad",
    EventKind.WORSENED: "bad",
    EventKind.UNAFFECTED: "bad",
    EventKind.ABANDONED: "abandoned",
}


def agreement(curated: Fact, raw: Fact, *, strict: bool = False) -> float:
    """How well two facts agree; 0 when they are not the same.

    ``strict`` asks of two incidents that at least half of what either is about be told by the other.
    """
    if curated.category != raw.category or curated.heading != raw.heading:
        return 0.0
    if curated.category == "incident":
        return _same_incident(curated, raw, strict=strict)
    one, other = curated.events[0], raw.events[0]
    if one.kind is not other.kind:
        return 0.0
    if curated.category in ("restart", "skip"):
        return _same_steps(one, other)
    if curated.category == "parameter":
        return _same_change(one, other)
    return 1.5 if one.incident == other.incident else 1.0


def main_kinds(events: Iterable[Event]) -> set[EventKind]:
    """What an incident is about: its symptoms and causes, else its interventions, lifecycle events, or outcomes."""
    told = list(events)
    groups = ({event.kind for event in told if event.role in roles} for roles in _STORY)
    # That a cause is not known, or an outcome not told, says nothing of what an incident is about.
    return next((kinds - _UNKNOWN for kinds in groups if kinds - _UNKNOWN), {event.kind for event in told})


def _same_incident(curated: Fact, raw: Fact, *, strict: bool) -> float:
    told, given = {event.kind for event in curated.events}, {event.kind for event in raw.events}
    known = told | {event.kind for event in curated.beside}
    ours, theirs = main_kinds(curated.events), main_kinds(raw.events)
    if not (ours & given or theirs & known) or outcomes_contradict(known, given):
        return 0.0
    if strict and (2 * len(ours & given) < len(ours) or 2 * len(theirs & known) < len(theirs)):
        return 0.0
    shared = len(told & given)
    return shared + (0.5 if curated.events[0].incident == raw.events[0].incident else 0.0) if shared else 0.0


def outcomes_contradict(one: Iterable[EventKind], other: Iterable[EventKind]) -> bool:
    """Whether two sets of kinds tell of outcomes that exclude each other; where one tells none, nothing does."""
    ours, theirs = ({_OUTCOMES[kind] for kind in kinds if kind in _OUTCOMES} for kinds in (one, other))
    if not ours or not theirs or ours & theirs:
        return False
    given_up = "abandoned" in ours | theirs and "good" not in ours | theirs
    return not given_up


def _same_steps(curated: Event, raw: Event) -> float:
    near = _STEPS if "step" in curated.detail.get("approximate", "") else 0
    same = _close(curated.step, raw.step, near) and _close(curated.step_end, raw.step_end, near)
    return 1.0 if same and curated.detail.get("batches") == raw.detail.get("batches") else 0.0


def _same_change(curated: Event, raw: Event) -> float:
    if curated.field != raw.field or curated.detail.get("factor") != raw.detail.get("factor"):
        return 0.0
    if not _close(curated.after, raw.after):
        return 0.0
    if curated.before is None or raw.before is None:
        return 0.5
    return 1.0 if _close(curated.before, raw.before) else 0.0


def _close(first: float | None, second: float | None, within: float = 0) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) <= max(within, _RELATIVE * max(abs(first), abs(second)))
