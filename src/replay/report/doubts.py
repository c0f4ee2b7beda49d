"""What was read but cannot be right, each doubt once, and by its sort."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from replay.output import is_missing
from replay.report.reading import records
from replay.report.words import count, listed, spelled

_SORTS = {
    "clock": ("date or time", "dates or times"),
    "date_order": ("date or time", "dates or times"),
    "clock_jump": ("date or time", "dates or times"),
    "clocks": ("difference of clocks", "differences of clocks"),
    "step_against_clock": ("step", "steps"),
    "step_order": ("step", "steps"),
    "flag_against_prose": ("option that contradicts the text", "options that contradict the text"),
    "sources_disagree": ("contradiction between sources", "contradictions between sources"),
    "plausibility": ("implausible statement", "implausible statements"),
    "total": ("sum that does not come out", "sums that do not come out"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A finding, and by which sources and at which places it was come upon: one where several tellings agree."""

    check: str
    sort: str
    places: list[tuple[str, str]]
    readings: list[str]
    likely: str
    reasons: str


def doubts(findings: pd.DataFrame) -> list[Doubt]:
    """The findings of the store's query, those that agree as one: the same question of an incident, the same answer.

    Where no answer is likelier than another, the readings themselves must be the same.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in records(findings):
        incident = None if is_missing(row["incident"]) else row["incident"] or None
        answer = row["likely"] if not is_missing(row["likely"]) and row["likely"] else tuple(row["readings"])
        sort = _sort(row["check"], incident)
        place = None if incident or sort == "clocks" else (row["source"], row["locator"])
        groups.setdefault((sort, incident, answer, place), []).append(row)
    return [_doubt(sort, rows) for (sort, *_), rows in groups.items()]


def _sort(check: str, incident: str | None) -> str:
    """Two clocks that a book keeps side by side are no date that is wrong."""
    return "clocks" if check == "clock" and incident is None else check


def _doubt(sort: str, rows: Sequence[dict[str, Any]]) -> Doubt:
    first = rows[0]
    return Doubt(
        check=first["check"],
        sort=sort,
        places=list(dict.fromkeys((row["source"], row["locator"]) for row in rows)),
        readings=list(dict.fromkeys(str(reading) for row in rows for reading in row["readings"])),
        likely="" if is_missing(first["likely"]) else first["likely"],
        reasons=first["reasons"],
    )


def doubts_in_words(found: Sequence[Doubt]) -> str:
    """How many of which sort, the most frequent first.

    >>> doubts_in_words([])
    ''
    """
    names: Counter[tuple[str, str]] = Counter(
        _SORTS.get(doubt.sort, (f"finding of the check “{spelled(doubt.sort)}”",) * 2) for doubt in found
    )
    ranked = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    return listed([count(n, one, many) for (one, many), n in ranked])
