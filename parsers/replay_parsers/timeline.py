"""Curated timelines: one YAML file that tells one run as incidents, seen, cause, done, then.

The format is documented in logbooks/README.md.  Every fault is told with its line, and all that is sound is kept.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace

from replay_parsers.files import open_bytes
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Problem, ProblemKind, Records
from replay_parsers.timeline_records import build_records

FORMAT = "timeline"

# A timeline is written by hand; the largest of ours is a hundredth of this.
MAXIMUM_BYTES = 8 * 1024 * 1024
# Small, so that little is lost when a compressed file breaks off.
_PIECE_BYTES = 4096


def recognise(sample: Sample) -> float:
    """A timeline begins with a key, and has the keys `run` and `incidents` at its left margin."""
    lines = (line.rstrip() for line in sample.text.lstrip("\ufeff").splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "---", "%"))), "")
    # A page that shows a timeline, such as the format's own description, begins with prose.
    if not re.match(r"[A-Za-z_]+:(\s|$)", first):
        return 0.0
    keys = set(re.findall(r"^(run|incidents):(?:\s|$)", sample.text, re.MULTILINE))
    if len(keys) == 2:
        return 0.95
    # A run block may fill the sample, and a broken file should still be told what it lacks.
    return 0.4 if re.search(r"^(run|incidents):\s*$", sample.text, re.MULTILINE) else 0.0


def read(request: Request) -> Iterator[Records]:
    """Read a whole timeline into one :class:`Records`.  Raises :class:`OSError` when it cannot be opened."""
    data, broken_off = _bytes(request)
    if len(data) > MAXIMUM_BYTES:
        problem = Problem(
            source=request.source,
            kind=ProblemKind.INVALID,
            message=f"a timeline is written by hand and has at most {MAXIMUM_BYTES // 2**20} MiB; this file is larger "
            "and was not read; split it by run",
        )
        yield Records(source=request.source, format=FORMAT, problems=(problem,))
        return
    records = build_records(data, source=request.source, format_name=FORMAT, default_run=request.run)
    yield replace(records, problems=(*broken_off, *records.problems))


def _bytes(request: Request) -> tuple[bytes, tuple[Problem, ...]]:
    """The file's bytes up to one past the limit, and a problem when its compression breaks off."""
    pieces: list[bytes] = []
    size = 0
    with open_bytes(request.path) as stream:
        try:
            while size <= MAXIMUM_BYTES and (piece := stream.read(_PIECE_BYTES)):
                pieces.append(piece)
                size += len(piece)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            problem = Problem(
                source=request.source,
                kind=ProblemKind.CORRUPT,
                offset=size,
                message=f"the gzip stream breaks off ({error}); compress the file anew; what could be read is kept",
            )
            return b"".join(pieces), (problem,)
    return b"".join(pieces), ()


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False)
