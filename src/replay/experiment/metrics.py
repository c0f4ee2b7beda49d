"""The metrics of an arm: how bad it got, how long it took, where it ended, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

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
