"""Merging the parts of each source into one a table and run, and the ledger into one file.

What comes out is a function of the rows alone: a file that was followed while it grew and one that was read at
once are the same bytes afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from replay.storage import schema
from replay.storage.commits import clear_leftovers, write_entries
from replay.storage.errors import StoreError
from replay.storage.files import new_temporary
from replay.storage.layout import digest_of_file, table_folder
from replay.storage.ledger import FOLDER, Entry, Ledger, Part, total_coverage
from replay.storage.lock import writing
from replay.storage.merge_scalars import merge as merge_scalars
from replay.storage.part_writer import PartWriter
from replay.storage.parts import read_table, serialise
from replay.storage.query import concatenate
from replay.storage.record_parts import stem
from replay_parsers.records import ProblemKind

_COLUMNS = {
    "runs": schema.RUNS,
    "events": schema.EVENTS,
    "findings": schema.FINDINGS,
    "problems": schema.PROBLEMS,
}


def compact(
    store: Path, ledger: Ledger, derive: Callable[[Iterable[str]], None], only: Container[str] | None = None
) -> None:
    """Merge what can be merged, of the sources ``only`` (default: of all).  Waits for other writers to end.

    Raises :class:`StoreError` when a part is damaged or the store cannot be written; nothing is lost then.
    """
    with writing(store) as lock:
        alone = lock.wait_until_alone()
        former = ledger.names()
        snapshot = ledger.snapshot()
        if snapshot.damaged:
            raise StoreError(next(iter(snapshot.damaged.values())))
        with PartWriter(store) as writer:
            entries = [
                _merge_generation(writer, entries, last=entries[-1] is reading.last)
                for source, reading in snapshot.readings.items()
                for entries in reading.generations
                if only is None or source in only
            ]
            if only is not None:
                entries += [
                    entry
                    for source, reading in snapshot.readings.items()
                    if source not in only
                    for entry in reading.entries
                ]
            if entries:
                writer.settle()
                kept = write_entries(writer, entries)
                for name in former - {Path(kept).name}:
                    (store / FOLDER / name).unlink(missing_ok=True)
        if alone:
            clear_leftovers(store, ledger)
        derive(snapshot.runs())


def _merge_generation(writer: PartWriter, entries: Sequence[Entry], *, last: bool) -> Entry:
    """One entry for all ``entries`` of one generation of a source; ``last`` tells its newest generation."""
    if not entries[0].read:
        return replace(entries[0], sequence=0)
    end = entries[-1]
    parts: dict[tuple[str, str | None], list[tuple[Entry, Part]]] = defaultdict(list)
    for entry in entries:
        for part in entry.parts:
            parts[part.table, part.run].append((entry, part))
    name = stem(end.source, end.generation, 0, end.end)
    merged = []
    for (table, run), group in parts.items():
        if table == "scalars":
            merged.append(_merge_scalars(writer, name, end.source, run, [part for _, part in group]))
        else:
            merged.append(_merge_small(writer, name, table, run, group, end if last else None))
    return replace(
        end,
        start=0,
        sequence=0,
        replaces_former=entries[0].replaces_former,
        parts=tuple(sorted((part for part in merged if part.rows), key=lambda part: (part.table, part.run or ""))),
        coverage=total_coverage(entry.coverage for entry in entries),
    )


def _merge_scalars(writer: PartWriter, name: str, source: str, run: str | None, parts: Sequence[Part]) -> Part:
    folder = table_folder("scalars", run)
    try:
        temporary = new_temporary(writer.store / folder)
        try:
            merge_scalars([writer.store / part.path for part in parts], source, temporary)
            path = f"{folder}/{name}{digest_of_file(temporary)}.parquet"
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"{writer.store / folder}: cannot be written: {error.strerror or error}") from error
    if (writer.store / path).exists():
        temporary.unlink()
    else:
        writer.adopt(temporary, path)
    firsts = [part.first_step for part in parts if part.first_step is not None]
    lasts = [part.last_step for part in parts if part.last_step is not None]
    return Part(
        table="scalars",
        path=path,
        run=run,
        rows=sum(part.rows for part in parts),
        first_step=min(firsts),
        last_step=max(lasts),
    )


def _merge_small(
    writer: PartWriter,
    name: str,
    table: str,
    run: str | None,
    group: Sequence[tuple[Entry, Part]],
    end: Entry | None,
) -> Part:
    columns = _COLUMNS[table]
    tables = []
    for entry, part in group:
        rows = read_table(writer.store / part.path)
        # A record cut off at the end of an earlier reading was whole at the next.
        if table == "problems" and entry is not end:
            rows = pa.Table.from_pylist(
                [row for row in rows.to_pylist() if row["kind"] != ProblemKind.TRUNCATED], schema=columns
            )
        tables.append(rows)
    rows = concatenate(tables, columns)
    if table == "runs":
        rows = pa.Table.from_pylist([_merge_run_rows(rows.to_pylist(maps_as_pydicts="strict"))], schema=columns)
    if not len(rows):
        return Part(table=table, path="", run=run)
    path = writer.write(table_folder(table, run), name, serialise(rows))
    return Part(table=table, path=path, run=run, rows=len(rows))


def _merge_run_rows(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What one source says of a run, piece by piece, as one row: the later word counts, metadata add up."""
    merged: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    for row in rows:
        metadata |= row["metadata"] or {}
        merged |= {name: value for name, value in row.items() if value not in (None, "", []) or name not in merged}
    return merged | {"metadata": sorted(metadata.items())}
