"""Lists of plain values as Arrow arrays, without what pyarrow loads to convert them by itself.

``pa.array`` imports pandas to find out whether it was handed some of its objects, which takes as long as decoding a
large file.  Only the types in :mod:`replay.storage.schema` are known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_NUMBERS = {
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint64(): np.uint64,
    pa.float64(): np.float64,
}


def table(rows: Iterable[Mapping[str, Any]], columns: pa.Schema) -> pa.Table:
    """``rows`` as a table of ``columns``; what a row lacks is missing."""
    held = list(rows)
    arrays = [array([row.get(one.name) for row in held], one.type) for one in columns]
    return pa.Table.from_arrays(arrays, schema=columns)


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """``values`` (None: missing) as an array of ``kind``.

    Raises :class:`TypeError` for a type of array, and as Python and numpy do for a value, that it cannot hold.
    """
    missing = np.array([value is None for value in values], dtype=bool)
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes()) if missing.any() else None
    if pa.types.is_string(kind):
        return _strings(["" if value is None else value for value in values], kind, valid)
    if pa.types.is_boolean(kind):
        bits = np.packbits(np.array([bool(value) for value in values], dtype=bool), bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(bits.tobytes())])
    if pa.types.is_timestamp(kind):
        moments = [0 if value is None else (value - _EPOCH) // _MICROSECOND for value in values]
        return _numbers(np.array(moments, dtype=np.int64), kind, valid)
    if kind in _NUMBERS:
        return _numbers(
            np.array([0 if value is None else value for value in values], dtype=_NUMBERS[kind]), kind, valid
        )
    if pa.types.is_struct(kind):
        children = [array([None if value is None else value[one.name] for value in values], one.type) for one in kind]
        return pa.Array.from_buffers(kind, len(values), [valid], children=children)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return _lists(values, kind, valid)
    raise TypeError(f"no array of {kind} is made here")


def _numbers(numbers: Any, kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(np.ascontiguousarray(numbers))])


def _strings(values: Sequence[str], kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    encoded = [str(value).encode() for value in values]
    offsets = _offsets([len(value) for value in encoded])
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _lists(values: Sequence[Any], kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    items = [[] if value is None else list(value) for value in values]
    offsets = pa.py_buffer(_offsets([len(value) for value in items]))
    flat = [item for value in items for item in value]
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
        held = array([{"key": key, "value": value} for key, value in flat], entry)
    else:
        held = array(flat, kind.value_type)
    return pa.Array.from_buffers(kind, len(values), [valid, offsets], children=[held])


def _offsets(lengths: Sequence[int]) -> bytes:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int32).tobytes()
