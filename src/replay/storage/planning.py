"""Deciding how a source is to be read: by which parser, from where, and whether it is still the same file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replay.storage import sources
from replay.storage.candidates import Candidate, FileStatus
from replay.storage.fingerprint import Growing, begins_with
from replay.storage.ledger import Entry, Reading
from replay.storage.reports import Status
from replay_parsers.detection import Detection, UnknownFormatError, all_parsers, detect
from replay_parsers.files import SAMPLE_BYTES, sample
from replay_parsers.parser import Parser
from replay_parsers.records import Problem, ProblemKind

EVENT_FILES = "tensorboard"
"""The format whose runs are named by their folders, since its files bear no names of their own."""


CERTAIN = 1.0
"""A confidence that nothing can add to."""
SURE = 0.9
"""A confidence that a longer look at a followed file will hardly change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the store holds of a source before it is read: its valid ``reading``, and the highest numbers in use.

    ``lost`` is the last entry of a source of whose parts none is sound, so that they are written anew.
    ``growing`` remembers the fingerprint of a source that is followed.
    """

    reading: Reading | None = None
    lost: Entry | None = None
    last_sequence: int = -1
    last_generation: int = -1
    growing: Growing | None = None

    @property
    def last(self) -> Entry | None:
        """The entry at which reading goes on, None when the source was never read."""
        return self.reading.last if self.reading is not None and self.reading.last.read else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to read a source: by which parser, from where, as which generation, and under which run's name.

    ``last`` is the entry after which an extended source goes on, None when it is read from its beginning.
    """

    parser: Parser
    confidence: float
    status: Status
    run: str
    named_by: str
    reason: str = ""
    last: Entry | None = None
    generation: int = 0
    segment_base: int = 0
    replaces_former: bool = False

    @property
    def start(self) -> int:
        """The first byte to read."""
        return 0 if self.last is None else self.last.end

    @property
    def segments(self) -> int:
        """The number of the next free segment."""
        return self.segment_base if self.last is None else self.last.segments

    @property
    def state(self) -> Mapping[str, Any]:
        """The parser's state at ``start``."""
        state: Mapping[str, Any] = {} if self.last is None else json.loads(self.last.state)
        return state


class CannotReadError(Exception):
    """The source is not read, for the ``reason`` given.

    ``problem`` is set when it should have been readable, ``tried`` names the formats that it was not recognised as.
    """

    def __init__(self, reason: str, problem: Problem | None = None, tried: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.problem = problem
        self.tried = tuple(tried)


def unchanged(candidate: Candidate, known: Known, now: FileStatus) -> bool:
    """Whether ``now``, without a look into the file, tells that nothing in ``candidate`` is new."""
    last = known.last
    if last is None or not now.told or candidate.portable or _renamed(candidate, last):
        return False
    return now.version == (last.size, last.mtime_ns, last.inode)


def _renamed(candidate: Candidate, last: Entry) -> bool:
    """Whether the user now gives the run another name."""
    return candidate.named_by == "given" and last.named_by != "file" and last.run != candidate.run


def plan(candidate: Candidate, known: Known, now: FileStatus) -> Plan | None:
    """How to read ``candidate``, whose status is ``now``; None when a look into it shows nothing new.

    Raises :class:`CannotReadError` when no parser can read it, :class:`OSError` when the file cannot be opened.
    """
    last = known.last
    if last is None:
        parser, confidence = _recognise(candidate)
        lost = known.lost
        if lost is not None and not begins_with(candidate.path, lost.fingerprint, lost.fingerprinted, thorough=True):
            return _replacement(candidate, lost.generation, lost, renamed=False)
        return Plan(
            parser=parser,
            confidence=confidence,
            status="ingested",
            run=_run_name(candidate, parser),
            named_by=candidate.named_by,
            generation=0 if lost is None else lost.generation,
            segment_base=0 if lost is None else lost.segment_base,
            replaces_former=lost is not None and lost.replaces_former,
        )
    renamed = _renamed(candidate, last)
    if not renamed:
        former = next((one for one in all_parsers() if one.name == last.format), None)
        appends = former is not None and former.appends
        thorough = not appends or now.inode != last.inode or now.size <= last.size
        if _followed(candidate, known, last, now) or begins_with(
            candidate.path, last.fingerprint, last.fingerprinted, thorough=thorough
        ):
            if now.size == last.size == last.fingerprinted:
                return None
            if former is not None and appends:
                return _longer(candidate, former, known, last)
    return _replacement(candidate, known.last_generation, last, renamed)


def _followed(candidate: Candidate, known: Known, last: Entry, now: FileStatus) -> bool:
    """Whether a source that is followed is known to have only grown."""
    return (
        known.growing is not None
        and now.size > last.size >= 0
        and known.growing.continues(candidate.path, last.fingerprint, last.fingerprinted)
    )


def _longer(candidate: Candidate, former: Parser, known: Known, last: Entry) -> Plan:
    """How to read on in a file that has grown.

    More of a file may be recognised with more confidence, and its first lines may have been taken for what they are
    not: it is then read anew, so that it does not matter when it was first looked at.
    """
    told_long_ago = known.growing is not None and last.end > 2 * SAMPLE_BYTES and last.confidence >= SURE
    if last.confidence == CERTAIN or told_long_ago:
        return _extension(former, last.confidence, last)
    seen = sample(candidate.path)
    try:
        now = detect(seen)
    except UnknownFormatError:
        return _extension(former, former.recognise(seen), last)
    if now.parser.name == former.name:
        return _extension(former, now.confidence, last)
    return _replacement(candidate, known.last_generation, last, renamed=False, mistaken=True)


def _extension(parser: Parser, confidence: float, last: Entry) -> Plan:
    return Plan(
        parser=parser,
        confidence=confidence,
        status="extended",
        run=last.run,
        named_by=last.named_by,
        last=last,
        generation=last.generation,
        segment_base=last.segment_base,
        replaces_former=last.replaces_former,
    )


def _replacement(
    candidate: Candidate, last_generation: int, last: Entry, renamed: bool, *, mistaken: bool = False
) -> Plan:
    parser, confidence = _recognise(candidate)
    replaces = renamed or mistaken or not parser.appends
    return Plan(
        parser=parser,
        confidence=confidence,
        status="replaced",
        run=_run_name(candidate, parser),
        named_by=candidate.named_by,
        reason="" if replaces else "another file of the same name; what was stored of the former one is kept",
        generation=last_generation + 1,
        segment_base=0 if replaces else last.segments,
        replaces_former=replaces,
    )


def _run_name(candidate: Candidate, parser: Parser) -> str:
    return candidate.run if parser.name == EVENT_FILES else candidate.file_run


def _recognise(candidate: Candidate) -> tuple[Parser, float]:
    """The parser of ``candidate`` and how sure it is."""

    def problem(kind: ProblemKind, message: str) -> Problem:
        return Problem(source=candidate.source, kind=kind, message=message)

    seen = sample(candidate.path)
    if not seen.head and not seen.whole:
        message = "compressed, and damaged at its beginning: nothing of it can be read"
        raise CannotReadError(message, problem(ProblemKind.CORRUPT, message))
    if not seen.head:
        raise CannotReadError("empty: it holds no bytes yet")
    if seen.whole and len(seen.head) <= sources.POINTER_BYTES and (pointer := sources.pointer(seen.head)):
        raise CannotReadError(pointer)
    try:
        detection: Detection = detect(seen)
    except UnknownFormatError as error:
        message = str(error).removeprefix(f"{seen.path}: ")
        if _is_bystander(candidate):
            binary = "binary, and " if b"\0" in seen.head else ""
            raise CannotReadError(binary + message, tried=tuple(error.tried)) from error
        raise CannotReadError(message, problem(ProblemKind.NOT_UNDERSTOOD, message), tuple(error.tried)) from error
    except OSError:
        raise
    except Exception as error:
        message = f"a parser failed when it was asked for this file, please report it ({type(error).__name__}: {error})"
        raise CannotReadError(message, problem(ProblemKind.INVALID, message)) from error
    return detection.parser, detection.confidence


def look_at_beginning(candidate: Candidate, known: Known) -> None:
    """Raise :class:`CannotReadError` when the beginning tells that the rest need not be copied.

    Checkpoints lie beside logs, and are large.  Of a text more may have to be seen.
    """
    if known.last is None and _is_bystander(candidate) and b"\0" in sample(candidate.path).head:
        _recognise(candidate)


def _is_bystander(candidate: Candidate) -> bool:
    """Whether an unknown file is one of the many that lie beside logs: checkpoints, images, scripts, caches.

    One that was named, or is named as event files are, should have been readable.
    """
    return not candidate.asked_for and "tfevents" not in candidate.path.name
