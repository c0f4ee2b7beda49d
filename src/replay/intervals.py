"""Intervals for counts, shares and means that stay honest when there is little to count.

:func:`count_interval` is the exact interval for the mean of a Poisson count (Garwood 1936), :func:`share_interval`
Wilson's for a share (1927), :func:`survival` the Kaplan-Meier estimate (1958) with the log-log interval, and
:func:`t_interval` Student's for a mean (1908).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LEVEL = 0.95
_NORMAL = 1.959963984540054


def count_interval(count: int) -> tuple[float, float]:
    """The 95% interval for the expected number, where ``count`` were counted.

    >>> [round(bound, 2) for bound in count_interval(4)]
    [1.09, 10.24]
    """
    tail = (1 - LEVEL) / 2
    low = 0.0 if count == 0 else _solve(lambda mean: 1 - _at_most(count - 1, mean), tail, rising=True)
    return low, _solve(lambda mean: _at_most(count, mean), tail, rising=False)


def _at_most(count: int, mean: float) -> float:
    """The probability of ``count`` or fewer, where ``mean`` are expected."""
    if mean <= 0:
        return 1.0
    logarithm, total = -mean, 0.0
    for number in range(count + 1):
        if number:
            logarithm += math.log(mean / number)
        total += math.exp(logarithm)
    return min(total, 1.0)


def _solve(probability: Callable[[float], float], target: float, *, rising: bool) -> float:
    low, high = 0.0, 1.0
    while (probability(high) < target) == rising:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if (probability(middle) < target) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def share_interval(part: int, whole: int) -> tuple[float, float]:
    """The 95% interval for a share of which ``part`` of ``whole`` were seen; 0 to 1 when nothing was.

    >>> [round(bound, 2) for bound in share_interval(3, 10)]
    [0.11, 0.6]
    """
    if whole == 0:
        return 0.0, 1.0
    share, square = part / whole, _NORMAL**2
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    half = _NORMAL / (1 + square / whole) * math.sqrt(share * (1 - share) / whole + square / (4 * whole**2))
    # Rounding must not take certainty away where all or none were seen.
    return (0.0 if part == 0 else max(middle - half, 0.0)), (1.0 if part == whole else min(middle + half, 1.0))


def survival(times: Iterable[float], censored: Iterable[bool]) -> pd.DataFrame:
    """The share that lasts longer than each time at which something ended, by Kaplan and Meier.

    ``censored`` marks times that were cut off rather than ended.  Columns: time, at_risk, ended, survival, low, high
    (NaN where all have ended: the estimate of the variance says nothing there).
    """
    known = sorted(zip(times, censored, strict=True))
    rows = []
    at_risk, share, variance = len(known), 1.0, 0.0
    for time, alike in groupby(known, key=itemgetter(0)):
        cuts = [cut for _, cut in alike]
        ended = cuts.count(False)
        if ended:
            share *= 1 - ended / at_risk
            variance += ended / (at_risk * (at_risk - ended)) if at_risk > ended else math.nan
            rows.append((time, at_risk, ended, share, *_log_log(share, variance)))
        at_risk -= len(cuts)
    kinds = {
        "time": "float64",
        "at_risk": "int64",
        "ended": "int64",
        "survival": "float64",
        "low": "float64",
        "high": "float64",
    }
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def _log_log(share: float, variance: float) -> tuple[float, float]:
    if math.isnan(variance):
        return math.nan, math.nan
    spread = math.exp(_NORMAL * math.sqrt(variance) / abs(math.log(share)))
    return share**spread, share ** (1 / spread)


def t_interval(difference: NDArray[np.float64], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval for a mean of values [n], such as differences paired by seed; infinite for fewer than two."""
    n = len(difference)
    if n < 2:
        return -math.inf, math.inf
    mean, error = float(difference.mean()), float(difference.std(ddof=1)) / math.sqrt(n)
    reach = t_quantile(0.5 + confidence / 2, n - 1) * error
    return mean - reach, mean + reach


def t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's distribution with ``degrees`` degrees of freedom, by bisection of :func:`t_within`.

    ``probability`` lies between 0.5 (inclusive) and 1 (exclusive).
    """
    inside = 2 * probability - 1
    low, high = 0.0, 1.0
    while t_within(high, degrees) < inside:
        high *= 2
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if t_within(middle, degrees) < inside else (low, middle)
    return 0.5 * (low + high)


def t_within(t: float, degrees: int) -> float:
    """The probability that Student's t with ``degrees`` degrees of freedom lies between -t and t.

    Exact, by the finite series for whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4).
    """
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    if degrees % 2:
        k = np.arange(1, (degrees - 1) // 2)
        series = cosine * (1 + np.cumprod(2 * k / (2 * k + 1) * cosine**2).sum()) if degrees > 1 else 0.0
        return float(2 / math.pi * (angle + sine * series))
    k = np.arange(1, degrees // 2)
    return float(sine * (1 + np.cumprod((2 * k - 1) / (2 * k) * cosine**2).sum()))
