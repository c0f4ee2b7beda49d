"""How every text log is read: lines in, records out, whatever the dialect.

A dialect is a small class that says what one line means.  All else is here: blocks of lines, ranks, lines
that tell of events, the ledger of what was not understood, the half line at the end, and the state from which
the next reading goes on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from replay_parsers.lines import Block, Line, cut, part_of, read_blocks, split_rank
from replay_parsers.parser import Request
from replay_parsers.records import Coverage, EventKind, Finding, Problem, ProblemKind, Records, Run, Scalars
from replay_parsers.trainers.columns import MOST_TAGS, ScalarColumns
from replay_parsers.trainers.events import EventLog
from replay_parsers.trainers.line_events import is_noise, recognise
from replay_parsers.trainers.losses import training_loss, why_no_loss
from replay_parsers.trainers.repeats import Repeats
from replay_parsers.trainers.timestamps import printed_time

EXAMPLES = 5
# A step that no dialect takes for one, on a line that reports a loss.
_IMPOSSIBLE_STEP = re.compile(
    r"\b(?:global[_ ]?steps?|steps?|iterations?|iter|updates?|num_updates)\b"
    r"[\"']?\s{0,8}[:=]?\s{0,8}[\"'\[]?(-?\d{19,400})",
    re.I,
)
_LOOKED_FOR_STEP = 4_000
_EXAMPLE_LENGTH = 160


class Book:
    """What one log has said so far: rows, events, findings, and a count of all else."""

    def __init__(self, request: Request, state: Mapping[str, Any]) -> None:
        self.run = request.run
        self.source = request.source
        self.scalars = ScalarColumns(state.get("scalars"))
        self.events = EventLog(request.run, request.source, self.scalars, state.get("events"))
        self.repeats = Repeats(state.get("repeats"))
        self.findings: list[Finding] = []
        self.problems: list[Problem] = []
        # Whether values were left out since the log has more names than there is room for.
        self.full = bool(state.get("full", False))
        self.metadata: dict[str, str] = {}
        # Recognised, but no scalar and no event.
        self.other: Counter[str] = Counter()
        self.not_understood = 0
        # Records that were left out though they were understood, and whether that was told.
        self.lost_records = 0
        self.lost_told = bool(state.get("lost_told", False))
        self.examples: list[str] = []

    def state(self) -> dict[str, Any]:
        return {
            "scalars": self.scalars.state(),
            "events": self.events.state(),
            "repeats": self.repeats.state(),
            "full": self.full,
            "lost_told": self.lost_told,
        }

    def repeated(
        self, step: int, rank: str, about: str = "", time: int | None = None, loss: float | None = None
    ) -> bool:
        """Whether another rank has reported the step; if so, that is counted."""
        repeated = self.repeats.told(step, rank, self.events.restarts, about=about, time=time, mark=loss)
        if repeated:
            self.other["records repeated by other ranks"] += 1
        return repeated

    def measured(
        self, line: int | str, step: int, fields: Mapping[str, float], time: int | None = None, rank: str = ""
    ) -> None:
        """Add what one record says was measured at ``step``, and a nan loss where it shows one."""
        if not self.scalars.know(fields.keys()):
            fields = {key: value for key, value in fields.items() if self.knows(key, line)}
        if not fields:
            return
        loss = training_loss(fields)
        about = loss or next(iter(fields))
        if self.repeated(step, rank, about, time, None if loss is None else fields[loss]):
            return
        if loss is not None:
            self.events.reported()
        self.scalars.add(step, list(fields), list(fields.values()), time)
        if why := why_no_loss(fields):
            self.events.add(EventKind.NAN_LOSS, line, why, step=step, time=time, detail={"field": loss or ""})

    def knows(self, tag: str, line: int | str) -> bool:
        """Whether there is room for a value of ``tag``; if not, it is counted, and the first time told."""
        if self.scalars.knows(tag):
            return True
        self.other[f"values of other than the first {MOST_TAGS:,} names"] += 1
        if not self.full:
            self.full = True
            where = "" if isinstance(line, int) else f"{line}: "
            message = (
                f"{where}values have more than {MOST_TAGS:,} different names; from {tag[:_EXAMPLE_LENGTH]!r} on, those "
                "of further names are left out, the rest is kept; the names should not hold what changes"
            )
            number = line if isinstance(line, int) else None
            self.problems.append(
                Problem(source=self.source, kind=ProblemKind.NOT_UNDERSTOOD, message=message, line=number)
            )
        return False

    def missing_loss(self, line: int | str, step: int, key: str, time: int | None = None, rank: str = "") -> None:
        """Add that a record has no number for its training loss, ``key``, where it should have one."""
        if self.repeated(step, rank, key, time):
            return
        self.events.reported()
        text = f"{key} is null: no loss was measured, or it was no number, for which JSON has no word"
        detail = {"field": key, "value": "null"}
        self.events.add(EventKind.NAN_LOSS, line, text, step=step, time=time, detail=detail)

    def leave_out(self, kinds: Mapping[str, int], times: int = 1) -> None:
        """Count what records that are understood hold besides numbers: so many of each kind in each of them."""
        for kind, count in kinds.items():
            self.other[kind] += count * times

    def leave_over(self, line: int | str, text: str) -> None:
        """Count a line, or a record of a document, that says nothing to replay, and keep the first few to show."""
        self.not_understood += 1
        self.example(line, text)

    def example(self, line: int | str, text: str) -> None:
        """Keep a line, or a record of a document, to show, if it is among the first few."""
        if len(self.examples) < EXAMPLES:
            shown = text.strip()
            cut = shown[:_EXAMPLE_LENGTH] + (" ..." if len(shown) > _EXAMPLE_LENGTH else "")
            self.examples.append(f"line {line}: {cut}" if isinstance(line, int) else f"{line}: {cut}")

    def impossible_step(self, line: int | str, printed: object) -> None:
        """Count a record that is left out because no run can reach the step it names, and the first time tell it."""
        self.lost_records += 1
        if self.lost_told:
            return
        self.lost_told = True
        where = "" if isinstance(line, int) else f"{line}: "
        message = (
            f"{where}{str(printed)[:_EXAMPLE_LENGTH]} is no step that a run can reach, so the record is left out, as "
            "is any later one like it; the rest is kept; mend the line and ingest the file again"
        )
        number = line if isinstance(line, int) else None
        self.problems.append(Problem(source=self.source, kind=ProblemKind.INVALID, message=message, line=number))

    def event_line(self, line: int, text: str, rank: str = "") -> bool:
        """Add the event that a line tells of; false when it tells of none."""
        seen = recognise(text)
        if seen is None:
            return False
        self.events.add_seen(seen, line, printed_time(text), rank)
        return True

    def other_line(self, line: int, text: str, rank: str = "") -> None:
        """Deal with a line that the dialect does not know."""
        if self.event_line(line, text, rank):
            return
        if is_noise(text):
            self.other["timers, rules and progress bars"] += 1
        elif "loss" in text and (step := _IMPOSSIBLE_STEP.search(text, 0, _LOOKED_FOR_STEP)) is not None:
            self.impossible_step(line, step[1])
        elif text.strip():
            self.leave_over(line, text)

    def finding(self, check: str, line: int | str, readings: tuple[str, ...], likely: str | None, reasons: str) -> None:
        """Add something that was read but cannot be right."""
        self.findings.append(
            Finding(
                run=self.run,
                check=check,
                source=self.source,
                locator=f"line {line}" if isinstance(line, int) else line,
                readings=readings,
                likely=likely,
                reasons=reasons,
            )
        )

    def take_scalars(self) -> Scalars:
        """The rows since the last call."""
        return self.scalars.take()

    def coverage(self, bytes_read: int, lost_bytes: int, records: int) -> Coverage:
        """The ledger since the last call."""
        if self.events.repeats:
            self.other["events told again by other ranks"] += self.events.repeats
            self.events.repeats = 0
        coverage = Coverage(
            bytes_read=bytes_read,
            records=records,
            not_understood=self.not_understood,
            lost_bytes=lost_bytes,
            lost_records=self.lost_records,
            examples=tuple(self.examples),
            other=dict(self.other),
        )
        self.examples, self.not_understood, self.lost_records = [], 0, 0
        self.other.clear()
        return coverage

    def take_problems(self) -> list[Problem]:
        """The problems since the last call."""
        problems, self.problems = self.problems, []
        return problems

    def take_findings(self) -> tuple[Finding, ...]:
        """The findings since the last call."""
        findings, self.findings = tuple(self.findings), []
        return findings


class Dialect(Protocol):
    """What the lines of one trainer mean.

    It is built from the state of an earlier reading (empty at the beginning) and gives it back by ``state``.  One that
    can read many lines faster than one by one has a method ``bulk(block, book)`` besides, which takes a block that came
    uncut, takes in what it can, and yields what is to be read one by one after all in its place: begin and end in the
    bytes of the block, and the number of the first line.
    """

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        """Take in one line without its rank; false when it is not the dialect's.

        ``goes_on`` tells that the text continues the line that the last reading ended with.
        """
        ...

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        """Whether a line that lacks its end of line can be read already: nothing that may follow changes it."""
        ...

    def unfinished(self) -> str:
        """What is left open of the last record; "" when nothing is."""
        ...

    def state(self) -> dict[str, Any]:
        """Plain data from which another instance goes on."""
        ...


Bulk = Callable[[Block, Book], Iterable[tuple[int, int, int]]]


def read_log(
    request: Request, format_name: str, dialect_from: Callable[[Mapping[str, Any]], Dialect]
) -> Iterator[Records]:
    """Read a log line by line as pieces of records.  ``dialect_from`` makes the dialect from its state.

    Raises :class:`OSError` when the file cannot be opened or read.
    """
    book = Book(request, request.state.get("book", {}))
    dialect = dialect_from(request.state.get("dialect", {}))
    inside = bool(request.state.get("inside", False))
    start = request.start
    bulk = getattr(dialect, "bulk", None)
    state = request.state.get("lines")
    newlines = int((state or {}).get("newlines", 0))
    for block in read_blocks(request.path, request.source, request.start, state, uncut=bulk is not None):
        problems: list[Problem] = []
        lost_bytes = 0
        end = block.end
        was_inside = inside
        # Nothing but the end of the line may have come, which is no line of its own.
        inside = inside and int(block.state["newlines"]) == newlines
        newlines = int(block.state["newlines"])
        for part in _parts(block, None if was_inside else bulk, book):
            problems += part.problems
            lost_bytes += part.lost_bytes
            for line in part.lines:
                # A reading that ended inside a line goes on inside it: what comes first is no new line with a rank.
                goes_on = was_inside and line.offset == request.start
                rank, text = ("", line.text) if goes_on else split_rank(line.text)
                if not line.terminated and not dialect.whole(text, goes_on=goes_on):
                    end = line.offset
                    problems.append(_half_line(request.source, line))
                elif not dialect.read(line, rank, text, book, goes_on=goes_on):
                    book.other_line(line.number, text, rank)
                inside = not line.terminated and end == block.end
        if block.last and (left := dialect.unfinished()):
            problems.append(_open_record(request.source, block, left))
        problems += book.take_problems()
        scalars, events = book.take_scalars(), book.events.take()
        if block.last and start == end and start > request.start and not problems:
            return
        yield Records(
            source=request.source,
            format=format_name,
            start=start,
            end=end,
            run=Run(run=request.run, sources=(request.source,), metadata=dict(book.metadata)),
            events=events,
            scalars=scalars,
            problems=tuple(problems),
            findings=book.take_findings(),
            coverage=book.coverage(end - start, lost_bytes, len(scalars) + len(events)),
            state={"lines": block.state, "book": book.state(), "dialect": dialect.state(), "inside": inside},
        )
        start = end


def _parts(block: Block, bulk: Bulk | None, book: Book) -> Iterator[Block]:
    """What of a block is to be read line by line, in order; what can be taken at once is, where ``bulk`` is given."""
    if not block.raw:
        yield block
        return
    yield replace(block, raw=b"")
    whole = (0, len(block.raw), block.number)
    for begin, end, number in [whole] if bulk is None else bulk(block, book):
        yield cut(part_of(block, begin, end, number), book.source)


def _half_line(source: str, line: Line) -> Problem:
    if line.text:
        message = f"the last line has no end yet and is left for the next reading: {line.text[:80]!r}"
    else:
        message = f"{line.end - line.offset:,} zero bytes end the file: reading goes on here when they are written"
    return Problem(source=source, kind=ProblemKind.TRUNCATED, message=message, line=line.number, offset=line.offset)


def _open_record(source: str, block: Block, left: str) -> Problem:
    return Problem(
        source=source,
        kind=ProblemKind.TRUNCATED,
        message=f"the last record breaks off at {left[:80]!r}; what stands before is kept",
        line=int(block.state["newlines"]) + 1,
        offset=block.end,
    )
