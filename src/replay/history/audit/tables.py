"""The tables of a document in markdown, as numbers in columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_NUMBER = re.compile(r"[~≈]?\s*\d[\d,_]*(?:\.\d+)?$")
_PERCENT = re.compile(r"(?P<value>\d+(?:\.\d+)?)\s?[%％]$")
_TOTAL = re.compile(
    r"\W*(?:grand |sub-?)?(?:totals?|sum|overall|in all|all|合计|总计|总数|总和|共计)\b\W*", re.IGNORECASE
)
_LONGEST = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that begins at ``line`` (from 1): its column names and rows of cells, the last of which may be a total.

    ``heading`` is the one above it.
    """

    line: int
    heading: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def total(self) -> tuple[str, ...] | None:
        """The row of totals: the last one, where its first words say so."""
        return self.rows[-1] if len(self.rows) > 1 and is_total(self.rows[-1]) else None

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """The rows without that of the totals."""
        return self.rows if self.total is None else self.rows[:-1]


def tables(text: str) -> Iterator[Table]:
    """The pipe tables of ``text``, outside fenced code."""
    lines = text.splitlines()
    heading, fenced, number = "", False, 0
    while number < len(lines):
        line = lines[number]
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        if not fenced and re.match(r"\s{0,3}#{1,6}\s", line):
            heading = line.strip("# ")
        ruled = number + 1 < len(lines) and "|" in line and _RULE.match(lines[number + 1][:_LONGEST])
        if fenced or not ruled:
            number += 1
            continue
        begin = number
        number += 2
        rows = []
        while number < len(lines) and "|" in lines[number]:
            rows.append(_cells(lines[number]))
            number += 1
        yield Table(line=begin + 1, heading=heading, names=_cells(line), rows=tuple(rows))


def number_of(cell: str) -> float | None:
    """The number that a cell is, without a unit."""
    text = cell.strip(" *_`")
    return float(re.sub(r"[,_~≈\s]", "", text)) if _NUMBER.match(text) and len(text) < 40 else None


def percent_of(cell: str) -> str | None:
    """The digits of a percentage that a cell is."""
    found = _PERCENT.match(cell.strip(" *_`~≈"))
    return found["value"] if found else None


def column(rows: Sequence[Sequence[str]], place: int) -> list[str]:
    """One column of ``rows``; empty where a row is shorter."""
    return [row[place] if place < len(row) else "" for row in rows]


def is_total(row: Sequence[str]) -> bool:
    """Whether the first cell with words says that the row is a total."""
    first = next((cell for cell in row if re.search(r"[^\W\d]", cell)), "")
    return bool(first) and _TOTAL.fullmatch(first.strip(" *_`")) is not None


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
