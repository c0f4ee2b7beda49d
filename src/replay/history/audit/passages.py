"""Where a source tells each entry: its lines, the list that it stands in, and the words around it.

Records keep of an entry what was understood of it.  What else stands there tells which entries belong together, and
gives reasons for what the steps alone would make a fault.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replay.history.audit.book import Entry, Telling

_HEADING = re.compile(r"\s{0,3}(?:(?P<marks>#{1,6})\s|h(?P<level>[1-6])\.\s)")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s")
_DATED = re.compile(
    r"\d{1,4}\s?[-/.年]\s?\d{1,2}|\d{1,2}\s?[月日]|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
)
_KEY = 8
_ALIKE = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The lines that tell an entry: ``line`` counts from 1, ``own`` is the entry's text, ``rest`` what follows it that
    belongs to no entry.

    ``group`` names the list that it stands in: headings of one level, or the dated bullets, paragraphs or rows of one
    section.  ``section`` numbers that section, 0 for headings.
    """

    line: int
    group: str
    section: int
    own: str
    rest: str


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    level: int
    kind: str
    section: int
    under: int


def passages(telling: Telling) -> dict[int, Passage]:
    """The passage of each entry by its number, for those that are found in the text; none for a curated timeline."""
    if telling.curated or not telling.text:
        return {}
    lines = telling.text.splitlines()
    index = _index(lines)
    starts: dict[int, int] = {}
    place = 0
    for entry in telling.entries:
        found = _find(entry, lines, index, place)
        if found is not None:
            starts[entry.number] = place = found
    described = _described(lines)
    order = sorted(set(starts.values()))
    told = {}
    for entry in telling.entries:
        if (start := starts.get(entry.number)) is None:
            continue
        after = bisect_right(order, start)
        end = order[after] if after < len(order) else len(lines)
        told[entry.number] = _passage(entry, lines, described, start, end)
    return told


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def _index(lines: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of lines, from 0, by the first letters and digits of each of their cells."""
    index: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for cell in dict.fromkeys(_plain(cell)[:_KEY] for cell in line[:400].split("|")[:8]):
            if cell:
                index.setdefault(cell, []).append(number)
    return index


def _find(entry: Entry, lines: Sequence[str], index: Mapping[str, list[int]], place: int) -> int | None:
    """The line at which an entry begins: the first from ``place`` on that begins as its locator does."""
    heading = entry.locator.removeprefix("§").split(" | ")[0]
    sought = _plain(heading)
    places = index.get(sought[:_KEY], []) if sought else []
    first = bisect_left(places, place)
    for number in places[first : first + 20]:
        if sought[:_ALIKE] in _plain(lines[number][:400]):
            return number
    return places[min(first, len(places) - 1)] if places else None


def _described(lines: Sequence[str]) -> list[_Line]:
    """What each line is: of which kind, below which heading."""
    described = []
    section, under, fenced = 0, 0, False
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        heading = None if fenced else _HEADING.match(line)
        level = 0
        if heading is not None:
            level = len(heading["marks"]) if heading["marks"] else int(heading["level"])
            section, under = number + 1, level
        kind = (
            "heading"
            if level
            else "table"
            if line.lstrip().startswith("|")
            else "bullet"
            if _BULLET.match(line)
            else "paragraph"
        )
        described.append(_Line(number, level, kind, section, under))
    return described


def _passage(entry: Entry, lines: Sequence[str], described: Sequence[_Line], start: int, end: int) -> Passage:
    line = described[start]
    if line.kind == "heading" or not _DATED.search(entry.locator[:60]):
        # A bullet with the hour alone belongs to the day of its heading.
        group, section = f"headings {line.level or line.under}", 0
    else:
        group, section = f"{line.kind}s", line.section
    own = next(
        (
            number
            for number in range(start + 1, end)
            if described[number].level and (not line.level or described[number].level <= line.level)
        ),
        end,
    )
    if line.kind != "heading":
        own = min(own, next((number for number in range(start + 1, end) if described[number].kind == line.kind), end))
    return Passage(
        line=start + 1,
        group=group,
        section=section,
        own="\n".join(lines[start:own]),
        rest="\n".join(lines[own:end]),
    )
