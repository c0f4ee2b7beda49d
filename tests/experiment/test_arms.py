"""Arms of a seed are one run up to the intervention, bit for bit, and differ by what is done from there on."""

from __future__ import annotations

import numpy as np
import pytest

from replay.experiment import Arm, ScenarioError
from replay.experiment.arms import ArmRun, arm_names, repeats, run_arms, share_prefix
from replay.experiment.interventions import GradClipChange, LrChange, OptimizerReset, Rollback, SkipBatches
from replay.proxy.training import Training

from .toy import ONSET, scenario, toy_case

BACK = Rollback(step=-10)


def run(*arms: Arm, names: tuple[str, ...] = (), **changes: object) -> dict[str, ArmRun]:
    chosen = scenario(arms=arms, **changes) if arms else scenario(**changes)
    wanted = names or tuple(arm_names(chosen, with_rollback_only=True))
    return {one.arm: one for one in run_arms(chosen, toy_case(0), wanted)}


@pytest.fixture(scope="module")
def runs() -> dict[str, ArmRun]:
    return run()


def fingerprint_at(step: int) -> str:
    training = Training.start(toy_case(0).config)
    while training.step < step:
        training.advance()
    return training.fingerprint()


def test_all_cover_the_same_steps_from_the_earliest_checkpoint_to_the_horizon(runs: dict[str, ArmRun]) -> None:
    for one in runs.values():
        assert list(one.steps) == list(range(ONSET - 9, ONSET + 3 + 8 + 1))
        assert one.values.shape == (len(one.steps), 4)


def test_arms_depart_from_the_very_state_of_the_failing_run(runs: dict[str, ArmRun]) -> None:
    decided, checkpoint = fingerprint_at(ONSET + 3), fingerprint_at(ONSET - 10)
    assert runs["do_nothing"].departure == runs["grad_clip_change"].departure == decided
    assert runs["rollback+skip_batches"].departure == runs["perturbed"].departure == checkpoint
    assert runs["rollback_only"].departure == checkpoint


def test_until_the_intervention_they_are_the_same_bits(runs: dict[str, ArmRun]) -> None:
    common = runs["do_nothing"].steps <= ONSET + 3
    assert np.array_equal(runs["grad_clip_change"].values[common], runs["do_nothing"].values[common])
    assert not np.array_equal(runs["grad_clip_change"].values[~common], runs["do_nothing"].values[~common])


def test_the_run_that_never_met_the_failure_is_the_same_before_the_onset_only(runs: dict[str, ArmRun]) -> None:
    before = runs["do_nothing"].steps < ONSET
    assert np.array_equal(runs["never_met"].values[before], runs["do_nothing"].values[before])
    assert not np.array_equal(runs["never_met"].values[~before], runs["do_nothing"].values[~before])


def test_rolling_back_only_repeats_doing_nothing_bit_for_bit(runs: dict[str, ArmRun]) -> None:
    assert repeats(runs["rollback_only"], runs["do_nothing"])
    assert runs["rollback_only"].steps_recomputed == 13


def test_a_perturbed_rollback_repeats_it_but_not_bit_for_bit(runs: dict[str, ArmRun]) -> None:
    assert not repeats(runs["perturbed"], runs["do_nothing"])
    assert np.allclose(runs["perturbed"].column("held_out_loss"), runs["do_nothing"].column("held_out_loss"), atol=0.05)


def test_an_arms_bits_do_not_depend_on_its_neighbours(runs: dict[str, ArmRun]) -> None:
    alone = run(names=("perturbed",))["perturbed"]
    other_way = run(names=("perturbed", "grad_clip_change", "do_nothing"))
    assert repeats(alone, runs["perturbed"])
    assert repeats(other_way["do_nothing"], runs["do_nothing"])


def test_a_shift_takes_later_batches_at_the_same_steps(runs: dict[str, ArmRun]) -> None:
    """Steps 21 .. take batches 34 ..: 13 batches (21 to 33) are left out, the odd one among them."""
    by_hand = Training.start(toy_case(0).config)
    while by_hand.step < ONSET - 10:
        by_hand.advance()
    by_hand.skip_batches(13)
    losses = [by_hand.advance()["loss"] for _ in range(21)]
    assert list(runs["rollback+skip_batches"].column("loss")) == losses
    assert runs["rollback+skip_batches"].batches_skipped == 13


def test_a_shift_leaves_out_a_range_that_lies_ahead_when_its_turn_comes() -> None:
    arm = Arm(name="rollback+skip_batches", interventions=(BACK, SkipBatches(step=1, step_end=4)))
    runs = run(arm, names=("do_nothing", arm.name))
    up_to_onset = runs["do_nothing"].steps <= ONSET
    assert np.array_equal(runs[arm.name].values[up_to_onset], runs["do_nothing"].values[up_to_onset])
    assert runs[arm.name].column("loss")[ONSET - 20] != runs["do_nothing"].column("loss")[ONSET - 20]
    assert runs[arm.name].batches_skipped == 4


def test_an_advance_walks_over_steps_without_learning_from_them() -> None:
    arm = Arm(name="rollback+skip_batches", interventions=(BACK, SkipBatches(step=-9, step_end=3, mode="advance")))
    one = run(arm, names=(arm.name,))[arm.name]
    walked = one.steps <= ONSET + 3
    assert np.isnan(one.column("loss")[walked]).all()
    assert np.isfinite(one.column("loss")[~walked]).all()
    assert len(set(one.column("held_out_loss")[walked])) == 1


def test_interventions_happen_in_their_order_and_together() -> None:
    done = (LrChange(factor=0.5), LrChange(factor=0.5), OptimizerReset(), GradClipChange(after=0.1))
    arm = Arm(name="lr_change+lr_change+optimizer_reset+grad_clip_change", interventions=done)
    runs = run(arm, names=("do_nothing", arm.name))
    after = runs["do_nothing"].steps > ONSET + 3
    rate = runs[arm.name].column("learning_rate")
    assert np.allclose(rate[after], 0.25 * runs["do_nothing"].column("learning_rate")[after])


def test_a_rollback_to_before_the_start_is_refused_in_words() -> None:
    with pytest.raises(ScenarioError, match="fails at step 30 already, and a rollback 31 steps before it"):
        run(Arm(name="rollback", interventions=(Rollback(step=-31),)))


def test_a_cause_from_the_first_step_on_can_be_met_without_going_back() -> None:
    case = toy_case(0, onset=1)
    chosen = scenario(arms=(Arm(name="grad_clip_change", interventions=(GradClipChange(after=0.01),)),))
    names = arm_names(chosen, with_rollback_only=True)
    assert "rollback_only" not in names
    runs = {one.arm: one for one in run_arms(chosen, case, names)}
    assert list(runs["never_met"].steps) == list(range(1, 13))


def test_the_prefix_keeps_one_snapshot_for_each_point_of_departure() -> None:
    prefix = share_prefix(scenario(), toy_case(0))
    assert sorted(prefix.snapshots) == [ONSET - 10, ONSET + 3]
    assert prefix.decision == ONSET + 3
