"""Values against their history: what a setting is changed from is what it was last set to."""

from __future__ import annotations

from dataclasses import dataclass, field

from replay.history.audit.book import BACK, Entry, Notes, Telling
from replay.history.audit.values import among
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event

_FALLS, _RISES = "learning_rate", "batch_size"
"""What a schedule changes by itself, and which way."""
_LOGGED = 1e-3
"""A value read off a log differs that much from the one set: 5.999E-05 for 6e-5."""
_NOT_LASTING = {"steps", "lasting", "model"}


@dataclass(slots=True)
class Chain:
    """What is known of a setting: the last value given to it, the last that was kept, all values so far."""

    last: float | None = None
    kept: float | None = None
    doubted: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)


def check(telling: Telling, notes: Notes) -> None:
    """Test every value before a change against the one that the setting was last given.

    What was given up again may count or not: a later entry goes on from it, or from what was before.  A learning rate
    also falls by its schedule, and a batch grows: there only a value that the schedule cannot have led to is wrong.
    """
    known: dict[str, Chain] = {}
    for entry in telling.entries:
        given_up = any(event.kind is EventKind.ABANDONED for event in entry.outcomes)
        for event in entry.events:
            if event.kind in (EventKind.LR_REWARM, EventKind.LR_SCHEDULE_CHANGE):
                # After a new warm-up or schedule any value may be met.
                known.pop(_FALLS, None)
            if event.field is None or event.role is not Role.INTERVENTION or event.kind in BACK:
                continue
            chain = known.setdefault(f"{event.field} {event.unit or ''}".strip(), Chain())
            _test(telling, entry, event, chain, notes)
            if event.after is not None:
                chain.seen += [value for value in (event.before, event.after) if value is not None][-4:]
                chain.last = event.after
                chain.kept = chain.kept if given_up else event.after


def _test(telling: Telling, entry: Entry, event: Event, chain: Chain, notes: Notes) -> None:
    lasting = event.step_end is None and not _NOT_LASTING & set(event.detail)
    doubted, chain.doubted = chain.doubted, []
    if not lasting or event.before is None or chain.last is None:
        return
    notes.compared["values"] += 1
    possible = [chain.last, *([] if chain.kept is None else [chain.kept]), *doubted]
    if among(event.before, possible, _LOGGED):
        return
    if event.field in (_FALLS, _RISES):
        if entry.printed is None:
            # Experiments are tried beside each other, each with its own.
            return
        by_schedule = event.before < min(possible) if event.field == _FALLS else event.before > max(possible)
        # Someone may have put an earlier value back without telling.
        if by_schedule or among(event.before, chain.seen[-16:], _LOGGED):
            return
    # Told once: what comes next may go on from either end of the doubtful change.
    chain.doubted = [event.before]
    notes.add(
        telling,
        entry,
        "value_chain",
        (f"before this change: {event.field} {event.before:g}", f"last set to: {chain.last:g}"),
        f"{chain.last:g}",
        "no earlier entry left the setting at that value",
    )
