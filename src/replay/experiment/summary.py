"""The result of an experiment in plain words."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import pandas as pd

from replay.experiment.effects import INCONCLUSIVE, LEVEL, MOST_SEEDS, Effect
from replay.experiment.metrics import METRICS, Metric
from replay.experiment.scenario import DO_NOTHING, Scenario
from replay.experiment.statistics import fewest_seeds, smallest_p

WIDTH = 110


def summary(
    scenario: Scenario,
    *,
    seeds: tuple[int, ...],
    outcomes: pd.DataFrame,
    found: Sequence[Effect],
    repeated_on: int | None,
    warnings: Sequence[str],
) -> str:
    """What was run, what was seen of each arm, what each changed, and what must not be concluded.

    The arguments are the parts of an :class:`replay.experiment.ExperimentResult`.
    """
    parts = [_what_was_run(scenario, seeds, repeated_on), _means(scenario, outcomes, len(seeds))]
    parts += [*_differences(scenario, found), _caution(len(seeds))]
    parts += [_wrapped(f"Doubtful: {warning}.") for warning in warnings]
    return "\n\n".join(parts)


def _what_was_run(scenario: Scenario, seeds: tuple[int, ...], repeated_on: int | None) -> str:
    lines = [
        f"{scenario.name}: {scenario.title}" if scenario.title else scenario.name,
        f"{_count(len(seeds), 'seed')} ({_listed(seeds)}) x {_count(len(scenario.all_arms), 'arm')}, each followed for "
        f"{_count(scenario.horizon, 'step')} beyond the moment of action; compared at equal steps.",
    ]
    if repeated_on is not None:
        lines.append(
            f"Rolling back and changing nothing repeated “{_words(DO_NOTHING)}” bit for bit (asserted on seed "
            f"{repeated_on}): what differs below is due to what an arm does, and to nothing else."
        )
    return "\n".join(_wrapped(line) for line in lines)


def _means(scenario: Scenario, outcomes: pd.DataFrame, n: int) -> str:
    """A table: for each arm the mean of each metric over ``n`` seeds."""
    means = outcomes.groupby(["arm", "metric"], sort=False)["value"].mean()
    rows = [["mean over seeds", *(metric.title for metric in METRICS.values())]]
    for arm in scenario.all_arms:
        values = [_mean(metric, float(means[arm.name, name]), n) for name, metric in METRICS.items()]
        rows.append([_words(arm.name), *values])
    return _table(rows)


def _differences(scenario: Scenario, effects: Sequence[Effect]) -> list[str]:
    """A table for each comparison, the primary metric first; costs are told by the table of means."""
    tested = [name for name, metric in METRICS.items() if not metric.cost]
    order = sorted(tested, key=lambda name: name != scenario.primary)
    tables = []
    for arm, control in dict.fromkeys((one.arm, one.control) for one in effects):
        found = {one.metric: one for one in effects if (one.arm, one.control) == (arm, control)}
        head = [f"{_words(arm)} against {_words(control)}", "difference", "95% interval", "verdict", "more seeds"]
        tables.append(_table([head, *(_difference(found[name]) for name in order)]))
    return tables


def _difference(one: Effect) -> list[str]:
    metric = METRICS[one.metric]
    interval = "none" if math.isinf(one.low) else f"{_number(metric, one.low)} to {_number(metric, one.high)}"
    more = (
        "" if one.verdict != INCONCLUSIVE else f"{MOST_SEEDS:,}+" if one.more_seeds is None else f"~{one.more_seeds:,}"
    )
    return [f"  {metric.title}, {metric.unit}", _number(metric, one.mean), interval, one.verdict, more]


def _caution(n: int) -> str:
    limits = "A proxy shows mechanism, not magnitude."
    if n >= fewest_seeds(LEVEL):
        return _wrapped(
            f"Verdicts are for single comparisons at the 5% level, not corrected for their number. {limits}"
        )
    return _wrapped(
        f"{_count(n, 'seed')} {'proves' if n == 1 else 'prove'} nothing: even where all agree, chance alone gives that "
        f"in {smallest_p(n):.0%} of cases, and below {fewest_seeds(LEVEL)} seeds no verdict but “{INCONCLUSIVE}” is "
        f"possible. “More seeds” is about how many would settle it if the spread stays as it is. {limits}"
    )


def _mean(metric: Metric, value: float, n: int) -> str:
    if metric.unit == "of seeds":
        return f"{round(value * n)} of {n}"
    return f"{value:.3f}" if metric.unit == "nats" else f"{value:.0f}"


def _number(metric: Metric, value: float) -> str:
    """A difference with its sign, as many decimals as matter; what rounds to nothing has no sign."""
    text = f"{value:+.1f}" if metric.unit == "steps" else f"{value:+.3f}"
    return text if float(text) else text[1:]


def _words(arm: str) -> str:
    return arm.replace("_", " ").replace("+", " + ")


def _listed(seeds: tuple[int, ...]) -> str:
    if len(seeds) > 4 and seeds == tuple(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(str(seed) for seed in seeds)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _table(rows: list[list[str]]) -> str:
    """Columns aligned, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
