"""What is said bit by bit, in a chat or a timeline from a moment on, put together: one entry a trouble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.entries import Entry
from replay_parsers.records import EventKind, Role

_AGAIN = frozenset({EventKind.RECURRED})


def joined(entries: Sequence[Entry]) -> list[Entry]:
    """``entries`` with those that were said about one trouble on one day in one, at the time of the first.

    A message belongs to the trouble before it until something was done and another trouble is told, or until
    something else is decided.
    """
    kept: list[Entry] = []
    for entry in entries:
        if kept and entry.spoken and entry.drafts and _belongs(kept[-1], entry):
            kept[-1] = replace(
                kept[-1],
                parts=(*kept[-1].parts, *entry.parts),
                began=(*kept[-1].began, *entry.began),
                logged=(*kept[-1].logged, *entry.logged),
            )
        elif not entry.spoken or entry.drafts or not kept:
            kept.append(entry)
    return kept


def _belongs(open_entry: Entry, entry: Entry) -> bool:
    first, second = open_entry.printed, entry.printed
    if not open_entry.spoken or not open_entry.drafts or first is None or second is None:
        return False
    if _is_trouble(entry.drafts):
        return (
            False
            if _acted(open_entry.drafts)
            else (first.year, first.month, first.day)
            == (
                second.year,
                second.month,
                second.day,
            )
        )
    same_day = (first.year, first.month, first.day) == (second.year, second.month, second.day)
    outcome_only = all(draft.role is Role.OUTCOME for draft in entry.drafts)
    return outcome_only or (same_day and _is_trouble(open_entry.drafts))


def _is_trouble(drafts: Sequence[Draft]) -> bool:
    return any(draft.role in (Role.SYMPTOM, Role.CAUSE) or draft.kind in _AGAIN for draft in drafts)


def _acted(drafts: Sequence[Draft]) -> bool:
    return any(draft.role is Role.INTERVENTION or draft.kind is EventKind.RESTART for draft in drafts)
