"""Measuring an arm by the metrics of :mod:`replay.experiment.metrics`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay.experiment.arms import ArmRun
from replay.experiment.metrics import BEYOND_HOPE, END_STEPS
from replay.experiment.scenario import Scenario


def bounded(held_out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Held-out loss, what is not finite, or larger, as :data:`BEYOND_HOPE`; any shape."""
    return np.asarray(np.minimum(np.where(np.isfinite(held_out), held_out, BEYOND_HOPE), BEYOND_HOPE))


def excess(held_out: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Held-out loss over the reference's at the same steps [steps], both bounded, so that it is always a number."""
    return bounded(held_out) - bounded(reference)


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
        "final_loss": float(bounded(held_out[-END_STEPS:]).mean()),
        "steps_recomputed": float(run.steps_recomputed),
        "batches_skipped": float(run.batches_skipped),
    }


def reference_warning(reference: ArmRun, scenario: Scenario) -> str:
    """Why a seed's comparison is doubtful, or nothing: the run that never met the failure must be healthy itself."""
    held_out = bounded(reference.column("held_out_loss"))
    usual, peak = float(np.median(held_out)), float(held_out.max())
    if peak - usual <= scenario.healthy_below:
        return ""
    step = int(reference.steps[int(held_out.argmax())])
    height = f"{peak:.3g} nats" if peak < BEYOND_HOPE else f"{BEYOND_HOPE:g} nats or no number"
    return f"the run that never met the failure went wrong by itself: {height} at step {step}, usually {usual:.3g}"
