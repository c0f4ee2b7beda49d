"""What is measured of an arm, on histories made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replay.experiment.arms import ArmRun
from replay.experiment.measuring import measure, reference_warning
from replay.experiment.metrics import BEYOND_HOPE

from .toy import scenario

DECISION = 105


def arm(held_out: list[float], *, recomputed: int = 0, skipped: int = 0) -> ArmRun:
    values = np.full((len(held_out), 4), np.nan)
    values[:, 0] = held_out
    return ArmRun(
        arm="x",
        steps=np.arange(100, 100 + len(held_out)),
        values=values,
        departure="",
        end="",
        steps_recomputed=recomputed,
        batches_skipped=skipped,
    )


FLAT = arm([0.01] * 40)


def test_a_spike_that_passes_is_measured_by_its_height_and_length() -> None:
    ill = arm([0.01] * 3 + [2.01, 1.0, 0.6, 0.3, 0.2, 0.05] + [0.01] * 31)
    got = measure(ill, FLAT, scenario(), DECISION)
    assert got["peak_excess_loss"] == pytest.approx(2.0)
    assert got["recurred"] == 1.0
    assert got["steps_to_recover"] == 2  # ill to step 107, someone acted at 105
    assert got["final_loss"] == pytest.approx(0.01)


def test_a_rollback_pays_for_the_steps_that_it_repeats() -> None:
    got = measure(arm([0.01] * 40, recomputed=15, skipped=15), FLAT, scenario(), DECISION)
    assert (got["peak_excess_loss"], got["recurred"], got["steps_to_recover"]) == (0.0, 0.0, 15.0)
    assert (got["steps_recomputed"], got["batches_skipped"]) == (15.0, 15.0)


def test_a_run_that_never_recovers_counts_all_its_steps() -> None:
    assert measure(arm([3.0] * 40), FLAT, scenario(), DECISION)["steps_to_recover"] == 139 - DECISION


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e30])
def test_a_loss_that_is_no_number_counts_as_beyond_hope_not_as_missing(broken: float) -> None:
    got = measure(arm([0.01] * 20 + [broken] * 20), FLAT, scenario(), DECISION)
    assert got["peak_excess_loss"] == pytest.approx(BEYOND_HOPE - 0.01)
    assert got["final_loss"] == BEYOND_HOPE
    assert got["recurred"] == 1.0


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e30])
def test_a_reference_that_is_no_number_spoils_no_metric(broken: float) -> None:
    """A NaN in a difference would make p 0, since no comparison with it is true."""
    reference = arm([0.01] * 39 + [broken])
    got = measure(arm([0.01] * 39 + [3.01]), reference, scenario(), DECISION)
    assert all(math.isfinite(value) for value in got.values())
    assert got["peak_excess_loss"] == 0.0
    assert "20 nats or no number at step 139" in reference_warning(reference, scenario())


def test_a_reference_that_goes_wrong_by_itself_is_told() -> None:
    assert reference_warning(FLAT, scenario()) == ""
    text = reference_warning(arm([0.01] * 20 + [1.7] + [0.01] * 19), scenario())
    assert text == "the run that never met the failure went wrong by itself: 1.7 nats at step 120, usually 0.01"
    assert "20 nats or no number at step 120" in reference_warning(
        arm([0.01] * 20 + [math.nan] + [0.01] * 19), scenario()
    )
