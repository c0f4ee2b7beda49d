"""Loss scaling as torch does it, and what low precision loses, in numbers that are known."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from replay.proxy import DataConfig, OptimizerConfig, PrecisionConfig, ProxyConfig, numerics
from replay.proxy.optimisation import Optimizer, ParameterVector
from replay.proxy.precision import Precision
from replay.proxy.training import Training


def overflowing(config: PrecisionConfig, gradient: float, steps: int) -> list[tuple[float, bool]]:
    vector = ParameterVector({"weight": torch.zeros(1)})
    optimizer = Optimizer(vector, OptimizerConfig(weight_decay=0.0))
    precision = Precision(config)
    rows = []
    for _ in range(steps):
        precision.backward((vector.named["weight"] * gradient).sum(), optimizer)
        stepped = precision.step(optimizer)
        rows.append((precision.loss_scale, stepped))
    return rows


def test_an_overflow_withholds_the_step_and_halves_the_scale_down_to_its_floor() -> None:
    config = PrecisionConfig(mode="fp16_gradients", initial_scale=8.0, minimum_scale=2.0)
    assert overflowing(config, math.inf, 4) == [(4.0, False), (2.0, False), (2.0, False), (2.0, False)]


def test_the_floor_holds_for_a_step_that_a_rule_withholds_as_well() -> None:
    vector = ParameterVector({"weight": torch.zeros(1)})
    optimizer = Optimizer(vector, OptimizerConfig(weight_decay=0.0))
    precision = Precision(PrecisionConfig(mode="fp16_gradients", initial_scale=8.0, minimum_scale=2.0))
    scales = []
    for _ in range(4):
        precision.backward((vector.named["weight"] * math.inf).sum(), optimizer)
        precision.withhold()
        scales.append(precision.loss_scale)
    assert scales == [4.0, 2.0, 2.0, 2.0]


def test_an_overflow_does_not_lift_a_scale_that_is_below_the_floor_already() -> None:
    config = PrecisionConfig(mode="fp16_gradients", initial_scale=1.0, minimum_scale=8.0)
    assert overflowing(config, math.inf, 2) == [(1.0, False), (1.0, False)]


def test_the_scale_grows_after_its_interval_of_clean_steps() -> None:
    config = PrecisionConfig(mode="fp16_gradients", initial_scale=8.0, growth_interval=3)
    assert [scale for scale, _ in overflowing(config, 1.0, 7)] == [8, 8, 16, 16, 16, 32, 32]


def test_the_way_down_from_a_scale_that_is_too_large() -> None:
    rows = numerics.loss_scale_descent(2.0**24, gradient=1.0, steps=12)
    # 2^16 = 65,536 does not fit into fp16 (largest 65,504), 2^15 does.
    assert [scale for _, scale, withheld in rows if withheld] == [2.0**k for k in range(23, 14, -1)]
    assert rows[9] == (10, 2.0**15, False)


def test_a_run_in_fp16_withholds_a_step_and_goes_on() -> None:
    config = ProxyConfig().replace(precision=PrecisionConfig(mode="fp16", initial_scale=2.0**24))
    training = Training.start(config)
    before = training.vector.values.clone()
    signals = training.advance()
    assert signals["skipped_steps"] == 1
    assert "update_rms" not in signals
    assert torch.equal(training.vector.values, before)
    assert signals["loss_scale"] == 2.0**23
    while signals["skipped_steps"]:
        signals = training.advance()
    assert signals["update_rms"] > 0


SCALED = PrecisionConfig(mode="fp16_gradients", initial_scale=2.0**10, growth_interval=10)


def grown(steps: int = 25) -> Training:
    training = Training.start(ProxyConfig(data=DataConfig(batch_size=2), precision=SCALED))
    for _ in range(steps):
        training.advance()
    assert training.precision.loss_scale == 2.0**12
    return training


@pytest.mark.parametrize("changes", [{"minimum_scale": 2.0}, {"mode": "fp16"}, {"growth_interval": 11}])
def test_a_changed_setting_leaves_the_loss_scale_and_its_growth_count(changes: dict[str, Any]) -> None:
    training = grown()
    before = training.precision.state_dict()
    training.change(precision=dataclasses.replace(SCALED, **changes))
    assert training.precision.state_dict() == before | {
        "growth_interval": changes.get("growth_interval", SCALED.growth_interval)
    }
    assert Training.restore(training.snapshot()).precision.state_dict() == training.precision.state_dict()


def test_a_growth_count_beyond_a_shorter_interval_still_lets_the_scale_grow() -> None:
    training = grown()
    training.change(precision=dataclasses.replace(SCALED, growth_interval=3))
    assert [training.advance()["loss_scale"] for _ in range(5)] == [2.0**k for k in (13, 13, 13, 14, 14)]


def test_the_loss_scale_starts_over_where_its_start_is_what_changed_or_there_was_none() -> None:
    training = grown()
    training.change(precision=dataclasses.replace(SCALED, initial_scale=64.0))
    assert training.precision.loss_scale == 64.0
    training.change(precision=PrecisionConfig())
    assert training.precision.loss_scale == 1.0
    training.change(precision=SCALED)
    assert training.precision.loss_scale == SCALED.initial_scale


def test_bf16_stays_close_to_fp32() -> None:
    losses = []
    for mode in ("fp32", "bf16"):
        training = Training.start(ProxyConfig().replace(precision__mode=mode))
        losses.append([training.advance()["loss"] for _ in range(10)])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], abs=0.02)


def test_long_sums() -> None:
    totals = {row.name: row.total for row in numerics.running_sums()}
    assert totals["fp32"] == pytest.approx(1.00005, abs=1e-5)
    assert totals["fp16"] == 0.25
    assert totals["bf16"] == 0.03125


def test_ranges() -> None:
    ranges = {row.name: row for row in numerics.format_ranges()}
    assert ranges["fp16"].largest == 65504
    assert ranges["fp16"].smallest == 2.0**-24
    assert ranges["bf16"].epsilon == 2.0**-7


def test_underflow_is_what_a_loss_scale_prevents_and_overflow_what_it_brings() -> None:
    gradient = torch.tensor([0.0, 1e-9, 1e-3, 1.0])
    rows = {(row.name, row.loss_scale): row for row in numerics.underflow(gradient, scales=(1.0, 2.0**16))}
    assert rows["fp16", 1.0].to_zero == pytest.approx(1 / 3)
    assert rows["fp16", 2.0**16].to_zero == 0
    assert rows["fp16", 2.0**16].to_infinity == pytest.approx(1 / 3)
    assert rows["bf16", 1.0].to_zero == 0


def test_the_histogram_counts_binary_exponents() -> None:
    assert numerics.gradient_histogram(torch.tensor([0.0, 1.0, 1.5, -4.0, 0.25])) == [(-2, 0.25), (0, 0.5), (2, 0.25)]


def test_small_updates_are_swallowed_without_master_weights() -> None:
    rows = {(row.name, row.learning_rate): row for row in numerics.swallowed_updates(torch.ones(8), (1e-2, 1e-4))}
    assert rows["bf16", 1e-4].swallowed == 1.0
    assert rows["bf16", 1e-4].arrived == 0.0
    assert rows["fp32", 1e-4].arrived == pytest.approx(1.0, rel=1e-2)
    assert rows["bf16 over fp32 masters", 1e-4].arrived == pytest.approx(1.0, rel=0.3)


def test_the_gradient_that_is_measured_is_neither_clipped_nor_skipped() -> None:
    training = Training.start(ProxyConfig().replace(data__batch_size=4))
    free = numerics.gradients_of(training)
    training.change(grad_clip=1e-3)
    training.skip_steps(1, 1)
    assert torch.equal(numerics.gradients_of(training), free)
    assert free.norm() > 0.1
    assert training.step == 0
