"""The results of sweeps as pages: docs/proxy-learning-rates.md and docs/proxy-palm-switches.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from replay.proxy import sweep
from replay.proxy.config import ProxyConfig
from replay.proxy.recipes import language_task
from replay.proxy.sweep import SweepRow
from replay.proxy.tables import (
    MECHANISM,
    UNCORRECTED,
    joined,
    made_with,
    mean_told,
    number,
    opening,
    range_told,
    seeds_told,
    table,
)

Group = Sequence[SweepRow]


def learning_rate_page(rows: Sequence[SweepRow], steps: int) -> str:
    """Loss, learning-rate sensitivity, largest attention logit and log Z by variant and learning rate."""
    variants = list(dict.fromkeys(row.variant for row in rows))
    seeds = {row.seed for row in rows}
    base, others = variants[0], variants[1:]
    groups = _groups(rows)
    rates = list(dict.fromkeys(rate for _, rate in groups))
    lines = opening(
        "Learning rates: plain, with QK-norm, with z-loss",
        f"replay proxy sweep --seeds {len(seeds)} --steps {steps} --docs docs/proxy-learning-rates.md",
        _how(seeds),
        MECHANISM,
        f"{_task(steps)} The learning rate is constant after the warm-up.",
        *_uncorrected(seeds),
    )

    def by_rate(cell: Callable[[str, float], str], names: Sequence[str]) -> list[str]:
        return table(
            ["variant", *(f"{rate:g}" for rate in rates)],
            [[variant, *(cell(variant, rate) for rate in rates)] for variant in names],
        )

    lines += ["", "## Learning-rate sensitivity", "", *_sensitivity(rows, base), ""]
    lines += [
        "As Wortsman et al. 2023 (section 2.2) define it: the mean over the learning rates of this page of the smaller "
        "of the final loss and the loss at the start, less the best final loss of any of them; here computed for each "
        f"seed. The loss at the start is {number(sweep.INITIAL_LOSS, 3)} nats. 0 would mean that the learning rate "
        "does not matter.",
    ]
    lines += ["", "## Final loss", "", "Mean of the last 20 steps, nats, by learning rate.", ""]
    lines += by_rate(lambda variant, rate: mean_told([row.loss for row in groups[variant, rate]]), variants)
    lines += ["", f"Less that of {base}, by seed; below 0 is better than {base}:", ""]
    lines += by_rate(lambda variant, rate: mean_told(_less(groups[variant, rate], groups[base, rate])), others)
    lines += ["", "## Largest attention logit of a run", "", "Median over seeds (smallest to largest).", ""]
    lines += by_rate(lambda name, rate: range_told([row.attention_logit_max for row in groups[name, rate]]), variants)
    lines += ["", "## log Z at the last step", "", "Mean over the last batch, nats.", ""]
    lines += by_rate(lambda variant, rate: mean_told([row.log_z for row in groups[variant, rate]], 2), variants)
    lines += [
        "",
        f"Less that of {base}, by seed. z-loss pulls log Z towards 0; how far it comes with its coefficient in so many "
        "steps is told here:",
        "",
    ]
    lines += by_rate(lambda variant, rate: mean_told(_log_z_less(groups[variant, rate], groups[base, rate]), 2), others)
    return joined(lines)


def palm_page(rows: Sequence[SweepRow], steps: int) -> str:
    """Loss of PaLM's choices one at a time against the base."""
    seeds = {row.seed for row in rows}
    groups = list(_groups(rows).values())
    base = groups[0]
    lines = opening(
        "PaLM's choices, one at a time",
        f"replay proxy sweep --palm --seeds {len(seeds)} --steps {steps} --docs docs/proxy-palm-switches.md",
        _how(seeds),
        MECHANISM,
        f"{_task(steps)} Each row but one makes one of PaLM's choices on the base (PaLM sections 2 and 5), with all "
        "settings that go with it there; the row with biases undoes one, since the base has none, as PaLM has none. "
        "How many settings a row changes, and how many more parameters it makes than the base has, stands beside it. "
        "A row of several settings, as Adafactor's with its schedule, decay and clip, says nothing of any "
        "one of them; one of more parameters is no comparison at equal size. The learning rate is given, constant "
        "after the warm-up but where a row says otherwise, and not tuned for each row: a difference is one at this "
        "learning rate.",
        *_uncorrected(seeds),
    )
    head = ["choice", "settings changed", "parameters", "learning rate", "final loss, nats", "less the base's, by seed"]
    head += ["largest attention logit", "log Z at the last step"]
    cells = [
        [
            group[0].variant,
            str(len(sweep.SWITCHES.get(group[0].variant, {}))),
            _parameters(group[0].parameters, base[0].parameters),
            f"{group[0].learning_rate:g}",
            mean_told([row.loss for row in group]),
            mean_told(_less(group, base)) if group is not base else "",
            range_told([row.attention_logit_max for row in group]),
            mean_told([row.log_z for row in group], 2),
        ]
        for group in groups
    ]
    lines += ["", *table(head, cells), ""]
    lines += [
        "Final loss: mean of the last 20 steps; below 0 in the next column is better than the base. Largest attention "
        "logit of a run: median over seeds (smallest to largest). How long a step takes is told by the command itself, "
        "not here: it differs from one machine to the next.",
    ]
    return joined(lines)


def _how(seeds: set[int]) -> str:
    intervals = "Means over seeds with Student's 95% interval; differences are paired by seed, which has the same data."
    if len(seeds) == 1:
        intervals = "One seed gives no interval."
    return f"{seeds_told(seeds)}; {made_with()}. {intervals}"


def _uncorrected(seeds: set[int]) -> list[str]:
    return [UNCORRECTED] if len(seeds) > 1 else []


def _task(steps: int) -> str:
    config: ProxyConfig = language_task(0, learning_rate=0.01, steps=steps)
    model, optimizer = config.model, config.optimizer
    return (
        f"Word source; {model.depth} pre-LN layers of width {model.width}, {model.heads} heads, "
        f"{config.data.batch_size} sequences of {model.context} symbols a step, {steps} steps; "
        f"AdamW ({optimizer.beta1:g}, {optimizer.beta2:g}), weight decay {optimizer.weight_decay:g}, "
        f"{config.schedule.warmup_steps} steps of warm-up, no clipping, fp32."
    )


def _groups(rows: Sequence[SweepRow]) -> dict[tuple[str, float], list[SweepRow]]:
    groups: dict[tuple[str, float], list[SweepRow]] = {}
    for row in rows:
        groups.setdefault((row.variant, row.learning_rate), []).append(row)
    return groups


def _parameters(count: int, base: int) -> str:
    return f"{count:,}" if count == base else f"{count:,} ({count / base - 1:+.1%})"


def _log_z_less(group: Group, base: Group) -> list[float]:
    return [row.log_z - other.log_z for row, other in zip(group, base, strict=True)]


def _less(group: Group, base: Group) -> list[float]:
    return [row.loss - other.loss for row, other in zip(group, base, strict=True)]


def _sensitivity(rows: Sequence[SweepRow], base: str) -> list[str]:
    found = sweep.learning_rate_sensitivity(rows)
    groups = _groups(rows)
    cells = []
    for variant, values in found.items():
        losses = {rate: fmean(row.loss for row in group) for (name, rate), group in groups.items() if name == variant}
        best = min(losses, key=lambda rate: losses[rate] if math.isfinite(losses[rate]) else math.inf)
        less = [value - other for value, other in zip(values, found[base], strict=True)]
        cells.append([variant, mean_told(values), mean_told(less) if variant != base else "", f"{best:g}"])
    return table(["variant", "sensitivity, nats", f"less that of {base}, by seed", "best learning rate"], cells)
