"""A stretch of training as one source tells it: what it covers, and whether another tells the same.

One stretch may be told twice, by a log and by an event file; and one file may hold two stretches with another file's
between them.  :mod:`replay.lineage.segments` finds stretches in scalars, :mod:`replay.lineage` makes attempts of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Column = tuple[NDArray[np.int64], NDArray[np.float64]]
"""(step, value), steps ascending and distinct."""
Clock = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(step, microseconds since 1970), both ascending."""

# Losses are compared: what is printed to four decimals must equal what an event file holds as float32.
_ROUNDING = 5.1e-5
_RELATIVE = 2e-6
_SAME_TELLING = 0.9
_SAME_BEGINNING = 0.5


@dataclass
class Stretch:
    """Part of one source without a real step back.

    ``first`` and ``last`` are logged steps; ``interval`` the usual distance of two reports; ``begin`` and ``end`` are
    microseconds since 1970, None where the source has no times.
    """

    source: str
    segments: tuple[int, ...]
    first: int
    last: int
    interval: int
    begin: int | None
    end: int | None
    low: int | None = None
    high: int | None = None
    """Where a source that another one interrupts is cut: only rows with ``low`` <= step <= ``high`` belong here."""
    clock: Clock | None = field(default=None, repr=False)
    """(step, time) of the tag with most rows, where it has times."""
    losses: dict[str, Column] = field(default_factory=dict, repr=False)
    """Values by which two tellings are compared: name -> (step, value), steps ascending and distinct."""

    def overlaps_in_time(self, other: Stretch) -> bool | None:
        """Whether both were written at the same time; None when the clock does not tell.

        A process that begins as another ends may share its last seconds: half of the shorter one must be shared.
        """
        if self.begin is None or self.end is None or other.begin is None or other.end is None:
            return None
        shared = min(self.end, other.end) - max(self.begin, other.begin)
        shorter = min(self.end - self.begin, other.end - other.begin)
        if shared < 0:
            return False
        if shorter > 0:
            return shared * 2 > shorter
        return None if self.begin == other.begin and self.end == other.end else True

    def overlaps_in_steps(self, other: Stretch) -> bool:
        """Whether the step ranges have a step in common."""
        return max(self.first, other.first) <= min(self.last, other.last)

    def agrees_with(self, other: Stretch) -> bool | None:
        """Whether the values at common steps are equal up to rounding; None when there is no common step.

        Equal up to some step and different from there on counts, if that is most of them: the other telling goes on
        with what followed a restart, from which this one ends.
        """
        steps, equal = [], []
        for name in self.losses.keys() & other.losses.keys():
            (mine, values), (theirs, others) = self.losses[name], other.losses[name]
            common, left, right = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
            a, b = values[left], others[right]
            steps.append(common)
            equal.append((np.abs(a - b) <= _ROUNDING + _RELATIVE * np.abs(a)) | (a == b) | (np.isnan(a) & np.isnan(b)))
        if not sum(len(common) for common in steps):
            return None
        same = np.concatenate(equal)[np.argsort(np.concatenate(steps), kind="stable")]
        share = float(np.mean(same))
        first_part = bool(same[: int(np.count_nonzero(same))].all())
        return share >= _SAME_TELLING or (share >= _SAME_BEGINNING and first_part)

    def tells_the_same_as(self, other: Stretch) -> bool:
        """Whether this is another telling of the same stretch of training, or its other half written in turn."""
        together = self.overlaps_in_time(other)
        if together is False:
            return False
        agreement = self.agrees_with(other)
        if agreement is not None:
            return agreement
        # Nothing to compare: two writers in turn when the clock says so; without a clock, overlapping steps are
        # taken for two parts of one telling (losses here, learning rates there).
        return bool(together) or (together is None and self.overlaps_in_steps(other))


def cut_where_interrupted(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Cut a stretch in whose pause another source went back: one file can hold an attempt and the one after next."""
    result: list[Stretch] = []
    timed = sorted((s for s in stretches if s.begin is not None and s.end is not None), key=lambda s: s.begin or 0)
    for stretch in stretches:
        pieces = [stretch]
        for other in timed:
            if other.source != stretch.source and (cut := _interruption(pieces[-1], other)) is not None:
                pieces[-1:] = [_half(pieces[-1], cut, early=True), _half(pieces[-1], cut, early=False)]
        result += pieces
    return result


def _interruption(stretch: Stretch, other: Stretch) -> int | None:
    """The last step of ``stretch`` before ``other`` went back, if ``other`` lies within a pause of it."""
    if stretch.clock is None:
        return None
    steps, times = stretch.clock
    begin, end = other.begin or 0, other.end or 0
    before, after = int(np.searchsorted(times, begin, "right")), int(np.searchsorted(times, end, "left"))
    if before != after or before == 0 or after == len(times) or other.first > steps[before - 1]:
        return None
    return int(steps[before - 1])


def _half(stretch: Stretch, step: int, *, early: bool) -> Stretch:
    """``stretch`` up to and including ``step``, or what follows."""
    if stretch.clock is None:
        return stretch
    inside = (stretch.clock[0] <= step) == early
    steps, times = stretch.clock[0][inside], stretch.clock[1][inside]
    losses = {}
    for name, (at, values) in stretch.losses.items():
        chosen = (at <= step) == early
        losses[name] = (at[chosen], values[chosen])
    return replace(
        stretch,
        first=int(steps[0]),
        last=int(steps[-1]),
        begin=int(times[0]),
        end=int(times[-1]),
        low=stretch.low if early else step + 1,
        high=step if early else stretch.high,
        clock=(steps, times),
        losses=losses,
    )
