"""Optimizers and schedules against their definitions, and against torch's own where there is one."""

from __future__ import annotations

import math

import pytest
import torch

from replay.proxy import ModelConfig, OptimizerConfig, ScheduleConfig
from replay.proxy.optimisation import Optimizer, ParameterVector, clip_gradient, learning_rate
from replay.proxy.parameters import initial_parameters


def tensors() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return {"matrix": torch.randn(4, 3, generator=random), "gain": torch.randn(3, generator=random)}


def gradients(step: int) -> torch.Tensor:
    return torch.randn(15, generator=torch.Generator().manual_seed(step))


def test_adamw_takes_the_steps_of_torchs_adamw() -> None:
    vector = ParameterVector(tensors())
    ours = Optimizer(vector, OptimizerConfig(beta1=0.9, beta2=0.99, weight_decay=0.1, epsilon=1e-8))
    theirs_values = torch.nn.Parameter(vector.values.clone())
    theirs = torch.optim.AdamW([theirs_values], lr=0.01, betas=(0.9, 0.99), weight_decay=0.1, eps=1e-8)
    for step in range(20):
        vector.gradient.copy_(gradients(step))
        theirs_values.grad = gradients(step)
        ours.rate = 0.01
        ours.step()
        theirs.step()
    assert torch.allclose(vector.values, theirs_values, rtol=1e-5, atol=1e-6)


def test_sgd_takes_the_steps_of_torchs_sgd() -> None:
    vector = ParameterVector(tensors())
    ours = Optimizer(vector, OptimizerConfig(name="sgd", momentum=0.8, weight_decay=0.0))
    theirs_values = torch.nn.Parameter(vector.values.clone())
    theirs = torch.optim.SGD([theirs_values], lr=0.01, momentum=0.8)
    for step in range(10):
        vector.gradient.copy_(gradients(step))
        theirs_values.grad = gradients(step)
        ours.rate = 0.01
        ours.step()
        theirs.step()
    assert torch.allclose(vector.values, theirs_values, rtol=1e-5, atol=1e-6)


def test_the_named_parameters_are_the_vector() -> None:
    vector = ParameterVector(tensors())
    vector.named["gain"].detach().fill_(7.0)
    assert vector.values[12:].tolist() == [7.0] * 3
    (vector.named["matrix"].sum() * 2).backward()
    assert vector.gradient.tolist() == [2.0] * 12 + [0.0] * 3


def test_the_second_moment_lag_is_one_when_gradients_are_steady_and_high_when_they_jump() -> None:
    vector = ParameterVector(tensors())
    optimizer = Optimizer(vector, OptimizerConfig(beta2=0.999))
    vector.gradient.fill_(1e-3)
    for _ in range(100):
        optimizer.step()
    assert optimizer.second_moment_lag is not None
    assert optimizer.second_moment_lag.tolist() == pytest.approx([1.0, 1.0], rel=1e-4)
    vector.views(vector.gradient)[1].fill_(1.0)
    optimizer.step()
    # v then holds a share (1 - beta2) / (1 - beta2^101) of the new square.
    expected = math.sqrt((1 - 0.999**101) / 0.001)
    assert optimizer.second_moment_lag.tolist() == pytest.approx([1.0, expected], rel=1e-3)


def test_update_clipping_shortens_the_tensor_that_lags_and_no_other() -> None:
    moved = []
    for clip in (0.0, 1.0):
        vector = ParameterVector(tensors())
        optimizer = Optimizer(vector, OptimizerConfig(weight_decay=0.0, update_clip=clip))
        vector.gradient.fill_(1e-3)
        for _ in range(50):
            optimizer.step()
        vector.views(vector.gradient)[1].fill_(1.0)
        optimizer.rate = 1.0
        optimizer.step()
        assert optimizer.update is not None
        moved.append(optimizer.update.clone())
    assert torch.allclose(moved[0][:12], moved[1][:12], rtol=1e-3)
    assert (moved[1][12:] < moved[0][12:] / 4).all()


def test_factored_second_moments_are_exact_for_squares_of_rank_one() -> None:
    updates = []
    for factored in (False, True):
        vector = ParameterVector(tensors())
        config = OptimizerConfig(name="adafactor", weight_decay=0.0, beta2_power=0.8, factored=factored)
        optimizer = Optimizer(vector, config)
        rows, columns = torch.arange(1.0, 5.0), torch.arange(1.0, 4.0)
        vector.gradient[:12] = torch.outer(rows, columns).flatten()
        vector.gradient[12:] = 1.0
        optimizer.rate = 1.0
        optimizer.step()
        assert optimizer.update is not None
        updates.append(optimizer.update.clone())
    assert torch.allclose(updates[0], updates[1], rtol=1e-5)


def test_factored_second_moments_are_those_of_the_paper_over_many_steps() -> None:
    """Adafactor section 3, algorithm 4: averages of row and of column means, multiplied anew at each step."""
    vector = ParameterVector({"matrix": torch.zeros(4, 3)})
    optimizer = Optimizer(
        vector, OptimizerConfig(name="adafactor", beta1=0.0, beta2_power=0.8, factored=True, epsilon=0.0)
    )
    rows, columns = torch.zeros(4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for step in range(1, 30):
        gradient = gradients(step)[:12].view(4, 3)
        vector.gradient.copy_(gradient.flatten())
        optimizer.rate = 1.0
        optimizer.step()
        beta2 = 1 - step**-0.8
        squares = gradient.double().square()
        rows = beta2 * rows + (1 - beta2) * squares.mean(dim=1)
        columns = beta2 * columns + (1 - beta2) * squares.mean(dim=0)
        expected = gradient.double() / (torch.outer(rows, columns) / rows.mean()).sqrt()
        assert optimizer.update is not None
        assert torch.allclose(optimizer.update.double().view(4, 3), expected, rtol=1e-4), step


def test_parameter_scaling_makes_steps_in_proportion_to_the_tensor() -> None:
    vector = ParameterVector({"large": torch.full((4,), 10.0), "small": torch.full((4,), 0.1)})
    optimizer = Optimizer(vector, OptimizerConfig(parameter_scaling=True, weight_decay=0.0))
    vector.gradient.fill_(1.0)
    optimizer.rate = 0.01
    optimizer.step()
    assert optimizer.update is not None
    assert optimizer.update.tolist() == pytest.approx([0.1] * 4 + [0.001] * 4, rel=1e-4)


@pytest.mark.parametrize(
    ("scaling", "expected"), [("learning_rate", 0.95), ("learning_rate_squared", 0.975), ("independent", 0.95)]
)
def test_weight_decay_and_what_scales_it(scaling: str, expected: float) -> None:
    vector = ParameterVector({"matrix": torch.ones(2, 2), "gain": torch.ones(2)})
    config = OptimizerConfig(weight_decay=0.1, decay_scaling=scaling, decay_all=False)  # type: ignore[arg-type]
    optimizer = Optimizer(vector, config)
    optimizer.rate, optimizer.peak_rate = 0.5, 1.0
    optimizer.step()
    assert vector.values.tolist() == pytest.approx([expected] * 4 + [1.0] * 2)


def test_embeddings_and_learned_positions_are_among_the_matrices_that_decay() -> None:
    vector = ParameterVector(initial_parameters(ModelConfig(width=8, depth=1, heads=2, biases=True), seed=0))
    with torch.no_grad():
        vector.values.fill_(1.0)
    optimizer = Optimizer(vector, OptimizerConfig(weight_decay=0.1, decay_all=False))
    optimizer.rate = 0.5
    optimizer.step()
    decayed = {name for name, tensor in vector.named.items() if (tensor < 1.0).all()}
    spared = {name for name in vector.names if name.endswith((".gain", ".bias"))}
    assert {"embedding.token", "embedding.position", "final.head"} <= decayed
    assert decayed == set(vector.names) - spared


def test_decay_that_stands_alone_follows_the_schedule_but_not_its_peak() -> None:
    left = []
    for peak in (1e-3, 1e-1):
        vector = ParameterVector({"matrix": torch.ones(2, 2)})
        optimizer = Optimizer(vector, OptimizerConfig(weight_decay=0.1, decay_scaling="independent"))
        optimizer.peak_rate = peak
        for scheduled in (1.0, 0.5, 0.0):
            optimizer.rate = scheduled * peak
            optimizer.step()
        left.append(vector.values.tolist())
    assert left[0] == left[1] == pytest.approx([0.9 * 0.95] * 4)


def test_clipping_tells_the_norm_before_and_leaves_small_gradients_alone() -> None:
    vector = ParameterVector({"a": torch.zeros(2)})
    vector.gradient.copy_(torch.tensor([3.0, 4.0]))
    assert clip_gradient(vector, 10.0).item() == 5.0
    assert vector.gradient.tolist() == [3.0, 4.0]
    assert clip_gradient(vector, 1.0).item() == 5.0
    assert vector.gradient.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


def test_schedules() -> None:
    def rates(steps: list[int], **settings: object) -> list[float]:
        schedule = ScheduleConfig(learning_rate=1.0, **{"warmup_steps": 0, **settings})  # type: ignore[arg-type]
        return [round(learning_rate(schedule, step), 6) for step in steps]

    assert rates([1, 5, 10, 99], warmup_steps=10) == [0.1, 0.5, 1.0, 1.0]
    assert rates([0, 50, 100, 200], name="linear", decay_end=100, minimum=0.2) == [1.0, 0.6, 0.2, 0.2]
    assert rates([0, 50, 100], name="cosine", decay_end=100, minimum=0.2) == [1.0, 0.6, 0.2]
    assert rates([5, 100, 400], name="inverse_sqrt", decay_start=100) == [1.0, 1.0, 0.5]
    assert rates([10, 80, 90, 100], name="wsd", decay_start=80, decay_end=100) == [1.0, 1.0, 0.5, 0.0]
    assert rates([50, 51, 55, 60], rewarm_start=50, rewarm_steps=10) == [1.0, 0.1, 0.5, 1.0]
    assert rates([1], factor=0.5) == [0.5]
