"""Reading small logs in tests, and looking things up in what was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from replay_parsers.detection import join
from replay_parsers.parser import Parser, Request
from replay_parsers.records import Event, Records

ReadText = Callable[..., Records]


def read_path(parser: Parser, path: Path, run: str = "run") -> Records:
    """Read a whole file with a parser."""
    return join(list(parser.read(Request(path=path, source=path.name, run=run))))


def read_growing(parser: Parser, path: Path, content: bytes, cuts: list[int]) -> list[Records]:
    """Read a file each time it has grown to one of ``cuts`` bytes, and at its full length."""
    pieces: list[Records] = []
    start, state = 0, {}
    for length in [*sorted(cuts), len(content)]:
        path.write_bytes(content[:length])
        for piece in parser.read(Request(path=path, source=path.name, run="run", start=start, state=state)):
            assert piece.start == start
            pieces.append(piece)
            start, state = piece.end, dict(piece.state)
    return pieces


def rows(records: Records) -> list[tuple[str, int, int, int, float | str]]:
    """Every row as (tag, segment, step, wall time, value), NaN written as text so that rows compare."""
    scalars = records.scalars
    return [
        (scalars.tags[tag], segment, step, time, "nan" if value != value else value)
        for tag, segment, step, time, value in zip(
            scalars.tag.tolist(),
            scalars.segment.tolist(),
            scalars.step.tolist(),
            scalars.wall_time.tolist(),
            scalars.value.tolist(),
            strict=True,
        )
    ]


def values(records: Records, tag: str) -> dict[int, float]:
    """The values of one tag by step; of a step told twice, the last."""
    if tag not in records.scalars.tags:
        return {}
    chosen = records.scalars.tag == records.scalars.tags.index(tag)
    return dict(zip(records.scalars.step[chosen].tolist(), records.scalars.value[chosen].tolist(), strict=True))


def of_kind(records: Records, kind: str) -> list[Event]:
    """The events of one kind, in order."""
    return [event for event in records.events if event.kind == kind]
