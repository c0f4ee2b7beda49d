"""Arrow tables as the DataFrames that queries return, with fixed columns and types even when empty.

Text is pandas' ``str`` (missing: NaN), times are ``datetime64[us, UTC]`` (missing: NaT), whole numbers ``int64``,
or ``Int64`` where they can be missing, measures ``float64``; lists and dictionaries are Python's own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

TIME_TYPE = "datetime64[us, UTC]"


def frame(table: pa.Table, *, whole: Collection[str] = ()) -> pd.DataFrame:
    """``table`` as a DataFrame; the columns in ``whole`` are never missing and become ``int64``."""
    return pd.DataFrame({name: _column(table[name], name in whole) for name in table.column_names})


def _column(column: pa.ChunkedArray, whole: bool) -> pd.Series[Any]:
    kind = column.type
    if pa.types.is_map(kind):
        return pd.Series([None if value is None else dict(value) for value in column.to_pylist()], dtype=object)
    if pa.types.is_list(kind):
        return pd.Series(column.to_pylist(), dtype=object)
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind):
        return pd.Series(column.to_pandas(), dtype="str")
    if pa.types.is_integer(kind):
        return pd.Series(column.to_pandas(integer_object_nulls=True), dtype="int64" if whole else "Int64")
    if pa.types.is_timestamp(kind):
        return pd.Series(column.to_pandas(), dtype=TIME_TYPE)
    return pd.Series(column.to_pandas(), dtype="bool" if pa.types.is_boolean(kind) else "float64")


def categories(codes: NDArray[np.int32], names: Sequence[str]) -> Any:
    """A column of ``names`` by their numbers (-1: missing), as pandas' Categorical."""
    kind = pd.CategoricalDtype(pd.Series(list(names), dtype="str"))
    return pd.Categorical.from_codes(codes, dtype=kind)


def empty(columns: pa.Schema, *, whole: Collection[str] = ()) -> pd.DataFrame:
    """A DataFrame of ``columns`` without rows."""
    return frame(columns.empty_table(), whole=whole)


def conform(given: pd.DataFrame, columns: pa.Schema, what: str) -> pa.Table:
    """``given`` as a table of ``columns``; missing ones are filled with nothing, further ones are refused.

    Raises :class:`ValueError` that names the columns at fault.
    """
    surplus = [str(name) for name in given.columns if name not in columns.names]
    if surplus:
        raise ValueError(f"{what} have no column {', '.join(surplus)}; they have {', '.join(columns.names)}")
    nothing = pd.Series([None] * len(given), dtype=object)
    arrays = [_array(given[one.name] if one.name in given.columns else nothing, one.type) for one in columns]
    return pa.Table.from_arrays(arrays, schema=columns)


def _array(series: pd.Series[Any], kind: pa.DataType) -> pa.Array:
    measures = pa.types.is_floating(kind)
    values: list[Any] = []
    for value in series:
        plain = value.item() if hasattr(value, "item") else value
        # A DataFrame cannot tell a missing measure from NaN, which is data: both are kept as NaN.
        missing = plain is None or plain is pd.NaT or plain is pd.NA or plain != plain
        if missing:
            values.append(math.nan if measures else None)
        else:
            values.append(str(plain) if pa.types.is_string(kind) else plain)
    return pa.array(values, kind)
