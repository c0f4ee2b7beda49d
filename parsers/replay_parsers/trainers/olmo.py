"""Console logs of OLMo and OLMo-core (`olmo_core/train/callbacks/console_logger.py`).

    2025-08-08 12:01:00 INFO [olmo_core.train.callbacks.console_logger:68] [step=100/2000,epoch=1,eta=5h11m]
        train/CE loss=6.234
        optim/total grad norm=1.204
        throughput/total tokens=4.19B

The header names the step, each indented line below it one value.  Evaluations follow without a header of their own
and belong to the last step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.lines import Line
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.nanotron import parse_abbreviated
from replay_parsers.trainers.numbers import number_with_unit, parse_step
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines
from replay_parsers.trainers.timestamps import printed_time

FORMAT = "olmo"

_HEADER = re.compile(r"\[step=([\d,]{1,24})(?:/[\d,?]{1,24})?(?:,[^\]]{0,120})?\]\s{0,8}$")
_VALUE = re.compile(r"\s{2,16}([A-Za-z][^=|]{0,160})=(\S{1,40})\s{0,8}$")


class OLMo:
    """Reads values under the header of their step."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.step: int | None = state.get("step")
        self.time: int | None = state.get("time")
        self.rank: str = state.get("rank", "")

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        if goes_on:
            return False
        if "[step=" in text and (header := _HEADER.search(text)) is not None:
            self.step, self.time, self.rank = parse_step(header[1]), printed_time(text), rank
            return self.step is not None
        if self.step is None or "=" not in text[:180]:
            return False
        match = _VALUE.match(text)
        if match is None:
            return False
        value = parse_abbreviated(match[2])
        if value is None:
            read = number_with_unit(match[2])
            if read is None:
                return False
            value = read[0]
        book.measured(line.number, self.step, {match[1].strip(): value}, self.time, rank or self.rank)
        return True

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        return not goes_on and _HEADER.search(text) is not None

    def unfinished(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return {"step": self.step, "time": self.time, "rank": self.rank}


def _telling(line: str) -> bool:
    return ("[step=" in line and _HEADER.search(line) is not None) or (
        "=" in line and "/" in line and _VALUE.match(line) is not None
    )


def recognise(sample: Sample) -> float:
    """How sure it is that a file is OLMo's: by headers with values below."""
    headers = by_lines(sample, lambda line: "[step=" in line and _HEADER.search(line) is not None)
    return min(headers, by_lines(sample, _telling))


def read(request: Request) -> Iterator[Records]:
    """Read an OLMo log."""
    return read_log(request, FORMAT, OLMo)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
