"""Opening files as they come: plain or gzip'd, with a look at their beginning."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from replay_parsers.parser import Sample, Watch

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SAMPLE_BYTES = 65_536
_PIECE_BYTES = 4_096
GZIP_MAGIC = b"\x1f\x8b"


class _WatchedFile(io.FileIO):
    """A file that tells what is read of it."""

    def __init__(self, path: Path, watch: Watch) -> None:
        super().__init__(path)
        self._watch = watch

    def readinto(self, buffer: WriteableBuffer) -> int:
        start = self.tell() if self.seekable() else None
        count = super().readinto(buffer)
        if start is not None:
            self._watch(start, memoryview(buffer)[:count])
        return count


def open_bytes(path: Path, watch: Watch | None = None) -> BinaryIO:
    """Open ``path`` for reading bytes, decompressing gzip by its magic number and not by its name.

    ``watch`` is told what is read of it, unless it is a pipe.  Raises :class:`OSError` when the file cannot be opened.
    """
    raw: BinaryIO = path.open("rb") if watch is None else io.BufferedReader(_WatchedFile(path, watch))
    # A pipe cannot be looked into and put back, so it is taken as it is.
    if raw.seekable():
        magic = raw.read(2)
        raw.seek(0)
        if magic == GZIP_MAGIC:
            return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    return raw


def sample(path: Path) -> Sample:
    """The beginning of ``path``.  A gzip stream that breaks off, or is damaged, gives what could be decompressed.

    Raises :class:`OSError` when the file cannot be opened.
    """
    head = b""
    with open_bytes(path) as stream:
        try:
            while len(head) <= SAMPLE_BYTES:
                # What one read decompresses before it meets damage is lost, so they are short.
                piece = stream.read1(_PIECE_BYTES) if hasattr(stream, "read1") else stream.read(1)
                if not piece:
                    break
                head += piece
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return Sample(path=path, head=head[:SAMPLE_BYTES], whole=False)
    return Sample(path=path, head=head[:SAMPLE_BYTES], whole=len(head) <= SAMPLE_BYTES)
