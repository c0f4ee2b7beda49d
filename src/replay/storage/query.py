"""Reading tables back: only the parts that count, and of those only the groups of rows that can match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replay.storage import schema
from replay.storage.errors import DamagedPartError, StoreError
from replay.storage.layout import DERIVED_EVENTS, table_folder
from replay.storage.ledger import Entry, Part, Snapshot
from replay.storage.parts import faults_told, open_part, read_groups, read_table

Steps = tuple[int | None, int | None]

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def events_table(
    store: Path,
    snapshot: Snapshot,
    runs: Sequence[str],
    *,
    derived: bool,
    kinds: Sequence[str] | None = None,
    damaged: dict[str, str] | None = None,
) -> pa.Table:
    """The events of ``runs`` (of ``kinds`` only, if given), with the columns ``run`` and ``format`` besides.

    ``format`` is that of the source's parser.  Where those that were found in scalars are damaged, and cannot be found
    anew, they are missing; ``damaged`` says so, by path.
    """
    tables = []
    for run in runs:
        for entry, part in snapshot.parts("events", run):
            tables.append(_with(read_table(store / part.path), run=run, format=entry.format))
        computed = store / derived_path("events", run)
        if derived and computed.exists():
            try:
                tables.append(_with(read_table(computed), run=run, format="derived"))
            except DamagedPartError as error:
                # It could not be computed anew, or it would be sound.
                if damaged is not None:
                    damaged[str(computed)] = f"events found in scalars are missing: {error}"
    columns = pa.schema([("run", pa.string()), *schema.EVENTS, ("format", pa.string())])
    events = concatenate(tables, columns)
    if kinds is None:
        return events
    return events.filter(pa.array([kind in kinds for kind in events["kind"].to_pylist()], pa.bool_()))


def derived_path(table: str, run: str) -> str:
    """The one part of ``run`` in a table that is computed from others, relative to the store."""
    name = DERIVED_EVENTS if table == "events" else f"{table}.parquet"
    return f"{table_folder(table, run)}/{name}"


def _with(table: pa.Table, **constants: str) -> pa.Table:
    for name, value in constants.items():
        table = table.append_column(name, pa.array([value] * len(table), pa.string()))
    return table


def concatenate(tables: Sequence[pa.Table], columns: pa.Schema) -> pa.Table:
    """The rows of all ``tables`` in ``columns``, none of which needs to be the order of theirs."""
    try:
        known = [table.select(columns.names).cast(columns) for table in tables]
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise StoreError(
            f"a part of the store has other columns than this version of replay reads ({error})"
        ) from error
    return pa.concat_tables([columns.empty_table(), *known])


def source_table(store: Path, snapshot: Snapshot, table: str, columns: pa.Schema) -> tuple[pa.Table, list[Entry]]:
    """All rows of a table that holds what sources say, and the entry of each row."""
    tables, entries = [], []
    for entry, part in snapshot.parts(table):
        rows = read_table(store / part.path)
        tables.append(rows)
        entries += [entry] * len(rows)
    return concatenate(tables, columns), entries


def scalars_table(
    store: Path, parts: Iterable[tuple[Entry, Part]], tags: Sequence[str] | None, steps: Steps | None
) -> pa.Table:
    """The scalars of ``parts`` with one of ``tags`` (None: any) in the inclusive range ``steps``."""
    tables = []
    for _, part in parts:
        if steps is not None and not _overlap(part.first_step, part.last_step, steps):
            continue
        path = store / part.path
        with open_part(path, read_dictionary=["source", "tag"]) as file, faults_told(path):
            groups = _matching_groups(file, tags, steps)
            if groups:
                rows = _matching_rows(read_groups(path, file, groups=groups), tags, steps)
                tables.append(rows.cast(schema.SCALARS_ON_DISK))
    if not tables:
        return schema.SCALARS_ON_DISK.empty_table()
    return pa.concat_tables(tables).unify_dictionaries()


def _overlap(first: Any, last: Any, steps: Steps) -> bool:
    return not (
        (steps[0] is not None and last is not None and last < steps[0])
        or (steps[1] is not None and first is not None and first > steps[1])
    )


def _matching_groups(file: pq.ParquetFile, tags: Sequence[str] | None, steps: Steps | None) -> list[int]:
    """The row groups that can hold matching rows, by the statistics in the file's footer."""
    columns = {file.metadata.schema.column(index).name: index for index in range(file.metadata.num_columns)}
    groups = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if tags is not None:
            bounds = group.column(columns["tag"]).statistics
            if bounds is not None and bounds.has_min_max and not any(bounds.min <= tag <= bounds.max for tag in tags):
                continue
        if steps is not None:
            bounds = group.column(columns["step"]).statistics
            if bounds is not None and bounds.has_min_max and not _overlap(bounds.min, bounds.max, steps):
                continue
        groups.append(number)
    return groups


def _matching_rows(table: pa.Table, tags: Sequence[str] | None, steps: Steps | None) -> pa.Table:
    wanted = np.ones(len(table), dtype=bool)
    if tags is not None:
        # Compared once a name, not once a row.
        table = table.unify_dictionaries().combine_chunks()
        names = table["tag"].chunk(0).dictionary.to_pylist() if len(table) else []
        codes = [code for code, name in enumerate(names) if name in tags]
        if len(table):
            wanted &= np.isin(np.asarray(table["tag"].chunk(0).indices), codes)
    if steps is not None:
        step = table["step"].to_numpy()
        wanted &= (step >= (steps[0] if steps[0] is not None else _LEAST)) & (
            step <= (steps[1] if steps[1] is not None else _GREATEST)
        )
    return table if wanted.all() else table.filter(pa.array(wanted))


def tag_counts(paths: Iterable[Path]) -> dict[str, tuple[int, int, int]]:
    """For each tag in parts of scalars the number of rows, the first and the last step, by tag.

    A group of rows with one tag is counted by its statistics, so that long series are not read.
    """
    counts: dict[str, tuple[int, int, int]] = {}

    def add(tag: str, rows: int, first: int, last: int) -> None:
        before = counts.get(tag, (0, first, last))
        counts[tag] = (before[0] + rows, min(before[1], first), max(before[2], last))

    for path in paths:
        with open_part(path, read_dictionary=["tag"]) as file, faults_told(path):
            columns = {file.metadata.schema.column(index).name: index for index in range(file.metadata.num_columns)}
            mixed = []
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                tag, step = (group.column(columns[name]).statistics for name in ("tag", "step"))
                if tag is None or step is None or not (tag.has_min_max and step.has_min_max) or tag.min != tag.max:
                    mixed.append(number)
                else:
                    add(tag.min, group.num_rows, step.min, step.max)
            for number in mixed:
                rows = read_groups(path, file, groups=[number], columns=["tag", "step"])
                for tag, (count, first, last) in _count_by_tag(rows).items():
                    add(tag, count, first, last)
    return dict(sorted(counts.items()))


def _count_by_tag(rows: pa.Table) -> dict[str, tuple[int, int, int]]:
    rows = rows.unify_dictionaries().combine_chunks()
    tags = rows["tag"].combine_chunks() if rows["tag"].num_chunks != 1 else rows["tag"].chunk(0)
    codes = np.asarray(tags.indices)
    step = rows["step"].to_numpy()
    order = np.argsort(codes, kind="stable")
    codes, step = codes[order], step[order]
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    names = tags.dictionary.to_pylist()
    counts = np.diff(np.r_[starts, len(codes)])
    first, last = np.minimum.reduceat(step, starts), np.maximum.reduceat(step, starts)
    return {
        names[codes[start]]: (int(count), int(low), int(high))
        for start, count, low, high in zip(starts, counts, first, last, strict=True)
    }
