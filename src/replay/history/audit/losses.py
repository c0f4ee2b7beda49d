"""Lost steps: those from the checkpoint that training went on from to the step that it had reached."""

from __future__ import annotations

import re

from replay.history.audit.book import BACK, Entry, Notes, Telling, printed_step
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event

_STOPPED = (
    EventKind.CRASH,
    EventKind.HANG,
    EventKind.NODE_FAILURE,
    EventKind.GPU_FAILURE,
    EventKind.NETWORK_FAILURE,
    EventKind.STORAGE_FAILURE,
)
_ABOUT = re.compile(
    r"\b(?:about|roughly|approx\w*|around|almost|nearly|some|over|more than)\b|~|≈|约|大概|近|多", re.IGNORECASE
)


def check(telling: Telling, entry: Entry, notes: Notes) -> None:
    """Test every stated loss of steps against the steps that the entry itself names."""
    for event in entry.of_kind(*BACK):
        step = printed_step(event)
        if event.lost_steps is None or step is None:
            continue
        reached, exact = _reached(entry, event, step)
        if reached is None:
            notes.unchecked["lost steps"] = "no entry says both what was lost and which step had been reached"
            continue
        notes.compared["lost steps"] += 1
        lost = reached - step
        tolerance = _tolerance(event)
        # After a spike training may have gone on for a while: then more is lost than up to it.
        if event.lost_steps < lost - tolerance or (exact and event.lost_steps > lost + tolerance):
            notes.add(
                telling,
                entry,
                "lost_steps",
                (f"stated: {event.lost_steps:g} steps lost", f"from step {step} to step {reached:g}: {lost:g}"),
                f"{lost:g} steps" if exact else None,
                "what is lost are the steps after the checkpoint that training went on from",
            )


def _reached(entry: Entry, event: Event, step: int) -> tuple[float | None, bool]:
    """The step that training had reached before it was put back, and whether it stopped right there."""
    stopped = [one.step for one in entry.events if one.kind in _STOPPED and one.step is not None and one.step >= step]
    if stopped:
        return max(stopped), True
    seen = [
        one.step for one in entry.symptoms if one.step is not None and one.role is Role.SYMPTOM and one.step >= step
    ]
    if event.before is not None and event.unit == "step" and event.before >= step:
        return event.before, event.before not in seen
    return (max(seen), False) if seen else (None, False)


def _tolerance(event: Event) -> float:
    """How far a stated loss may lie from the true one: half of its last digit that is no zero, or a quarter."""
    lost = event.lost_steps or 0.0
    if _ABOUT.search(event.detail.get("quote", "")) or "lost" in event.detail.get("approximate", ""):
        return 0.25 * lost
    unit = 1
    while lost and lost % (10 * unit) == 0:
        unit *= 10
    return max(1.0, unit / 2)
