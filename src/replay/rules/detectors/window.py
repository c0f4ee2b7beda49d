"""The robust baseline: median and spread of the last points, and the history they are taken from."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The median absolute deviation of normal noise, times this, is its standard deviation.
MAD_TO_SIGMA = 1.4826
# Of few points the median absolute deviation may be near 0 by chance; a third of their range is steadier.
_FEW = 10


def running_medians(before: Floats, values: Floats, window: int) -> Floats:
    """Per value, the median of the ``window`` points before it (fewer at the start), NaN where there is none.

    ``before`` holds the points that came before ``values``.  O(points x window), exact, so that the result does not
    depend on how a series was split.
    """
    before = before[-window:]
    everything = np.concatenate([before, values])
    medians = np.full(len(values), np.nan)
    growing = min(max(0, window - len(before)), len(values))
    for index in range(growing):
        if len(before) + index:
            medians[index] = np.median(everything[: len(before) + index])
    if growing < len(values):
        start = len(before) + growing - window
        windows = sliding_window_view(everything, window)[start : start + len(values) - growing]
        medians[growing:] = np.median(windows, axis=1)
    return medians


def spread(points: Floats) -> float:
    """A robust standard deviation of ``points``, shape [n], n > 0."""
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(points - np.median(points))))
    if len(points) < _FEW:
        sigma = max(sigma, float(np.max(points) - np.min(points)) / 3)
    return sigma


class History:
    """The last ``length`` points, with their steps, so that a rollback can take points back."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._steps = np.empty(0, dtype=np.int64)
        self._values = np.empty(0, dtype=np.float64)

    def __len__(self) -> int:
        return len(self._values)

    def last(self, count: int) -> Floats:
        """The last ``count`` values."""
        return self._values[-count:]

    def extend(self, steps: NDArray[np.int64], values: Floats) -> None:
        """Add points, and forget the oldest."""
        self._steps = np.concatenate([self._steps, steps])[-self._length :]
        self._values = np.concatenate([self._values, values])[-self._length :]

    def withdraw(self, count: int) -> tuple[list[int], list[float]]:
        """Take out the last ``count`` points; returns their steps and values."""
        steps, values = self._steps[-count:].tolist(), self._values[-count:].tolist()
        self._steps, self._values = self._steps[:-count], self._values[:-count]
        return steps, values

    def take_back(self, first_step: int) -> None:
        """Forget the points at and after ``first_step``."""
        kept = self._steps < first_step
        self._steps, self._values = self._steps[kept], self._values[kept]

    def clear(self) -> None:
        """Forget everything."""
        self._steps, self._values = self._steps[:0], self._values[:0]

    def state(self) -> dict[str, list[float] | list[int]]:
        """Steps and values as lists."""
        return {"steps": self._steps.tolist(), "values": self._values.tolist()}

    def load(self, state: dict[str, list[float] | list[int]]) -> None:
        """Go on from :meth:`state`."""
        self._steps = np.array(state["steps"], dtype=np.int64)
        self._values = np.array(state["values"], dtype=np.float64)
