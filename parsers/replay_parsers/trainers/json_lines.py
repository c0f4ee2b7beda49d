"""JSON lines with any keys: LLaMA-Factory's `trainer_log.jsonl`, ms-swift's `logging.jsonl`, and everybody's own.

One object a line.  Nested objects become names with slashes, down to a depth that is the same however the file is
read; numbers in quotation marks become numbers, and bare NaN and Infinity, which are no JSON, are read all the same.
What a record holds besides is counted by kind: :mod:`.json_objects`.  Values over samples, tokens or epochs:
:mod:`.axes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.files import SAMPLE_BYTES
from replay_parsers.lines import Block, Line
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.axes import RECORD_NUMBER, Axis, impossible_step, tells_of_a_run, time_of
from replay_parsers.trainers.huggingface_meaning import FilteredLoss, with_run_mean
from replay_parsers.trainers.json_alike import WORTH_IT, alike_stretches
from replay_parsers.trainers.json_blocks import add_block
from replay_parsers.trainers.json_objects import TEXTS, flat_record, numbers_of, parse_object
from replay_parsers.trainers.json_runs import Table, add_runs, epochs_of, run_of
from replay_parsers.trainers.losses import missing_loss, training_loss
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines

FORMAT = "json-lines"

_STEP_BEFORE_LOSS = re.compile(rb'\s{0,9}\{[^{}]{0,9000}?step"\s{0,9}:\s{0,9}"?\d[^{}]{0,9000}?loss"\s{0,9}:', re.I)
_NAMES = ("tag", "key", "name", "metric")


class RecordReader:
    """Makes rows of records of any keys, one after the other."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.axis = Axis(state.get("axis", {}))
        self.filtered = FilteredLoss(state.get("filtered", {}))

    def state(self) -> dict[str, Any]:
        return {"axis": self.axis.state(), "filtered": self.filtered.state()}

    def take(self, record: Mapping[str, Any], place: int | str, rank: str, book: Book) -> bool:
        """Add what ``record`` measures; ``place`` is its line, or where it stands in a document."""
        whole = flat_record(record)
        flat = whole.values
        if "value" in flat and (named := next((key for key in _NAMES if isinstance(flat.get(key), str)), None)):
            # One value a record, with its name beside it.
            value, name = flat.pop("value"), flat.pop(named)
            flat[name] = value
        at = self.axis.place(flat)
        if at is None:
            step = impossible_step(flat)
            if step is None or training_loss(numbers_of(flat)) is None:
                return False
            book.impossible_step(place, step)
            return True
        clock, time = time_of(flat)
        numbers = numbers_of(flat)
        used = {*at.keys, clock}
        fields = {key + at.suffix: value for key, value in numbers.items() if key not in used}
        missing = missing_loss(whole.nulls, numbers) if whole.nulls and at.axis != RECORD_NUMBER else None
        if not fields and missing is None:
            return False
        if at.axis != "step":
            if training_loss(numbers) is None and missing is None and not at.suffix:
                return False
            book.metadata["step axis"] = at.axis
        if len(numbers) < len(flat) and (texts := len(flat.keys() - numbers.keys() - used)):
            whole.left_out[TEXTS] = texts
        book.leave_out(whole.left_out)
        fields = with_run_mean(fields)
        book.measured(place, at.step, fields, time, rank)
        if missing is not None:
            book.missing_loss(place, at.step, missing, time, rank)
        self.filtered.look(fields, at.step, place, book)
        return True

    def take_alike(self, names: tuple[str, ...], table: Table, book: Book) -> bool:
        """Add adjacent records of the same keys; false, with nothing done, when they are not plain enough."""
        run = run_of(names, table)
        epochs = epochs_of(names, table)
        if run is None or epochs is None or not add_runs([run], epochs, self.axis, book):
            return False
        # The last of them tells, as all do, that no loss is hidden any more.
        last = dict(zip(run.tags, run.values[-1].tolist(), strict=True))
        self.filtered.look(last, int(run.steps[-1]), "", book)
        return True


class JsonLines:
    """Reads one object a line.  ``large`` tells that there is enough to read for the fastest way to be worth it."""

    def __init__(self, state: Mapping[str, Any], *, large: bool = False) -> None:
        self.records = RecordReader(state)
        self.large = large

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        record = None if goes_on else parse_object(text)
        if record is None:
            return False
        if not self.records.take(record, line.number, rank, book):
            book.other["records without a step or a loss"] += 1
            book.example(line.number, text)
        return True

    def bulk(self, block: Block, book: Book) -> Iterator[tuple[int, int, int]]:
        """Take in many lines at once, if they are plain enough; yields what is to be read one by one in its place."""
        lines = int(block.state["newlines"]) - block.number + 1
        stretches = alike_stretches(block.raw, lines) if self.large else None
        if stretches is None:
            if self.records.filtered.inside or not add_block(block.raw, lines, self.records.axis, book):
                yield 0, len(block.raw), block.number
            return
        number = block.number
        for stretch in stretches:
            if stretch.values is not None and self.records.take_alike(stretch.names, stretch.values, book):
                book.leave_out(stretch.left_out, stretch.lines)
            else:
                yield stretch.begin, stretch.end, number
            number += stretch.lines

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
    flat = flat_record(record).values
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
    # A pipe has no size.
    size = request.path.stat().st_size if request.path.is_file() else 0
    large = size - request.start >= WORTH_IT
    return read_log(request, FORMAT, lambda state: JsonLines(state, large=large))


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
