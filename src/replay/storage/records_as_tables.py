"""Records of the parsers as Arrow tables, in the columns of :mod:`replay.storage.schema`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replay.storage import arrays, schema
from replay.storage.parts import row_groups
from replay.storage.row_order import Ranks, Room, sort
from replay.storage.text import storable
from replay_parsers.records import NO_TIME, Event, Finding, Problem, Run, Scalars


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


def scalar_groups(scalars: Scalars, source: str, segment_base: int = 0, room: Room | None = None) -> Iterator[pa.Table]:
    """The row groups of a part: rows sorted by tag and step, equal ones as they came, cut at tag boundaries.

    ``segment_base`` is added to the segments, so that a file begun again does not share those of the former one.
    The tables lie in ``room``, where that is given: they are valid until it is used again.
    """
    rows = sort(scalars, Room() if room is None else room)
    for first, end in row_groups(rows.tag_rows):
        yield scalar_table(
            source=source,
            tags=rows.tags,
            ranks=rows.ranks[first:end],
            segment=rows.segment[first:end] + np.int32(segment_base),
            step=rows.step[first:end],
            wall_time=rows.wall_time[first:end],
            value=rows.value[first:end],
        )


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
