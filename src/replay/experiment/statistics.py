"""Paired differences over a few seeds: the exact sign-flip test, beside Student's interval of replay.intervals.

Both are given since they fail in different ways.  The t interval says how large an effect may be, and trusts that
differences are roughly normal; the sign-flip test trusts only that, without an effect, a difference is as likely to
be positive as negative, and is exact at any number of seeds.  A percentile bootstrap is not used: with 3 to 8 seeds
it finds effects where there are none in 28 to 11 of 100 cases.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from replay.intervals import t_quantile

EXACT_UP_TO = 18
"""Seeds up to which all 2^n patterns of signs are tried; beyond, a fixed sample of them."""

_SAMPLED_PATTERNS = 200_000


def sign_flip_p(difference: NDArray[np.float64]) -> float:
    """Two-sided p of the hypothesis that each difference [seeds] could as well have had the other sign.

    The share of all patterns of signs whose mean is at least as far from zero as the observed one (Fisher 1935,
    section 21).  The smallest value that n seeds can give is 2 / 2^n.
    """
    n = len(difference)
    if n == 0:
        return 1.0
    observed = abs(float(difference.sum()))
    # Sums that are equal but for rounding count as equal.
    limit = observed - 1e-9 * max(float(np.abs(difference).sum()), 1e-300)
    if n <= EXACT_UP_TO:
        sums = np.zeros(1)
        for value in difference:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(np.abs(sums) >= limit))
    random = np.random.Generator(np.random.Philox(key=n))
    reached = 0
    for _ in range(_SAMPLED_PATTERNS // 10_000):
        signs = random.integers(0, 2, size=(10_000, n), dtype=np.int8) * 2 - 1
        reached += int(np.sum(np.abs(signs @ difference) >= limit))
    # The observed pattern is one of the possible ones: it keeps the p of a sample from being zero.
    return (reached + 1) / (_SAMPLED_PATTERNS + 1)


def smallest_p(n: int) -> float:
    """The smallest two-sided p that the sign-flip test can give with ``n`` seeds.

    >>> smallest_p(3), smallest_p(6)
    (0.25, 0.03125)
    """
    return min(1.0, 2.0 / 2.0**n)


def fewest_seeds(level: float = 0.05) -> int:
    """The number of seeds with which the sign-flip test can reach ``level`` at all.

    >>> fewest_seeds()
    6
    """
    return math.ceil(1 - math.log2(level))


def seeds_to_settle(difference: NDArray[np.float64], matters: float, level: float = 0.05, limit: int = 1_000) -> int:
    """About how many seeds would settle an effect, judged from the differences [seeds] at hand.

    An effect of at least ``matters`` is settled when a t test of the observed size finds it in 4 of 5 repetitions;
    a smaller one when the interval fits into -matters..matters.  At most ``limit``, at least
    :func:`fewest_seeds`.  With few seeds the spread itself is badly known, and so is the answer.
    """
    fewest = fewest_seeds(level)
    if len(difference) < 2:
        return fewest
    mean, spread = abs(float(difference.mean())), float(difference.std(ddof=1))
    room = mean if mean >= matters else matters - mean

    def settles(n: int) -> bool:
        reach = t_quantile(1 - level / 2, n - 1) + (t_quantile(0.8, n - 1) if mean >= matters else 0.0)
        return reach * spread <= room * math.sqrt(n)

    return bisect_left(range(limit), True, lo=fewest, key=settles)
