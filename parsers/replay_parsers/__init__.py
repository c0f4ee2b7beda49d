"""Files that training runs leave behind, read into records.

:func:`read` turns any file that a parser recognises into :class:`Records`; :func:`stream` does the same piece
by piece for files larger than memory; :func:`detect` only says which parser it would be, and what was tried.
"""

from __future__ import annotations

from replay_parsers.detection import Detection, UnknownFormatError, all_parsers, detect, read, stream
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import (
    Coverage,
    Event,
    EventKind,
    Evidence,
    Finding,
    Problem,
    ProblemKind,
    RecordError,
    Records,
    Role,
    Run,
    Scalars,
    TimePrecision,
)

__all__ = [
    "Coverage",
    "Detection",
    "Event",
    "EventKind",
    "Evidence",
    "Finding",
    "Parser",
    "Problem",
    "ProblemKind",
    "RecordError",
    "Records",
    "Request",
    "Role",
    "Run",
    "Sample",
    "Scalars",
    "TimePrecision",
    "UnknownFormatError",
    "all_parsers",
    "detect",
    "read",
    "stream",
]
