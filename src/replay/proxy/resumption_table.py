"""What forgetting parts of a checkpoint does, as rows for the command line and as docs/proxy-checkpoints.md."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from replay.proxy.resumption import FULL, LEFT_OUT, Resumed, demonstration_task, excess
from replay.proxy.tables import (
    MECHANISM,
    UNCORRECTED,
    joined,
    made_with,
    mean_told,
    opening,
    range_told,
    seeds_told,
    table,
)

STRETCH = 10
"""Steps over which the excess is averaged, at once behind the resume and at the end."""


@dataclass(frozen=True)
class Forgotten:
    """What leaving something out did, by seed: held-out loss less that of the full resume, nats.

    ``first``: mean over the first :data:`STRETCH` steps behind the resume; ``last``: over as many at the end; ``peak``:
    largest at any step. ``same``: number of seeds whose end is, bit for bit, that of the run never interrupted.
    """

    left_out: str
    same: int
    first: list[float]
    peak: list[float]
    last: list[float]
    withheld: list[int]
    update_ratio: list[float]
    learning_rate: float
    seen_twice: int


def forgotten(resumed: Sequence[Resumed]) -> list[Forgotten]:
    """Resumes gathered by what was left out. ``update_ratio``: RMS of the first step's update against that of the full
    resume's, NaN where it was withheld.
    """
    full = {one.seed: one for one in resumed if one.left_out == FULL}
    rows = []
    for name in LEFT_OUT:
        group = [one for one in resumed if one.left_out == name]
        curves = [excess(one, full[one.seed]) for one in group]
        rows.append(
            Forgotten(
                left_out=name,
                same=sum(one.same for one in group),
                first=[fmean(curve[:STRETCH]) for curve in curves],
                peak=[max(curve) for curve in curves],
                last=[fmean(curve[-STRETCH:]) for curve in curves],
                withheld=[one.withheld for one in group],
                update_ratio=[one.update_rms / full[one.seed].update_rms for one in group],
                learning_rate=group[0].learning_rate,
                seen_twice=group[0].seen_twice,
            )
        )
    return rows


def summary_rows(resumed: Sequence[Resumed]) -> list[dict[str, object]]:
    """One row for each part, means over seeds; ``update_ratio`` over those of which the step was made, if any."""
    rows = []
    for row in forgotten(resumed):
        made = [ratio for ratio in row.update_ratio if not math.isnan(ratio)]
        means = {
            name: fmean(value) if isinstance(value, list) else value for name, value in dataclasses.asdict(row).items()
        }
        rows.append(means | {"update_ratio": fmean(made) if made else None})
    return rows


def page(resumed: Sequence[Resumed], before: int, after: int) -> str:
    """The page docs/proxy-checkpoints.md."""
    rows = forgotten(resumed)
    seeds = {one.seed for one in resumed}
    count = len(seeds)
    intervals = "Means over seeds with Student's 95% interval" if count > 1 else "One seed gives no interval"
    lines = opening(
        "What forgetting each part of a checkpoint does",
        f"replay proxy checkpoints --seeds {count} --before {before} --steps {after} --docs docs/proxy-checkpoints.md",
        f"{seeds_told(seeds)}; {made_with()}. {intervals}; every difference is against the full resume of the same "
        "seed.",
        MECHANISM,
        _task(before, after),
        *([UNCORRECTED] if count > 1 else []),
    )
    same = next(row.same for row in rows if row.left_out == FULL)
    lines += ["", "## The full resume", ""]
    lines += [
        f"On {same} of {count} seeds the run that was resumed with all of its checkpoint is at step {before + after} "
        "the same as the one that was never interrupted, bit for bit: weights, moments and all counts have one SHA-256."
    ]
    start = [one.before for one in resumed if one.left_out == FULL]
    end = [one.held_out[-1] for one in resumed if one.left_out == FULL]
    lines += [f"Its held-out loss goes from {mean_told(start)} to {mean_told(end)} nats."]
    lines += ["", "## Held-out loss less that of the full resume", ""]
    stretch = min(STRETCH, after)
    head = [
        "left out",
        "same bits at the end",
        f"first {stretch} steps",
        "largest at any step",
        f"last {stretch} steps",
    ]
    told = [
        [row.left_out, f"{row.same} of {count}", mean_told(row.first), mean_told(row.peak), mean_told(row.last)]
        for row in rows
    ]
    lines += [*table(head, told), ""]
    lines += [
        "Nats; above 0 is worse than the full resume. The largest of many differences is above 0 even where a part "
        "only reshuffles what chance decides; the means over steps are not."
    ]
    lines += ["", "## What else shows it", ""]
    head = ["left out", "learning rate of the first step", "its update against the full resume's, RMS"]
    head += ["steps withheld", "batches seen twice"]
    told = [
        [
            row.left_out,
            f"{row.learning_rate:.4g}",
            _update_told(row.update_ratio),
            range_told(row.withheld, 0),
            str(row.seen_twice),
        ]
        for row in rows
    ]
    return joined([*lines, *table(head, told), "", *_PARTS])


def _update_told(ratios: Sequence[float]) -> str:
    made = [ratio for ratio in ratios if math.isfinite(ratio)]
    if not made:
        return "withheld"
    withheld = len(ratios) - len(made)
    return mean_told(made, 2) + (f", withheld in {withheld}" if withheld else "")


def _task(before: int, after: int) -> str:
    config = demonstration_task(0, before)
    schedule, precision = config.schedule, config.precision
    return (
        f"Word source, a run of {config.steps} steps, saved at step {before}, resumed from the file and followed for "
        f"{after} steps. AdamW ({config.optimizer.beta1:g}, {config.optimizer.beta2:g}), learning rate "
        f"{schedule.learning_rate:g} behind {schedule.warmup_steps} steps of warm-up, falling by a cosine to "
        f"{schedule.minimum:g} at the last step; scaled gradients must fit into fp16, with a dynamic loss scale from "
        f"2^{math.log2(precision.initial_scale):g} that doubles after {precision.growth_interval} clean steps."
    )


_PARTS = (
    "- *optimizer*: moments and step count start at zero. Adam's first steps then have the full learning rate in every "
    "coordinate, whatever the size of the gradient.",
    "- *scaler*: the loss scale starts over where it is far too large. Steps are withheld, and their batches lost, "
    "until it has been halved often enough; a step that is withheld leaves weights and moments as they are.",
    "- *schedule*: the learning rate starts over, with its warm-up and at its peak.",
    "- *data*: the data start over with batch 1. What was learned from once is learned from again, and what counts "
    "batches, as ramps do, starts over too. (This run has no ramps, and its held-out data are never learned from.)",
    "- *all four*: the weights alone are resumed.",
)
