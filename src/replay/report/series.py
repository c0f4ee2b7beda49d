"""A series of a million points as the few thousand that a chart can show, extremes and holes kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 2_000
"""Finite points that one drawn line may have; as many again may mark where values are not finite."""

GAP_STRIDES = 10
"""A hole of this many usual strides between two logged steps is shown as a hole, not bridged by a line."""


def keep_extremes(value: NDArray[np.float64], limit: int = MAX_POINTS) -> NDArray[np.int64]:
    """Indices, ascending, of the values to draw: at most about ``limit`` finite ones.

    The series is cut into ``limit / 2`` buckets of equal length; each gives its lowest and highest finite value,
    so that a spike of one step survives any reduction, and the first and last of its values that are not finite.
    The first and last point stay.  ``value`` has shape [n].
    """
    n = len(value)
    if n <= limit:
        return np.arange(n, dtype=np.int64)
    edges = np.linspace(0, n, max(1, limit // 2) + 1).astype(np.int64)
    finite = np.isfinite(value)
    kept = [np.array([0, n - 1], dtype=np.int64)]
    for filler, reduce in ((np.inf, np.minimum), (-np.inf, np.maximum)):
        filled = np.where(finite, value, filler)
        extreme = np.repeat(reduce.reduceat(filled, edges[:-1]), np.diff(edges))
        kept.append(_first_of_each_bucket(np.flatnonzero(finite & (filled == extreme)), edges))
    broken = np.flatnonzero(~finite)
    kept.append(_first_of_each_bucket(broken, edges))
    kept.append(n - 1 - _first_of_each_bucket((n - 1 - broken)[::-1], n - edges[::-1]))
    return np.unique(np.concatenate(kept))


def _first_of_each_bucket(positions: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    bucket = np.searchsorted(edges, positions, side="right")
    return positions[np.diff(bucket, prepend=-1) > 0]


def holes(step: NDArray[np.int64], strides: int = GAP_STRIDES) -> NDArray[np.int64]:
    """Positions after which steps are missing: the next logged step is more than ``strides`` usual ones on.

    The usual stride is the median of the distances.  ``step`` is ascending, shape [n].
    """
    if len(step) < 3:
        return np.empty(0, np.int64)
    distance = np.diff(step.astype(np.float64))
    ahead = distance[distance > 0]
    usual = float(np.median(ahead)) if len(ahead) else 1.0
    return np.flatnonzero(distance > strides * usual)
