"""Dialects whose every record is one line that stands for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replay_parsers.lines import Line, split_rank
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.json_objects import TEXTS
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines

LONGEST_RECORD = 4_000
"""A longer line is no record of these dialects."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one line reports: values by key at ``step``, printed at ``time`` (microseconds since 1970) if known.

    A ``step`` of None means the last one that the log reported, 0 before the first.  ``left_out`` counts the values
    that are no numbers.
    """

    step: int | None
    fields: dict[str, float]
    time: int | None = None
    left_out: int = 0


ReadLine = Callable[[str], Report | None]


class OneLine:
    """A dialect given by a function from a line to its report, and the endings by which a line is seen to be whole."""

    def __init__(self, read_line: ReadLine, endings: tuple[str, ...], last: str) -> None:
        self.read_line = read_line
        self.endings = endings
        self.last = last

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        report = self.read_line(text) if len(text) <= LONGEST_RECORD else None
        if report is None or goes_on:
            return False
        step = report.step if report.step is not None else book.scalars.last_step or 0
        if report.left_out:
            book.leave_out({TEXTS: report.left_out})
        book.measured(line.number, step, report.fields, report.time, rank)
        return True

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        return not goes_on and text.endswith(self.endings) and self.last in text and self.read_line(text) is not None

    def unfinished(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return {}


def one_line_parser(
    name: str,
    read_line: ReadLine,
    *,
    endings: tuple[str, ...] = (),
    last: str = "",
    surest: float = 0.9,
    telling: str = "",
) -> Parser:
    """A parser from a function that reads one line.

    ``endings`` are characters after which a record cannot go on once it has the words ``last``; ``surest`` bounds the
    confidence; ``telling`` is a word that each line has from which the dialect is recognised, where not every line
    that it can read tells.
    """

    def from_state(_: Mapping[str, Any]) -> OneLine:
        return OneLine(read_line, endings or ("\0",), last)

    def own(line: str) -> bool:
        return telling in line and read_line(split_rank(line)[1]) is not None

    def recognise(sample: Sample) -> float:
        return by_lines(sample, own, surest)

    def read(request: Request) -> Iterator[Records]:
        return read_log(request, name, from_state)

    return Parser(name=name, recognise=recognise, read=read)
