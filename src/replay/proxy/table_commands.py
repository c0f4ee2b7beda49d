"""The commands that make tables: ``replay proxy sweep``, ``replay proxy checkpoints`` and ``replay precision``.

Each writes its page into docs/ when it is given ``--docs``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from replay.proxy.command_helpers import DOCS, FOLDER, JOBS, JSON, needs_torch, print_result, progress_bar


@click.command("sweep")
@click.option("--palm", is_flag=True, help="PaLM's choices one at a time, instead of learning rates.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--steps", type=click.IntRange(min=1), default=400, show_default=True)
@JOBS
@DOCS
@JSON
def sweep_command(palm: bool, seeds: int, steps: int, jobs: int, docs: Path | None, as_json: bool) -> None:
    """Final loss and largest attention logit by learning rate: plain, with QK-norm, with z-loss."""
    needs_torch()
    from statistics import fmean

    from replay.proxy import sweep, sweep_table
    from replay.proxy.tables import write_page

    if palm:
        runs, total = sweep.palm_switches(range(seeds), steps, jobs), len(sweep.SWITCHES) * seeds
    else:
        runs = sweep.learning_rate_sweep(seeds=range(seeds), steps=steps, jobs=jobs)
        total = len(sweep.VARIANTS) * len(sweep.LEARNING_RATES) * seeds
    rows = []
    with progress_bar("training", total) as advance:
        for row in runs:
            rows.append(row)
            advance(len(rows))
    if docs is not None:
        page = sweep_table.palm_page if palm else sweep_table.learning_rate_page
        write_page(docs, page(rows, steps))
    means = sweep.mean_rows(rows)
    if palm:
        print_result(means, as_json)
        return
    sensitivity = {variant: fmean(values) for variant, values in sweep.learning_rate_sensitivity(rows).items()}
    if as_json:
        print_result({"runs": _rows(rows), "means": means, "sensitivity": sensitivity}, True)
        return
    print_result(means, False)
    click.echo("\nLearning-rate sensitivity (Wortsman et al. 2023 section 2.2), nats, mean over seeds:")
    for variant, value in sensitivity.items():
        click.echo(f"  {variant}: {value:.3f}")


@click.command("checkpoints")
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--before", type=click.IntRange(min=1), default=200, show_default=True, help="Steps to the checkpoint.")
@click.option("--steps", type=click.IntRange(min=1), default=60, show_default=True, help="Steps behind it.")
@JOBS
@DOCS
@JSON
def checkpoints_command(seeds: int, before: int, steps: int, jobs: int, docs: Path | None, as_json: bool) -> None:
    """What forgetting each part of a checkpoint does, against the full resume, over seeds."""
    needs_torch()
    from replay.proxy import resumption, resumption_table
    from replay.proxy.tables import write_page

    resumed: list[resumption.Resumed] = []
    with progress_bar("training", seeds) as advance:
        for done, found in enumerate(resumption.demonstrate(range(seeds), before, steps, jobs), start=1):
            resumed += found
            advance(done)
    if docs is not None:
        write_page(docs, resumption_table.page(resumed, before, steps))
    print_result(resumption_table.summary_rows(resumed), as_json)


@click.command("precision")
@click.option("--checkpoint", type=FOLDER, help="A checkpoint, or a run's folder; without it a small run is trained.")
@click.option("--steps", type=click.IntRange(min=1), default=400, show_default=True, help="Steps of that run.")
@DOCS
@JSON
def precision_command(checkpoint: Path | None, steps: int, docs: Path | None, as_json: bool) -> None:
    """What fp16 and bf16 lose: range, sums, underflow, swallowed updates, the way of a loss scale."""
    needs_torch()
    from replay.proxy import numerics, numerics_table
    from replay.proxy.runs import last_checkpoint, naming_another
    from replay.proxy.tables import write_page

    if checkpoint is None:
        measured = numerics.measure(None, steps)
    else:
        with naming_another(folder := last_checkpoint(checkpoint)):
            measured = numerics.measure(folder)
    if docs is not None:
        write_page(docs, numerics_table.page(measured, None if checkpoint is None else str(checkpoint)))
    tables: dict[str, list[dict[str, Any]]] = {
        "formats": _rows(measured.ranges),
        "10,000 times 1e-4, summed": _rows(measured.sums),
        "gradient elements rounded to zero or infinity, by loss scale": _rows(measured.underflow),
        "gradient elements by binary exponent": [
            {"exponent": exponent, "share": share} for exponent, share in measured.histogram
        ],
        "updates swallowed, by learning rate": _rows(measured.swallowed),
        "loss scale from 2^24 down": [
            {"step": step, "loss_scale": scale, "withheld": withheld} for step, scale, withheld in measured.descent
        ],
    }
    if as_json:
        print_result(tables, True)
        return
    for title, rows in tables.items():
        click.echo(f"\n{title}")
        print_result(rows, False)


def _rows(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(value) for value in values]
