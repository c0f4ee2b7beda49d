"""JSON documents that hold a history: Hugging Face's `trainer_state.json`, lists or columns of records, and exports.

`trainer_state.json` is no JSON by the letter: it holds bare NaN and Infinity.  Each checkpoint of a run has one with
the history up to it; they overlap, and a run that was resumed repeats steps within one.  Every file is read for
itself: that several tell the same is for the lineage of attempts to see, which keeps each step once.

TensorBoard exports a tag as rows of wall time, step and value, with the tag in the file's name; tensorboardX all tags
in one file.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Problem, ProblemKind, Records
from replay_parsers.trainers.document import Document, document_records, problem
from replay_parsers.trainers.json_lines import RecordReader
from replay_parsers.trainers.json_stream import JsonText, Part, PartKind, parts_of
from replay_parsers.trainers.reading import Book

FORMAT = "trainer-state"

LARGEST_COLUMNS = 256 << 20
"""Bytes: columns stand one behind the other and are held in memory; records are not."""

_ROWS_AT_ONCE = 1 << 18
_EXACT = 2**53

_HISTORIES = ("log_history", "history", "logs", "records", "metrics")
_ROW = re.compile(rb'^\s{0,64}\[\s{0,64}\{\s{0,64}"[^"]{1,120}"\s{0,8}:')
_LONGEST_BEGIN = 200
_LIST = re.compile(rf'(?:\A\ufeff?|"(?:{"|".join(_HISTORIES)})"\s{{0,64}}:)\s{{0,64}}\[\s{{0,64}}(?=\{{)')
_EXPORTED = re.compile(
    rb'^\s{0,64}(?:\{\s{0,64}"[^"]{1,400}"\s{0,8}:\s{0,8}\[\s{0,8})?\[\s{0,8}(?:\[\s{0,8})?1\d{8,9}(?:\.\d{1,9})?,\s{0,8}\d{1,18},'
    rb'\s{0,8}["\d.NI-]'
)
_TAG = re.compile(r"-tag-(.+)$")
_COLUMNS = re.compile(rb'"(?:[\w/.-]{0,60})(?:step|loss|epoch)"\s{0,8}:\s{0,8}\[\s{0,64}[-\d"NnIi]')
_METADATA = ("best_metric", "best_model_checkpoint", "global_step", "max_steps", "num_train_epochs", "logging_steps",
             "save_steps", "eval_steps", "train_batch_size", "total_flos")  # fmt: skip


class Holding(Enum):
    """How a document holds its history."""

    RECORDS = auto()
    """A list of records."""
    ROWS = auto()
    """Lists of wall time, step and value, each under its tag."""
    COLUMNS = auto()
    """Lists of values, each under its name."""


@dataclass
class _Listed:
    """What the first look at a list tells: the ``number`` of it in the document, and of what its elements are."""

    number: int
    count: int = 0
    rows: bool = True
    # All integers that a double holds, or all numbers: such are kept without an object for each.
    whole: bool = True
    numbers: bool = True

    def look(self, element: Any) -> None:
        self.count += 1
        if not (self.rows or self.numbers):
            return
        self.rows = self.rows and _is_row(element)
        self.whole = self.whole and type(element) is int and abs(element) <= _EXACT
        self.numbers = self.numbers and (type(element) is float or (type(element) is int and abs(element) <= _EXACT))

    def column(self) -> array[Any] | list[Any]:
        """Room for the values."""
        return array("q") if self.whole else array("d") if self.numbers else []


_Lists = dict[str | None, _Listed]


@dataclass
class _Outline:
    """What the first look at a document tells: its lists by name, its damage, and what it says of the run."""

    lists: _Lists = field(default_factory=dict)
    damage: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def history(self) -> tuple[Holding, _Lists] | None:
        """The lists that make up the history, and how; None when there is none."""
        for name in (None, *_HISTORIES):
            if name in self.lists and (name is not None or not self._has_rows([self.lists[name]])):
                return Holding.RECORDS, {name: self.lists[name]}
        rows = {name: listed for name, listed in self.lists.items() if listed.rows}
        if self._has_rows(rows.values()):
            return Holding.ROWS, rows
        return (Holding.COLUMNS, self.lists) if self.lists else None

    @staticmethod
    def _has_rows(lists: Iterable[_Listed]) -> bool:
        return any(listed.rows and listed.count for listed in lists)


def _is_row(value: Any) -> bool:
    """Whether ``value`` is a wall time, a step and a value."""
    return isinstance(value, list) and len(value) == 3 and not any(isinstance(cell, list | dict) for cell in value)


def _parts(document: Document) -> Iterator[Part]:
    return parts_of(JsonText(document.text()), _LIST, _LONGEST_BEGIN, _HISTORIES)


def _outline(document: Document) -> _Outline:
    outline = _Outline()
    listed = _Listed(0)
    number = 0
    for part in _parts(document):
        if part.kind is PartKind.ELEMENT:
            listed.look(part.value)
        elif part.kind is PartKind.LIST:
            number += 1
            listed = outline.lists[part.name] = _Listed(number)
        elif part.kind is PartKind.DAMAGE:
            outline.damage = part.value
        else:
            # A name that comes twice counts as it stands last.
            outline.lists.pop(part.name, None)
            if part.name in _METADATA:
                outline.metadata[part.name] = part.value
    return outline


def _elements(document: Document, lists: _Lists) -> Iterator[tuple[str | None, Any]]:
    """The elements of these lists, with the names of the lists."""
    numbers = {listed.number for listed in lists.values()}
    number = 0
    for part in _parts(document):
        number += part.kind is PartKind.LIST
        if part.kind is PartKind.ELEMENT and number in numbers:
            yield part.name, part.value


def _records(document: Document, holding: Holding, lists: _Lists, tag: str) -> Iterator[Any]:
    """The records of the history in order; ``tag`` is that of rows without one."""
    elements = _elements(document, lists)
    if holding is Holding.RECORDS:
        yield from (value for _, value in elements)
    elif holding is Holding.ROWS:
        for name, (time, step, value) in elements:
            yield {"wall_time": time, "step": step, tag if name is None else name: value}
    else:
        columns = {name: listed.column() for name, listed in lists.items()}
        for name, value in elements:
            columns[name].append(value)
        for row in range(max(map(len, columns.values()))):
            yield {name: column[row] for name, column in columns.items() if row < len(column)}


def _tag_of(request: Request) -> str:
    named = _TAG.search(request.path.name.removesuffix(".json"))
    return named[1] if named else "value"


def read(request: Request) -> Iterator[Records]:
    """Read a document's history.

    Raises :class:`OSError` when the file cannot be opened or read.
    """
    book = Book(request, {})
    with Document(request) as document:
        outline = _outline(document)
        problems, history = document.problems, outline.history()
        if history is not None and history[0] is Holding.COLUMNS and (size := _size_of(history[1])) > LARGEST_COLUMNS:
            message = f"its columns would take {size:,} bytes of memory, more than {LARGEST_COLUMNS:,}"
            problems.append(problem(request, ProblemKind.UNREADABLE, f"{message}; give it as JSON lines instead"))
            history = None
        elif not problems:
            problems += _what_stands_in_the_way(request, outline.damage, history)
        known = outline.metadata
        book.metadata.update({key: str(known[key]) for key in _METADATA if known.get(key) is not None})
        start = 0
        reader = RecordReader({})
        for number, record in enumerate(_records(document, *history, _tag_of(request)) if history else (), start=1):
            place = f"record {number} of the history"
            if not isinstance(record, Mapping) or not reader.take(record, place, "", book):
                book.leave_over(place, json.dumps(record, default=str)[:200])
            if len(book.scalars) >= _ROWS_AT_ONCE and document.size > start:
                yield document_records(request, FORMAT, book, start, document.size, [])
                start = document.size
        yield document_records(request, FORMAT, book, start, document.size, problems)


def _what_stands_in_the_way(request: Request, damage: str, history: tuple[Holding, _Lists] | None) -> list[Problem]:
    if damage:
        counts = [listed.count for listed in history[1].values()] if history else []
        count = max(counts, default=0) if history and history[0] is Holding.COLUMNS else sum(counts)
        kept = f"the {count} records before that are kept" if count else "nothing is kept"
        message = f"not read to its end, {damage}; {kept}; the file may still be being written"
        return [problem(request, ProblemKind.CORRUPT, message, line=1)]
    if history is None:
        return [problem(request, ProblemKind.NOT_UNDERSTOOD, "it holds no list of records", line=1)]
    return []


def _size_of(columns: _Lists) -> int:
    """About how many bytes of memory columns take."""
    return sum(listed.count * (8 if listed.whole or listed.numbers else 64) for listed in columns.values())


def recognise(sample: Sample) -> float:
    """How sure it is that a file is a history in JSON."""
    head = sample.head.lstrip(b"\xef\xbb\xbf \r\n\t")
    if head.startswith(b"{") and b'"log_history"' in head:
        return 0.98
    if _ROW.match(head) and any(word in head for word in (b'step"', b'loss"', b'epoch"')):
        return 0.7
    if _EXPORTED.match(head):
        return 0.8
    # One object a line is another matter.
    one_object = head.startswith(b"{") and head.count(b"\n{") == 0
    return 0.6 if one_object and _COLUMNS.search(head) else 0.0


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False)
