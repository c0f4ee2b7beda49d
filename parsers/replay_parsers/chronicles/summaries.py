"""What stands above the dated entries of a book and only sums them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from replay_parsers.chronicles import dates
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.entries import Entry
from replay_parsers.records import EventKind

_Day = tuple[int | None, int | None]


def told_once(entries: Sequence[Entry]) -> list[Entry]:
    """``entries`` without what one that bears no date tells of the day of a later entry, where that one tells the
    same kind of event: "We launched run 3 on May 6" above the heading "Run 3 - May 6, 2024"."""
    below: dict[_Day, set[EventKind]] = {}
    kept: list[Entry] = []
    for entry in reversed(entries):
        if entry.printed is not None:
            day = entry.printed.month, entry.printed.day
            below.setdefault(day, set()).update(draft.kind for draft in entry.drafts)
        elif below:
            entry = _without(entry, below)
        kept.append(entry)
    return kept[::-1]


def _without(entry: Entry, below: Mapping[_Day, set[EventKind]]) -> Entry:
    parts = tuple(
        replace(part, drafts=tuple(draft for draft in part.drafts if draft.kind not in below.get(_day(draft), ())))
        for part in entry.parts
    )
    return replace(entry, parts=parts)


def _day(draft: Draft) -> _Day:
    printed = dates.find(draft.quote) if draft.quote else None
    return (printed.month, printed.day) if printed is not None and printed.day is not None else (None, None)
