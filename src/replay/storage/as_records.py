"""What a store holds of a run, as records again: one for each source, in the source's own order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replay.storage.ledger import Snapshot
from replay.storage.parts import read_table
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import BatchStage, Event, Evidence, Finding, Records, Run, TimePrecision


def records_of(folder: Path, snapshot: Snapshot, run: str) -> list[Records]:
    """The description, events and findings of ``run`` by source; without scalars and derived events."""
    events: dict[str, list[Event]] = {}
    findings: dict[str, list[Finding]] = {}
    runs: dict[str, Run] = {}
    formats: dict[str, str] = {}
    for entry, part in snapshot.parts("events", run):
        formats[entry.source] = entry.format
        rows = read_table(folder / part.path).to_pylist(maps_as_pydicts="strict")
        events.setdefault(entry.source, []).extend(_event(row, run) for row in rows)
    for entry, part in snapshot.parts("findings", run):
        formats.setdefault(entry.source, entry.format)
        rows = read_table(folder / part.path).to_pylist()
        findings.setdefault(entry.source, []).extend(
            Finding(**{**row, "readings": tuple(row["readings"])}) for row in rows
        )
    for entry, part in snapshot.parts("runs", run):
        formats.setdefault(entry.source, entry.format)
        for row in read_table(folder / part.path).to_pylist(maps_as_pydicts="strict"):
            runs[entry.source] = _run(row)
    return [
        Records(
            source=source,
            format=kind,
            run=runs.get(source),
            events=tuple(events.get(source, ())),
            findings=tuple(findings.get(source, ())),
        )
        for source, kind in sorted(formats.items())
    ]


def _event(row: dict[str, Any], run: str) -> Event:
    precision = row["time_precision"]
    return Event(
        **{
            **row,
            "run": run,
            "kind": EventKind(row["kind"]),
            "role": Role(row["role"]),
            "evidence": Evidence(row["evidence"]),
            "time_precision": None if precision is None else TimePrecision(precision),
        }
    )


def _run(row: dict[str, Any]) -> Run:
    stages = tuple(BatchStage(**stage) for stage in row["batch_schedule"] or ())
    return Run(**{**row, "batch_schedule": stages, "sources": tuple(row["sources"] or ())})
