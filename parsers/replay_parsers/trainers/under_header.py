"""Dialects that name a step in a header and print one value a line below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replay_parsers.lines import Line, split_rank
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.axes import EpochSteps
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines
from replay_parsers.trainers.timestamps import printed_time


@dataclass(frozen=True, slots=True)
class Header:
    """The step that a header names, and its epoch where steps count within one."""

    step: int
    epoch: int | None = None


ReadHeader = Callable[[str], Header | None]
ReadValue = Callable[[str], tuple[str, float] | None]


class UnderHeader:
    """Reads values under the header of their step; what follows without a header belongs to the last one."""

    def __init__(self, read_header: ReadHeader, read_value: ReadValue, state: Mapping[str, Any]) -> None:
        self.read_header = read_header
        self.read_value = read_value
        self.step: int | None = state.get("step")
        self.time: int | None = state.get("time")
        self.rank: str = state.get("rank", "")
        self.epochs = EpochSteps(state.get("epochs", {}))

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        if goes_on:
            return False
        if (header := self.read_header(text)) is not None:
            self.step = header.step if header.epoch is None else self.epochs.running(header.epoch, header.step)
            self.time, self.rank = printed_time(text), rank
            return True
        if self.step is None or (read := self.read_value(text)) is None:
            return False
        key, value = read
        book.measured(line.number, self.step, {key: value}, self.time, rank or self.rank)
        return True

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        return not goes_on and self.read_header(text) is not None

    def unfinished(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return {"step": self.step, "time": self.time, "rank": self.rank, "epochs": self.epochs.state()}


def under_header_parser(name: str, read_header: ReadHeader, read_value: ReadValue) -> Parser:
    """A parser from functions that read a header and a value; recognised by headers that have values beside them."""

    def from_state(state: Mapping[str, Any]) -> UnderHeader:
        return UnderHeader(read_header, read_value, state)

    def heads(line: str) -> bool:
        return read_header(split_rank(line)[1]) is not None

    def tells(line: str) -> bool:
        text = split_rank(line)[1]
        return read_header(text) is not None or read_value(text) is not None

    def recognise(sample: Sample) -> float:
        headers = by_lines(sample, heads)
        return min(headers, by_lines(sample, tells)) if headers else 0.0

    def read(request: Request) -> Iterator[Records]:
        return read_log(request, name, from_state)

    return Parser(name=name, recognise=recognise, read=read)
