"""What is measured of an arm: how bad it got, how long it took, where it ended, and what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from replay.experiment.arms import ArmRun
    from replay.experiment.scenario import Scenario

BEYOND_HOPE = 20.0
"""Held-out loss, nats, at which NaN, infinity and anything larger are counted: worse says no more."""

END_STEPS = 10
"""The last steps over which the loss at the end is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of an arm; smaller is better in all of them.

    ``matters`` is the smallest difference that anyone would act upon.  A ``cost`` follows from the arm itself, not
    from the seed: it is stated, not tested.
    """

    title: str
    unit: str
    meaning: str
    matters: float
    cost: bool = False


METRICS: dict[str, Metric] = {
    "peak_excess_loss": Metric(
        title="peak excess loss",
        unit="nats",
        meaning="largest held-out loss on what survives, over that of the run that never met the failure",
        matters=0.1,
    ),
    "recurred": Metric(
        title="failed again",
        unit="of seeds",
        meaning="whether the peak excess loss passed the scenario's bound",
        matters=0.2,
    ),
    "steps_to_recover": Metric(
        title="steps to recover",
        unit="steps",
        meaning="steps executed after someone acted until the run was, and stayed, healthy at or beyond the step "
        "it had reached; recomputed steps count; a run that did not recover counts all its steps",
        matters=10.0,
    ),
    "final_loss": Metric(
        title="loss at equal steps",
        unit="nats",
        meaning=f"held-out loss, mean of the last {END_STEPS} steps; all arms end at the same step",
        matters=0.02,
    ),
    "steps_recomputed": Metric(
        title="steps recomputed", unit="steps", meaning="steps executed a second time", matters=1.0, cost=True
    ),
    "batches_skipped": Metric(
        title="batches skipped", unit="batches", meaning="training data left out", matters=1.0, cost=True
    ),
}


def excess(held_out: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Held-out loss over the reference's at the same steps [steps], NaN and huge values as :data:`BEYOND_HOPE`."""
    bounded = np.minimum(np.where(np.isfinite(held_out), held_out, BEYOND_HOPE), BEYOND_HOPE)
    return np.asarray(bounded - reference, dtype=np.float64)


def measure(run: ArmRun, reference: ArmRun, scenario: Scenario, decision: int) -> dict[str, float]:
    """The metrics of one arm on one seed, by the names in :data:`METRICS`; ``decision`` is the step reached when
    someone acted."""
    held_out = run.column("held_out_loss")
    over = excess(held_out, reference.column("held_out_loss"))
    ill = run.steps[over > scenario.healthy_below]
    last_ill = int(ill.max()) if len(ill) else decision
    return {
        "peak_excess_loss": float(over.max()),
        "recurred": float(over.max() > scenario.recurs_above),
        "steps_to_recover": float(run.steps_recomputed + max(0, last_ill - decision)),
        "final_loss": float(np.minimum(np.nan_to_num(held_out[-END_STEPS:], nan=BEYOND_HOPE), BEYOND_HOPE).mean()),
        "steps_recomputed": float(run.steps_recomputed),
        "batches_skipped": float(run.batches_skipped),
    }


def reference_warning(reference: ArmRun, scenario: Scenario) -> str:
    """Why a seed's comparison is doubtful, or nothing: the run that never met the failure must be healthy itself."""
    held_out = reference.column("held_out_loss")
    usual = float(np.median(held_out))
    peak = float(np.where(np.isfinite(held_out), held_out, math.inf).max())
    if peak - usual <= scenario.healthy_below:
        return ""
    step = int(reference.steps[int(np.where(np.isfinite(held_out), held_out, math.inf).argmax())])
    return (
        f"the run that never met the failure went wrong by itself: {peak:.3g} nats at step {step}, usually {usual:.3g}"
    )
