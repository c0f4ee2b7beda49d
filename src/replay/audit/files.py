"""Files for the audit: their records, and their text where they are text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay_parsers import UnknownFormatError, read
from replay_parsers.files import open_bytes
from replay_parsers.records import Problem, ProblemKind, Records

_LARGEST_TEXT = 16 * 2**20


def read_files(paths: Iterable[str | Path]) -> tuple[list[Records], dict[str, str], list[Problem]]:
    """The records of every file, the text of each document by its source's name, and what could not be read."""
    found: list[Records] = []
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            records = read(path)
        except (UnknownFormatError, OSError) as error:
            problems.append(Problem(source=str(path), kind=ProblemKind.UNREADABLE, message=str(error)))
            continue
        found.append(records)
        problems += records.problems
        if not len(records.scalars) or records.events:
            with open_bytes(Path(path)) as stream:
                texts[records.source] = stream.read(_LARGEST_TEXT).decode("utf-8", errors="replace")
    return found, texts, problems
