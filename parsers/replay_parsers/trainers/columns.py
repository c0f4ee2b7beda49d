"""Rows of a trainer log, gathered into columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay_parsers.records import NO_TIME, Scalars

MOST_TAGS = 20_000
"""A file that names more is no log: values of further names are left out, and that is told."""


class ScalarColumns:
    """Collects measured values and numbers the segments between steps back.

    A segment ends when a tag's step goes below that tag's own last step in the segment.  What belongs to one
    printed record stays together.  Everything that must outlive a piece is in :meth:`state`.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self.segment = int(state.get("segment", 0))
        self.last_step: int | None = state.get("last_step")
        # The step before, in the same segment: the distance between two reports.
        self.interval: int | None = state.get("interval")
        self._last_of: dict[str, int] = dict(state.get("last_of", {}))
        # Where earlier segments began and ended, each sorted: a file that steps back on every line has very many.
        self._firsts: list[int] = list(state.get("firsts", []))
        self._lasts: list[int] = list(state.get("lasts", []))
        self._span: list[int] | None = list(state["span"]) if state.get("span") else None
        # Every name there was, in earlier segments too: there is room for so many in a log, however often it is read.
        self._known: set[str] = {*self._last_of, *state.get("known", [])}
        self._clear()

    def state(self) -> dict[str, Any]:
        return {
            "segment": self.segment,
            "last_step": self.last_step,
            "interval": self.interval,
            "last_of": dict(self._last_of),
            "known": sorted(self._known - self._last_of.keys()),
            "firsts": list(self._firsts),
            "lasts": list(self._lasts),
            "span": list(self._span) if self._span else None,
        }

    def _clear(self) -> None:
        self._chunks: list[Scalars] = []
        self._clear_records()

    def _clear_records(self) -> None:
        self._tags: list[str] = []
        self._values: list[float] = []
        self._record_lengths: list[int] = []
        self._record_steps: list[int] = []
        self._record_times: list[int] = []
        self._record_segments: list[int] = []

    def __len__(self) -> int:
        return len(self._values) + sum(map(len, self._chunks))

    def add(self, step: int, tags: Sequence[str], values: Sequence[float], time: int | None = None) -> None:
        """Add what one record prints at ``step``; ``time`` is in microseconds since 1970."""
        last_of = self._last_of
        for tag in tags:
            if last_of.get(tag, step) > step:
                self._next_segment()
                last_of = self._last_of
                break
        for tag in tags:
            last_of[tag] = step
        if self.last_step is not None and step > self.last_step:
            self.interval = step - self.last_step
        self.last_step = step
        if self._span is None:
            self._span = [step, step]
        elif step > self._span[1]:
            self._span[1] = step
        elif step < self._span[0]:
            self._span[0] = step
        self._tags += tags
        self._values += values
        self._record_lengths.append(len(tags))
        self._record_steps.append(step)
        self._record_times.append(NO_TIME if time is None else time)
        self._record_segments.append(self.segment)

    def _next_segment(self) -> None:
        self.segment += 1
        self.interval = None
        self.last_step = None
        self._last_of = {}
        if self._span is not None:
            insort(self._firsts, self._span[0])
            insort(self._lasts, self._span[1])
            self._span = None

    def knows(self, tag: str) -> bool:
        """Whether ``tag`` may be added: it is known, or there is room for one more."""
        if tag in self._known:
            return True
        if len(self._known) >= MOST_TAGS:
            return False
        self._known.add(tag)
        return True

    def has_room_for(self, tags: Set[str]) -> bool:
        """Whether all of ``tags`` may be added; nothing is done when not."""
        if not self.know(tags):
            if len(self._known | tags) > MOST_TAGS:
                return False
            self._known |= tags
        return True

    def know(self, tags: Set[str]) -> bool:
        """Whether all of ``tags`` are known already."""
        return self._known >= tags

    def times_reached(self, step: int) -> int:
        """How many earlier segments passed ``step``."""
        return bisect_right(self._firsts, step) - bisect_left(self._lasts, step)

    def add_many(
        self,
        steps: NDArray[np.int64],
        tags: tuple[str, ...],
        values: NDArray[np.float64],
        times: NDArray[np.int64] | None,
    ) -> None:
        """Add records of the same tags: ``steps`` and ``times`` of shape [records], ``values`` of [records, tags].

        ``steps`` must not go back; ``times`` are microseconds since 1970.
        """
        self.add(int(steps[0]), tags, values[0].tolist(), None if times is None else int(times[0]))
        count = len(steps) - 1
        if count == 0:
            return
        self._chunks.append(self._records())
        self._clear_records()
        later = steps[1:]
        self._chunks.append(
            Scalars(
                tags=tags,
                tag=np.tile(np.arange(len(tags), dtype=np.int32), count),
                segment=np.full(count * len(tags), self.segment, np.int32),
                step=np.repeat(later, len(tags)),
                wall_time=np.repeat(np.full(count, NO_TIME) if times is None else times[1:], len(tags)),
                value=values[1:].ravel(),
            )
        )
        last = int(later[-1])
        self._last_of.update(dict.fromkeys(tags, last))
        if self._span is not None:
            self._span[1] = max(self._span[1], last)
        growing = np.flatnonzero(np.diff(steps) > 0)
        if len(growing):
            self.interval = int(steps[growing[-1] + 1] - steps[growing[-1]])
        self.last_step = last

    def take(self) -> Scalars:
        """The rows since the last call, as columns."""
        rows = Scalars.concatenate([*self._chunks, self._records()])
        self._clear()
        return rows

    def _records(self) -> Scalars:
        if not self._values:
            return Scalars.empty()
        codes: dict[str, int] = {}
        for tag in self._tags:
            if tag not in codes:
                codes[tag] = len(codes)
        lengths = np.array(self._record_lengths)
        return Scalars(
            tags=tuple(codes),
            tag=np.fromiter(map(codes.__getitem__, self._tags), np.int32, len(self._tags)),
            segment=np.repeat(np.array(self._record_segments, np.int32), lengths),
            step=np.repeat(np.array(self._record_steps, np.int64), lengths),
            wall_time=np.repeat(np.array(self._record_times, np.int64), lengths),
            value=np.array(self._values, np.float64),
        )
