"""Which parser a file belongs to, told by its content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from replay_parsers import unrecognised
from replay_parsers.clock import checked
from replay_parsers.files import sample
from replay_parsers.parser import ENTRY_POINT_GROUP, Parser, Request, Sample
from replay_parsers.records import Coverage, Records, Run, Scalars

# Each module defines PARSER.  They are named rather than imported so that reading a text log does not pay for
# the compiler that the event-file decoder brings.
BUILT_IN = (
    "replay_parsers.tensorboard",
    "replay_parsers.timeline",
    "replay_parsers.chronicles.glm130b",
    "replay_parsers.chronicles.bloom",
    "replay_parsers.chronicles.opt",
    "replay_parsers.trainers.megatron",
    "replay_parsers.trainers.fairseq",
    "replay_parsers.trainers.huggingface",
    "replay_parsers.trainers.trainer_state",
    "replay_parsers.trainers.torchtitan",
    "replay_parsers.trainers.olmo",
    "replay_parsers.trainers.composer",
    "replay_parsers.trainers.composer_file",
    "replay_parsers.trainers.nemo",
    "replay_parsers.trainers.nanotron",
    "replay_parsers.trainers.nanogpt",
    "replay_parsers.trainers.clu",
    "replay_parsers.trainers.deepspeed",
    "replay_parsers.trainers.json_lines",
    "replay_parsers.trainers.csv_log",
    "replay_parsers.trainers.key_value",
    # Last, since it takes the longest to say no, and is asked only where no other is as sure as it could be.
    "replay_parsers.chronicles.general",
)

# These bring vocabularies that take longer to load than most logs take to read: they are loaded only for a file that
# can be a text with headings, bullets, tables or dates.
PROSE = {
    "replay_parsers.chronicles.glm130b": "glm130b-chronicle",
    "replay_parsers.chronicles.bloom": "bigscience-chronicle",
    "replay_parsers.chronicles.opt": "opt-chronicle",
    "replay_parsers.chronicles.general": "markdown-logbook",
}
_PROSE = re.compile(rb"^[ \t]{0,12}(?:[#*|=>+-]|\d{1,4}[-./]\d|\d{4}\xe5\xb9\xb4|\d{1,2}\xe6\x9c\x88)", re.MULTILINE)

CONFIDENT_ENOUGH = 0.3
CERTAIN = 1.0
SUREST_OF_ANY_LOGBOOK = 0.6


class UnknownFormatError(ValueError):
    """No parser recognises the file.  The message says how many were tried, and which of them were in doubt.

    ``tried`` holds the confidence of each.
    """

    def __init__(self, message: str, tried: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.tried: Mapping[str, float] = tried or {}


@dataclass(frozen=True, slots=True)
class Detection:
    """The parser that is most sure of a file, and what those said that were asked (``tried``: name to confidence)."""

    parser: Parser
    confidence: float
    tried: Mapping[str, float]


def all_parsers() -> Iterator[Parser]:
    """The built-in parsers, then those that other packages provide by entry point.

    Each is imported when its turn comes: whoever has found the right one pays for no others.
    """
    for name in BUILT_IN:
        yield _built_in(name)
    yield from _provided()


@cache
def _built_in(name: str) -> Parser:
    if name in PROSE:
        return _prose(name)
    parser: Parser = import_module(name).PARSER
    return parser


def _prose(module: str) -> Parser:
    """The parser in ``module``, which is loaded when it is needed."""

    def recognise(sample: Sample) -> float:
        wide = b"\0" in sample.head[:64] or sample.head.startswith((b"\xff\xfe", b"\xfe\xff"))
        if not wide and _PROSE.search(sample.head.removeprefix(b"\xef\xbb\xbf")) is None:
            return 0.0
        return float(import_module(module).PARSER.recognise(sample))

    def read(request: Request) -> Iterator[Records]:
        records: Iterator[Records] = import_module(module).PARSER.read(request)
        return records

    surest = SUREST_OF_ANY_LOGBOOK if module.endswith(".general") else 1.0
    return Parser(name=PROSE[module], recognise=recognise, read=read, appends=False, surest=surest)


@cache
def _provided() -> tuple[Parser, ...]:
    from importlib.metadata import entry_points  # takes longer to load than most files to read

    return tuple(entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP))


def detect(path: Path | Sample) -> Detection:
    """Find the parser for a file by its content: the surest, of equally sure ones the first.

    Parsers are asked in turn until one is certain; one that could at most be as sure as another is not asked.

    Raises :class:`UnknownFormatError` when no parser is sure enough, :class:`OSError` when the file cannot be
    opened.
    """
    seen = path if isinstance(path, Sample) else sample(Path(path))
    tried: dict[str, float] = {}
    best: tuple[float, Parser] | None = None
    for parser in all_parsers():
        if best is not None and best[0] >= parser.surest:
            continue
        confidence = tried[parser.name] = parser.recognise(seen)
        if best is None or confidence > best[0]:
            best = confidence, parser
        if confidence >= CERTAIN:
            break
    if best is None or best[0] < CONFIDENT_ENOUGH:
        raise UnknownFormatError(f"{seen.path}: {unrecognised.reason(seen, tried)}", tried)
    return Detection(best[1], best[0], tried)


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
    return checked(chosen.read(request), request.state, request.run)


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
        run=_joined_run([piece.run for piece in pieces if piece.run]),
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


def _joined_run(told: list[Run]) -> Run | None:
    """What the pieces say of the run as one: a later word counts, metadata and sources add up."""
    if not told:
        return None
    known: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    sources: dict[str, None] = {}
    for run in told:
        said = {one.name: getattr(run, one.name) for one in fields(Run)}
        known |= {name: value for name, value in said.items() if value not in (None, "", ())}
        metadata |= run.metadata
        sources |= dict.fromkeys(run.sources)
    return replace(told[-1], **(known | {"metadata": metadata, "sources": tuple(sources)}))
