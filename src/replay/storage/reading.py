"""Reading one source into parts and ledger entries: what is new of it, and nothing twice."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from replay.storage.candidates import Candidate, FileStatus, PassedOver
from replay.storage.errors import StoreError
from replay.storage.fingerprint import BLOCK_BYTES, WholeBlocks, fingerprint
from replay.storage.ledger import Entry, Part, state_as_json, total_coverage
from replay.storage.planning import CannotReadError, Known, Plan, look_at_beginning, plan, unchanged
from replay.storage.record_parts import RecordParts, stored
from replay.storage.reports import SourceReport, Status
from replay_parsers.clock import checked
from replay_parsers.files import GZIP_MAGIC
from replay_parsers.parser import Request
from replay_parsers.records import Coverage, Finding, Problem, ProblemKind, Records

COMMIT_BYTES = 256 << 20
"""After so many bytes of one source what was read is committed, so that a kill costs no more than that."""

_TRIES = 3

_BREAKS_OFF = frozenset({ProblemKind.TRUNCATED, ProblemKind.CORRUPT, ProblemKind.UNREADABLE})

Commit = Callable[[Entry], None]


def pass_over(found: PassedOver, known: Known, parts: RecordParts, commit: Commit) -> SourceReport:
    """Note that ``found`` is not read, and why."""
    problem = Problem(source=found.source, kind=ProblemKind.UNREADABLE, message=found.reason) if found.failure else None
    return _not_read(found.source, found.reason, problem, known, parts, commit if found.exists else None)


def read(
    candidate: Candidate,
    known: Known,
    parts: RecordParts,
    commit: Commit,
    progress: Callable[[int, int], None],
) -> SourceReport:
    """Read what is new of ``candidate`` into ``parts``, and ``commit`` the entries that make them count.

    Raises :class:`StoreError` when the store cannot be written; what is wrong with the source is in the report.
    """
    reason = "was replaced while it was read, three times; try again later"
    for _ in range(_TRIES):
        try:
            if unchanged(candidate, known, candidate.status()):
                return _unchanged(candidate.source, known, parts)
            with candidate.at_hand(parts.writer.store, lambda part: look_at_beginning(part, known)) as here:
                before = here.status()
                how = plan(here, known, before)
                if how is None:
                    return _unchanged(candidate.source, known, parts)
                reading = _Reading(here, known, how, before, parts, commit)
                reading.run(progress)
                after = here.status()
                if (after.device, after.inode) == (before.device, before.inode) and after.size >= before.size:
                    return reading.finish()
        except CannotReadError as error:
            report = _not_read(candidate.source, error.reason, error.problem, known, parts, commit)
            return replace(report, tried=error.tried)
        except OSError as error:
            reason = f"cannot be read: {error.strerror or error}"
            break
    problem = Problem(source=candidate.source, kind=ProblemKind.UNREADABLE, message=reason)
    return _not_read(candidate.source, reason, problem, known, parts, commit)


def _unchanged(source: str, known: Known, parts: RecordParts) -> SourceReport:
    if known.reading is None:
        raise ValueError(f"{source}: nothing is known of it, so it cannot be unchanged")
    last = known.reading.last
    problems, findings = stored(parts.writer.store, known.reading)
    return SourceReport(
        source=source,
        status="unchanged",
        run=last.run,
        format=last.format,
        confidence=last.confidence,
        coverage=known.reading.coverage,
        problems=problems,
        findings=findings,
    )


def _not_read(
    source: str, reason: str, problem: Problem | None, known: Known, parts: RecordParts, commit: Commit | None
) -> SourceReport:
    status: Status = "skipped" if problem is None else "failed"
    problems = () if problem is None else (problem,)
    noted = known.reading.last if known.reading is not None else None
    if known.last is not None:
        reason = f"{reason}; what was stored of it before is kept"
    elif (
        commit is not None
        and known.lost is None
        and (noted is None or (noted.status, noted.reason) != (status, reason))
    ):
        commit(
            Entry(
                source=source,
                status=status,
                reason=reason,
                sequence=known.last_sequence + 1,
                parts=tuple(parts.of_problems(source, problems)),
            )
        )
    return SourceReport(source=source, status=status, reason=reason, problems=problems)


@dataclass(slots=True)
class _SinceCommit:
    """What was written since the last entry: parts, coverage, and where they begin."""

    start: int
    parts: list[Part]
    coverages: list[Coverage]


class _Reading:
    """One pass over what is new of a source."""

    def __init__(
        self,
        candidate: Candidate,
        known: Known,
        how: Plan,
        now: FileStatus,
        parts: RecordParts,
        commit: Commit,
    ) -> None:
        self.candidate = candidate
        self.how = how
        self.now = now
        self.parts = parts
        self.commit = commit
        self.run_name = how.run
        self.named_by = how.named_by
        self.growing = known.growing
        self.blocks_read = WholeBlocks()
        self.sequence = known.last_sequence + 1
        self.position = how.start
        self.segments = how.segments
        self.state = how.last.state if how.last is not None else "{}"
        self.previous = how.last
        self.pending = _SinceCommit(how.start, [], [])
        self.coverages: list[Coverage] = []
        self.problems: list[Problem] = []
        self.findings: list[Finding] = []
        self.broke_off: Problem | None = None
        self.former = known.reading if how.status == "replaced" and how.replaces_former else None

    def run(self, progress: Callable[[int, int], None]) -> None:
        """Read to the end, writing parts and, on the way through a long source, entries.

        Raises :class:`CannotReadError` when there was nothing to keep.
        """
        for position in self._positions():
            progress(position, self.now.size)
            # What replaces a former reading does so as a whole.
            if position - self.pending.start >= COMMIT_BYTES and self.former is None:
                self._commit(final=False)
        if self.broke_off is not None and self.how.last is None and not self.coverages:
            raise CannotReadError(self.broke_off.message, self.broke_off)

    def finish(self) -> SourceReport:
        """Commit what was read, and say what it was.

        What breaks off and tells less than the reading that it is to replace does not replace it.
        """
        if (shortfall := self._shortfall()) is not None:
            self.parts.writer.forget(part.path for part in self.pending.parts)
            return SourceReport(
                source=self.candidate.source,
                status="failed",
                run=self.run_name,
                format=self.how.parser.name,
                confidence=self.how.confidence,
                reason=shortfall.message,
                problems=(shortfall, *self.problems),
            )
        if self.broke_off is not None:
            if self.position > self.pending.start:
                self._commit(final=True)
            # In an entry of its own, which no longer counts once a later reading gets further.
            self.pending.parts += self.parts.of_problems(
                self.candidate.source, [self.broke_off], generation=self.how.generation, position=self.position
            )
        if not self._told_before():
            self._commit(final=True)
        return SourceReport(
            source=self.candidate.source,
            status=self.how.status,
            run=self.run_name,
            format=self.how.parser.name,
            confidence=self.how.confidence,
            reason=self.how.reason,
            former_run=self._former_run(),
            coverage=total_coverage(self.coverages),
            problems=tuple(self.problems),
            findings=tuple(self.findings),
        )

    def _former_run(self) -> str:
        """The run that it was stored as before, where that is another; else ""."""
        before = "" if self.former is None else self.former.last.run
        return before if before != self.run_name else ""

    def _shortfall(self) -> Problem | None:
        """What is wrong when this reading tells less than the former one because it breaks off; else None."""
        if self.former is None:
            return None
        now, before = total_coverage(self.coverages).records, self.former.coverage.records
        broken = any(problem.kind in _BREAKS_OFF for problem in self.problems) or self.broke_off is not None
        if now >= before or (now and not broken):
            return None
        message = (
            f"of this file {now:,} records can be read where {before:,} are stored, so what was stored is kept; "
            "write the file whole and ingest it again"
        )
        return Problem(source=self.candidate.source, kind=ProblemKind.UNREADABLE, message=message)

    def _positions(self) -> Iterator[int]:
        """Where each piece ends that was read and kept.

        A source or parser that fails in the middle leaves a problem, and what came before it.
        """
        request = Request(
            path=self.candidate.path,
            source=self.candidate.source,
            run=self.run_name,
            start=self.position,
            state=self.how.state,
            watch=self.blocks_read.watch if self.growing is None else None,
        )
        try:
            for records in checked(self.how.parser.read(request), self.how.state, self.run_name):
                self._keep(records)
                del records  # the parser can use its memory again
                yield self.position
        except StoreError:
            raise
        except (OSError, EOFError, zlib.error) as error:
            self._break_off(
                ProblemKind.UNREADABLE, f"cannot be read further: {getattr(error, 'strerror', None) or error}"
            )
        except Exception as error:  # noqa: BLE001 - parsers come from other packages too; one must not stop the rest
            self._break_off(
                ProblemKind.INVALID,
                f"the parser {self.how.parser.name!r} failed here, which is a fault of its own: please report it "
                f"({type(error).__name__}: {error})",
            )

    def _break_off(self, kind: ProblemKind, message: str) -> None:
        self.broke_off = Problem(source=self.candidate.source, kind=kind, message=message, offset=self.position)
        self.problems.append(self.broke_off)

    def _keep(self, records: Records) -> None:
        if records.start != self.position or records.end < records.start:
            raise ValueError(f"it gave bytes {records.start} to {records.end} after {self.position}")
        state = state_as_json(records.state)
        if records.run is not None and records.run.run != self.run_name:
            self.run_name, self.named_by = records.run.run, "file"
        if len(records.scalars):
            last_segment = self.how.segment_base + int(records.scalars.segment.max())
            self.segments = max(self.segments, last_segment + 1)
        self.pending.parts += self.parts.of_records(
            records,
            source=self.candidate.source,
            run=self.run_name,
            generation=self.how.generation,
            segment_base=self.how.segment_base,
        )
        self.pending.coverages.append(records.coverage)
        self.coverages.append(records.coverage)
        self.problems += records.problems
        self.findings += records.findings
        self.state = state
        self.position = records.end

    def _told_before(self) -> bool:
        """Whether the ledger's last entry says the same already, as after a second try at the same damage."""
        before = self.previous
        return (
            before is not None
            and before.start == before.end == self.position == self.pending.start
            and before.parts == tuple(self.pending.parts)
            and (before.size, before.mtime_ns, before.inode) == self._file_status(final=True)
        )

    def _file_status(self, *, final: bool) -> tuple[int, int, int]:
        # A size that no file has makes the next ingest look again.
        size = self.now.size if final and self.broke_off is None else -1
        return (size, 0, 0) if self.candidate.portable else (size, *self.now.version[1:])

    def _commit(self, *, final: bool) -> None:
        size, mtime_ns, inode = self._file_status(final=final)
        length = self._bytes_as_stored()
        entry = Entry(
            source=self.candidate.source,
            status="ingested",
            format=self.how.parser.name,
            confidence=self.how.confidence,
            run=self.run_name,
            named_by=self.named_by,
            folder=self.candidate.folder,
            generation=self.how.generation,
            start=self.pending.start,
            end=self.position,
            sequence=self.sequence,
            replaces_former=self.how.replaces_former,
            size=size,
            mtime_ns=mtime_ns,
            inode=inode,
            fingerprinted=length,
            fingerprint=self._fingerprint(length),
            segment_base=self.how.segment_base,
            segments=self.segments,
            state=self.state,
            parts=tuple(self.pending.parts),
            coverage=total_coverage(self.pending.coverages),
        )
        self.commit(entry)
        self.previous = entry
        self.sequence += 1
        self.pending = _SinceCommit(self.position, [], [])

    def _fingerprint(self, length: int) -> tuple[str, ...]:
        before = self.previous
        known = before.fingerprint if before is not None else ()
        known_length = before.fingerprinted if before is not None else 0
        if self.growing is not None:
            return self.growing.digest(self.candidate.path, length, known, known_length)
        if len(self.blocks_read.digests) > len(known):
            known, known_length = tuple(self.blocks_read.digests), len(self.blocks_read.digests) * BLOCK_BYTES
        return fingerprint(self.candidate.path, length, known, known_length)

    def _bytes_as_stored(self) -> int:
        """How many bytes of the file, as it lies on disk, will not change while it grows.

        What follows the last complete record may change; of a compressed file or a document all is taken.
        """
        with self.candidate.path.open("rb") as stream:
            compressed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        whole = compressed or not self.how.parser.appends
        return self.now.size if whole else min(self.now.size, self.position)
