"""What a whole book says of its dates: which of day and month comes first, and the years that are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from replay_parsers.chronicles.markdown import Document
from replay_parsers.chronicles.passages import Passage

_SLASHED = re.compile(r"^\W{0,4}(?:(?:[A-Za-z]{3,9},?|\d{1,2}:\d\d)\s)?(\d{1,2})/(\d{1,2})/(?:20)?(\d\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class Order:
    """Whether 03/04/2021 is the 3rd of April, and whether that could be told: ``example`` is a date that can be read
    both ways where nothing in the book decides, empty otherwise."""

    day_first: bool = False
    example: str = ""


def order(document: Document) -> Order:
    """Which of day and month a book puts first.

    A number above 12 decides; else the order in which the entries would stand in time; else nothing does.
    """
    texts = (text for section in document.sections for text in (section.heading, *(b.text for b in section.blocks)))
    found = [match for text in texts for cell in text[:200].split("|")[:5] if (match := _SLASHED.match(cell.strip()))]
    dates = [(int(match[1]), int(match[2]), int(match[3])) for match in found]
    votes = sum((first > 12) - (second > 12) for first, second, _ in dates)
    if votes or not dates:
        return Order(day_first=votes > 0)
    backwards = _disorder((year, second, first) for first, second, year in dates)
    forwards = _disorder((year, first, second) for first, second, year in dates)
    if backwards != forwards:
        return Order(day_first=backwards < forwards)
    open_to_both = next((match for match, date in zip(found, dates, strict=True) if date[0] != date[1]), None)
    return Order(example=open_to_both[0].strip() if open_to_both else "")


def _disorder(dates: Iterable[tuple[int, int, int]]) -> int:
    return sum(later < earlier for earlier, later in pairwise(dates))


def with_years(passages: Sequence[Passage], document: Document) -> list[Passage]:
    """Give dates without a year that of the entry before, or the next one where the months begin anew."""
    years = [passage.printed.year for passage in passages if passage.printed is not None and passage.printed.year]
    first = years[0] if years else _mentioned_year(document)
    filled: list[Passage] = []
    year, month = first, 0
    for passage in passages:
        printed = passage.printed
        if printed is not None and printed.year is None and year is not None:
            year += 1 if month - printed.month > 6 else 0
            printed = replace(printed, year=year)
            passage = replace(passage, printed=printed, label=printed.key)
        if printed is not None and printed.year is not None:
            year, month = printed.year, printed.month
        filled.append(passage)
    return filled


def _mentioned_year(document: Document) -> int | None:
    for section in document.sections:
        for text in (section.heading, *(block.text[:200] for block in section.blocks[:20])):
            if found := re.search(r"(?<![\w.])(20[12]\d)(?![\d.]\d|[A-Za-z_\d])", text):
                return int(found[1])
    return None
