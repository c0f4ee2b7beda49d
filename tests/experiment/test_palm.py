"""The built-in scenario, whole: PaLM's finding on the proxy."""

from __future__ import annotations

import pytest

from replay.experiment import load_scenario, run_experiment

pytestmark = pytest.mark.slow


def test_the_odd_batch_harms_again_unless_it_is_left_out() -> None:
    result = run_experiment(load_scenario("palm-rollback-skip"), [1001])
    got = result.outcomes.set_index(["arm", "metric"])["value"]
    assert got["do_nothing", "peak_excess_loss"] > 0.5
    assert got["sham_skip", "peak_excess_loss"] > 0.5
    assert got["perturbed_rollback", "peak_excess_loss"] == pytest.approx(
        got["do_nothing", "peak_excess_loss"], rel=0.1
    )
    assert got["rollback+skip_batches", "peak_excess_loss"] < 0.01
    assert got["rollback+skip_batches", "steps_recomputed"] == 110
    assert got["rollback+skip_batches", "batches_skipped"] == got["sham_skip", "batches_skipped"] == 110
    assert result.repeated_on == 1001
    assert result.warnings == ()
