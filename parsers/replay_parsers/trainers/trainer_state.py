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
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import ProblemKind, Records
from replay_parsers.trainers.document import document_records, problem, whole_document
from replay_parsers.trainers.json_lines import RecordReader
from replay_parsers.trainers.numbers import parse_integer
from replay_parsers.trainers.reading import Book

FORMAT = "trainer-state"

_HISTORIES = ("log_history", "history", "logs", "records", "metrics")
_ROW = re.compile(rb'^\s{0,64}\[\s{0,64}\{\s{0,64}"[^"]{1,120}"\s{0,8}:')
_LIST = re.compile(rf'(?:\A\ufeff?|"(?:{"|".join(_HISTORIES)})"\s{{0,64}}:)\s{{0,64}}\[\s{{0,64}}(?=\{{)')
_EXPORTED = re.compile(
    rb'^\s{0,64}(?:\{\s{0,64}"[^"]{1,400}"\s{0,8}:\s{0,8}\[\s{0,8})?\[\s{0,8}(?:\[\s{0,8})?1\d{8,9}(?:\.\d{1,9})?,\s{0,8}\d{1,18},'
    rb'\s{0,8}["\d.NI-]'
)
_TAG = re.compile(r"-tag-(.+)$")
_COMMA = re.compile(r"\s{0,64},\s{0,64}")
_COLUMNS = re.compile(rb'"(?:[\w/.-]{0,60})(?:step|loss|epoch)"\s{0,8}:\s{0,8}\[\s{0,64}[-\d"NnIi]')
_METADATA = ("best_metric", "best_model_checkpoint", "global_step", "max_steps", "num_train_epochs", "logging_steps",
             "save_steps", "eval_steps", "train_batch_size", "total_flos")  # fmt: skip


def _history(document: Any, tag: str) -> list[Any] | None:
    """The records of a document in order; None when it holds none.  ``tag`` is that of rows without one."""
    if isinstance(document, list):
        return _rows(document, tag) if document and all(map(_is_row, document)) else document
    if not isinstance(document, dict):
        return None
    for name in _HISTORIES:
        if isinstance(document.get(name), list):
            return list(document[name])
    rows = {key: value for key, value in document.items() if isinstance(value, list) and all(map(_is_row, value))}
    if any(rows.values()):
        return [record for key, value in rows.items() for record in _rows(value, key)]
    columns = {key: value for key, value in document.items() if isinstance(value, list)}
    if not columns:
        return None
    length = max(map(len, columns.values()))
    return [{key: column[row] for key, column in columns.items() if row < len(column)} for row in range(length)]


def _is_row(value: Any) -> bool:
    """Whether ``value`` is a wall time, a step and a value."""
    return isinstance(value, list) and len(value) == 3 and not any(isinstance(cell, list | dict) for cell in value)


def _rows(rows: list[list[Any]], tag: str) -> list[dict[str, Any]]:
    return [{"wall_time": time, "step": step, tag: value} for time, step, value in rows]


def _parse(text: str) -> tuple[Any, str]:
    """The document, or what stands in the way."""
    try:
        return json.loads(text, parse_int=parse_integer), ""
    except json.JSONDecodeError as error:
        return None, f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return None, str(error)


def _tag_of(request: Request) -> str:
    named = _TAG.search(request.path.name.removesuffix(".json"))
    return named[1] if named else "value"


def _whole_records(text: str) -> list[Any]:
    """The records of a history that breaks off, up to the last whole one."""
    records: list[Any] = []
    begin = _LIST.search(text)
    decoder = json.JSONDecoder(parse_int=parse_integer)
    while begin is not None:
        try:
            record, end = decoder.raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            break
        records.append(record)
        begin = _COMMA.match(text, end)
    return records


def read(request: Request) -> Iterator[Records]:
    """Read a document's history.

    Raises :class:`OSError` when the file cannot be opened or read.
    """
    text, problems = whole_document(request)
    book = Book(request, {})
    document, fault = _parse(text)
    history = _whole_records(text) if fault else _history(document, _tag_of(request))
    if fault and not problems:
        kept = f"the {len(history)} records before that are kept" if history else "nothing is kept"
        message = f"not read to its end, {fault}; {kept}; the file may still be being written"
        problems.append(problem(request, ProblemKind.CORRUPT, message, line=1))
    elif history is None and not problems:
        problems.append(problem(request, ProblemKind.NOT_UNDERSTOOD, "it holds no list of records", line=1))
    if isinstance(document, Mapping):
        book.metadata.update({key: str(document[key]) for key in _METADATA if document.get(key) is not None})
    reader = RecordReader({})
    for number, record in enumerate(history or []):
        place = f"record {number + 1} of the history"
        if not isinstance(record, Mapping) or not reader.take(record, place, "", book):
            book.leave_over(0, json.dumps(record, default=str)[:200])
    yield document_records(request, FORMAT, book, len(text.encode("utf-8", "replace")), problems)


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
