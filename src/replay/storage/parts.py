"""Writing and reading Parquet parts.

A part's name says which bytes of which source it holds and ends in a digest of its own content, so that writing
it twice is the same as writing it once, and nothing that was read from it ever needs to be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replay.storage.errors import PartVanishedError, StoreError

# The largest group of rows: a tag and a step range are found by whole groups, so that smaller ones are found
# faster and larger ones pack better.
ROW_GROUP_ROWS = 200_000

_SCALAR_ENCODING = {"step": "DELTA_BINARY_PACKED", "wall_time": "BYTE_STREAM_SPLIT", "value": "BYTE_STREAM_SPLIT"}
_SCALAR_DICTIONARIES = ["source", "segment", "tag"]


def serialise(table: pa.Table, remarks: Mapping[str, str] | None = None) -> bytes:
    """A small table as the bytes of a Parquet file, with ``remarks`` in its metadata."""
    sink = pa.BufferOutputStream()
    with _writer(sink, table.schema) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        if remarks:
            writer.add_key_value_metadata(dict(remarks))
    return bytes(sink.getvalue())


def serialise_scalars(groups: Iterable[pa.Table], schema: pa.Schema) -> bytes:
    """Scalars as the bytes of a Parquet file, each of ``groups`` one row group."""
    sink = pa.BufferOutputStream()
    write_scalars(groups, schema, sink)
    return bytes(sink.getvalue())


def write_scalars(groups: Iterable[pa.Table], schema: pa.Schema, sink: Any) -> None:
    """Write ``groups`` of scalars to ``sink`` (a path or stream), each as one row group."""
    with _writer(sink, schema, use_dictionary=_SCALAR_DICTIONARIES, column_encoding=_SCALAR_ENCODING) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=max(1, len(group)))


def _writer(sink: Any, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    # Without Arrow's own schema the file is plain Parquet: readers see strings, not Arrow's dictionaries.
    return pq.ParquetWriter(sink, schema, compression="zstd", store_schema=False, **options)


def row_groups(tag_rows: Sequence[int]) -> list[tuple[int, int]]:
    """Row groups ``(first, end)`` for rows sorted by tag, ``tag_rows`` giving the number of rows of each tag.

    Whole tags are packed together up to :data:`ROW_GROUP_ROWS`; a tag with more is cut into groups of its own.

    >>> row_groups([3, 150_000, 100_000, 450_000])
    [(0, 150003), (150003, 250003), (250003, 450003), (450003, 650003), (650003, 700003)]
    """
    groups: list[tuple[int, int]] = []
    first = end = 0
    for rows in tag_rows:
        if end + rows - first > ROW_GROUP_ROWS and end > first:
            groups.append((first, end))
            first = end
        end += rows
        if rows > ROW_GROUP_ROWS:
            groups += [(start, min(start + ROW_GROUP_ROWS, end)) for start in range(first, end, ROW_GROUP_ROWS)]
            first = end
    if end > first:
        groups.append((first, end))
    return groups


def open_part(path: Path, **options: Any) -> pq.ParquetFile:
    """Open one part.

    Raises :class:`PartVanishedError` when it is not there, :class:`StoreError` when it is damaged.
    """
    try:
        return pq.ParquetFile(path, **options)
    except FileNotFoundError:
        raise PartVanishedError(f"{path} is missing; ingest its source again to write it anew") from None
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{path} is damaged ({error}); delete it and ingest its source again") from error


def remark(path: Path, name: str) -> str | None:
    """A remark in the metadata of a part, None when it has none or there is no part.  Raises :class:`StoreError`."""
    if not path.exists():
        return None
    with open_part(path) as part:
        value = (part.metadata.metadata or {}).get(name.encode())
    return None if value is None else str(value, "utf-8")


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of one part.  Raises as :func:`open_part`."""
    with open_part(path) as part:
        return read_groups(path, part, columns=columns)


def read_groups(
    path: Path, part: pq.ParquetFile, *, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """The rows of some row groups (default: all) of an open part.  Raises :class:`StoreError`."""
    wanted = None if columns is None else list(columns)
    try:
        if groups is None:
            return part.read(columns=wanted, use_threads=False)
        return part.read_row_groups(list(groups), columns=wanted, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{path} is damaged ({error}); delete it and ingest its source again") from error
