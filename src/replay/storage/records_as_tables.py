"""Records of the parsers as Arrow tables, in the columns of :mod:`replay.storage.schema`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replay.storage import arrays, schema
from replay.storage.parts import row_groups
from replay_parsers.records import NO_TIME, Event, Finding, Problem, Run, Scalars

Ranks = NDArray[np.int16] | NDArray[np.int32]
"""For each row the place of its tag among sorted ones."""

_NARROW = 1 << 15
"""So many ranks fit into int16."""

_BLOCK_ROWS = 1 << 16


def storable(text: str) -> str:
    """``text`` without what UTF-8 cannot hold (half a surrogate pair becomes an escape)."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _table(rows: Iterable[dict[str, Any]], columns: pa.Schema) -> pa.Table:
    return arrays.table(({name: _plain(value) for name, value in row.items()} for row in rows), columns)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return storable(str(value))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _map(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(storable(str(name)), storable(str(value))) for name, value in sorted(pairs)]


def events_table(events: Iterable[Event]) -> pa.Table:
    """Events in the order given, without the column ``run``."""
    rows = []
    for event in events:
        row = {name: getattr(event, name) for name in schema.EVENTS.names if name not in ("detail", "time")}
        row["time"] = event.time_utc
        rows.append({name: _plain(value) for name, value in row.items()} | {"detail": _map(event.detail.items())})
    return arrays.table(rows, schema.EVENTS)


def runs_table(runs: Iterable[Run]) -> pa.Table:
    """What sources say of runs."""
    rows = []
    for run in runs:
        row = {name: getattr(run, name) for name in schema.RUNS.names}
        row["batch_schedule"] = [
            {"from_step": stage.from_step, "samples": stage.samples} for stage in run.batch_schedule
        ]
        plain = {name: _plain(value) for name, value in row.items() if name != "metadata"}
        rows.append(plain | {"metadata": _map(run.metadata.items())})
    return arrays.table(rows, schema.RUNS)


def findings_table(findings: Iterable[Finding]) -> pa.Table:
    """What was read but cannot be right."""
    return _table(({name: getattr(one, name) for name in schema.FINDINGS.names} for one in findings), schema.FINDINGS)


def problems_table(problems: Iterable[Problem]) -> pa.Table:
    """What could not be read."""
    return _table(({name: getattr(one, name) for name in schema.PROBLEMS.names} for one in problems), schema.PROBLEMS)


def scalar_groups(scalars: Scalars, source: str, segment_base: int = 0) -> Iterator[pa.Table]:
    """The row groups of a part: rows sorted by tag and step, equal ones as they came, cut at tag boundaries.

    ``segment_base`` is added to the segments, so that a file begun again does not share those of the former one.
    """
    tags, ranks, tag_rows = _ranked(scalars)
    rows, step = sorted_rows(ranks, scalars.step)
    for first, end in row_groups(tag_rows):
        taken = rows[first:end]
        yield scalar_table(
            source=source,
            tags=tags,
            ranks=ranks[taken],
            segment=scalars.segment[taken] + np.int32(segment_base),
            step=step[first:end],
            wall_time=scalars.wall_time[taken],
            value=scalars.value[taken],
        )


def _ranked(scalars: Scalars) -> tuple[list[str], Ranks, list[int]]:
    """The tags that have rows, sorted, for each row the place of its tag among them, and the number of rows of each."""
    # In blocks that stay in the processor's cache, since numpy makes wide indices of narrow ones first.
    blocks = [slice(first, first + _BLOCK_ROWS) for first in range(0, len(scalars), _BLOCK_ROWS)]
    counts = np.zeros(len(scalars.tags), np.int64)
    for block in blocks:
        counts += np.bincount(scalars.tag[block], minlength=len(counts))
    names = {code: storable(scalars.tags[code]) for code in np.flatnonzero(counts).tolist()}
    tags = sorted(set(names.values()))
    place = {tag: number for number, tag in enumerate(tags)}
    rank = np.zeros(len(counts), np.int16 if len(tags) <= _NARROW else np.int32)
    tag_rows = [0] * len(tags)
    for code, name in names.items():
        rank[code] = place[name]
        tag_rows[place[name]] += int(counts[code])
    ranks = np.empty(len(scalars), rank.dtype)
    for block in blocks:
        ranks[block] = rank[scalars.tag[block]]
    return tags, ranks, tag_rows


def sorted_rows(ranks: Ranks, step: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row numbers in the order of tag and step, stably, and the steps in that order.

    Logs are nearly always in the order of their steps, so that sorting by tag alone does: numpy sorts small
    integers by radix, several times faster than by two keys.
    """
    narrow = ranks.astype(np.int16, copy=False) if len(ranks) and int(ranks.max()) < _NARROW else ranks
    rows = np.argsort(narrow, kind="stable")
    sorted_step = step[rows]
    back = np.flatnonzero(sorted_step[1:] < sorted_step[:-1])
    if bool(np.any(ranks[rows[back]] == ranks[rows[back + 1]])):
        rows = np.lexsort((step, ranks))
        sorted_step = step[rows]
    return rows, sorted_step


def scalar_table(
    *,
    source: str,
    tags: Sequence[str],
    ranks: Ranks,
    segment: NDArray[np.int32],
    step: NDArray[np.int64],
    wall_time: NDArray[np.int64],
    value: NDArray[np.float64],
) -> pa.Table:
    """Columns of equal length as a table; ``ranks`` (sorted) index ``tags`` (sorted)."""
    rows = len(ranks)
    # Only the tags in use: every row group carries its dictionary.
    lowest, highest = (int(ranks[0]), int(ranks[-1])) if rows else (0, -1)
    columns = [
        _names(np.zeros(rows, np.int32), [storable(source)]),
        _array(segment, pa.int32()),
        _names(ranks - np.int32(lowest), tags[lowest : highest + 1]),
        _array(step, pa.int64()),
        _array(wall_time, schema.TIME, missing=wall_time == NO_TIME),
        _array(value, pa.float64()),
    ]
    return pa.Table.from_arrays(columns, schema=schema.SCALARS_ON_DISK)


def _names(codes: NDArray[np.int32], names: Sequence[str]) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(codes))
    names_array = arrays.array(names, pa.string())
    return pa.DictionaryArray.from_buffers(schema.NAME, len(codes), [None, data], names_array)


def _array(values: NDArray[Any], kind: pa.DataType, missing: NDArray[np.bool_] | None = None) -> pa.Array:
    # From buffers, since converting through pa.array would copy, and take NaN and NaT for missing values.
    data = pa.py_buffer(np.ascontiguousarray(values))
    if missing is None or not missing.any():
        return pa.Array.from_buffers(kind, len(values), [None, data])
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, data])
