"""JSON lines with any keys: LLaMA-Factory's `trainer_log.jsonl`, ms-swift's `logging.jsonl`, and everybody's own.

One object a line.  Nested objects become names with slashes, numbers in quotation marks become numbers, and bare
NaN and Infinity, which are no JSON, are read all the same.  Values over samples, tokens or epochs: :mod:`.axes`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.files import SAMPLE_BYTES
from replay_parsers.lines import Line
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.axes import Axis, tells_of_a_run, time_of
from replay_parsers.trainers.huggingface_meaning import FilteredLoss
from replay_parsers.trainers.json_blocks import add_block
from replay_parsers.trainers.losses import training_loss
from replay_parsers.trainers.numbers import bounded, parse_integer, parse_number
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines

FORMAT = "json-lines"

_STEP_BEFORE_LOSS = re.compile(rb'\s{0,9}\{[^{}]{0,9000}?step"\s{0,9}:\s{0,9}"?\d[^{}]{0,9000}?loss"\s{0,9}:', re.I)
_DEEPEST = 5
_NAMES = ("tag", "key", "name", "metric")


def parse_object(text: str) -> dict[str, Any] | None:
    """The object that a line holds; None when it holds none."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text, parse_int=parse_integer)
    # Nested a hundred thousand deep it is still only a bad line.
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def flatten(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every number and text of a record under its path, `train/loss`; lists and what lies deeper are left out."""
    for key, value in record.items():
        if isinstance(value, Mapping):
            if depth < _DEEPEST:
                yield from flatten(value, f"{prefix}{key}/", depth + 1)
        elif isinstance(value, int | float | str):
            yield f"{prefix}{key}", value


def numbers_of(flat: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a flat record, those in quotation marks included."""
    numbers: dict[str, float] = {}
    for key, value in flat.items():
        number = parse_number(value) if isinstance(value, str) else _as_float(value)
        if number is not None:
            numbers[key] = number
    return numbers


def _as_float(value: float) -> float:
    try:
        return bounded(float(value))
    except OverflowError:
        # An integer that no double holds, as 1e400 is none.
        return math.copysign(math.inf, value)


class RecordReader:
    """Makes rows of records of any keys, one after the other."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.axis = Axis(state.get("axis", {}))
        self.filtered = FilteredLoss(state.get("filtered", {}))

    def state(self) -> dict[str, Any]:
        return {"axis": self.axis.state(), "filtered": self.filtered.state()}

    def take(self, record: Mapping[str, Any], place: int | str, rank: str, book: Book) -> bool:
        """Add what ``record`` measures; ``place`` is its line, or where it stands in a document."""
        flat = dict(flatten(record))
        if "value" in flat and (named := next((key for key in _NAMES if isinstance(flat.get(key), str)), None)):
            # One value a record, with its name beside it.
            value, name = flat.pop("value"), flat.pop(named)
            flat[name] = value
        at = self.axis.place(flat)
        if at is None:
            return False
        clock, time = time_of(flat)
        numbers = numbers_of(flat)
        left_out = {*at.keys, clock}
        fields = {key + at.suffix: value for key, value in numbers.items() if key not in left_out}
        if not fields:
            return False
        if at.axis != "step":
            if training_loss(numbers) is None and not at.suffix:
                return False
            book.metadata["step axis"] = at.axis
        book.measured(place, at.step, fields, time, rank)
        self.filtered.look(fields, at.step, place, book)
        return True


class JsonLines:
    """Reads one object a line."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.records = RecordReader(state)

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        record = None if goes_on else parse_object(text)
        if record is None:
            return False
        if not self.records.take(record, line.number, rank, book):
            book.other["records without a step or a loss"] += 1
        return True

    def bulk(self, raw: bytes, lines: int, book: Book) -> bool:
        """Take in many lines at once, if they are plain enough."""
        return not self.records.filtered.inside and add_block(raw, lines, self.records.axis, book)

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        return not goes_on and parse_object(text) is not None

    def unfinished(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return self.records.state()


def _telling(line: str) -> bool:
    record = parse_object(line)
    if record is None:
        return False
    flat = dict(flatten(record))
    place = Axis({}).place(flat)
    if place is None:
        return False
    numbers = numbers_of(flat)
    return bool(numbers.keys() - {*place.keys, time_of(flat)[0]}) and tells_of_a_run(tuple(numbers))


def recognise(sample: Sample) -> float:
    """How sure it is: a file of JSON lines that name steps or losses."""
    if not sample.head.lstrip(b"\xef\xbb\xbf\xff\xfe \r\n\t\0").startswith(b"{"):
        # A log may say a word before the first object, but not in another format.
        return min(0.5, by_lines(sample, _telling, surest=0.5))
    if sure := by_lines(sample, _telling, surest=0.7, longest=SAMPLE_BYTES):
        return sure
    # The first record may be longer than the sample.
    unfinished = not sample.whole and b"\n" not in sample.head
    return 0.5 if unfinished and _STEP_BEFORE_LOSS.match(sample.head) else 0.0


def read(request: Request) -> Iterator[Records]:
    """Read a file of JSON lines."""
    return read_log(request, FORMAT, JsonLines)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
