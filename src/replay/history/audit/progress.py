"""Training comes to no step again that it has left behind, unless it is put back."""

from __future__ import annotations

import re
from collections.abc import Mapping

from replay.history.audit.book import BACK, Entry, Notes, printed_step
from replay.history.audit.passages import Passage
from replay.history.audit.strands import Strand
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event

_WORDS = re.compile(
    r"\b(?:back to|went back|roll\w* back|rollback|revert\w*|rewound|from scratch|start\w* over)\b|回滚|回退|重新",
    re.IGNORECASE,
)
_STOPS = (EventKind.CRASH, EventKind.HANG)
_FAILS = (EventKind.NODE_FAILURE, EventKind.GPU_FAILURE, EventKind.NETWORK_FAILURE)


def check(strand: Strand, where: Mapping[int, Passage], notes: Notes, told: set[int]) -> None:
    """Test where training ended or stopped against the step that it last went on from."""
    last: tuple[Entry, Event, int] | None = None
    for entry in strand.telling.entries:
        if last is not None and entry.printed is not None:
            for event in entry.events:
                if event.step is None or event.step_end is not None or not _stands(event):
                    continue
                notes.compared["stops against the step before"] += 1
                if event.step < last[2] and entry.number not in told and not _put_back(last, entry, where):
                    told.add(entry.number)
                    _tell(strand, entry, event, last, notes)
        for event in entry.of_kind(*BACK, EventKind.START):
            step = printed_step(event)
            if step is not None and entry.number not in told and entry.printed is not None:
                last = entry, event, step


def _stands(event: Event) -> bool:
    """Whether training stood at the event's step when it was told."""
    return event.kind is EventKind.END or event.kind in _STOPS or (event.role is Role.CAUSE and event.kind in _FAILS)


def _put_back(last: tuple[Entry, Event, int], entry: Entry, where: Mapping[int, Passage]) -> bool:
    """Whether the words between the two tell of going back, in a way that was not understood."""
    before, own = where.get(last[0].number), where.get(entry.number)
    texts = [] if before is None else [before.rest, "" if last[1].kind is EventKind.ROLLBACK else before.own]
    return any(_WORDS.search(text) for text in (*texts, "" if own is None else own.rest))


def _tell(strand: Strand, entry: Entry, event: Event, last: tuple[Entry, Event, int], notes: Notes) -> None:
    before, moved, step = last
    notes.add(
        strand.telling,
        entry,
        "step_order",
        (
            f"{str(event.kind).replace('_', ' ')} at step {event.step}",
            f"{moved.kind} from step {step} before it ({before.locator.removeprefix('§ ')})",
        ),
        None,
        "training had gone on from a later step, and nothing put it back",
    )
