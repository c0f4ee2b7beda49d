"""Which parser a file belongs to, told by its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from replay_parsers.files import sample
from replay_parsers.parser import ENTRY_POINT_GROUP, Parser, Request, Sample
from replay_parsers.records import Coverage, Records, Scalars

# Each module defines PARSER.  They are named rather than imported so that reading a text log does not pay for
# the compiler that the event-file decoder brings.
BUILT_IN = (
    "replay_parsers.tensorboard",
    "replay_parsers.timeline",
    "replay_parsers.chronicles.glm130b",
    "replay_parsers.chronicles.bloom",
    "replay_parsers.chronicles.opt",
    "replay_parsers.chronicles.general",
    "replay_parsers.trainers.megatron",
    "replay_parsers.trainers.fairseq",
    "replay_parsers.trainers.huggingface",
    "replay_parsers.trainers.trainer_state",
    "replay_parsers.trainers.torchtitan",
    "replay_parsers.trainers.olmo",
    "replay_parsers.trainers.nemo",
    "replay_parsers.trainers.nanotron",
    "replay_parsers.trainers.nanogpt",
    "replay_parsers.trainers.deepspeed",
    "replay_parsers.trainers.json_lines",
    "replay_parsers.trainers.csv_log",
    "replay_parsers.trainers.key_value",
)

CONFIDENT_ENOUGH = 0.3


class UnknownFormatError(ValueError):
    """No parser recognises the file.  The message says what was tried and how sure each parser was."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The parser that is most sure of a file, and what every other one said (``tried``: name to confidence)."""

    parser: Parser
    confidence: float
    tried: Mapping[str, float]


@cache
def all_parsers() -> tuple[Parser, ...]:
    """The built-in parsers, then those that other packages provide by entry point."""
    built_in = [import_module(name).PARSER for name in BUILT_IN]
    provided = [entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP)]
    return (*built_in, *provided)


def detect(path: Path | Sample) -> Detection:
    """Find the parser for a file by its content.

    Raises :class:`UnknownFormatError` when no parser is sure enough, :class:`OSError` when the file cannot be
    opened.
    """
    seen = path if isinstance(path, Sample) else sample(Path(path))
    tried = {parser.name: parser.recognise(seen) for parser in all_parsers()}
    best = max(all_parsers(), key=lambda parser: tried[parser.name])
    if tried[best.name] < CONFIDENT_ENOUGH:
        order = sorted(tried.items(), key=lambda item: -item[1])
        said = ", ".join(f"{name} {confidence:.2f}" for name, confidence in order)
        raise UnknownFormatError(f"{seen.path}: no parser recognises it (tried {said})")
    return Detection(best, tried[best.name], tried)


def stream(
    path: str | Path,
    *,
    run: str | None = None,
    source: str | None = None,
    parser: Parser | None = None,
    start: int = 0,
    state: Mapping[str, Any] | None = None,
) -> Iterator[Records]:
    """Read ``path`` piece by piece: adjacent byte ranges, in order.

    ``run`` names the run where the file does not (default: the name of its folder for event files, else the
    file's own name); ``parser`` skips detection; ``start`` and ``state`` resume an earlier reading.

    Raises :class:`UnknownFormatError` and :class:`OSError`.
    """
    path = Path(path)
    chosen = parser or detect(path).parser
    request = Request(path=path, source=source or str(path), run=run or path.stem, start=start, state=dict(state or {}))
    return chosen.read(request)


def read(path: str | Path, *, run: str | None = None) -> Records:
    """Read the whole of ``path`` into one :class:`Records`.

    Raises :class:`UnknownFormatError` and :class:`OSError`.
    """
    return join(list(stream(path, run=run)))


def join(pieces: list[Records]) -> Records:
    """Make one :class:`Records` of adjacent ones of the same source.

    Raises :class:`ValueError` when there are none.
    """
    if not pieces:
        raise ValueError("nothing to join: a parser gives at least one piece, even of an empty file")
    other: dict[str, int] = {}
    for piece in pieces:
        for name, count in piece.coverage.other.items():
            other[name] = other.get(name, 0) + count
    return replace(
        pieces[-1],
        start=pieces[0].start,
        run=next((piece.run for piece in pieces if piece.run), None),
        events=tuple(event for piece in pieces for event in piece.events),
        scalars=Scalars.concatenate(piece.scalars for piece in pieces),
        problems=tuple(problem for piece in pieces for problem in piece.problems),
        findings=tuple(finding for piece in pieces for finding in piece.findings),
        coverage=Coverage(
            bytes_read=sum(piece.coverage.bytes_read for piece in pieces),
            records=sum(piece.coverage.records for piece in pieces),
            not_understood=sum(piece.coverage.not_understood for piece in pieces),
            lost_bytes=sum(piece.coverage.lost_bytes for piece in pieces),
            lost_records=sum(piece.coverage.lost_records for piece in pieces),
            examples=tuple(example for piece in pieces for example in piece.coverage.examples)[:5],
            other=other,
        ),
    )
