"""Jumps in a learning rate that its schedule does not explain.

A schedule moves in small steps, or in steps like those around them: warm-up, decay and re-warm are slopes, and a
staircase has equal stairs.  A jump is a single step far steeper than its neighbours on both sides, on the scale of
values and on that of ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

LEAST_CHANGE = 0.05
"""A change by less than this share is not told from a schedule's own steps."""
_NEIGHBOURS = 5
_STEEPER = 4.0
_WARM_UP_REPORTS = 3
_LEAST_QUANTA = 2.5
_REGULAR = 0.2
_LEAST_STAIRS, _LEAST_STAIR_LENGTH, _EVEN_SHARE = 5, 3, 0.7


@dataclass(frozen=True, slots=True)
class Jump:
    """Between reports ``index`` - 1 and ``index`` the rate jumps; ``end`` is the report at which a re-warm that
    follows has reached its peak, None where none follows."""

    index: int
    end: int | None = None


def jumps(step: Steps, rate: Floats, *, from_start: bool = True) -> list[Jump]:
    """The jumps of one attempt's learning rate.

    ``step``, ``rate``: shape [reports], steps ascending.  ``from_start``: the first report is that of the start of
    training, or of an attempt, where a rise is a warm-up.
    """
    stairs = _stairs(rate)
    if stairs is not None:
        # A schedule that is set every so many reports is judged stair by stair.
        on_stairs = jumps(step[stairs], rate[stairs], from_start=from_start)
        return [
            Jump(int(stairs[jump.index]), None if jump.end is None else int(stairs[jump.end])) for jump in on_stairs
        ]
    found = []
    for index in _candidates(rate):
        if from_start and index <= _WARM_UP_REPORTS and rate[index] > rate[index - 1]:
            continue
        peak = rewarm_end(rate, index)
        if peak is not None or _stands_out(step, rate, index):
            found.append(Jump(index, peak))
    return [] if _is_a_staircase(step, rate, found) else found


def _stairs(rate: Floats) -> NDArray[np.int64] | None:
    """The first report of every stair, if the rate is a staircase of at least a few stairs of equal length."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(rate) != 0) + 1])
    lengths = np.diff(starts)
    if len(lengths) < _LEAST_STAIRS:
        return None
    usual = float(np.median(lengths))
    even = np.mean(np.abs(lengths / usual - 1) <= _REGULAR)
    return starts if usual >= _LEAST_STAIR_LENGTH and even >= _EVEN_SHARE else None


def quantum(rate: Floats) -> Floats:
    """Per value, the size of a step in its last printed digit.  Shape [reports] -> [reports].

    Numbers are printed with so many significant digits, or with so many after the point; the coarser one counts.
    """
    positive = rate[rate > 0]
    if not len(positive):
        return np.zeros(len(rate))
    exponent = np.floor(np.log10(positive))
    digits = next((n for n in range(1, 8) if _are_multiples(positive, 10.0 ** (exponent - n + 1))), 8)
    places = next((n for n in range(1, 12) if _are_multiples(positive, np.full(len(positive), 10.0**-n))), None)
    exponents = np.floor(np.log10(np.where(rate > 0, rate, 1.0)))
    unit = np.maximum(10.0 ** (exponents - digits + 1), 0.0 if places is None else 10.0**-places)
    return np.where(rate > 0, unit, 0.0)


def _are_multiples(values: Floats, unit: Floats) -> bool:
    """Whether nearly all values are whole multiples of their unit, as far as float32 can tell."""
    return bool(np.mean(np.abs(values - np.round(values / unit) * unit) <= 2e-7 * values) > 0.99)


def rewarm_end(rate: Floats, index: int) -> int | None:
    """Where a fall to less than half is followed by a climb back over several reports: the report at its peak."""
    before, low = rate[index - 1], rate[index]
    if not low < before / 2:
        return None
    rising = np.flatnonzero(np.diff(rate[index:]) <= 0)
    end = index + int(rising[0]) if len(rising) else len(rate) - 1
    climbed = end - index >= 3 and rate[end] >= max(3 * low, 0.5 * before)
    return end if climbed else None


def _candidates(rate: Floats) -> list[int]:
    """Reports whose rate differs from the one before by more than a schedule's step or the last printed digit."""
    if len(rate) < 4:
        return []
    before, after = rate[:-1], rate[1:]
    change = np.abs(after - before)
    unit = quantum(rate)
    large = (change >= LEAST_CHANGE * np.maximum(before, after)) & (
        change >= _LEAST_QUANTA * np.maximum(unit[:-1], unit[1:])
    )
    # A rate of 0 is one that is not set yet; and what has no report after it may be a slip.
    usable = large & (before > 0) & (after > 0)
    usable[-1] = False
    return (np.flatnonzero(usable) + 1).tolist()


def _stands_out(step: Steps, rate: Floats, index: int) -> bool:
    """Whether the change at ``index`` is far steeper than those around it, in values and in ratios."""
    low, high = max(1, index - _NEIGHBOURS), min(len(rate) - 1, index + _NEIGHBOURS)
    around = [i for i in range(low, high + 1) if i != index]
    spans = (step[1:] - step[:-1]).astype(np.float64)

    def slope(values: Floats, i: int) -> float:
        return float(abs(values[i] - values[i - 1]) / spans[i - 1])

    with np.errstate(divide="ignore"):
        logarithm = np.log(np.maximum(rate, np.finfo(np.float64).tiny))
    return all(
        slope(values, index) > _STEEPER * max((slope(values, i) for i in around), default=0.0)
        for values in (rate, logarithm)
    )


def _is_a_staircase(step: Steps, rate: Floats, found: list[Jump]) -> bool:
    """Whether the jumps are stairs of a schedule: evenly spaced (or each twice as far), all of one kind."""
    if len(found) < 2 or any(jump.end is not None for jump in found):
        return False
    indices = [jump.index for jump in found]
    changes = rate[indices] - rate[np.array(indices) - 1]
    if np.any(changes > 0) and np.any(changes < 0):
        return False
    edges = step[indices].astype(np.float64)
    # The first stair may begin at the start of training.
    return _even(np.diff(edges)) or _even(np.diff(np.concatenate([[float(step[0])], edges])))


def _even(spans: Floats) -> bool:
    """Whether spans are equal, or each the same multiple of the one before."""
    if len(spans) < 2:
        return False
    growth = spans[1:] / spans[:-1]
    usual = float(np.median(growth))
    return bool(np.all(np.abs(growth / usual - 1) <= _REGULAR) and usual >= 1 - _REGULAR)
