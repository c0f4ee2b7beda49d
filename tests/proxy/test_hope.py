"""Which runs are given up, and which are not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from replay.proxy import DataConfig, ModelConfig, PrecisionConfig, ProxyConfig, failures
from replay.proxy.checkpoint import Checkpoint
from replay.proxy.failure import Arm
from replay.proxy.hope import RELAPSED_STEPS, STUCK_STEPS, Hope
from replay.proxy.runs import train
from replay.proxy.training import Training

GUESS = math.log(16)


def given_up_at(losses: Iterable[float], skipped: float = 0.0) -> int | None:
    hope = Hope(16)
    for step, loss in enumerate(losses, 1):
        if hope.lost({"loss": loss, "skipped_steps": skipped}):
            return step
    return None


def test_no_finite_loss_for_long() -> None:
    assert given_up_at([1.0] * 10 + [math.nan] * 100) == 10 + STUCK_STEPS
    assert given_up_at(([math.inf] * (STUCK_STEPS - 1) + [1.0]) * 5) is None


def test_no_update_for_long() -> None:
    assert given_up_at([1.0] * 100, skipped=1.0) == STUCK_STEPS


def test_a_run_that_had_learned_and_guesses_for_long() -> None:
    found = given_up_at([0.1] * 100 + [GUESS] * 2000)
    assert found is not None
    assert 100 + RELAPSED_STEPS < found <= 100 + RELAPSED_STEPS + 21


def test_it_is_given_as_long_as_it_took_to_learn_at_first() -> None:
    found = given_up_at([GUESS] * 1500 + [0.1] * 100 + [9.0] * 3000)
    assert found is not None
    assert found > 1600 + 1500


@pytest.mark.parametrize(
    "losses",
    [
        [GUESS + 1] * 5000,
        [0.1] * 100 + [GUESS * 0.95] * 5000,
        [0.1] * 100 + ([GUESS + 1] * RELAPSED_STEPS + [GUESS / 2] * 20) * 5,
    ],
    ids=["learned nothing yet", "better than a guess", "comes back in time"],
)
def test_hope_that_is_left(losses: list[float]) -> None:
    assert given_up_at(losses) is None


def test_a_step_that_was_walked_over_says_nothing() -> None:
    hope = Hope(16)
    for _ in range(10 * STUCK_STEPS):
        assert hope.lost({"skipped_steps": 1.0}) is None


def test_a_relapsed_run_is_given_up_unless_it_is_told_never_to(tmp_path: Path) -> None:
    config = ProxyConfig(seed=1, steps=900).replace(
        data__batch_size=8, schedule__learning_rate=3e-3, optimizer__weight_decay=0.0
    )

    def ruined() -> Training:
        training = Training.start(config)
        while training.step < 250:
            training.advance()
        return training

    def wreck(training: Training, signals: dict[str, float]) -> None:
        if signals["loss"] < 1.0:
            training.change(learning_rate=100.0)

    training = ruined()
    summary = train(training, tmp_path / "one", progress=lambda signals, _: wreck(training, signals))
    assert "no better than a guess" in summary.ended
    assert summary.last_step < 900
    training = ruined()
    whole = train(training, tmp_path / "other", give_up=False, progress=lambda signals, _: wreck(training, signals))
    assert (whole.ended, whole.last_step) == ("completed", 900)


def interrupted(losses: list[float], steps: set[int]) -> int | None:
    """As :func:`given_up_at`, with what is kept written to JSON and read into another at some steps."""
    hope = Hope(16)
    for step, loss in enumerate(losses, 1):
        if hope.lost({"loss": loss, "skipped_steps": 0.0}):
            return step
        if step in steps:
            kept = json.dumps(hope.state_dict(), allow_nan=False)
            hope = Hope(16)
            hope.load_state_dict(json.loads(kept))
    return None


@pytest.mark.parametrize(
    "losses",
    [
        [0.3] * 30 + [math.nan] * 60,
        [0.1] * 100 + [GUESS + 1] * 700,
        [0.1] * 100 + [GUESS + 1] * 20 + [math.inf] + [GUESS + 1] * 700,
        [GUESS] * 600 + [0.1] * 100 + [9.0] * 1000,
    ],
    ids=["no finite loss", "relapsed", "relapsed, once infinite", "relapsed, slow to learn"],
)
def test_interruptions_do_not_delay_the_end(losses: list[float]) -> None:
    expected = given_up_at(losses)
    assert expected is not None
    for at in (1, 19, 20, 35, 79, 110, 300, expected - 1):
        assert interrupted(losses, {at}) == expected
    assert interrupted(losses, set(range(0, len(losses), 7))) == expected


STUCK = ProxyConfig(
    seed=1,
    steps=200,
    model=ModelConfig(width=8, depth=1, heads=2),
    data=DataConfig(batch_size=2),
    precision=PrecisionConfig(mode="fp16_gradients", initial_scale=2.0**60, minimum_scale=2.0**60),
)
"""All of its gradients overflow, and its loss scale never falls."""


@pytest.mark.parametrize("at", [1, 30, STUCK_STEPS - 1])
def test_a_run_is_given_up_at_the_same_step_wherever_it_was_interrupted(tmp_path: Path, at: int) -> None:
    whole = train(Training.start(STUCK), tmp_path / "whole")
    assert whole.last_step == STUCK_STEPS
    first = train(Training.start(STUCK.replace(steps=at)), tmp_path / "part")
    resumed = Training.resume(first.checkpoint)
    resumed.adopt(resumed.config.replace(steps=STUCK.steps))
    rest = train(resumed, tmp_path / "part")
    assert (rest.last_step, rest.ended) == (whole.last_step, whole.ended)
    assert resumed.fingerprint() == Training.resume(whole.checkpoint).fingerprint()


def test_a_run_that_was_given_up_goes_on_only_if_something_about_it_is_changed_or_it_never_is(tmp_path: Path) -> None:
    checkpoint = train(Training.start(STUCK), tmp_path).checkpoint
    again = train(Training.resume(checkpoint), tmp_path / "again")
    assert (again.first_step, again.last_step) == (STUCK_STEPS + 1, STUCK_STEPS)
    assert again.ended.startswith("given up: 50 steps in a row")
    changed = Training.resume(checkpoint)
    changed.change(learning_rate=1e-4)
    assert train(changed, tmp_path / "changed").last_step == 2 * STUCK_STEPS
    parts = Training.resume(checkpoint, without=["schedule"])
    assert train(parts, tmp_path / "parts").last_step == 2 * STUCK_STEPS
    assert train(Training.resume(checkpoint), tmp_path / "never", give_up=False).last_step == STUCK.steps


def test_a_checkpoint_of_before_hope_was_kept_is_resumed() -> None:
    snapshot = Training.start(STUCK).snapshot()
    older = {name: value for name, value in snapshot.state.items() if name != "hope"}
    assert Training.restore(Checkpoint(snapshot.tensors, older)).advance()["loss"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", list(failures.CATALOGUE))
def test_no_failure_is_cut_before_it_is_seen(name: str) -> None:
    from replay.proxy.assessment import run_plan

    failure = failures.get(name)
    for seed in range(failure.first_seed, failure.first_seed + 4):
        case = failure.case(seed)
        trace = run_plan(Arm("with").plan(case), failure.held_out)
        if (wrong_at := failure.judge(trace)) is not None:
            break
    assert wrong_at is not None
    hope = Hope(case.config.model.vocabulary)
    for step in range(wrong_at):
        signals = {"loss": trace["loss"][step], "skipped_steps": trace["skipped_steps"][step]}
        assert hope.lost(signals) is None, f"given up at step {step + 1}, wrong at {wrong_at}"
