"""What an arm changed against a control, paired over seeds, with a verdict that a few seeds cannot force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replay.experiment.metrics import METRICS, Metric
from replay.experiment.scenario import DO_NOTHING, Scenario
from replay.experiment.statistics import fewest_seeds, seeds_to_settle, sign_flip_p, smallest_p
from replay.intervals import t_interval

LEVEL = 0.05
MOST_SEEDS = 1_000

HELPS, HARMS, NO_EFFECT, INCONCLUSIVE = "helps", "harms", "no effect seen", "inconclusive"
COST = "cost"
"""In a verdict's place where nothing is judged: a cost is counted, not estimated."""

COLUMNS = {
    "scenario": "str",
    "arm": "str",
    "control": "str",
    "metric": "str",
    "n_seeds": "int64",
    "mean": "float64",
    "low": "float64",
    "high": "float64",
    "verdict": "str",
    "note": "str",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The mean paired difference arm - control with its 95% interval, and what may be said of it.

    ``p`` is that of the sign-flip test, NaN for a cost, which is not tested.  ``more_seeds`` is about how many more
    would settle an inconclusive effect, None when it is settled or beyond :data:`MOST_SEEDS`.
    """

    arm: str
    control: str
    metric: str
    n_seeds: int
    mean: float
    low: float
    high: float
    p: float
    verdict: str
    note: str
    more_seeds: int | None = None


def effects(scenario: Scenario, outcomes: pd.DataFrame) -> list[Effect]:
    """All effects of a scenario: each arm against "do nothing", and what is no control against each control.

    ``outcomes`` has the columns seed, arm, metric, value.
    """
    table = outcomes.pivot(index="seed", columns=["arm", "metric"], values="value").sort_index()
    return [
        effect(arm, control, name, (table[arm, name] - table[control, name]).to_numpy(float))
        for arm, control in comparisons(scenario)
        for name in METRICS
    ]


def comparisons(scenario: Scenario) -> list[tuple[str, str]]:
    """Pairs of arm and control, in the order in which they are reported."""
    tried = [arm.name for arm in scenario.arms if not arm.control]
    controls = [arm.name for arm in scenario.arms if arm.control]
    pairs = [(arm, control) for arm in tried for control in (DO_NOTHING, *controls)]
    return pairs + [(control, DO_NOTHING) for control in controls]


def effect(arm: str, control: str, name: str, difference: NDArray[np.float64]) -> Effect:
    """One effect from the paired differences [seeds]."""
    metric = METRICS[name]
    low, high = t_interval(difference)
    p = float("nan") if metric.cost else sign_flip_p(difference)
    verdict, note = (COST, "") if metric.cost else _verdict(metric, len(difference), low, high, p)
    more = None
    if verdict == INCONCLUSIVE:
        needed = seeds_to_settle(difference, metric.matters, LEVEL, MOST_SEEDS)
        more = max(needed - len(difference), 1) if needed < MOST_SEEDS else None
        note = f"{note}; {_more(more)}"
    if not metric.cost and len(difference) > 1 and low == high != 0:
        note += "; all seeds differ by the same, so the interval has no width, which is not to say that it is certain"
    return Effect(
        arm=arm,
        control=control,
        metric=name,
        n_seeds=len(difference),
        mean=float(difference.mean()),
        low=low,
        high=high,
        p=p,
        verdict=verdict,
        note=note,
        more_seeds=more,
    )


def _verdict(metric: Metric, n: int, low: float, high: float, p: float) -> tuple[str, str]:
    """What may be said, and the note that goes with it.

    An effect is called one when both the sign-flip test and the interval say so, with a remark where it is too small
    to matter; "no effect seen" needs the whole interval within what matters.  Below the number of seeds with which
    the test can speak at all, neither is said.
    """
    if n < fewest_seeds(LEVEL):
        return INCONCLUSIVE, (
            f"{n} {'seed proves' if n == 1 else 'seeds prove'} nothing: even if all agree, chance alone gives that in "
            f"{smallest_p(n):.0%} of cases (two-sided sign-flip test)"
        )
    if p <= LEVEL and (high < 0 or low > 0):
        small = -metric.matters <= low and high <= metric.matters
        remark = f"; all of the interval is less than the {metric.matters:g} {metric.unit} that matter" if small else ""
        return (HELPS if high < 0 else HARMS), f"sign-flip p {p:.2g}{remark}"
    if -metric.matters <= low and high <= metric.matters:
        return NO_EFFECT, f"sign-flip p {p:.2g}; the interval lies within {metric.matters:g} {metric.unit} of none"
    return INCONCLUSIVE, f"sign-flip p {p:.2g}"


def _more(more: int | None) -> str:
    """How many more seeds would settle it, in words."""
    if more is None:
        return f"not even {MOST_SEEDS:,} seeds would settle it at this spread"
    return f"about {more:,} more {'seed' if more == 1 else 'seeds'} would settle it if the spread stays as it is"


def effects_frame(scenario: Scenario, found: Sequence[Effect]) -> pd.DataFrame:
    """Effects as the store keeps them, with the columns of :data:`COLUMNS`."""
    rows = [{"scenario": scenario.name} | {name: getattr(one, name) for name in list(COLUMNS)[1:]} for one in found]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
