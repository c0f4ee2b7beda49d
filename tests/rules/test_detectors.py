"""What each detector fires on, and above all what it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.rules import Series
from replay.rules.detectors import DETECTORS, Verdicts
from replay.rules.detectors.window import History, running_medians, spread


def verdicts(name: str, value: object, **options: object) -> Verdicts:
    detector = DETECTORS[name].build(DETECTORS[name].settings(**options))
    return detector.update(value if isinstance(value, Series) else Series.of(value))  # type: ignore[arg-type]


def fired(name: str, value: object, **options: object) -> list[int]:
    """Indices of the points at which the condition holds."""
    found = verdicts(name, value, **options)
    return found.seen[found.firing].tolist()


def noisy(level: float, count: int, noise: float = 0.01, seed: int = 0) -> np.ndarray:
    return level * (1 + noise * np.random.default_rng(seed).normal(size=count))


@given(st.lists(st.floats(-1e6, 1e6), max_size=40), st.lists(st.floats(-1e6, 1e6), max_size=80), st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_the_baseline_is_the_median_of_the_points_before(before: list[float], values: list[float], window: int) -> None:
    got = running_medians(np.array(before), np.array(values), window)
    everything = np.array([*before, *values])
    for index in range(len(values)):
        known = everything[: len(before) + index][-window:]
        expected = np.median(known) if len(known) else np.nan
        np.testing.assert_array_equal(got[index], expected)


def test_the_spread_of_normal_noise_is_its_standard_deviation() -> None:
    assert spread(np.random.default_rng(0).normal(3, 0.5, 20_000)) == pytest.approx(0.5, rel=0.03)
    contaminated = np.concatenate([np.random.default_rng(0).normal(3, 0.5, 90), [1e9] * 10])
    assert spread(contaminated) == pytest.approx(0.5, rel=0.4), "a tenth of nonsense does not move it far"


def test_history_gives_points_back_to_a_rollback() -> None:
    history = History(100)
    history.extend(np.arange(1, 51), np.arange(50.0))
    history.take_back(31)
    assert history.last(3).tolist() == [27, 28, 29]
    assert len(history) == 30


# --- spike and drop ------------------------------------------------------------------------------------------------


def test_a_spike_fires_from_its_first_point_until_it_is_back() -> None:
    series = [*noisy(2.3, 100), 3.5, 5.0, 4.0, 3.0, *noisy(2.3, 50)]
    assert fired("spike", series) == [100, 101, 102, 103]


def test_the_baseline_is_what_was_before_the_spike_all_along() -> None:
    found = verdicts("spike", [*noisy(2.3, 100), 5.0, 5.0, 5.0, *noisy(2.3, 50)])
    assert found.baseline[100:103] == pytest.approx(2.3, rel=0.01)
    assert found.score[100] == found.score[102] > 10


@pytest.mark.parametrize("level", [0.0, 1e-9, 2.5, 1e9])
def test_a_flat_series_gives_no_spike_of_ten_thousand_million_sigmas(level: float) -> None:
    """GOTCHAS 21: the median absolute deviation is 0."""
    assert fired("spike", [level] * 200 + [level * 1.001] + [level] * 50) == []
    found = verdicts("spike", [level] * 200 + [level * 3] + [level] * 50)
    assert found.firing.any() == (level > 0)
    assert found.score.max() < 1000


def test_one_nan_does_not_blind_the_window() -> None:
    """GOTCHAS 21."""
    series = [*noisy(2.3, 100), np.nan, np.inf, 5.0, *noisy(2.3, 20)]
    assert fired("spike", series) == [102]
    assert fired("spike", [*([np.nan] * 200), *noisy(2.3, 20), 9.0]) == [220]


def test_a_new_level_is_normal_after_a_window() -> None:
    series = [*noisy(2.0, 100), *noisy(3.0, 300)]
    assert fired("spike", series, window=64) == list(range(100, 164))
    assert fired("spike", [*series, 5.0], window=64)[-1] == 400, "and what rises above it is a spike again"


def test_two_spikes_close_to_each_other_are_both_seen() -> None:
    series = [*noisy(2.3, 100), 5.0, 4.0, *noisy(2.3, 10, seed=1), 5.0, 4.0, *noisy(2.3, 10, seed=2)]
    assert fired("spike", series) == [100, 101, 112, 113]


def test_short_history_asks_for_more() -> None:
    assert fired("spike", [2.3, 2.31, 2.29, 3.0], short=16, change_when_short=0.9) == []
    assert fired("spike", [2.3, 2.31, 2.29, 5.0], short=16, change_when_short=0.9) == [3]
    assert fired("spike", [2.3, 2.3, 9.0], min_points=3) == []


def test_the_logarithm_makes_halvings_equal() -> None:
    scale = [65536.0] * 50 + [8192.0, 4096.0] + [65536.0] * 10
    assert fired("drop", scale, scale="log", change=0.85, sigmas=0) == [50, 51]
    assert fired("drop", [65536.0] * 50 + [16384.0] * 20, scale="log", change=0.85, sigmas=0) == []


@given(st.floats(1e-3, 1e3), st.floats(0, 0.3), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_noise_of_any_level_and_width_is_no_spike(level: float, noise: float, seed: int) -> None:
    found = fired("spike", noisy(level, 600, noise, seed), short=16, change_when_short=0.9)
    begun = [index for index in found if index - 1 not in found]
    assert len(begun) <= 1, "one in 600 at most; none as a rule"
    assert len(found) <= 3


def test_noise_raises_hardly_an_alarm_in_a_hundred_thousand_points() -> None:
    for noise in (0.005, 0.05, 0.3):
        assert len(fired("spike", noisy(2.3, 70_000, noise, seed=5))) <= 2


def test_a_falling_loss_is_no_spike_however_it_falls() -> None:
    step = np.arange(1, 20_001)
    for curve in (2 + 9 * step**-0.3, np.linspace(11, 2, 20_000), 2 + 9 * np.exp(-step / 50)):
        assert fired("spike", curve * noisy(1, 20_000, 0.01), short=16, change_when_short=0.9) == []


# --- levels --------------------------------------------------------------------------------------------------------


def test_floor_and_ceiling_include_the_level_itself() -> None:
    assert fired("floor", [3, 2, 1, 0.5, 2], at=1) == [2, 3]
    assert fired("ceiling", [3, 2, 1, np.inf, np.nan, 4], at=3) == [0, 3, 5]


def test_a_floor_may_ask_that_the_signal_was_up_before() -> None:
    assert fired("floor", [1] * 10, at=1, seen_beyond=16) == []
    assert fired("floor", [1, 32, 1], at=1, seen_beyond=16) == [2]


def test_nonfinite_is_nan_and_both_infinities() -> None:
    found = verdicts("nonfinite", [2.0, np.nan, np.inf, 3.0, -np.inf])
    assert found.seen[found.firing].tolist() == [1, 2, 4]
    assert found.baseline[[1, 2, 4]].tolist() == [2.0, 2.0, 3.0], "the last number before"


# --- slow conditions -----------------------------------------------------------------------------------------------


def test_plateau_waits_for_half_a_run_without_progress() -> None:
    falling = np.linspace(8, 3, 1000) * noisy(1, 1000)
    assert fired("plateau", [*falling, *noisy(3.0, 900)], min_points=1000) == []
    found = fired("plateau", [*falling, *noisy(3.0, 2000)], min_points=1000)
    assert 1800 <= found[0] <= 2300
    assert found[-1] == 2999


def test_a_power_law_never_is_a_plateau() -> None:
    step = np.arange(1, 100_001)
    assert fired("plateau", 1.7 + 8 * step**-0.15 * noisy(1, 100_000, 0.02)) == []


def test_warm_up_is_no_drift() -> None:
    """GOTCHAS 21: a signal that is still on its way has no course to leave."""
    ramp = np.linspace(0.001, 1.0, 2000)
    assert fired("drift", np.concatenate([ramp, np.ones(3000)]) * noisy(1, 5000, 0.02), direction="up") == []
    assert fired("drift", 10 * np.arange(1, 5001) ** -0.3 * noisy(1, 5000, 0.02)) == []


def test_a_norm_that_leaves_its_course_is_a_drift() -> None:
    series = np.concatenate([np.ones(2000), np.linspace(1, 2, 1000)]) * noisy(1, 3000, 0.02)
    found = fired("drift", series, direction="up")
    assert 2050 < found[0] < 2500
    assert fired("drift", series, direction="down") == []


def test_changepoint_fires_once_and_takes_the_new_level_for_granted() -> None:
    series = np.concatenate([noisy(1.0, 1000), noisy(1.5, 1000, seed=1)])
    found = fired("changepoint", series, window=50)
    assert found[0] in range(1000, 1050)
    assert len(found) <= 50


def test_growth_without_rest() -> None:
    series = np.concatenate([noisy(10, 500, 0.05), 10 * 1.01 ** np.arange(300)])
    found = fired("growth", series, window=20, blocks=6, factor=2)
    assert found
    assert found[0] > 560
    assert fired("growth", noisy(10, 5000, 0.2)) == []


def test_growth_that_noise_could_make_is_none_where_sigmas_or_a_least_change_are_asked_for() -> None:
    climbing = noisy(2, 400, 0.01) + np.linspace(0, 1, 400)
    assert fired("growth", climbing, window=10, blocks=8, factor=1.05, sigmas=8)
    assert fired("growth", climbing, window=10, blocks=8, factor=1.05, least_change=0.5) == []
    wild = noisy(2, 400, 0.3) + np.linspace(0, 1, 400)
    assert fired("growth", wild, window=10, blocks=8, factor=1.05, share=0.5)
    assert fired("growth", wild, window=10, blocks=8, factor=1.05, share=0.5, sigmas=8) == []
