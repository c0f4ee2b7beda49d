"""Verdicts: what a few seeds can say, and what they cannot be made to say."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from replay.experiment.effects import COLUMNS, comparisons, effect, effects, effects_frame
from replay.experiment.metrics import METRICS

from .toy import scenario


def outcomes(values: dict[str, list[float]], metric: str = "peak_excess_loss") -> pd.DataFrame:
    """The same value of ``metric`` for each arm and seed as given, and nothing in the others."""
    return pd.DataFrame(
        [
            {"scenario": "toy", "seed": seed, "arm": arm, "metric": name, "value": value if name == metric else 0.0}
            for arm, each in values.items()
            for seed, value in enumerate(each)
            for name in METRICS
        ]
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_below_six_seeds_nothing_is_concluded_however_clear_it_looks(n: int) -> None:
    found = effect("a", "b", "peak_excess_loss", -np.linspace(5, 6, n))
    assert found.verdict == "inconclusive"
    assert "nothing" in found.note
    assert found.more_seeds == 6 - n


def test_three_seeds_prove_nothing_in_so_many_words() -> None:
    note = effect("a", "b", "peak_excess_loss", np.array([-1.0, -1.1, -1.2])).note
    assert note == (
        "3 seeds prove nothing: even if all agree, chance alone gives that in 25% of cases (two-sided sign-flip test); "
        "about 3 more seeds would settle it if the spread stays as it is"
    )


def test_six_seeds_that_agree_say_helps_or_harms() -> None:
    difference = np.array([1.0, 1.2, 0.9, 1.1, 1.3, 0.8])
    assert effect("a", "b", "peak_excess_loss", -difference).verdict == "helps"
    assert effect("a", "b", "peak_excess_loss", difference).verdict == "harms"


def test_an_effect_too_small_to_act_upon_is_told_to_be() -> None:
    found = effect("a", "b", "final_loss", np.array([1.0, 1.2, 0.9, 1.1, 1.3, 0.8]) * 1e-3)
    assert found.verdict == "harms"
    assert "less than the 0.02 nats that matter" in found.note
    assert "matter" not in effect("a", "b", "final_loss", np.array([1.0, 1.2, 0.9, 1.1, 1.3, 0.8])).note


def test_seeds_that_are_all_alike_are_no_certainty() -> None:
    found = effect("a", "b", "recurred", np.full(6, -1.0))
    assert (found.verdict, found.low, found.high) == ("helps", -1.0, -1.0)
    assert "no width" in found.note
    assert "no width" not in effect("a", "b", "recurred", np.zeros(6)).note


def test_one_seed_that_disagrees_strongly_leaves_it_open() -> None:
    found = effect("a", "b", "peak_excess_loss", np.array([-1.0, -1.2, -0.9, -1.1, -1.3, 2.0]))
    assert found.verdict == "inconclusive"
    assert found.more_seeds is not None
    assert found.more_seeds > 5


def test_one_outlier_cannot_make_an_effect_where_the_tests_disagree() -> None:
    """The signs agree, but the mean hangs on one seed: the t interval includes zero."""
    found = effect("a", "b", "peak_excess_loss", np.array([-1e-3, -1e-3, -1e-3, -1e-3, -1e-3, -5.0]))
    assert found.p <= 0.05
    assert found.high > 0
    assert found.verdict == "inconclusive"


def test_no_effect_is_seen_only_when_the_whole_interval_is_within_what_matters() -> None:
    tight = np.array([0.01, -0.02, 0.015, -0.01, 0.0, 0.005])
    assert effect("a", "b", "peak_excess_loss", tight).verdict == "no effect seen"
    assert effect("a", "b", "peak_excess_loss", 20 * tight).verdict == "inconclusive"
    assert effect("a", "b", "peak_excess_loss", np.zeros(6)).verdict == "no effect seen"


@pytest.mark.parametrize("difference", [110.0, 0.0, -3.0])
def test_a_cost_is_counted_and_not_judged(difference: float) -> None:
    """Below six seeds no verdict but "inconclusive" is possible, and a cost is no exception: it has none."""
    found = effect("a", "b", "steps_recomputed", np.full(3, difference))
    assert (found.verdict, found.mean, found.note) == ("cost", difference, "")
    assert math.isnan(found.p)
    assert found.more_seeds is None


def test_differences_are_paired_by_seed() -> None:
    """Seeds differ by far more than arms do: only the pairing shows the effect."""
    base = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    values = {"do_nothing": base, "rollback+skip_batches": [value - 1 - 0.01 * value for value in base]}
    values |= {"grad_clip_change": base, "perturbed": base}
    shuffled = outcomes(values).sample(frac=1, random_state=1)
    found = next(one for one in effects(scenario(), shuffled) if one.metric == "peak_excess_loss")
    assert (found.arm, found.control) == ("rollback+skip_batches", "do_nothing")
    assert found.verdict == "helps"
    assert found.mean == pytest.approx(-1.35)


def test_each_arm_is_compared_with_doing_nothing_and_what_is_tried_with_each_control() -> None:
    assert comparisons(scenario()) == [
        ("rollback+skip_batches", "do_nothing"),
        ("rollback+skip_batches", "perturbed"),
        ("grad_clip_change", "do_nothing"),
        ("grad_clip_change", "perturbed"),
        ("perturbed", "do_nothing"),
    ]


def test_the_frame_has_the_columns_that_the_store_keeps() -> None:
    values = {arm.name: [1.0, 2.0] for arm in scenario().all_arms}
    frame = effects_frame(scenario(), effects(scenario(), outcomes(values)))
    assert list(frame.columns) == list(COLUMNS)
    assert frame["n_seeds"].dtype == "int64"
    assert set(frame["scenario"]) == {"toy"}
    assert list(effects_frame(scenario(), []).columns) == list(COLUMNS)
