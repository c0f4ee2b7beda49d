"""A run of the proxy: learns, goes on bit for bit from any checkpoint, and changes what it is told to change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.proxy import (
    ConfigError,
    DataConfig,
    Defect,
    Fault,
    ModelConfig,
    OptimizerConfig,
    PrecisionConfig,
    ProxyConfig,
    Ramp,
    ScheduleConfig,
)
from replay.proxy.checkpoint import CheckpointError
from replay.proxy.training import Training

SMALL = ProxyConfig(seed=1, model=ModelConfig(width=16, depth=1, heads=2), data=DataConfig(batch_size=4))


def advanced(training: Training, steps: int) -> list[dict[str, float]]:
    return [training.advance() for _ in range(steps)]


def test_learns_the_copy_task() -> None:
    training = Training.start(ProxyConfig(seed=0).replace(optimizer__weight_decay=0.3))
    first = training.advance()["loss"]
    advanced(training, 299)
    assert first > 2.5
    assert training.evaluate() < 0.1


def test_same_config_same_bits() -> None:
    one, other = Training.start(SMALL), Training.start(SMALL)
    assert advanced(one, 10) == advanced(other, 10)
    assert one.fingerprint() == other.fingerprint()
    assert Training.start(SMALL.replace(seed=2)).fingerprint() != Training.start(SMALL).fingerprint()


def test_a_fresh_process_resumes_bit_for_bit(tmp_path: Path) -> None:
    training = Training.start(SMALL)
    advanced(training, 7)
    training.save(tmp_path / "checkpoint")
    advanced(training, 9)
    code = (
        "import sys; from replay.proxy.training import Training\n"
        "training = Training.resume(sys.argv[1])\n"
        "for _ in range(9): training.advance()\n"
        "print(training.fingerprint())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "checkpoint")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert printed == training.fingerprint()


def test_a_snapshot_is_not_touched_by_the_run_it_came_from_nor_by_those_that_start_from_it() -> None:
    training = Training.start(SMALL)
    advanced(training, 5)
    snapshot = training.snapshot()
    first = Training.restore(snapshot)
    advanced(first, 5)
    advanced(training, 3)
    second = Training.restore(snapshot)
    assert second.step == 5
    advanced(second, 5)
    assert first.fingerprint() == second.fingerprint()


configs = st.builds(
    ProxyConfig,
    model=st.builds(
        lambda placement, **others: ModelConfig(
            norm_placement=placement[0], parallel_layers=placement[1], residual_init=placement[2], **others
        ),
        placement=st.sampled_from(
            [
                ("pre", False, "plain"),
                ("pre", False, "scaled"),
                ("pre", True, "plain"),
                ("pre", True, "scaled"),
                ("post", False, "plain"),
                ("post", False, "scaled"),
                ("deepnorm", False, "plain"),
                ("glm_deepnorm", False, "plain"),
            ]
        ),
        vocabulary=st.just(44),
        width=st.just(16),
        context=st.sampled_from([8, 16]),
        depth=st.integers(1, 2),
        heads=st.just(4),
        kv_heads=st.sampled_from([0, 1, 2]),
        activation=st.sampled_from(["gelu", "relu", "squared_relu", "silu", "swiglu", "geglu"]),
        positions=st.sampled_from(["learned", "sinusoidal", "rope", "alibi", "none"]),
        norm=st.sampled_from(["layernorm", "rmsnorm"]),
        qk_norm=st.booleans(),
        biases=st.booleans(),
        tied_embeddings=st.booleans(),
        embedding_norm=st.booleans(),
        z_loss=st.sampled_from([0.0, 1e-4]),
        embedding_grad_scale=st.sampled_from([1.0, 0.1]),
        embedding_grad_ramp=st.sampled_from([None, Ramp(before=0.1, after=1.0, start=5, length=5)]),
        logit_scale=st.sampled_from([1.0, 0.25]),
        init=st.sampled_from(["normal", "xavier", "fan_in"]),
        position_init=st.sampled_from(["normal", "sinusoidal"]),
    ),
    data=st.builds(
        lambda second, **settings: DataConfig(second_source=second[0], second_ramp=second[1], **settings),
        second=st.sampled_from(
            [
                (None, None),
                ("reverse", Ramp(before=0, after=1, start=5, length=9)),
                ("zipf", Ramp(before=0.5, after=0.5, start=0)),
            ]
        ),
        source=st.sampled_from(["copy", "reverse", "zipf"]),
        batch_size=st.just(4),
        batch_ramp=st.sampled_from([None, Ramp(before=2, after=5, start=3, length=10)]),
        defects=st.lists(
            st.builds(
                Defect,
                kind=st.sampled_from(["random", "repeated", "rare", "permuted", "duplicated", "mojibake"]),
                first=st.just(4),
                last=st.integers(4, 20),
                share=st.sampled_from([0.1, 0.5, 1.0]),
            ),
            max_size=2,
        ).map(tuple),
    ),
    optimizer=st.builds(
        OptimizerConfig,
        name=st.sampled_from(["adamw", "adafactor", "sgd"]),
        beta2_power=st.sampled_from([0.0, 0.8]),
        decay_scaling=st.sampled_from(["learning_rate", "learning_rate_squared", "independent"]),
        decay_all=st.booleans(),
        grad_clip=st.sampled_from([0.0, 0.5]),
        update_clip=st.sampled_from([0.0, 1.0]),
        parameter_scaling=st.booleans(),
        factored=st.booleans(),
        skip_above=st.sampled_from([0.0, 3.0]),
    ),
    schedule=st.sampled_from(
        [
            ScheduleConfig(),
            ScheduleConfig(name="cosine", decay_end=20),
            ScheduleConfig(name="inverse_sqrt", decay_start=5),
            ScheduleConfig(name="wsd", decay_start=10, decay_end=20, rewarm_start=4, rewarm_steps=5),
        ]
    ),
    precision=st.sampled_from(
        [
            PrecisionConfig(),
            PrecisionConfig(mode="bf16"),
            PrecisionConfig(mode="fp16", growth_interval=4),
            PrecisionConfig(mode="fp16_gradients", growth_interval=4),
        ]
    ),
    faults=st.sampled_from(
        [
            (),
            (Fault(kind="optimizer_lost", step=7),),
            (Fault(kind="weight_bit", step=7, parameter="layer0.mlp.input.weight", bit=20),),
        ]
    ),
    seed=st.integers(0, 2**40),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    config=configs, at=st.integers(0, 20), batches=st.integers(0, 50), steps=st.lists(st.integers(1, 20), max_size=3)
)
def test_whatever_the_knobs_a_run_resumed_at_any_step_goes_on_as_if_nothing_had_happened(
    tmp_path_factory: pytest.TempPathFactory, config: ProxyConfig, at: int, batches: int, steps: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("checkpoint")
    training = Training.start(config)
    training.skip_batches(batches)
    for step in steps:
        training.skip_steps(step, step)
    advanced(training, at)
    training.save(folder)
    rest = advanced(training, 20 - at)
    resumed = Training.resume(folder)
    assert repr(advanced(resumed, 20 - at)) == repr(rest)
    assert resumed.fingerprint() == training.fingerprint()


def test_parallel_layers_go_with_pre_norm_only() -> None:
    assert advanced(Training.start(SMALL.replace(model__parallel_layers=True)), 2)[1]["loss"] > 0
    with pytest.raises(ConfigError, match="parallel_layers"):
        SMALL.replace(model__parallel_layers=True, model__norm_placement="post")


def test_skipping_batches_takes_those_behind_them() -> None:
    skipping, plain = Training.start(SMALL), Training.start(SMALL.replace(seed=1))
    skipping.skip_batches(10)
    shifted = skipping.advance()
    plain.data_offset = 10
    assert plain.advance() == shifted
    assert Training.start(SMALL).advance()["loss"] != shifted["loss"]


def test_a_skipped_step_is_counted_and_changes_nothing_else() -> None:
    training = Training.start(SMALL)
    training.skip_steps(3, 4)
    seen = advanced(training, 5)
    assert ["loss" in signals for signals in seen] == [True, True, False, False, True]
    assert [signals["skipped_steps"] for signals in seen] == [0, 0, 1, 1, 0]
    assert training.samples == 3 * 4
    assert training.optimizer.updates == 3


def test_changes_take_hold_from_the_next_step() -> None:
    training = Training.start(SMALL.replace(schedule__warmup_steps=0))
    before = training.advance()["learning_rate"]
    training.change(learning_rate_factor=0.5, beta2=0.95, grad_clip=0.1)
    assert training.advance()["learning_rate"] == before / 2
    assert training.config.optimizer.beta2 == 0.95
    training.change(rewarm_steps=10)
    assert training.advance()["learning_rate"] == pytest.approx(before / 20)
    with pytest.raises(ConfigError, match="new run"):
        training.change(model=ModelConfig(width=32))
    with pytest.raises(ConfigError, match="cannot be changed"):
        training.change(colour=1)


def test_a_rule_that_is_turned_on_in_mid_run_works_at_the_next_step() -> None:
    training = Training.start(SMALL)
    advanced(training, 130)
    resumed = Training.restore(training.snapshot())
    for run in (training, resumed):
        run.change(skip_above=1e-6)
        assert [signals["skipped_steps"] for signals in advanced(run, 3)] == [1, 1, 1]


def test_the_norms_that_are_kept_without_the_rule_are_those_of_the_rule() -> None:
    free, ruled = Training.start(SMALL), Training.start(SMALL.replace(optimizer__skip_above=1e9))
    for run in (free, ruled):
        advanced(run, 140)
    assert free.snapshot().state["norm_history"] == ruled.snapshot().state["norm_history"]
    assert torch.equal(free.vector.values, ruled.vector.values)


def test_a_plain_value_ends_the_ramp_that_would_win_over_it() -> None:
    ramp = Ramp(before=0.1, after=1.0, start=2)
    training = Training.start(
        SMALL.replace(model__embedding_grad_ramp=ramp, data__batch_ramp=Ramp(before=2, after=8, start=2))
    )
    assert advanced(training, 3)[-1]["batch_size"] == 8
    training.change(embedding_grad_scale=0.1, batch_size=3)
    assert training.advance()["batch_size"] == 3
    assert training.embedding_grad_scale == 0.1
    training.change(embedding_grad_scale=0.5, embedding_grad_ramp=ramp)
    assert training.embedding_grad_scale == 1.0, "given along with it"


def test_a_learning_rate_is_the_peak_that_holds_whatever_factors_came_before() -> None:
    training = Training.start(SMALL.replace(schedule__warmup_steps=0))
    training.change(learning_rate_factor=0.5)
    training.change(learning_rate=1e-3)
    assert training.advance()["learning_rate"] == 1e-3
    training.change(learning_rate_factor=0.5)
    training.change(learning_rate_factor=0.5)
    assert training.advance()["learning_rate"] == 0.25e-3
    training.change(learning_rate=1e-3, learning_rate_factor=0.1)
    assert training.advance()["learning_rate"] == pytest.approx(1e-4)


def test_the_seed_and_with_it_the_language_cannot_change_in_mid_run() -> None:
    training = Training.start(SMALL)
    with pytest.raises(ConfigError, match=r"seed cannot change in mid-run, from 1 to 9: .* start a new run"):
        training.adopt(training.config.replace(seed=9))
    assert training.config == SMALL


@pytest.mark.parametrize(
    "change", [{"heads": 4}, {"activation": "relu"}, {"positions": "rope"}, {"logit_scale": 2.0}, {"width": 32}]
)
def test_another_model_is_not_adopted_even_if_its_tensors_have_the_same_shapes(change: dict[str, object]) -> None:
    training = Training.start(SMALL.replace(model__positions="alibi"))
    after = training.config.replace(**{f"model__{name}": value for name, value in change.items()})
    with pytest.raises(ConfigError, match=f"model.{next(iter(change))} cannot change in mid-run"):
        training.adopt(after)


def test_what_is_no_part_of_the_forward_pass_may_change() -> None:
    training = Training.start(SMALL)
    training.change(z_loss=1e-4, embedding_grad_scale=0.1)
    training.adopt(training.config.replace(model__init_std=0.5))
    assert training.advance()["loss"] > 0


def test_batches_and_steps_to_skip_are_counted_forwards() -> None:
    training = Training.start(SMALL)
    for count in (-1, 2**70):
        with pytest.raises(ConfigError, match="number of batches to skip"):
            training.skip_batches(count)
    for first, last in ((0, 3), (5, 4), (1, 2**40), (2**41, 2**41)):
        with pytest.raises(ConfigError, match="steps to skip"):
            training.skip_steps(first, last)


def test_what_a_resume_leaves_out_starts_over() -> None:
    training = Training.start(SMALL)
    advanced(training, 30)
    snapshot = training.snapshot()
    assert Training.restore(snapshot, without=["optimizer"]).optimizer.updates == 0
    assert Training.restore(snapshot, without=["schedule"]).advance()["learning_rate"] == pytest.approx(3e-3 / 20)
    assert Training.restore(snapshot, without=["data"]).data_offset == -30
    with pytest.raises(CheckpointError, match="no part 'weights'"):
        Training.restore(snapshot, without=["weights"])


def test_a_flipped_bit_changes_one_number_and_is_undone_by_a_second_flip() -> None:
    training = Training.start(SMALL)
    before = training.fingerprint()
    training.flip_bit("layer0.mlp.input.weight", 5, 30)
    assert training.fingerprint() != before
    assert abs(training.vector.named["layer0.mlp.input.weight"].view(-1)[5].item()) > 1e30
    training.flip_bit("layer0.mlp.input.weight", 5, 30)
    assert training.fingerprint() == before


def test_a_perturbation_is_small_and_repeatable() -> None:
    one, other = Training.start(SMALL), Training.start(SMALL)
    before = one.vector.values.clone()
    one.perturb(1e-6)
    other.perturb(1e-6)
    assert one.fingerprint() == other.fingerprint()
    assert 0 < (one.vector.values - before).abs().max() < 1e-4
