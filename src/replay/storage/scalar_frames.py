"""Scalars as DataFrames: as queries return them, and as lineage and derivation take them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from replay.storage import frames
from replay.storage.ledger import Snapshot
from replay.storage.query import Steps, scalars_table, tag_counts
from replay.storage.row_order import sorted_rows

ALL_TAGS_UP_TO = 4_000_000
"""Of a run with more rows than this, attempts and events are found in the tags that carry a signal, and in the
longest one of each source, so that memory does not grow with the number of tags that nothing looks at."""


def scalars(
    store: Path, snapshot: Snapshot, run: str, tags: Sequence[str] | None = None, steps: Steps | None = None
) -> pd.DataFrame:
    """The scalars of ``run`` without attempts, in the order of tag, step, source and file, names as text."""
    table = _sorted(scalars_table(store, snapshot.parts("scalars", run), tags, steps))
    frame = frames.frame(table, whole=("segment", "step"))
    frame.insert(0, "run", pd.Series([run] * len(frame), dtype="str"))
    return frame


def measurements(store: Path, snapshot: Snapshot, run: str) -> pd.DataFrame:
    """The same with names as categories, which take a byte or two a row, for what looks at a run as a whole."""
    table = _sorted(scalars_table(store, snapshot.parts("scalars", run), _watched(store, snapshot, run), None))
    columns: dict[str, Any] = {"run": frames.categories(np.zeros(len(table), np.int32), [run])}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            columns[name] = _categories(column)
        elif pa.types.is_timestamp(column.type):
            columns[name] = pd.Series(column.to_pandas(), dtype=frames.TIME_TYPE)
        else:
            columns[name] = column.to_numpy()
    return pd.DataFrame(columns)


def told_once(frame: pd.DataFrame) -> pd.DataFrame:
    """``frame``, sorted by tag and step, without what another source tells alike.

    Of equal values of a tag at a step of one attempt those of one source are kept: the first, by name, that knows
    their time, else the first.  What a source itself tells twice stays.
    """
    sources, names = pd.factorize(frame["source"], sort=True)
    if len(names) < 2:
        return frame
    tag, step = pd.factorize(frame["tag"])[0], frame["step"].to_numpy()
    as_next = (tag[1:] == tag[:-1]) & (step[1:] == step[:-1])
    rows = np.flatnonzero(np.r_[as_next, False] | np.r_[False, as_next])
    if not len(rows):
        return frame
    alike = pd.DataFrame(
        {
            "attempt": frame["attempt"].iloc[rows].fillna(-1).to_numpy(np.int64),
            "tag": tag[rows],
            "step": step[rows],
            # Bit for bit, so that a NaN is like another.
            "value": frame["value"].to_numpy(np.float64)[rows].view(np.int64),
        }
    )
    rank = sources[rows] + len(names) * frame["wall_time"].iloc[rows].isna().to_numpy()
    best = pd.Series(rank).groupby([alike[name] for name in alike.columns], sort=False).transform("min").to_numpy()
    kept = np.ones(len(frame), dtype=bool)
    kept[rows] = rank == best
    return frame[kept].reset_index(drop=True)


def _watched(store: Path, snapshot: Snapshot, run: str) -> list[str] | None:
    """The tags that are worth looking at, None for all."""
    from replay.signals import signal_of

    parts = snapshot.parts("scalars", run)
    if sum(part.rows for _, part in parts) <= ALL_TAGS_UP_TO:
        return None
    by_source: dict[str, list[Path]] = {}
    for entry, part in parts:
        by_source.setdefault(entry.source, []).append(store / part.path)
    watched: set[str] = set()
    for paths in by_source.values():
        counts = tag_counts(paths)
        watched |= {tag for tag in counts if signal_of(tag) is not None}
        watched.add(max(counts, key=lambda tag: (counts[tag][0], tag)))
    return sorted(watched)


def _sorted(table: pa.Table) -> pa.Table:
    """Rows by tag and step, equal ones as they came; names as dictionaries in order."""
    table = table.unify_dictionaries().combine_chunks()
    if not len(table):
        return table
    tags = table["tag"].chunk(0)
    rank = np.argsort(np.argsort(np.array(tags.dictionary.to_pylist(), dtype=object))).astype(np.int32)
    order = sorted_rows(rank[np.asarray(tags.indices)], table["step"].to_numpy())
    in_order = bool(np.all(order[1:] > order[:-1]))
    return table if in_order else table.take(pa.array(order))


def _categories(column: pa.ChunkedArray) -> Any:
    """A dictionary column as categories in the order of their names, only those that occur."""
    if not len(column):
        return frames.categories(np.empty(0, np.int32), [])
    chunk = column.combine_chunks()
    array = chunk.chunk(0) if isinstance(chunk, pa.ChunkedArray) else chunk
    names = array.dictionary.to_pylist()
    codes = np.asarray(array.indices)
    used = sorted(np.unique(codes).tolist(), key=names.__getitem__)
    place = np.zeros(len(names), np.int32)
    place[used] = np.arange(len(used))
    return frames.categories(place[codes], [names[code] for code in used])
