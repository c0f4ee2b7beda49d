"""``replay proxy failures ...``: the catalogue of failures, seen and verified."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from replay.proxy.command_helpers import (
    DOCS,
    JOBS,
    JSON,
    known_failure,
    needs_torch,
    print_result,
    progress_bar,
    writing_into,
    written_folder,
)


@click.group("failures")
def failures_group() -> None:
    """The catalogue of failures: ways to go wrong that are known from large runs."""


@failures_group.command("list")
@JSON
def list_command(as_json: bool) -> None:
    """List the failures with their sources."""
    needs_torch()
    from replay.proxy.failures import CATALOGUE

    fields = ["number", "name", "title", "source", "leading_signal"]
    if as_json:
        fields += ["mechanism", "settings", "signature", "criterion", "search"]
    print_result([{name: getattr(failure, name) for name in fields} for failure in CATALOGUE.values()], as_json)


@failures_group.command("show")
@click.argument("name", callback=known_failure)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--around", type=click.IntRange(min=1), default=10, show_default=True, help="Steps before and behind.")
@click.option("--control", is_flag=True, help="The same steps of the run without the cause.")
@DOCS
@JSON
def show_command(name: str, seed: int, around: int, control: bool, docs: Path | None, as_json: bool) -> None:
    """The vital signs of one failing run, step by step around where it goes wrong."""
    needs_torch()
    from replay.proxy import vital_signs
    from replay.proxy.failures import get
    from replay.proxy.tables import write_page

    failure = get(name)
    signs = vital_signs.examine(failure, seed, around)
    if docs is not None:
        write_page(docs, vital_signs.page(failure, seed, around, signs))
    rows = signs.control_rows if control else signs.rows
    print_result([_measured(row, signs.moment) for row in rows], as_json)


def _measured(row: dict[str, float], moment: int) -> dict[str, float | None]:
    """Signals of a step, None for those that were not measured: a trace has NaN for them, as for any that are none."""

    def was_measured(name: str) -> bool:
        if name == "held_out":
            return row["step"] >= moment - 5  # (:class:`replay.proxy.failure.Trace`)
        return not (row["skipped_steps"] and name.partition("/")[0] in ("update_rms", "second_moment_lag"))

    return {name: value if was_measured(name) else None for name, value in row.items()}


@failures_group.command("verify")
@click.argument("names", nargs=-1, callback=known_failure)
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True, help="Fresh seeds a failure.")
@click.option("--quick", is_flag=True, help="Only with and without the cause: no cures, no contrasts.")
@written_folder("--folder", default=Path("build/failures"), help="Results so far.")
@JOBS
@DOCS
@JSON
def verify_command(
    names: tuple[str, ...], seeds: int, quick: bool, folder: Path, jobs: int, docs: Path | None, as_json: bool
) -> None:
    """Check that failures happen with their cause and not without; a stopped check goes on where it stopped."""
    needs_torch()
    import torch

    from replay.proxy.failure_table import arm_rows, markdown
    from replay.proxy.tables import write_page
    from replay.proxy.verification import planned, verify, whole_table

    if docs is not None:
        whole_table(folder, about_to_run=planned(names, seeds, with_arms=not quick))
    with progress_bar("verifying", 0) as advance, writing_into(folder):
        results = verify(names, seeds, folder=folder, with_arms=not quick, jobs=jobs, progress=advance)
    if docs is not None:
        write_page(docs, markdown(whole_table(folder), torch.__version__))
    print_result([dataclasses.asdict(row) for row in arm_rows(results)], as_json)
