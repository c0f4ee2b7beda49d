"""What fp16 and bf16 lose as a page: docs/proxy-precision.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from replay.proxy.numerics import Measured
from replay.proxy.tables import MECHANISM, joined, made_with, opening, significant, table

FP16_SMALLEST, FP16_NORMAL, FP16_LARGEST = -24, -14, 15
"""Binary exponents of fp16's smallest number, smallest normal number and largest number."""


def page(measured: Measured, checkpoint: str | None = None) -> str:
    """The page docs/proxy-precision.md; ``checkpoint`` is the folder that the model came from, if from any."""
    of, option = f"the copy task at step {measured.steps}, seed 0", f"--steps {measured.steps}"
    if checkpoint is not None:
        of, option = f"`{checkpoint}` at step {measured.steps}", f"--checkpoint {checkpoint}"
    lines = opening(
        "What fp16 and bf16 lose",
        f"replay precision {option} --docs docs/proxy-precision.md",
        f"Weights and gradient are those of {of}; {made_with()}. One model, and so no intervals; ranges, sums and the "
        "loss scale's way depend on no model.",
        MECHANISM,
    )
    lines += ["", "## Range and resolution", ""]
    head = ["format", "bits", "largest", "smallest normal", "smallest", "gap behind 1"]
    sizes = (
        [row.name, str(row.bits), *_scientific(row.largest, row.smallest_normal, row.smallest, row.epsilon)]
        for row in measured.ranges
    )
    lines += table(head, sizes)
    first = measured.sums[0]
    lines += ["", "## A long sum of small numbers", ""]
    lines += [
        f"{first.count:,} times {first.addend:g}, one by one, the sum kept in each format; {first.exact:g} is due."
    ]
    lines += ["", *table(["format", "sum"], ([row.name, f"{row.total:.6g}"] for row in measured.sums))]
    lines += ["", "It stops growing where the addend is less than half the gap to the next number.", ""]
    lines += _underflow(measured)
    lines += _swallowed(measured)
    lines += _descent(measured)
    return joined(lines)


def _underflow(measured: Measured) -> list[str]:
    scales = list(dict.fromkeys(row.loss_scale for row in measured.underflow))
    by_format = {name: list(rows) for name, rows in itertools.groupby(measured.underflow, key=lambda row: row.name)}
    cells = [[name, *(f"{row.to_zero:.2%}, {row.to_infinity:.2%}" for row in rows)] for name, rows in by_format.items()]
    lines = [
        "## Underflow of the gradient",
        "",
        "Share of the gradient's elements, not zero in fp32, that become zero, and that become infinite, by the scale "
        "with which the loss is multiplied:",
    ]
    lines += ["", *table(["format", *(f"scale {_power(scale)}" for scale in scales)], cells)]
    lines += ["", "The gradient's elements by binary exponent, and what unscaled fp16 makes of them:", ""]
    shares = [[told, f"{share:.2%}", fate] for told, share, fate in _histogram(measured.histogram)]
    return [*lines, *table(["size", "share", "in fp16"], shares), ""]


def _histogram(shares: Sequence[tuple[int, float]]) -> Iterable[tuple[str, float, str]]:
    """Exponents two by two, those that fp16 cannot hold by far in one row."""
    far = FP16_SMALLEST - 16
    bins: dict[int, float] = {}
    for exponent, share in shares:
        low = far if exponent < far + 2 else exponent - exponent % 2
        bins[low] = bins.get(low, 0.0) + share
    for low, share in sorted(bins.items()):
        told = f"2^{low} to 2^{low + 2}" if low > far else f"below 2^{far + 2}"
        yield told, share, _fate(low)


def _fate(low: int) -> str:
    if low + 2 <= FP16_SMALLEST - 1:
        return "zero"
    if low < FP16_SMALLEST:
        return "zero, or rounded up to the smallest number"
    if low < FP16_NORMAL:
        return "subnormal: fewer digits"
    return "normal" if low < FP16_LARGEST else "infinite"


def _swallowed(measured: Measured) -> list[str]:
    rates = list(dict.fromkeys(row.learning_rate for row in measured.swallowed))
    by_format = {name: list(rows) for name, rows in itertools.groupby(measured.swallowed, key=lambda row: row.name)}
    head = ["weights kept in", *(f"{rate:g}" for rate in rates)]
    lines = [
        "## Updates that are swallowed",
        "",
        "Adam's updates are about as large as the learning rate. Share of the weights that one such update leaves as "
        "they were, by learning rate (with masters: of these):",
    ]
    lines += ["", *table(head, ([name, *(f"{row.swallowed:.1%}" for row in rows)] for name, rows in by_format.items()))]
    lines += ["", "Of the way that 100 such updates should go, the part that the weights went that compute:", ""]
    lines += table(head, ([name, *(f"{row.arrived:.1%}" for row in rows)] for name, rows in by_format.items()))
    lines += [
        "",
        "More than 100% is lost precision too: after each update a weight is rounded to the format's grid, to which "
        "the update itself is rounded first; one of 0.6 gaps moves a weight by a whole gap, one of 0.4 gaps not at "
        "all.",
    ]
    return [*lines, ""]


def _descent(measured: Measured) -> list[str]:
    lines = [
        "## The way of a loss scale from 2^24 down",
        "",
        "Torch's GradScaler with a gradient of 1 at each step: an overflow withholds the step and halves the scale, "
        "eight clean steps on end double it.",
    ]
    cells = []
    for (scale, withheld), group in itertools.groupby(measured.descent, key=lambda row: (row[1], row[2])):
        steps = [step for step, _, _ in group]
        span = str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
        cells.append([span, _power(scale), "withheld" if withheld else "made"])
    return [*lines, "", *table(["steps", "scale behind them", "update"], cells)]


def _scientific(*values: float) -> list[str]:
    return [significant(value, 4) for value in values]


def _power(scale: float) -> str:
    exponent = math.log2(scale)
    return "1" if exponent == 0 else f"2^{exponent:g}"
