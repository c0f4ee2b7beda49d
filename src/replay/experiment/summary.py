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
    parts += [
        *_differences(scenario, found),
        _wrapped(f"{caution(len(seeds))} {_explanation(found)}"),
    ]
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
            f"Rolling back and changing nothing repeated “{arm_words(DO_NOTHING)}” bit for bit (asserted on seed "
            f"{repeated_on}): what differs below is due to what an arm does, and to nothing else."
        )
    return "\n".join(_wrapped(line) for line in lines)


def _means(scenario: Scenario, outcomes: pd.DataFrame, n: int) -> str:
    """A table: for each arm the mean of each metric over ``n`` seeds."""
    means = outcomes.groupby(["arm", "metric"], sort=False)["value"].mean()
    rows = [["mean over seeds", *(metric.title for metric in METRICS.values())]]
    for arm in scenario.all_arms:
        values = [_mean(metric, float(means[arm.name, name]), n) for name, metric in METRICS.items()]
        rows.append([arm_words(arm.name), *values])
    return _table(rows)


def _differences(scenario: Scenario, effects: Sequence[Effect]) -> list[str]:
    """A table for each comparison, the primary metric first; costs are told by the table of means."""
    tested = [name for name, metric in METRICS.items() if not metric.cost]
    order = sorted(tested, key=lambda name: name != scenario.primary)
    tables = []
    for arm, control in dict.fromkeys((one.arm, one.control) for one in effects):
        found = {one.metric: one for one in effects if (one.arm, one.control) == (arm, control)}
        head = [f"{arm_words(arm)} against {arm_words(control)}", "difference", "95% interval", "verdict", "more seeds"]
        tables.append(_table([head, *(_difference(found[name]) for name in order)]))
    return tables


def _difference(one: Effect) -> list[str]:
    metric = METRICS[one.metric]
    interval = (
        "none" if math.isinf(one.low) else f"{difference_text(metric, one.low)} to {difference_text(metric, one.high)}"
    )
    more = (
        "" if one.verdict != INCONCLUSIVE else f"{MOST_SEEDS:,}+" if one.more_seeds is None else f"~{one.more_seeds:,}"
    )
    return [f"  {metric_words(metric)}", difference_text(metric, one.mean), interval, one.verdict, more]


def _explanation(found: Sequence[Effect]) -> str:
    """What the words of the tables mean."""
    costs = [metric.title for metric in METRICS.values() if metric.cost]
    more = "“More seeds” is about how many would settle it if the spread stays as it is. "
    return (
        f"{more if any(one.verdict == INCONCLUSIVE for one in found) else ''}"
        f"{' and '.join(costs).capitalize()} are costs of the arm itself: counted, not tested. "
        "A proxy shows mechanism, not magnitude."
    )


def metric_words(metric: Metric) -> str:
    """A metric's name and unit, once where they are the same."""
    return metric.title if metric.unit in metric.title else f"{metric.title}, {metric.unit}"


def caution(n: int) -> str:
    """What must not be concluded from ``n`` seeds, whatever their verdicts."""
    if n >= fewest_seeds(LEVEL):
        return "Verdicts are for single comparisons at the 5% level, not corrected for their number."
    return (
        f"{_count(n, 'seed')} {'proves' if n == 1 else 'prove'} nothing: even where all agree, chance alone gives that "
        f"in {smallest_p(n):.0%} of cases, and below {fewest_seeds(LEVEL)} seeds no verdict but “{INCONCLUSIVE}” is "
        "possible."
    )


def _mean(metric: Metric, value: float, n: int) -> str:
    if metric.unit == "of seeds":
        return f"{round(value * n)} of {n}"
    return f"{value:.3f}" if metric.unit == "nats" else f"{value:.0f}"


def difference_text(metric: Metric, value: float) -> str:
    """A difference with its sign, as many decimals as matter; what rounds to nothing has no sign."""
    text = f"{value:+,.4g}" if metric.cost else f"{value:+.1f}" if metric.unit == "steps" else f"{value:+.3f}"
    return text if float(text.replace(",", "")) else text[1:]


def arm_words(arm: str) -> str:
    """The name of an arm as both the text and the report print it.

    >>> arm_words("rollback+skip_batches")
    'rollback + skip batches'
    """
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
