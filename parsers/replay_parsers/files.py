"""Opening files as they come: plain or gzip'd, with a look at their beginning."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from replay_parsers.parser import Sample

SAMPLE_BYTES = 65_536
_PIECE_BYTES = 4_096
GZIP_MAGIC = b"\x1f\x8b"


def open_bytes(path: Path) -> BinaryIO:
    """Open ``path`` for reading bytes, decompressing gzip by its magic number and not by its name.

    Raises :class:`OSError` when the file cannot be opened.
    """
    raw = path.open("rb")
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
