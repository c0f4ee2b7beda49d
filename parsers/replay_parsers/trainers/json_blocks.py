"""Many JSON lines at once, where they are as alike as a log's lines mostly are.

Arrow's JSON reader turns a block of lines into columns some ten times faster than objects can be made of them one by
one.  It is used only where the result is known to be the same: records of one or a few sets of keys, all numbers,
steps that do not go back within an epoch, losses that are numbers.  Everything else is left to the careful reader.

Large files whose lines differ in little but their numbers are read by :mod:`.json_alike` instead, four times as fast.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay_parsers.trainers import json_runs
from replay_parsers.trainers.axes import Axis
from replay_parsers.trainers.json_key_order import key_order
from replay_parsers.trainers.json_objects import DEEPEST, NULLS, flat_record, parse_object
from replay_parsers.trainers.json_runs import Column, Run, add_runs, epochs_of, run_of
from replay_parsers.trainers.losses import training_loss
from replay_parsers.trainers.numbers import LARGEST_DOUBLE
from replay_parsers.trainers.reading import Book

WORTH_IT = 256 << 10
"""Smaller blocks are read line by line."""

_MOST_COLUMNS = 62
_LINES_LOOKED_AT = 256
_ANY_KEY = re.compile(rb'"([^"]{1,200})"\s{0,4}:')
_MOST_BRACKETS = 256
"""More opening brackets on one line are left to the careful reader: Arrow's descends into them until its stack ends,
and the process with it."""


@dataclass(frozen=True)
class _Columns:
    """The numbers of a block: names, values of shape [columns, records], and which of them are there, likewise.

    ``nulls`` counts the values that are null.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    present: NDArray[np.bool_]
    nulls: int


def add_block(raw: bytes, lines: int, axis: Axis, book: Book) -> bool:
    """Add all records of a block of whole ``lines``; false, with nothing done, when it is not as plain as that."""
    if len(raw) < WORTH_IT or not _is_shallow(raw, lines) or not _has_few_keys(raw):
        return False
    columns = _columns(raw)
    # A blank line, or two objects on one, and the lines would not be counted as elsewhere.
    if columns is None or columns.values.shape[1] != lines:
        return False
    found = _runs(columns, raw)
    if found is None or not add_runs(*found, axis, book):
        return False
    if columns.nulls:
        book.leave_out({NULLS: columns.nulls})
    return True


def _is_shallow(raw: bytes, lines: int) -> bool:
    """Whether each of the ``lines`` holds objects of its own, none of them nested without bound."""
    data = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    within = ends[ends < len(data) - 1]
    before = data[within - 1]
    before = np.where(before == ord("\r"), data[within - 2], before)
    if data[0] != ord("{") or len(within) != lines - 1 or (before != ord("}")).any():
        return False
    if (data[within + 1] != ord("{")).any():
        return False
    opening_brace, opening_bracket = data == ord("{"), data == ord("[")
    if np.count_nonzero(opening_brace) == lines and not opening_bracket.any():
        return True
    opening = np.flatnonzero(opening_brace | opening_bracket)
    before_ends = np.searchsorted(opening, ends)
    return int(np.diff(before_ends, prepend=0).max(initial=0)) <= _MOST_BRACKETS


def _has_few_keys(raw: bytes) -> bool:
    """Whether lines from all over the block have few keys together.

    Arrow makes each key of any line a column as long as the block: where most lines bring new ones, that is its square.
    """
    keys: set[bytes] = set()
    for part in range(_LINES_LOOKED_AT):
        begin = raw.rfind(b"\n", 0, len(raw) * part // _LINES_LOOKED_AT) + 1
        keys.update(_ANY_KEY.findall(raw, begin, raw.find(b"\n", begin)))
        if len(keys) > _MOST_COLUMNS:
            return False
    return True


def _columns(raw: bytes) -> _Columns | None:
    # Importing Arrow costs more than reading a small file; the careful reader needs none of it.
    import pyarrow as pa
    import pyarrow.json as arrow_json

    try:
        options = arrow_json.ReadOptions(block_size=max(1 << 20, len(raw) // 4 + 1), use_threads=True)
        table = arrow_json.read_json(pa.BufferReader(raw), read_options=options)
        named: list[tuple[str, Any]] = []
        if not all(_flatten(name, table.column(name).combine_chunks(), named, 0) for name in table.column_names):
            return None
    # Names that are not UTF-8 are found only when they are asked for.
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    if not named or len(named) > _MOST_COLUMNS or len({name for name, _ in named}) < len(named):
        return None
    # A null and a value that is not there are one to Arrow.  Where all else is numbers, the word stands for itself.
    nulls = raw.count(b"null")
    if nulls and any(column.null_count and training_loss({name: 0.0}) is not None for name, column in named):
        return None
    values = np.empty((len(named), table.num_rows))
    present = np.ones(values.shape, np.bool_)
    for row, (_, column) in enumerate(named):
        values[row] = _numbers(column)
        if column.null_count:
            present[row] = _bits(column.buffers()[0], column)
            values[row, ~present[row]] = 0
    values[values >= LARGEST_DOUBLE] = np.inf
    values[values <= -LARGEST_DOUBLE] = -np.inf
    return _Columns(tuple(name for name, _ in named), values, present, nulls)


def _numbers(column: Any) -> NDArray[Any]:
    """The numbers of a column, whatever stands where one is missing; Arrow's own way would import pandas."""
    data = column.buffers()[1]
    if column.type.bit_width == 1:
        return _bits(data, column)
    kind = np.float64 if str(column.type) == "double" else np.int64
    return np.frombuffer(data, kind, len(column), column.offset * 8)


def _bits(buffer: Any, column: Any) -> NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].astype(np.bool_)


def _flatten(name: str, column: Any, named: list[tuple[str, Any]], depth: int) -> bool:
    """Add the numbers below ``column`` to ``named``; false when there is anything else, or it lies too deep."""
    import pyarrow.types as types

    # Nulls are counted by their word.
    if "null" in name:
        return False
    if types.is_int64(column.type) or types.is_float64(column.type) or types.is_boolean(column.type):
        named.append((name, column))
        return True
    if not types.is_struct(column.type) or column.null_count or depth >= DEEPEST:
        return False
    return all(
        _flatten(f"{name}/{field.name}", column.field(number), named, depth + 1)
        for number, field in enumerate(column.type)
    )


def _runs(columns: _Columns, raw: bytes) -> tuple[list[Run], tuple[Column, Column]] | None:
    """The block as runs of records with the same keys in the same order, and the epochs and steps of all of them.

    None when one is not plain, or they are too short.
    """
    count = columns.values.shape[1]
    order = key_order(raw, count)
    if order is None:
        return None
    changes = order.changes
    if not columns.present.all():
        bits = (1 << np.arange(len(columns.names), dtype=np.int64))[:, None]
        pattern = (columns.present * bits).sum(axis=0)
        # A key whose value is null is there all the same.
        changes = np.union1d(changes, np.flatnonzero(np.diff(pattern)) + 1)
    if len(changes) + 1 > max(1, count / json_runs.SHORTEST_RUNS):
        return None
    bounds = [0, *changes.tolist(), count]
    begins = _begins_of_lines(raw, bounds[:-1])
    rows_of: dict[tuple[bytes, bytes], list[int] | None] = {}
    runs: list[Run] = []
    epochs: list[tuple[Column, Column]] = []
    for (first, end), begin in zip(pairwise(bounds), begins, strict=True):
        alike = (order.of(first), columns.present[:, first].tobytes())
        if alike not in rows_of:
            rows_of[alike] = _rows_in_order(columns, first, raw[begin : raw.index(b"\n", begin)])
        rows = rows_of[alike]
        if rows is None:
            return None
        names, table = tuple(columns.names[row] for row in rows), columns.values[rows, first:end].T
        run, of_run = run_of(names, table), epochs_of(names, table)
        if run is None or of_run is None:
            return None
        runs.append(run)
        epochs.append(of_run)
    return runs, (np.concatenate([epoch for epoch, _ in epochs]), np.concatenate([step for _, step in epochs]))


def _begins_of_lines(raw: bytes, numbers: list[int]) -> list[int]:
    """Where these lines of a block, counted from 0, begin."""
    if numbers == [0]:
        return [0]
    ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == ord("\n"))
    return [0, *(ends[np.array(numbers[1:]) - 1] + 1).tolist()]


def _rows_in_order(columns: _Columns, record: int, line: bytes) -> list[int] | None:
    """The rows of ``columns`` that a record has, in the order of its line, which Arrow does not keep.

    What is read of a record can depend on it: of two names for the step or the loss, and the rows come in it.
    """
    parsed = parse_object(line.decode("utf-8", "replay-latin-1"))
    names = [] if parsed is None else list(flat_record(parsed).values)
    row_of = {name: row for row, name in enumerate(columns.names) if columns.present[row, record]}
    if len(names) != len(row_of) or not row_of.keys() >= set(names):
        return None
    return [row_of[name] for name in names]
