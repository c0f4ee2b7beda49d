"""What rules read: one signal of a run as columns, and how such columns are made from a store's scalars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One signal, in order of attempts and, within each, of steps; every column has shape [points].

    ``wall_time`` is in microseconds since 1970 UTC, the smallest int64 where unknown.  Raises :class:`ValueError`
    when the columns differ in length.
    """

    step: NDArray[np.int64]
    wall_time: NDArray[np.int64]
    value: NDArray[np.float64]
    attempt: NDArray[np.int32]

    def __post_init__(self) -> None:
        lengths = {len(column) for column in (self.step, self.wall_time, self.value, self.attempt)}
        if len(lengths) != 1:
            raise ValueError(f"the columns of a series differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, rows: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Series:
        return Series(self.step[rows], self.wall_time[rows], self.value[rows], self.attempt[rows])

    @classmethod
    def of(
        cls,
        value: Iterable[float],
        *,
        step: Iterable[int] | None = None,
        attempt: Iterable[int] | int = 0,
        wall_time: Iterable[int] | None = None,
    ) -> Series:
        """A series from plain numbers; steps count from 1 unless given.

        >>> Series.of([2.5, 2.4], attempt=0).step.tolist()
        [1, 2]
        """
        values = np.array(list(value), dtype=np.float64)
        count = len(values)
        attempts = np.full(count, attempt) if isinstance(attempt, int) else np.array(list(attempt))
        return cls(
            step=np.arange(1, count + 1, dtype=np.int64) if step is None else np.array(list(step), dtype=np.int64),
            wall_time=np.full(count, NO_TIME) if wall_time is None else np.array(list(wall_time), dtype=np.int64),
            value=values,
            attempt=attempts.astype(np.int32),
        )

    @classmethod
    def joined(cls, parts: Iterable[Series]) -> Series:
        """Parts of one signal, one after the other."""
        parts = list(parts) or [cls.of([])]
        return cls(
            step=np.concatenate([part.step for part in parts]),
            wall_time=np.concatenate([part.wall_time for part in parts]),
            value=np.concatenate([part.value for part in parts]),
            attempt=np.concatenate([part.attempt for part in parts]),
        )
