"""Writing and reading Parquet parts.

A part's name says which bytes of which source it holds and ends in a digest of its own content, so that writing
it twice is the same as writing it once, and nothing that was read from it ever needs to be read again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replay.storage.errors import DamagedPartError, PartVanishedError, StoreError
from replay.storage.layout import digest

# The largest group of rows: a tag and a step range are found by whole groups, so that smaller ones are found
# faster and larger ones pack better.
ROW_GROUP_ROWS = 200_000

_SCALAR_OPTIONS = {
    "use_dictionary": ["source", "tag"],
    "column_encoding": {
        "segment": "PLAIN",
        "step": "DELTA_BINARY_PACKED",
        "wall_time": "DELTA_BINARY_PACKED",
        "value": "BYTE_STREAM_SPLIT",
    },
    # Of the columns by which groups of rows are passed over; Arrow takes as long for them as for packing the column.
    "write_statistics": ["tag", "step", "wall_time"],
    # Arrow goes through a whole dictionary once a batch.
    "write_batch_size": 1 << 16,
}


VERIFIED_WHOLE = 8 << 20
"""Parts up to so many bytes are held against their digest before anything is believed of them; of larger ones the
checksum of each page that is read."""

_NAMED_BY_DIGEST = re.compile(r"(?:^|-)([0-9a-f]{16})\.parquet$")
# Stands before the footer of a part whose name says nothing of its content; other readers do not look there.
_SEAL = b"replay-digest:"
_DIGEST_BYTES = 16
# Parquet ends with the length of its footer and these letters.
_LENGTH_BYTES, _MAGIC = 4, b"PAR1"


def serialise(table: pa.Table, remarks: Mapping[str, str] | None = None) -> bytes:
    """A small table as the bytes of a Parquet file, with ``remarks`` in its metadata.

    One with remarks is named by what it is about, not by its content, and bears the digest of that within.
    """
    sink = pa.BufferOutputStream()
    with _writer(sink, table.schema) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        if remarks:
            writer.add_key_value_metadata(dict(remarks))
    data = bytes(sink.getvalue())
    return _sealed(data) if remarks else data


def _sealed(data: bytes) -> bytes:
    footer = _footer_start(data)
    return data[:footer] + _SEAL + digest(data).encode() + data[footer:]


def _footer_start(data: bytes) -> int:
    """Where the footer begins in a whole Parquet file; an impossible place when it is damaged."""
    end = len(data) - len(_MAGIC) - _LENGTH_BYTES
    return end - int.from_bytes(data[end : end + _LENGTH_BYTES], "little")


def serialise_scalars(groups: Iterable[pa.Table], schema: pa.Schema) -> memoryview:
    """Scalars as the bytes of a Parquet file, each of ``groups`` one row group."""
    sink = pa.BufferOutputStream()
    write_scalars(groups, schema, sink)
    return memoryview(sink.getvalue()).cast("B")


def write_scalars(groups: Iterable[pa.Table], schema: pa.Schema, sink: Any) -> None:
    """Write ``groups`` of scalars to ``sink``, a stream, each as one row group."""
    with _writer(sink, schema, **_SCALAR_OPTIONS) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=max(1, len(group)))


def _writer(sink: Any, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    # Without Arrow's own schema the file is plain Parquet: readers see strings, not Arrow's dictionaries.
    return pq.ParquetWriter(sink, schema, compression="zstd", store_schema=False, write_page_checksum=True, **options)


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


class _Part(pq.ParquetFile):  # type: ignore[misc]
    """One part, whose file is closed with it."""

    def close(self, force: bool = True) -> None:
        super().close(force=force)


@contextmanager
def faults_told(path: Path) -> Iterator[None]:
    """Tell what goes wrong with the part at ``path`` in words.

    Raises :class:`PartVanishedError` when it is not there, :class:`DamagedPartError` when it is damaged, and another
    :class:`StoreError` when it may be sound, but cannot be read.
    """
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError:
        raise PartVanishedError(path, f"{path} is missing; ingest its source again to write it anew") from None
    except MemoryError as error:
        raise StoreError(f"{path} cannot be read: it is damaged, or there is too little memory ({error})") from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        # What Arrow finds wrong with the content of a file is an OSError too, but not one of the system.
        if isinstance(error, OSError) and error.errno is not None:
            raise StoreError(f"{path}: cannot be read: {os.strerror(error.errno)}") from error
        raise DamagedPartError(path, f"{path} is damaged ({error}); {_advice(path)}") from error


def _advice(path: Path) -> str:
    if path.parent.name == "ledger":
        return (
            "it tells of up to 64 sources, or of all after compaction: delete it and ingest all sources again; "
            "what is stored of them is found and taken over"
        )
    if path.parent.parent.name in ("flags", "effects"):
        return "delete it and compute it again"
    return "delete it and ingest its source again"


def open_part(path: Path, **options: Any) -> pq.ParquetFile:
    """Open one part.  Raises as :func:`faults_told`."""
    verify(path)
    with faults_told(path):
        # A file, not a path: Arrow would take a relative path with a colon in it for a URI.
        return _Part(pa.OSFile(os.fsencode(path)), page_checksum_verification=True, **options)


def verify(path: Path) -> None:
    """Hold a small part against its digest, once as long as the file stays the same.  Raises as :func:`faults_told`."""
    with faults_told(path):
        now = path.stat()
        if now.st_size <= VERIFIED_WHOLE and path.suffix == ".parquet":
            _verify(path, now.st_size, now.st_mtime_ns, now.st_ino)


def fault(path: Path) -> str | None:
    """What is wrong with a part, None when it is sound as far as can be told without reading large ones."""
    try:
        verify(path)
        if path.stat().st_size > VERIFIED_WHOLE:
            open_part(path).close()
    except (DamagedPartError, PartVanishedError) as error:
        return str(error)
    except (StoreError, OSError):
        return None  # it cannot be looked at now, but may be sound
    return None


@lru_cache(maxsize=1 << 16)
def _verify(path: Path, _size: int, _mtime_ns: int, _inode: int) -> None:
    data = path.read_bytes()
    named = _NAMED_BY_DIGEST.search(path.name)
    if named:
        sound = digest(data) == named[1]
    else:
        footer = _footer_start(data)
        seal = footer - _DIGEST_BYTES - len(_SEAL)
        told = data[footer - _DIGEST_BYTES : footer] if seal > 0 else b""
        sealed = seal > 0 and data[seal : seal + len(_SEAL)] == _SEAL
        sound = sealed and digest(data[:seal] + data[footer:]).encode() == told
    if not sound:
        raise ValueError("its content is not what was written")


def remark(path: Path, name: str) -> str | None:
    """A remark in the metadata of a part, None when it has none or there is no part.  Raises :class:`StoreError`."""
    if not path.exists():
        return None
    with open_part(path) as part, faults_told(path):
        value = (part.metadata.metadata or {}).get(name.encode())
        return None if value is None else str(value, "utf-8")


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of one part.  Raises as :func:`open_part`."""
    with open_part(path) as part:
        return read_groups(path, part, columns=columns)


def read_groups(
    path: Path, part: pq.ParquetFile, *, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """The rows of some row groups (default: all) of an open part.  Raises as :func:`faults_told`."""
    wanted = None if columns is None else list(columns)
    with faults_told(path):
        if groups is None:
            return part.read(columns=wanted, use_threads=False)
        return part.read_row_groups(list(groups), columns=wanted, use_threads=False)
