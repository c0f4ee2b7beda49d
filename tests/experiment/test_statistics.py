"""Intervals and tests against published tables, and against chance itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.experiment import statistics
from replay.experiment.statistics import (
    fewest_seeds,
    seeds_to_settle,
    sign_flip_p,
    smallest_p,
)
from replay.intervals import t_interval, t_quantile, t_within

# Fisher & Yates, table III (two-sided 5%, 1% and 20%).
TABLE = [
    (1, 12.706, 63.657, 3.078),
    (2, 4.303, 9.925, 1.886),
    (3, 3.182, 5.841, 1.638),
    (7, 2.365, 3.499, 1.415),
    (10, 2.228, 3.169, 1.372),
    (15, 2.131, 2.947, 1.341),
    (30, 2.042, 2.750, 1.310),
    (120, 1.980, 2.617, 1.289),
]


@pytest.mark.parametrize(("degrees", "five", "one", "twenty"), TABLE)
def test_quantiles_of_students_t_are_those_of_the_printed_table(
    degrees: int, five: float, one: float, twenty: float
) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(five, abs=6e-4)
    assert t_quantile(0.995, degrees) == pytest.approx(one, abs=6e-4)
    assert t_quantile(0.9, degrees) == pytest.approx(twenty, abs=6e-4)


def test_with_many_degrees_it_becomes_the_normal_distribution() -> None:
    assert t_quantile(0.975, 100_000) == pytest.approx(1.959964, abs=1e-4)


@given(st.floats(0.01, 50), st.integers(1, 200))
def test_the_distribution_function_equals_the_integral_of_the_density(t: float, degrees: int) -> None:
    grid = np.linspace(0, t, 20_001)
    log_density = -(degrees + 1) / 2 * np.log1p(grid**2 / degrees)
    front = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    assert t_within(t, degrees) == pytest.approx(2 * np.trapezoid(np.exp(front + log_density), grid), abs=1e-5)


def test_the_interval_of_a_textbook_example() -> None:
    """Student's own data (1908): extra hours of sleep, ten patients, two drugs; mean 1.58, interval 0.70 to 2.46."""
    difference = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    low, high = t_interval(difference)
    assert (low, high) == (pytest.approx(0.7001, abs=1e-3), pytest.approx(2.4599, abs=1e-3))


def test_one_seed_has_no_interval() -> None:
    assert t_interval(np.array([3.0])) == (-math.inf, math.inf)


def test_three_seeds_cannot_give_less_than_a_quarter() -> None:
    assert sign_flip_p(np.array([-1.0, -2.0, -3.0])) == 0.25
    assert smallest_p(3) == 0.25
    assert fewest_seeds() == 6


def test_the_sign_flip_test_of_fishers_maize() -> None:
    """Darwin's maize, Fisher 1935 section 21: of 2^15 patterns 863 are as far or farther to one side, so 1,726."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sign_flip_p(np.array(eighths) / 8) * 2**15 == pytest.approx(1726)


@given(st.lists(st.floats(-100, 100, width=16), min_size=1, max_size=8))
def test_it_equals_the_count_over_all_patterns(values: list[float]) -> None:
    difference = np.array(values)
    patterns = itertools.product((1.0, -1.0), repeat=len(values))
    limit = abs(difference.sum()) - 1e-9 * np.abs(difference).sum()
    reached = [abs(np.dot(pattern, difference)) >= limit for pattern in patterns]
    assert sign_flip_p(difference) == pytest.approx(np.mean(reached))


def test_beyond_18_seeds_a_fixed_sample_of_patterns_comes_near_the_exact_count(monkeypatch: pytest.MonkeyPatch) -> None:
    difference = np.random.default_rng(3).normal(0.2, 1, 16)
    exact = sign_flip_p(difference)
    monkeypatch.setattr(statistics, "EXACT_UP_TO", 0)
    assert sign_flip_p(difference) == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 200_000))
    assert sign_flip_p(difference) == sign_flip_p(difference)
    assert sign_flip_p(np.ones(40)) > 0


@pytest.mark.parametrize("n", [6, 8])
def test_without_an_effect_both_tests_are_wrong_in_five_of_a_hundred_cases_at_most(n: int) -> None:
    random = np.random.default_rng(n)
    draws = np.concatenate([random.normal(size=(400, n)), random.standard_t(2, size=(400, n))])
    wrong_flip = np.mean([sign_flip_p(draw) <= 0.05 for draw in draws])
    wrong_interval = np.mean([low > 0 or high < 0 for low, high in map(t_interval, draws)])
    assert wrong_flip <= 0.05 + 0.02
    assert wrong_interval <= 0.05 + 0.02


def test_large_clear_effects_need_the_fewest_seeds_and_unclear_ones_many() -> None:
    clear, unclear = np.array([-1.0, -1.2, -0.9]), np.array([-1.0, 1.4, -0.7])
    assert seeds_to_settle(clear, matters=0.1) == 6
    assert seeds_to_settle(unclear, matters=0.1) > 50
    assert seeds_to_settle(np.zeros(3), matters=0.1) == 6
    assert seeds_to_settle(np.array([1.0]), matters=0.1) == 6


def test_the_number_of_seeds_is_what_a_power_table_says() -> None:
    """For an effect of 0.5 standard deviations a paired t test at 5% needs 34 pairs for a power of 0.8."""
    difference = np.array([0.5 - math.sqrt(0.5), 0.5 + math.sqrt(0.5)])
    assert seeds_to_settle(difference, matters=0.1) == pytest.approx(34, abs=1)


@given(st.lists(st.floats(-10, 10, width=16), min_size=2, max_size=10), st.floats(0.01, 2))
def test_it_always_answers_within_bounds(values: list[float], matters: float) -> None:
    assert 6 <= seeds_to_settle(np.array(values), matters, limit=1000) <= 1000
