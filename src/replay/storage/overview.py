"""The answers to queries, put together from tables of the store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from replay.storage import derived, frames, merge, schema
from replay.storage.ledger import Snapshot
from replay.storage.query import Steps, source_table, tag_counts
from replay.storage.scalar_frames import scalars as read_scalars
from replay.storage.scalar_frames import told_once
from replay_parsers.records import ProblemKind
from replay_parsers.trainers.numbers import parse_step

_RUN_COLUMNS = pa.schema(
    [
        *(one for one in schema.RUNS if one.name not in ("batch_schedule", "sequence_length", "seconds_per_step")),
        ("n_events", pa.int64()),
        ("n_scalars", pa.int64()),
        ("first_step", pa.int64()),
        ("last_step", pa.int64()),
        schema.RUNS.field("batch_schedule"),
        schema.RUNS.field("sequence_length"),
        schema.RUNS.field("seconds_per_step"),
    ]
)

_INCIDENT_COLUMNS = pa.schema(
    [
        ("run", pa.string()),
        ("incident", pa.string()),
        ("time", schema.TIME),
        ("step", pa.int64()),
        ("saw", schema.STRINGS),
        ("cause", schema.STRINGS),
        ("did", schema.STRINGS),
        ("then", schema.STRINGS),
        ("recurred_after", pa.int64()),
        ("lost_steps", pa.float64()),
        ("lost_hours", pa.float64()),
        ("text", pa.string()),
        ("source", pa.string()),
        ("evidence", pa.string()),
    ]
)

_TAG_COLUMNS = pa.schema(
    [
        ("tag", pa.string()),
        ("signal", pa.string()),
        ("rows", pa.int64()),
        ("first_step", pa.int64()),
        ("last_step", pa.int64()),
    ]
)

_LEDGER_COLUMNS = pa.schema(
    [
        *(schema.LEDGER.field(name) for name in ("source", "run", "format", "confidence", "status", "reason")),
        *(schema.LEDGER.field(name) for name in ("bytes_read", "records", "not_understood")),
        *(schema.LEDGER.field(name) for name in ("lost_bytes", "lost_records", "examples", "other")),
        ("parts", pa.int64()),
    ]
)


def runs(store: Path, snapshot: Snapshot, events: Iterable[merge.Row]) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.runs`; ``events`` are those of all runs, merged."""
    table, entries = source_table(store, snapshot, "runs", schema.RUNS)
    told: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = defaultdict(list)
    for number, (row, entry) in enumerate(zip(table.to_pylist(maps_as_pydicts="strict"), entries, strict=True)):
        # A timeline's word counts first, then that of each source in order, a source's later word before its earlier.
        # Of several checkpoints of one run, the furthest says how far it came.
        order = (entry.format != merge.TIMELINE, -_reached(row), entry.source, -number)
        told[row["run"]].append((order, row))
    counted = Counter(row["run"] for row in events)
    rows = []
    for run in snapshot.runs():
        parts = [part for _, part in snapshot.parts("scalars", run)]
        row = _merge_run(run, [one for _, one in sorted(told[run], key=lambda item: item[0])])
        row["sources"] = list(dict.fromkeys([*row["sources"], *snapshot.sources(run)]))
        row["n_events"] = counted[run]
        row["n_scalars"] = sum(part.rows for part in parts)
        row["first_step"] = min((part.first_step for part in parts if part.first_step is not None), default=None)
        row["last_step"] = max((part.last_step for part in parts if part.last_step is not None), default=None)
        rows.append(row)
    return frames.frame(pa.Table.from_pylist(rows, schema=_RUN_COLUMNS), whole=("n_events", "n_scalars"))


def _reached(row: dict[str, Any]) -> int:
    """The step that a source says the run has reached; 0 where it says none."""
    step = parse_step((row["metadata"] or {}).get("global_step", ""))
    return 0 if step is None else step


def _merge_run(run: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = dict.fromkeys(schema.RUNS.names)
    metadata: dict[str, str] = {}
    for row in rows:
        merged |= {name: value for name, value in row.items() if value not in (None, "", []) and not merged[name]}
        metadata = {**(row["metadata"] or {}), **metadata}
    texts = {one.name: merged[one.name] or "" for one in schema.RUNS if one.type == pa.string() and one.name != "clock"}
    return (
        merged
        | texts
        | {
            "run": run,
            "metadata": sorted(metadata.items()),
            "sources": merged["sources"] or [],
            "batch_schedule": merged["batch_schedule"] or [],
        }
    )


def incidents(
    events: Iterable[merge.Row], *, apart: bool, saw: Sequence[str] | None, did: Sequence[str] | None
) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.incidents`, from events in chronological order."""
    rows = [
        row
        for row in merge.incidents(events, apart=apart)
        if (saw is None or set(saw) & set(row["saw"])) and (did is None or set(did) & set(row["did"]))
    ]
    return frames.frame(pa.Table.from_pylist(rows, schema=_INCIDENT_COLUMNS))


def scalars(
    store: Path,
    snapshot: Snapshot,
    run: str,
    tags: Sequence[str] | None,
    signal: str | None,
    steps: Steps | None,
    *,
    surviving: bool,
    merge: bool,
) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.scalars`."""
    from replay import lineage

    if signal is not None:
        from replay.signals import tags_for

        tags = tags_for(signal, list(tag_counts(store / part.path for _, part in snapshot.parts("scalars", run))))
    frame = read_scalars(store, snapshot, run, tags, steps)
    its_attempts = derived.attempts(store, snapshot, run)
    frame = lineage.assign(frame, its_attempts)
    if surviving:
        frame = lineage.surviving(frame, its_attempts).reset_index(drop=True)
    if merge:
        frame = told_once(frame)
    if signal is not None:
        frame["signal"] = pd.Series([signal] * len(frame), dtype="str", index=frame.index)
    return frame


def tags(store: Path, snapshot: Snapshot, run: str) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.tags`."""
    from replay.signals import signal_of

    counts = tag_counts(store / part.path for _, part in snapshot.parts("scalars", run))
    rows = [
        {"tag": tag, "signal": signal_of(tag), "rows": count, "first_step": first, "last_step": last}
        for tag, (count, first, last) in counts.items()
    ]
    return frames.frame(pa.Table.from_pylist(rows, schema=_TAG_COLUMNS), whole=("rows", "first_step", "last_step"))


def problems(store: Path, snapshot: Snapshot) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.problems`: of sources, and of the store's own files."""
    table, entries = source_table(store, snapshot, "problems", schema.PROBLEMS)
    # A record cut off at the end of an earlier reading was whole at the next.
    present = [
        kind != ProblemKind.TRUNCATED or entry is snapshot.readings[entry.source].last
        for kind, entry in zip(table["kind"].to_pylist(), entries, strict=True)
    ]
    told_by = {str(store / part.path): entry.source for entry, part in snapshot.lost}
    damaged = [
        {"source": told_by.get(path, path), "kind": "corrupt", "message": said, "lost_bytes": 0, "lost_records": 0}
        for path, said in sorted(snapshot.damaged.items())
    ]
    told = pa.concat_tables(
        [table.filter(pa.array(present, pa.bool_())), pa.Table.from_pylist(damaged, schema=schema.PROBLEMS)]
    )
    return frames.frame(told, whole=("lost_bytes", "lost_records"))


def findings(store: Path, snapshot: Snapshot) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.findings`."""
    return frames.frame(source_table(store, snapshot, "findings", schema.FINDINGS)[0])


def ledger(snapshot: Snapshot) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.ledger`."""
    rows = []
    for source, reading in snapshot.readings.items():
        coverage = reading.coverage
        row = {name: getattr(reading.last, name) for name in ("run", "format", "confidence", "status", "reason")}
        for name in ("bytes_read", "records", "not_understood", "lost_bytes", "lost_records", "examples"):
            row[name] = getattr(coverage, name)
        row["other"] = sorted(coverage.other.items())
        row["parts"] = sum(len(entry.parts) for entry in reading.entries)
        rows.append(row | {"source": source})
    whole = ("bytes_read", "records", "not_understood", "lost_bytes", "lost_records", "parts")
    return frames.frame(pa.Table.from_pylist(rows, schema=_LEDGER_COLUMNS), whole=whole)
