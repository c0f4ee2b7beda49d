"""Files for the audit: their records, and their text where they are text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from replay.history.audit.clock_model import PACE_BASIS
from replay_parsers import UnknownFormatError, read
from replay_parsers.files import open_bytes
from replay_parsers.records import BatchStage, Problem, ProblemKind, Records, Scalars

_LARGEST_TEXT = 16 * 2**20
_DOCUMENTS = (".md", ".yaml", ".yml", ".txt")
_ELAPSED = re.compile(r"elapsed[ _]time[ _]per[ _]iteration[ _]\((?:ms|s)\)")
_ENOUGH = 3


def read_files(paths: Iterable[str | Path]) -> tuple[list[Records], dict[str, str], list[Problem]]:
    """The records of every file, the text of each document by its source's name, and what could not be read."""
    found: list[Records] = []
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for path in _expanded(paths, problems):
        try:
            records = read(path)
        except UnknownFormatError as error:
            problems.append(Problem(source=str(path), kind=ProblemKind.UNREADABLE, message=_advice(path, error)))
            continue
        except OSError as error:
            problems.append(Problem(source=str(path), kind=ProblemKind.UNREADABLE, message=str(error)))
            continue
        found.append(_paced(records))
        problems += records.problems
        if not len(records.scalars) or records.events:
            with open_bytes(Path(path)) as stream:
                texts[records.source] = stream.read(_LARGEST_TEXT).decode("utf-8", errors="replace")
    return found, texts, problems


def _advice(path: Path, error: UnknownFormatError) -> str:
    """Why a file cannot be audited; prose is told what makes it a logbook."""
    if path.suffix not in (".md", ".txt"):
        return str(error)
    with open_bytes(path) as stream:
        head = stream.read(4096)
    if b"\0" in head or not head.strip():
        return str(error)
    return (
        "it is prose without entries, and only what is told entry by entry can be checked: begin each with its date, "
        "as a heading or bullet such as `## 2024-05-06 14:00 Node down`"
    )


def _expanded(paths: Iterable[str | Path], problems: list[Problem]) -> Iterator[Path]:
    """Files as they are given, and for each folder the documents in it."""
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        documents = sorted(one for one in path.rglob("*") if one.suffix in _DOCUMENTS and one.is_file())
        if not documents:
            message = f"no document in this folder: it has no file that ends in {', '.join(_DOCUMENTS)}"
            problems.append(Problem(source=str(path), kind=ProblemKind.UNREADABLE, message=message))
        yield from documents


def _paced(records: Records) -> Records:
    """``records`` with the time of a step from log lines that the document quotes, where its words do not give it.

    Quoted lines come from different stages of the run: the time is that of the largest batch, at which training spends
    most of its steps, and holds from the first step at which it was quoted.
    """
    if records.run is None or records.run.seconds_per_step or not len(records.scalars):
        return records
    scalars = records.scalars
    tags = {name: code for code, name in enumerate(scalars.tags)}
    elapsed = next((name for name in tags if _ELAPSED.match(name)), None)
    if elapsed is None:
        return records
    rows = scalars.tag == tags[elapsed]
    steps, times = scalars.step[rows], scalars.value[rows] / (1000 if "(ms)" in elapsed else 1)
    first, largest = 0, 0.0
    if "global batch size" in tags:
        sizes = dict(zip(*_of(scalars, tags["global batch size"]), strict=True))
        largest = max(sizes.values(), default=0.0)
        full = np.array([sizes.get(step) == largest for step in steps.tolist()], dtype=bool)
        steps, times = steps[full], times[full]
        first = int(steps.min()) if len(steps) else 0
    times = times[np.isfinite(times) & (times > 0)]
    if len(times) < _ENOUGH:
        return records
    batch = (BatchStage(from_step=first, samples=int(largest)),) if first and largest else records.run.batch_schedule
    described = replace(
        records.run,
        seconds_per_step=round(float(np.median(times)), 1),
        batch_schedule=batch,
        metadata={**records.run.metadata, PACE_BASIS: f"the median of {len(times)} quoted log lines"},
    )
    return replace(records, run=described)


def _of(scalars: Scalars, tag: int) -> tuple[list[int], list[float]]:
    rows = scalars.tag == tag
    return scalars.step[rows].tolist(), scalars.value[rows].tolist()
