"""What an ingest says of itself, source by source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from replay_parsers.records import Coverage, Finding, Problem, ProblemKind

Status = Literal["ingested", "extended", "replaced", "unchanged", "skipped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """What became of one source.

    ``status`` is ``ingested`` (read for the first time), ``extended`` (it had grown), ``replaced`` (another file
    of the same name, or an edited document), ``unchanged``, ``skipped`` (nothing for the store; ``reason`` says
    why) or ``failed`` (``problems`` say why).  ``tried`` names the formats that an unknown file was held against.
    ``coverage``, ``problems`` and ``findings`` are those of what was read now, of an unchanged source those of its
    earlier readings.  ``run`` is the run it mostly tells of; ``former_run`` another that it was stored as before, from
    which it is taken.
    """

    source: str
    status: Status
    run: str = ""
    format: str = ""
    confidence: float = 0.0
    reason: str = ""
    coverage: Coverage = field(default_factory=Coverage)
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    tried: tuple[str, ...] = ()
    former_run: str = ""

    @property
    def nothing_kept(self) -> bool:
        """Whether it holds something, of which nothing was understood: no record was kept, and lines were left over.

        Of a source that had grown only what is new of it is known here, which may well be prose.
        """
        coverage = self.coverage
        return (
            self.status in ("ingested", "replaced", "unchanged")
            and not coverage.records
            and bool(coverage.not_understood)
        )


@dataclass(slots=True)
class IngestReport:
    """What one ingest did.  ``notes`` are remarks on the whole, such as two folders that share a run's name."""

    sources: list[SourceReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[Problem]:
        """All that could not be read, in the order of the sources."""
        return [problem for source in self.sources for problem in source.problems]

    @property
    def exit_code(self) -> int:
        """1 when anything could not be read, or of a whole source nothing was understood, else 0.

        A last record still being written is no such thing, nor are lines of prose between records.
        """
        faulty = any(problem.kind is not ProblemKind.TRUNCATED for problem in self.problems)
        return int(faulty or any(source.nothing_kept for source in self.sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an ingest is: ``bytes_read`` of ``size`` bytes of the ``number``-th (from 1) of ``sources`` sources.

    Both count decompressed bytes as far as that is known: of a gzip'd file ``size`` is what it takes on disk.
    """

    source: str
    number: int
    sources: int
    bytes_read: int
    size: int


ProgressCallback = Callable[[Progress], None]
