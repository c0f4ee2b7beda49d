"""A small log format of our own, so that the store is tested apart from real parsers.

The first line is ``{"toy": "log"}`` or ``{"toy": "document"}``, with ``"run"`` where the file names its run and
``"piece"``, the number of lines a piece.  Every other line is a scalar (``step``, ``tag``, ``value``, ``time`` in
microseconds), an ``event``, a ``run_record``, a ``finding``, a ``problem``, or one of the faults that parsers can have
(``raise``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from replay_parsers.files import open_bytes
from replay_parsers.kinds import KINDS, EventKind
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import (
    NO_TIME,
    Coverage,
    Event,
    Evidence,
    Finding,
    Problem,
    ProblemKind,
    Records,
    Run,
    Scalars,
    TimePrecision,
)


def between_pieces() -> None:
    """What is done between pieces; the tests of several writers put something of theirs in its place."""


def recognise_as(kind: str) -> Any:
    """How sure the parser of ``kind`` is of a file: a bit surer of longer ones, as real parsers are."""

    def recognise(sample: Sample) -> float:
        if not sample.text.startswith(f'{{"toy": "{kind}"'):
            return 0.0
        return 0.7 + 0.01 * min(20, sample.text.count("\n"))

    return recognise


def event_of(row: dict[str, Any], source: str, run: str) -> Event:
    """An event from the fields of a line; kind and event are enough."""
    kind = EventKind(row["kind"])
    fields: dict[str, Any] = {
        "role": KINDS[kind].role,
        "run": run,
        "source": source,
        "locator": "",
        **row,
        "kind": kind,
    }
    fields["evidence"] = Evidence(row.get("evidence", "logged"))
    if "time" in row:
        fields |= {"time": datetime.fromisoformat(row["time"]), "time_precision": TimePrecision.MINUTE}
    return Event(**fields)


def read(request: Request) -> Iterator[Records]:
    """Read line by line; a last line without an end is left for the next reading."""
    with open_bytes(request.path, request.watch) as stream:
        data = b"".join(iter(lambda: stream.read(1000), b""))
    header = json.loads(data.split(b"\n", 1)[0])
    run = header.get("run") or request.run
    lines = data[request.start :].split(b"\n")
    position, rest = request.start, lines.pop()
    per_piece = header.get("piece", 1_000_000)
    state = dict(request.state) or {"segment": 0, "last": {}}
    groups = [lines[first : first + per_piece] for first in range(0, len(lines), per_piece)] or [[]]
    for number, group in enumerate(groups):
        end = position + sum(len(line) + 1 for line in group)
        cut_off = rest if number == len(groups) - 1 else b""
        yield _piece(request, run, group, (position, end), state, cut_off)
        position = end
        between_pieces()


def _piece(
    request: Request, run: str, lines: list[bytes], span: tuple[int, int], state: dict[str, Any], cut_off: bytes
) -> Records:
    events, findings, problems, scalars = [], [], [], []
    described = Run(run=run) if span[0] == 0 and run != request.run else None
    for line in lines:
        row = json.loads(line)
        if "raise" in row:
            raise {"OSError": OSError, "ValueError": ValueError}[row["raise"]](row["message"])
        if "event" in row:
            events.append(event_of(row, request.source, row.pop("run", run)))
        elif "run_record" in row:
            before = described or Run(run=run)
            metadata = {**before.metadata, **row["run_record"].pop("metadata", {})}
            described = replace(before, **row["run_record"], metadata=metadata)
        elif "finding" in row:
            findings.append(Finding(run=run, source=request.source, **row["finding"]))
        elif "problem" in row:
            problems.append(Problem(source=request.source, kind=ProblemKind(row["problem"]), message="as planted"))
        elif "step" in row:
            scalars.append(row)
    if cut_off:
        message = f"{len(cut_off)} bytes of a line without an end"
        problems.append(Problem(source=request.source, kind=ProblemKind.TRUNCATED, message=message, offset=span[1]))
    measured = _scalars(scalars, state)
    return Records(
        source=request.source,
        format="toy",
        start=span[0],
        end=span[1],
        run=described,
        events=tuple(events),
        scalars=measured,
        problems=tuple(problems),
        findings=tuple(findings),
        coverage=Coverage(bytes_read=span[1] - span[0], records=len(events) + len(measured)),
        state=json.loads(json.dumps(state)),
    )


def _scalars(rows: list[dict[str, Any]], state: dict[str, Any]) -> Scalars:
    tags = list(dict.fromkeys(row["tag"] for row in rows))
    segments = []
    for row in rows:
        last = state["last"].get(row["tag"])
        if last is not None and row["step"] < last:
            state["segment"] += 1
            state["last"] = {}
        state["last"][row["tag"]] = row["step"]
        segments.append(state["segment"])
    return Scalars(
        tags=tuple(tags),
        tag=np.array([tags.index(row["tag"]) for row in rows], dtype=np.int32),
        segment=np.array(segments, dtype=np.int32),
        step=np.array([row["step"] for row in rows], dtype=np.int64),
        wall_time=np.array([row.get("time", NO_TIME) for row in rows], dtype=np.int64),
        value=np.array([row["value"] for row in rows], dtype=np.float64),
    )


def measured(rows: list[tuple[str, int, float]]) -> Scalars:
    """Scalars from tag, step and value."""
    tags = list(dict.fromkeys(tag for tag, _, _ in rows))
    return Scalars(
        tags=(*tags, "a tag without rows"),
        tag=np.array([tags.index(tag) for tag, _, _ in rows], dtype=np.int32),
        segment=np.arange(len(rows), dtype=np.int32),
        step=np.array([step for _, step, _ in rows], dtype=np.int64),
        wall_time=np.array([NO_TIME if step % 2 else step * 1000 for _, step, _ in rows], dtype=np.int64),
        value=np.array([value for _, _, value in rows], dtype=np.float64),
    )


LOG = Parser(name="toy-log", recognise=recognise_as("log"), read=read)
DOCUMENT = Parser(name="toy-document", recognise=recognise_as("document"), read=read, appends=False)
PARSERS = (LOG, DOCUMENT)


def lines(*rows: dict[str, Any]) -> str:
    """Rows as the text of a file, without its header."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def log(*rows: dict[str, Any], **header: Any) -> str:
    """The text of a log."""
    return lines({"toy": "log", **header}, *rows)


def document(*rows: dict[str, Any], **header: Any) -> str:
    """The text of a document."""
    return lines({"toy": "document", **header}, *rows)


def losses(first: int, end: int, tag: str = "loss", every: int = 1) -> list[dict[str, Any]]:
    """Scalars of steps ``first`` to ``end`` (exclusive), a second apart."""
    start = 1_600_000_000_000_000
    return [
        {"step": step, "tag": tag, "value": 1 / (1 + step * step), "time": start + step * 1_000_000}
        for step in range(first, end, every)
    ]


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a store, by its path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
