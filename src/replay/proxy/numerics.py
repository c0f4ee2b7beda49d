"""What fp16 and bf16 lose, measured: range, underflow, swallowed updates, long sums, the way of a loss scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from replay.proxy.config import OptimizerConfig, PrecisionConfig
from replay.proxy.optimisation import Optimizer, ParameterVector
from replay.proxy.precision import Precision
from replay.proxy.recipes import copy_task
from replay.proxy.runtime import runtime_restored
from replay.proxy.training import Training

FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class FormatRange:
    """A number format: largest and smallest positive numbers, and the gap between 1 and the next number."""

    name: str
    bits: int
    largest: float
    smallest_normal: float
    smallest: float
    epsilon: float


def format_ranges() -> list[FormatRange]:
    """Range and resolution of each format, as torch reports them; its smallest number is the gap at the smallest normal
    one.
    """
    rows = []
    for name, dtype in FORMATS.items():
        info = torch.finfo(dtype)
        smallest = info.tiny * info.eps
        rows.append(FormatRange(name, info.bits, info.max, info.tiny, smallest, info.eps))
    return rows


@dataclass(frozen=True)
class SumRow:
    """``total`` of adding ``addend`` ``count`` times in one format, where ``exact`` is due."""

    name: str
    count: int
    addend: float
    total: float
    exact: float


def running_sums(count: int = 10_000, addend: float = 1e-4) -> list[SumRow]:
    """Add a small number many times, the sum kept in each format: it stops growing where half a gap is too much.

    fp32 gives 1.00005, fp16 0.25, bf16 0.03125.
    """
    rows = []
    for name, dtype in FORMATS.items():
        total = torch.zeros((), dtype=dtype)
        step = torch.tensor(addend, dtype=dtype)
        for _ in range(count):
            total = total + step
        rows.append(SumRow(name, count, addend, total.item(), count * addend))
    return rows


@dataclass(frozen=True)
class UnderflowRow:
    """Share of gradient elements, not zero in fp32, that a format rounds to zero or infinity at a loss scale."""

    name: str
    loss_scale: float
    to_zero: float
    to_infinity: float


@runtime_restored()
def gradients_of(training: Training) -> Tensor:
    """The gradient of the next step before clipping, float32 [parameters], of a run that is not changed by it."""
    copy = Training.restore(training.snapshot())
    copy.change(grad_clip=0.0)
    copy.skipped_steps.clear()
    copy.advance()
    return copy.vector.gradient.clone()


def underflow(gradient: Tensor, scales: tuple[float, ...] = (1.0, 2.0**8, 2.0**16, 2.0**24)) -> list[UnderflowRow]:
    """What becomes of gradient elements [any shape] that are multiplied by a loss scale and rounded to a format."""
    elements = gradient[gradient != 0].double()
    rows = []
    for name, dtype in FORMATS.items():
        for scale in scales:
            rounded = (elements * scale).to(dtype)
            zero = (rounded == 0).double().mean().item()
            infinite = torch.isinf(rounded).double().mean().item()
            rows.append(UnderflowRow(name, scale, zero, infinite))
    return rows


def gradient_histogram(gradient: Tensor) -> list[tuple[int, float]]:
    """Shares of the nonzero elements by binary exponent, [(exponent, share)], in ascending order."""
    exponents = gradient[gradient != 0].abs().log2().floor().to(torch.int64)
    values, counts = torch.unique(exponents, return_counts=True)
    total = counts.sum().item()
    return [(int(value), count / total) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]


@dataclass(frozen=True)
class SwallowedRow:
    """What became of Adam-sized updates (each of the learning rate) to weights kept in a format.

    ``swallowed``: share of weights that a single update leaves as they were. ``arrived``: of the distance that all the
    updates together should have gone, the part that they did, over all weights.
    """

    name: str
    learning_rate: float
    swallowed: float
    arrived: float


def swallowed_updates(
    weights: Tensor, learning_rates: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6), updates: int = 100
) -> list[SwallowedRow]:
    """Subtract a learning rate from weights [any shape] again and again, the weights kept in each format.

    "Over fp32 masters" the sum is kept in fp32 and the copy that computes is rounded from it, as in the proxy: nothing
    is lost but the copy's last digit. (``swallowed`` is then told of the masters.)
    """
    kinds = [(name, dtype, dtype) for name, dtype in FORMATS.items()]
    kinds += [(f"{name} over fp32 masters", torch.float32, FORMATS[name]) for name in ("bf16", "fp16")]
    rows = []
    for name, kept_as, used_as in kinds:
        start = weights.detach().flatten().to(kept_as)
        for rate in learning_rates:
            step = torch.tensor(rate, dtype=kept_as)
            swallowed = ((start - step) == start).double().mean().item()
            kept = start.clone()
            for _ in range(updates):
                kept -= step
            moved = (start.to(used_as).double() - kept.to(used_as).double()).mean().item()
            rows.append(SwallowedRow(name, rate, swallowed, moved / (updates * rate)))
    return rows


def loss_scale_descent(
    initial_scale: float = 2.0**24, gradient: float = 1.0, steps: int = 40, growth_interval: int = 8
) -> list[tuple[int, float, bool]]:
    """Torch's GradScaler from a scale that is far too large: [(step, scale behind it, whether the step was withheld)].

    Each step has one gradient of the given size, which must fit into fp16 after scaling.
    """
    vector = ParameterVector({"weight": torch.zeros(1)})
    optimizer = Optimizer(vector, OptimizerConfig(weight_decay=0.0))
    config = PrecisionConfig(mode="fp16_gradients", initial_scale=initial_scale, growth_interval=growth_interval)
    precision = Precision(config)
    rows = []
    for step in range(1, steps + 1):
        loss = (vector.named["weight"] * gradient).sum()
        precision.backward(loss, optimizer)
        stepped = precision.step(optimizer)
        rows.append((step, precision.loss_scale, not stepped))
    return rows


@dataclass(frozen=True)
class Measured:
    """All of this module's tables, for one state of a model: ``steps`` done, ``histogram`` of its next gradient."""

    steps: int
    ranges: list[FormatRange]
    sums: list[SumRow]
    underflow: list[UnderflowRow]
    histogram: list[tuple[int, float]]
    swallowed: list[SwallowedRow]
    descent: list[tuple[int, float, bool]]


@runtime_restored()
def measure(checkpoint: Path | None = None, steps: int = 400) -> Measured:
    """Measure with the weights and the gradient of a checkpoint, or of the copy task trained for so many steps.

    Raises:
        CheckpointError: the checkpoint cannot be read.
    """
    if checkpoint is not None:
        training = Training.resume(checkpoint)
    else:
        training = Training.start(copy_task(0))
        while training.step < steps:
            training.advance()
    gradient = gradients_of(training)
    return Measured(
        steps=training.step,
        ranges=format_ranges(),
        sums=running_sums(),
        underflow=underflow(gradient),
        histogram=gradient_histogram(gradient),
        swallowed=swallowed_updates(training.vector.values),
        descent=loss_scale_descent(),
    )
