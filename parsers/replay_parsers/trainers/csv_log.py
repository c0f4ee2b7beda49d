"""Logs as tables: Lightning's `metrics.csv`, exports of dashboards, everybody's own.

Separators are told by the header; the header may come again after a resume, and other columns with it; a cell that
is empty was not measured at that step.  Lightning rewrites the file when a new column appears, so that a table is
read as a whole each time.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from replay_parsers.files import SAMPLE_BYTES
from replay_parsers.lines import Line, read_blocks
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Problem, ProblemKind, Records, Run
from replay_parsers.trainers.axes import tells_of_a_run
from replay_parsers.trainers.json_lines import RecordReader
from replay_parsers.trainers.numbers import parse_number
from replay_parsers.trainers.reading import Book
from replay_parsers.trainers.recognising import lines_to_judge

FORMAT = "csv"

_SEPARATORS = (",", "\t", ";", "|")
_TELLING = re.compile(r"step|epoch|iter|loss|batch|update|tokens|samples", re.I)
_NUMBER_LIKE = re.compile(r"[+-]?[\d.]")
# Weights & Biases exports a chart with the run in front of each name, and `__MIN` and `__MAX` of each bin beside it.
_DASHBOARD = re.compile(r"(.{1,200}?) - (.{1,200})")
_TENSORBOARD = re.compile(r"-tag-(.+)$")


def split_row(text: str, separator: str) -> list[str]:
    """The cells of one line."""
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])]
    except csv.Error:
        return []


def _separator(header: str) -> str:
    return max(_SEPARATORS, key=lambda separator: header.count(separator))


def _is_header(cells: list[str]) -> bool:
    """Names, not values: at least two, none of them a number, one of them of a kind that logs have."""
    if len(cells) < 2 or any(_NUMBER_LIKE.match(cell) or parse_number(cell) is not None for cell in cells):
        return False
    return any(_TELLING.search(cell) for cell in cells) and sum(map(bool, cells)) >= 2


def _without_run(names: list[str]) -> list[str]:
    """The names of a dashboard's chart of one run, without the run."""
    parts = [_DASHBOARD.fullmatch(name) for name in names]
    if len({match[1] for match in parts if match}) != 1:
        return names
    keys = [match[2] if match else name for name, match in zip(names, parts, strict=True)]
    return keys if len(set(keys)) == len(keys) else names


class Table:
    """Reads rows under the header that stands last above them."""

    def __init__(self, tag: str) -> None:
        self.names: list[str] = []
        # What the values are called: mostly as the header says.
        self.keys: list[str] = []
        self.separator = ","
        # TensorBoard's own export calls the value `Value`; its file name has the tag.
        self.tag = tag
        self.records = RecordReader({})

    def read(self, line: Line, book: Book) -> bool:
        """Take in one line; false when it is no row of the table."""
        cells = split_row(line.text, self.separator)
        if cells == self.names:
            book.other["header repeated"] += 1
            return True
        separator = _separator(line.text)
        if _is_header(as_header := split_row(line.text, separator)):
            self.names, self.separator = as_header, separator
            self.keys = _without_run(as_header)
            return True
        if not self.names or not cells or len(cells) > len(self.names):
            return False
        record = {key: self._cell(cell) for key, cell in zip(self.keys, cells, strict=False) if key and cell}
        if self.tag and "Value" in record:
            record[self.tag] = record.pop("Value")
        return bool(record) and self.records.take(record, line.number, "", book)

    def _cell(self, cell: str) -> str:
        """Where the semicolon separates, the comma is the decimal point."""
        return cell.replace(",", ".") if self.separator == ";" and parse_number(cell) is None else cell


def read(request: Request) -> Iterator[Records]:
    """Read a table.

    Raises :class:`OSError` when the file cannot be opened or read.
    """
    book = Book(request, {})
    match = _TENSORBOARD.search(request.path.stem)
    table = Table(match[1] if match else "")
    start = 0
    for block in read_blocks(request.path, request.source):
        problems = list(block.problems)
        for line in block.lines:
            short = not line.terminated and len(split_row(line.text, table.separator)) < len(table.names)
            if short:
                problems.append(_half_row(request, line))
            elif not table.read(line, book):
                book.leave_over(line.number, line.text)
        problems += book.take_problems()
        scalars, events = book.take_scalars(), book.events.take()
        if block.last and start == block.end and start and not problems:
            return
        yield Records(
            source=request.source,
            format=FORMAT,
            start=start,
            end=block.end,
            run=Run(run=request.run, sources=(request.source,), metadata=dict(book.metadata)),
            events=events,
            scalars=scalars,
            problems=tuple(problems),
            findings=book.take_findings(),
            coverage=book.coverage(block.end - start, block.lost_bytes, len(scalars) + len(events)),
        )
        start = block.end


def _half_row(request: Request, line: Line) -> Problem:
    message = "the last row is not complete yet; it is read when the table has grown"
    return Problem(
        source=request.source, kind=ProblemKind.TRUNCATED, message=message, line=line.number, offset=line.offset
    )


def recognise(sample: Sample) -> float:
    """How sure it is that a file is a table of a run: by a header with names that logs have, and a row below."""
    lines = lines_to_judge(sample, SAMPLE_BYTES)
    for number, line in enumerate(lines[:20]):
        separator = _separator(line)
        header = split_row(line, separator)
        if not _is_header(header) or not tells_of_a_run(tuple(header)):
            continue
        rows = [split_row(row, separator) for row in lines[number + 1 : number + 4]]
        alike = [
            row
            for row in rows
            if 1 < len(row) <= len(header) and sum(parse_number(cell) is not None for cell in row) > 1
        ]
        if alike and len(alike) >= len(rows) - 1:
            return 0.65 if number == 0 else 0.5
        # A header alone is a table that has only just been begun, or one of very many columns.
        return 0.4 if number == 0 and ((not rows and sample.whole) or len(line) > SAMPLE_BYTES // 4) else 0.0
    return 0.0


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False)
