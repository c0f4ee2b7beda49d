"""The rows of a part in their order: by tag and step, equal ones as they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.storage.text import storable
from replay_parsers.records import Scalars

Ranks = NDArray[np.int16] | NDArray[np.int32]
"""For each row the place of its tag among sorted ones."""

_NARROW = 1 << 15
"""So many ranks fit into int16."""

_BLOCK_ROWS = 1 << 16


class Room:
    """Arrays that are used again and again.

    Memory that a process has not had before costs more than sorting a column into it, since the system clears it.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}

    def array(self, name: str, length: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """An array of any content, in the memory that was last given out under ``name`` where there is enough."""
        held = self._arrays.get(name)
        if held is None or len(held) < length or held.dtype != kind:
            held = self._arrays[name] = np.empty(length, kind)
        return held[:length]

    def taken(self, name: str, column: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
        """``column[rows]``, in the memory called ``name``."""
        # Row numbers are never out of bounds; in the usual mode numpy would write to memory of its own first.
        return np.take(column, rows, out=self.array(name, len(rows), column.dtype), mode="clip")


@dataclass(frozen=True, slots=True)
class SortedScalars:
    """Columns of equal length in order; ``ranks`` index ``tags``, which are sorted and have ``tag_rows`` rows each."""

    tags: list[str]
    tag_rows: list[int]
    ranks: Ranks
    segment: NDArray[np.int32]
    step: NDArray[np.int64]
    wall_time: NDArray[np.int64]
    value: NDArray[np.float64]


def sort(scalars: Scalars, room: Room) -> SortedScalars:
    """The rows of ``scalars`` in order, in ``room``: valid until it is used again."""
    tags, tag_rows, ranks = _ranked(scalars, room)
    rows = rows_by_tag(ranks)
    step = room.taken("step", scalars.step, rows)
    if not _in_order(step, tag_rows):
        rows = np.lexsort((scalars.step, ranks))
        step = room.taken("step", scalars.step, rows)
    # Column by column, since one fits into the processor's cache where all together do not.
    return SortedScalars(
        tags=tags,
        tag_rows=tag_rows,
        ranks=room.taken("ranks", ranks, rows),
        segment=room.taken("segment", scalars.segment, rows),
        step=step,
        wall_time=room.taken("wall_time", scalars.wall_time, rows),
        value=room.taken("value", scalars.value, rows),
    )


def _ranked(scalars: Scalars, room: Room) -> tuple[list[str], list[int], Ranks]:
    """The tags that have rows, sorted, how many each has, and for each row the place of its tag among them."""
    # In blocks that stay in the processor's cache, since numpy makes wide indices of narrow ones first.
    blocks = [slice(first, first + _BLOCK_ROWS) for first in range(0, len(scalars), _BLOCK_ROWS)]
    counts = np.zeros(len(scalars.tags), np.int64)
    for block in blocks:
        counts += np.bincount(scalars.tag[block], minlength=len(counts))
    names = {code: storable(scalars.tags[code]) for code in np.flatnonzero(counts).tolist()}
    tags = sorted(set(names.values()))
    place = {tag: number for number, tag in enumerate(tags)}
    rank = np.zeros(len(counts), np.int16 if len(tags) <= _NARROW else np.int32)
    tag_rows = [0] * len(tags)
    for code, name in names.items():
        rank[code] = place[name]
        tag_rows[place[name]] += int(counts[code])
    ranks = room.array("ranks as they came", len(scalars), rank.dtype)
    for block in blocks:
        ranks[block] = rank[scalars.tag[block]]
    return tags, tag_rows, ranks


def rows_by_tag(ranks: Ranks) -> NDArray[np.int64]:
    """The row numbers in the order of tags, stably.  numpy sorts small integers by radix, which is much faster."""
    narrow = ranks.astype(np.int16, copy=False) if len(ranks) and int(ranks.max()) < _NARROW else ranks
    return np.argsort(narrow, kind="stable")


def _in_order(step: NDArray[np.int64], tag_rows: list[int]) -> bool:
    """Whether rows in the order of tags, of which there are ``tag_rows``, are in that of steps as well.

    Logs nearly always are, and looking is several times as fast as sorting by two keys.
    """
    back = np.flatnonzero(step[1:] < step[:-1]) + 1
    return bool(np.isin(back, np.cumsum(tag_rows)).all())


def sorted_rows(ranks: Ranks, step: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row numbers in the order of tag and step, stably."""
    rows = rows_by_tag(ranks)
    tag_rows = np.bincount(ranks).tolist() if len(ranks) else []
    return rows if _in_order(step[rows], tag_rows) else np.lexsort((step, ranks))
