"""Steps: against the clock, on the grid of checkpoints, and against what they undo."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import gcd

from replay.history.audit import checkpoints, losses, progress, reach
from replay.history.audit.book import BACK, DISORDERED, Entry, Notes, Telling, printed_step
from replay.history.audit.checkpoints import common_step
from replay.history.audit.course import Course
from replay.history.audit.dates import DISORDER
from replay.history.audit.order import heaviest_in_order
from replay.history.audit.passages import Passage
from replay.history.audit.slips import nearest_slip
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

STOPPED = (EventKind.CRASH, EventKind.HANG)
FAILED = (EventKind.NODE_FAILURE, EventKind.GPU_FAILURE, EventKind.NETWORK_FAILURE, EventKind.STORAGE_FAILURE)
"""Causes at whose step training stopped, where they name one."""
_SHOWS_LATER = (
    EventKind.RECURRED,
    EventKind.RECOVERED,
    EventKind.RECOVERED_BY_ITSELF,
    EventKind.DELAYED,
    EventKind.WORSENED,
)


def check(telling: Telling, courses: Sequence[Course], where: Mapping[int, Passage], notes: Notes) -> None:
    """Test every step, of each course of training by itself."""
    told: set[int] = set()
    every = common_step(telling)
    for one in courses:
        if out_of_order(one.strand.telling.entries):
            notes.unchecked["steps in the order of time"] = DISORDERED
            continue
        reach.check(one, notes, told, every)
        reach.far_back(one, notes, told, every)
    checkpoints.check_grid(telling, notes, told, every)
    for one in courses:
        if not one.strand.open and not out_of_order(one.strand.telling.entries):
            checkpoints.check_sequence(one.strand.telling, notes, told, every)
            progress.check(one.strand, where, notes, told)
    branches = {entry.incident: one.strand.name for one in courses for entry in one.strand.telling.entries}
    for entry in telling.entries:
        _within(telling, entry, branches, notes, every)
        if entry.number not in told:
            losses.check(telling, entry, notes)


def out_of_order(entries: Sequence[Entry]) -> bool:
    """Whether the entries are not kept in the order of time."""
    moments = [entry.printed for entry in entries if entry.printed is not None]
    return len(moments) - len(heaviest_in_order(moments, [1] * len(moments))) > max(1, DISORDER * len(moments))


def _within(telling: Telling, entry: Entry, branches: Mapping[str, str], notes: Notes, every: int) -> None:
    """Steps within one entry: what is undone lies after what is gone back to, what came of it after both."""
    seen = [
        (event, min(event.step, _number(event, "onset") or event.step))
        for event in entry.symptoms
        if event.step is not None and event.step_end is None
    ]
    stopped = [pair for pair in seen if pair[0].kind in STOPPED]
    stopped += [(event, event.step) for event in entry.of_kind(*FAILED) if event.step is not None]
    outcome = _first_outcome(entry, branches)
    for event in entry.of_kind(*BACK):
        step = printed_step(event)
        if step is None:
            continue
        _named(telling, entry, event, step, notes)
        notes.compared["rollbacks against what they undo"] += 1
        if event.before is not None and event.unit == "step" and event.before < step:
            _undone(telling, entry, event, step, f"reached: {event.before:g}", event.before, notes, every)
        elif seen and event.kind is EventKind.ROLLBACK and step > min(one for _, one in seen):
            symptom, at = min(seen, key=lambda pair: pair[1])
            _undone(telling, entry, event, step, f"{_words(symptom)} at step {at}", at, notes, every)
        elif stopped and event.kind is EventKind.RESTART and step > max(one for _, one in stopped):
            # After any other symptom training may have gone on for a while.
            symptom, at = max(stopped, key=lambda pair: pair[1])
            _undone(telling, entry, event, step, f"{_words(symptom)} at step {at}", at, notes, every)
        if outcome is not None and outcome.step is not None and outcome.step < step:
            notes.add(
                telling,
                entry,
                "outcome_before_restart",
                (f"{_words(event)} to step {step}", f"{_words(outcome)} at step {outcome.step}"),
                None,
                "what came of it cannot lie before the step that training was put back to",
            )
    for event in entry.symptoms:
        for name, later in (("onset", False), ("peak_step", True)):
            value = _number(event, name)
            if event.step is None or value is None or (value >= event.step if later else value <= event.step):
                continue
            notes.add(
                telling,
                entry,
                "order_of_steps",
                (f"{_words(event)} at step {event.step}", f"{name.replace('_', ' ')}: {value}"),
                None,
                "it begins before it shows, and shows before its peak",
            )


def _first_outcome(entry: Entry, branches: Mapping[str, str]) -> Event | None:
    """The first in steps of what came of an entry on its own branch."""
    own = branches.get(entry.incident, "")
    found = [
        outcome
        for outcome in entry.outcomes
        if outcome.kind in _SHOWS_LATER
        and outcome.step is not None
        and branches.get(outcome.detail.get("told_by", entry.incident), own) == own
    ]
    return min(found, key=lambda outcome: outcome.step or 0, default=None)


def _named(telling: Telling, entry: Entry, event: Event, step: int, notes: Notes) -> None:
    """A checkpoint whose name gives another step than the words."""
    found = re.search(r"(?:step|iter)\w*?[_-]?0*(\d+)", event.detail.get("checkpoint", ""))
    if found is None:
        return
    notes.compared["checkpoints against their names"] += 1
    if int(found[1]) != step:
        notes.add(
            telling,
            entry,
            "checkpoint_name",
            (f"{_words(event)}: step {step}", f"checkpoint: {event.detail['checkpoint']}"),
            found[1],
            "a program names the checkpoint after its step",
        )


def _undone(
    telling: Telling, entry: Entry, event: Event, step: int, against: str, limit: float, notes: Notes, every: int
) -> None:
    slip = nearest_slip(step, 0.8 * limit, limit, gcd(every, 1000))
    notes.add(
        telling,
        entry,
        "rollback_after_symptom" if event.kind is EventKind.ROLLBACK else "restart_not_reached",
        (f"{_words(event)} to step {step}", against),
        str(slip) if slip is not None else None,
        "a checkpoint to go back to must have been saved before what is undone",
    )


def _number(event: Event, name: str) -> int | None:
    text = event.detail.get(name, "")
    return int(text) if text.isdecimal() else None


def _words(event: Event) -> str:
    return str(event.kind).replace("_", " ")
