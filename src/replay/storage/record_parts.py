"""Records written as parts of the store's tables, and read back where a report needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from replay.storage.layout import digest, table_folder
from replay.storage.ledger import Part, Reading
from replay_parsers.records import Event, Finding, Problem, ProblemKind, Records, Scalars

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from replay.storage.part_writer import PartWriter
    from replay.storage.row_order import Room


def stem(source: str, generation: int, start: int, end: int) -> str:
    """The beginning of a part's name: whose bytes, and which."""
    return f"{digest(source)}-g{generation}-{start}-{end}-"


class RecordParts:
    """Writes the records of sources as parts, through ``writer``."""

    def __init__(self, writer: PartWriter) -> None:
        self.writer = writer
        self._room: Room | None = None

    def of_records(self, records: Records, *, source: str, run: str, generation: int, segment_base: int) -> list[Part]:
        """Write one piece of ``source``; ``run`` is that of its scalars."""
        from replay.storage import records_as_tables as tables

        name = stem(source, generation, records.start, records.end)
        parts = []
        if len(records.scalars):
            parts.append(self._scalars(records.scalars, source, run, name, segment_base))
        for event_run, events in _by_run(records.events).items():
            parts.append(self._small("events", tables.events_table(events), name, event_run))
        if records.run is not None:
            parts.append(self._small("runs", tables.runs_table([records.run]), name, records.run.run))
        by_run: dict[str, list[Finding]] = {}
        for finding in records.findings:
            by_run.setdefault(finding.run, []).append(finding)
        for finding_run, findings in by_run.items():
            parts.append(self._small("findings", tables.findings_table(findings), name, finding_run))
        if records.problems:
            parts.append(self._small("problems", tables.problems_table(records.problems), name, None))
        return parts

    def of_problems(
        self, source: str, problems: Sequence[Problem], *, generation: int = 0, position: int = 0
    ) -> list[Part]:
        """Write problems that belong to no piece of ``source``."""
        from replay.storage.records_as_tables import problems_table

        if not problems:
            return []
        return [self._small("problems", problems_table(problems), stem(source, generation, position, position), None)]

    def _scalars(self, scalars: Scalars, source: str, run: str, name: str, segment_base: int) -> Part:
        from replay.storage.parts import serialise_scalars
        from replay.storage.records_as_tables import scalar_groups
        from replay.storage.row_order import Room
        from replay.storage.schema import SCALARS_ON_DISK

        if self._room is None:
            self._room = Room()
        data = serialise_scalars(scalar_groups(scalars, source, segment_base, self._room), SCALARS_ON_DISK)
        return Part(
            table="scalars",
            path=self.writer.write(table_folder("scalars", run), name, data),
            run=run,
            rows=len(scalars),
            first_step=int(scalars.step.min()),
            last_step=int(scalars.step.max()),
        )

    def _small(self, table: str, rows: pa.Table, name: str, run: str | None) -> Part:
        from replay.storage.parts import serialise

        path = self.writer.write(table_folder(table, run), name, serialise(rows))
        return Part(table=table, path=path, run=run, rows=len(rows))


def _by_run(events: Iterable[Event]) -> dict[str, list[Event]]:
    by_run: dict[str, list[Event]] = {}
    for event in events:
        by_run.setdefault(event.run, []).append(event)
    return by_run


def stored(store: Path, reading: Reading) -> tuple[tuple[Problem, ...], tuple[Finding, ...]]:
    """The problems and findings that the valid parts of one source hold.

    A record that was cut off when an earlier entry was written is none any more once another follows.
    """
    from replay.storage.parts import read_table

    problems: list[Problem] = []
    findings: list[Finding] = []
    for entry in reading.entries:
        for part in entry.parts:
            if part.table == "problems":
                for row in read_table(store / part.path).to_pylist():
                    problem = Problem(**{**row, "kind": ProblemKind(row["kind"])})
                    if problem.kind is not ProblemKind.TRUNCATED or entry is reading.last:
                        problems.append(problem)
            elif part.table == "findings":
                rows = read_table(store / part.path).to_pylist()
                findings += [Finding(**{**row, "readings": tuple(row["readings"])}) for row in rows]
    return tuple(problems), tuple(findings)
