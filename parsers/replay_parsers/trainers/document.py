"""Logs that are documents, rewritten as a whole and read as a whole: their bytes, and their pieces of records.

A document is read from its beginning each time; what a changed one says replaces what it said before.  It may be
longer than memory is wide, so it is read twice: once to see what it holds, and once to take it in.
"""

from __future__ import annotations

import codecs
import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import BinaryIO, cast

from replay_parsers.files import open_bytes
from replay_parsers.parser import Request
from replay_parsers.records import Problem, ProblemKind, Records, Run
from replay_parsers.trainers.reading import Book

_PIECE_BYTES = 1 << 18
_PACKED_PIECE_BYTES = 1 << 12


class Document:
    """The text of a document, as often as it is asked for, and what stands in the way of reading all of it.

    Raises :class:`OSError` when the file cannot be opened or read.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._stream = open_bytes(request.path)
        self.size = 0
        """How many bytes the reading under way has read so far, decompressed."""
        self.problems: list[Problem] = []
        """Of the last reading."""
        if not self._stream.seekable():
            # A pipe can be read only once.
            copy = tempfile.TemporaryFile()  # noqa: SIM115
            with self._stream as pipe:
                shutil.copyfileobj(pipe, copy)
            self._stream = cast(BinaryIO, copy)

    def __enter__(self) -> Document:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def text(self) -> Iterator[str]:
        """The text from its beginning, piece by piece."""
        self._stream.seek(0)
        self.size, self.problems = 0, []
        decoder: codecs.IncrementalDecoder | None = None
        for piece in self._bytes():
            self.size += len(piece)
            if decoder is None:
                wide = piece[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
                decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")("replace")
            yield decoder.decode(piece)
        if decoder is not None:
            yield decoder.decode(b"", final=True)

    def _bytes(self) -> Iterator[bytes]:
        stream = self._stream
        try:
            # A longer read would lose what could be decompressed before a break.
            while piece := (
                stream.read1(_PACKED_PIECE_BYTES) if isinstance(stream, gzip.GzipFile) else stream.read(_PIECE_BYTES)
            ):
                yield piece
        except EOFError:
            self._problem(ProblemKind.TRUNCATED, "the gzip stream breaks off")
        except (gzip.BadGzipFile, zlib.error) as error:
            self._problem(ProblemKind.CORRUPT, f"the gzip stream is damaged ({error})")

    def _problem(self, kind: ProblemKind, message: str) -> None:
        self.problems.append(problem(self._request, kind, message, offset=self.size))


def problem(
    request: Request, kind: ProblemKind, message: str, *, line: int | None = None, offset: int | None = None
) -> Problem:
    """A problem with the document."""
    return Problem(source=request.source, kind=kind, message=message, line=line, offset=offset)


def document_records(
    request: Request, format_name: str, book: Book, start: int, end: int, problems: list[Problem]
) -> Records:
    """What a document says from byte ``start`` to ``end``, and what has been told since the last piece."""
    scalars, events = book.take_scalars(), book.events.take()
    return Records(
        source=request.source,
        format=format_name,
        start=start,
        end=end,
        run=Run(run=request.run, sources=(request.source,), metadata=dict(book.metadata)),
        events=events,
        scalars=scalars,
        problems=(*problems, *book.take_problems()),
        findings=book.take_findings(),
        coverage=book.coverage(end - start, 0, len(scalars) + len(events)),
    )
