"""Merging sorted parts of scalars into one, with memory for one tag at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replay.storage.files import new_temporary
from replay.storage.parts import open_part, read_groups, row_groups, write_scalars
from replay.storage.query import tag_counts
from replay.storage.records_as_tables import scalar_table
from replay.storage.schema import SCALARS_ON_DISK
from replay_parsers.records import NO_TIME

AT_ONCE = 16
"""So many parts are merged at once: one group of rows of each is in memory."""

Columns = dict[str, NDArray[Any]]


def merge(paths: Sequence[Path], source: str, target: Path) -> None:
    """Write the rows of all ``paths``, parts of one source in its order, to ``target`` as one part.

    Raises :class:`replay.storage.errors.StoreError` when a part is damaged, :class:`OSError` when ``target``
    cannot be written.
    """
    if len(paths) <= AT_ONCE:
        # A stream, not a path: Arrow would take a relative path with a colon in it for a URI.
        with target.open("wb") as sink:
            write_scalars(_groups(paths, source), SCALARS_ON_DISK, sink)
        return
    with ExitStack() as temporaries:
        merged: list[Path] = []
        for first in range(0, len(paths), AT_ONCE):
            merged.append(new_temporary(target.parent))
            temporaries.callback(merged[-1].unlink, missing_ok=True)
            merge(paths[first : first + AT_ONCE], source, merged[-1])
        merge(merged, source, target)


def _groups(paths: Sequence[Path], source: str) -> Iterator[pa.Table]:
    counts = tag_counts(paths)
    tags = list(counts)
    bounds = row_groups([rows for rows, _, _ in counts.values()])
    waiting: list[Columns] = []
    rows_waiting = 0
    with ExitStack() as files:
        cursors = [files.enter_context(_Cursor(path)) for path in paths]
        for rank, tag in enumerate(tags):
            columns = _sorted_by_step([piece for cursor in cursors for piece in cursor.take(tag)])
            columns["ranks"] = np.full(len(columns["step"]), rank, np.int32)
            waiting.append(columns)
            rows_waiting += len(columns["step"])
            while bounds and rows_waiting >= bounds[0][1] - bounds[0][0]:
                rows = bounds[0][1] - bounds.pop(0)[0]
                together = _concatenate(waiting)
                yield scalar_table(source=source, tags=tags, **{name: one[:rows] for name, one in together.items()})
                waiting = [{name: one[rows:] for name, one in together.items()}]
                rows_waiting -= rows


def _concatenate(pieces: Sequence[Columns]) -> Columns:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _sorted_by_step(pieces: Sequence[Columns]) -> Columns:
    columns = dict(_concatenate(pieces))
    step = columns["step"]
    if bool(np.any(step[1:] < step[:-1])):
        order = np.argsort(step, kind="stable")
        columns = {name: one[order] for name, one in columns.items()}
    return columns


class _Cursor:
    """Walks through one part from tag to tag, one group of rows at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_part(path, read_dictionary=["tag"])
        self._next_group = 0
        self._tags: list[str] = []
        self._ends: list[int] = []
        self._columns: Columns = {}
        self._run = 0

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take(self, tag: str) -> Iterator[Columns]:
        """The rows of ``tag``, if they come next."""
        while self._peek() == tag:
            first, end = ([0, *self._ends])[self._run], self._ends[self._run]
            yield {name: column[first:end] for name, column in self._columns.items()}
            self._run += 1

    def _peek(self) -> str | None:
        if self._run == len(self._tags):
            if self._next_group == self._file.metadata.num_row_groups:
                return None
            self._read_group()
        return self._tags[self._run]

    def _read_group(self) -> None:
        names = ["segment", "tag", "step", "wall_time", "value"]
        rows = read_groups(self._path, self._file, groups=[self._next_group], columns=names).combine_chunks()
        self._next_group += 1
        tags = rows["tag"].chunk(0)
        codes = np.asarray(tags.indices)
        starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
        dictionary = tags.dictionary.to_pylist()
        self._tags = [dictionary[code] for code in codes[starts]]
        self._ends = [*starts[1:].tolist(), len(codes)]
        self._run = 0
        time = pc.fill_null(rows["wall_time"].cast(pa.int64()), NO_TIME)
        self._columns = {
            "segment": rows["segment"].to_numpy(),
            "step": rows["step"].to_numpy(),
            "wall_time": time.to_numpy(),
            "value": rows["value"].to_numpy(),
        }
