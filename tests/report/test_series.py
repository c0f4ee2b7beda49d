"""Downsampling: few points, every extreme, every hole."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from replay.report.series import holes, keep_extremes

VALUES = arrays(
    np.float64,
    st.integers(1, 400),
    elements=st.one_of(st.floats(-100, 100, width=16), st.sampled_from([np.nan, np.inf, -np.inf])),
)


def test_a_spike_of_one_step_among_a_million_survives() -> None:
    value = np.random.default_rng(0).normal(2, 0.01, 1_000_000)
    value[123_457], value[900_001] = 9.0, -3.0
    kept = keep_extremes(value)
    assert {123_457, 900_001} <= set(kept)
    assert len(kept) <= 2_010


def test_a_short_series_is_kept_whole() -> None:
    assert list(keep_extremes(np.array([1.0, np.nan, 2.0]))) == [0, 1, 2]


def test_one_nan_among_a_million_survives() -> None:
    value = np.ones(1_000_000)
    value[777_777] = np.nan
    assert 777_777 in keep_extremes(value)


def test_alternating_nan_does_not_swell_the_page() -> None:
    value = np.where(np.arange(1_000_000) % 2, np.nan, 1.0)
    assert len(keep_extremes(value)) <= 4_010


@given(VALUES, st.integers(2, 50))
def test_whatever_the_values_the_extremes_ends_and_runs_of_nan_stay(value: np.ndarray, limit: int) -> None:
    kept = keep_extremes(value, limit)
    assert np.all(np.diff(kept) > 0)
    assert kept[0] == 0
    assert kept[-1] == len(value) - 1
    finite = value[np.isfinite(value)]
    if len(finite):
        drawn = value[kept][np.isfinite(value[kept])]
        assert drawn.min() == finite.min()
        assert drawn.max() == finite.max()
    assert np.isfinite(value).all() == np.isfinite(value[kept]).all()


@given(VALUES, st.integers(2, 50))
def test_no_line_is_drawn_over_a_nan_run_as_long_as_a_bucket(value: np.ndarray, limit: int) -> None:
    """Between two drawn neighbours that are finite, no bucket's worth of NaN is hidden."""
    kept = keep_extremes(value, limit)
    bucket = len(value) / max(1, limit // 2)
    for left, right in itertools.pairwise(kept):
        if np.isfinite(value[left]) and np.isfinite(value[right]):
            assert np.isnan(value[left + 1 : right]).sum() <= 2 * bucket + 1


def test_a_missing_stretch_is_a_hole_and_a_regular_stride_is_none() -> None:
    step = np.r_[np.arange(0, 1000, 10), np.arange(5000, 6000, 10)]
    assert list(holes(step)) == [99]
    assert list(holes(np.arange(0, 100_000, 500))) == []
    assert list(holes(np.array([0, 10**6]))) == []
