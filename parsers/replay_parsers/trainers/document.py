"""Logs that are documents, rewritten as a whole and read as a whole: their pieces of records.

A document is read from its beginning each time; what a changed one says replaces what it said before.
"""

from __future__ import annotations

import gzip
import zlib

from replay_parsers.files import open_bytes
from replay_parsers.parser import Request
from replay_parsers.records import Problem, ProblemKind, Records, Run
from replay_parsers.trainers.reading import Book

LARGEST = 1 << 30
"""A larger document is not held in memory."""


def whole_document(request: Request) -> tuple[str, list[Problem]]:
    """The text of a document, and what stood in the way of reading all of it.

    Raises :class:`OSError` when the file cannot be opened or read.
    """
    parts: list[bytes] = []
    problems: list[Problem] = []
    size = 0
    with open_bytes(request.path) as stream:
        try:
            # A longer read would lose what could be decompressed before a break.
            while part := stream.read1(1 << 12) if isinstance(stream, gzip.GzipFile) else stream.read(1 << 20):
                size += len(part)
                if size > LARGEST:
                    message = f"the document is larger than {LARGEST:,} bytes; give it as JSON lines instead"
                    problems.append(problem(request, ProblemKind.UNREADABLE, message))
                    return "", problems
                parts.append(part)
        except EOFError:
            problems.append(problem(request, ProblemKind.TRUNCATED, "the gzip stream breaks off", offset=size))
        except (gzip.BadGzipFile, zlib.error) as error:
            problems.append(problem(request, ProblemKind.CORRUPT, f"the gzip stream is damaged ({error})", offset=size))
    data = b"".join(parts)
    wide = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}.get(data[:2])
    return (data.decode(wide, "replace") if wide else data.decode("utf-8-sig", "replace")), problems


def problem(
    request: Request, kind: ProblemKind, message: str, *, line: int | None = None, offset: int | None = None
) -> Problem:
    """A problem with the document."""
    return Problem(source=request.source, kind=kind, message=message, line=line, offset=offset)


def document_records(request: Request, format_name: str, book: Book, size: int, problems: list[Problem]) -> Records:
    """Everything a document says as one piece; ``size`` is its length in bytes."""
    scalars, events = book.scalars.take(), book.events.take()
    return Records(
        source=request.source,
        format=format_name,
        start=0,
        end=size,
        run=Run(run=request.run, sources=(request.source,), metadata=dict(book.metadata)),
        events=events,
        scalars=scalars,
        problems=(*problems, *book.take_problems()),
        findings=book.take_findings(),
        coverage=book.coverage(size, 0, len(scalars) + len(events)),
    )
