"""The commands: the library with words around it.

Results go to standard output (tables, or JSON with ``--json``); progress and messages go to standard error.
Exit status: 0 fine, 1 something could not be read (it is told, and all else is kept), 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from replay.cli.history import audit_command, precedents_command, statistics_command
from replay.cli.ingest import ingest_command
from replay.cli.options import (
    close_to,
    common,
    kinds,
    known_run,
    local_path,
    moment,
    open_store,
    show,
    store_to_query,
)
from replay.cli.options import steps as steps_range
from replay.proxy.command_helpers import FOLDER
from replay.proxy.commands import proxy_commands
from replay.proxy.table_commands import precision_command

if TYPE_CHECKING:
    import pandas as pd


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="training-replay", prog_name="replay")
def replay() -> None:
    """Training logbooks and logs as data: what happened, what announced it, what helped.

    Begin with `replay ingest --builtin` for the public logbooks, or `replay ingest PATH` for your own files.
    """


@replay.command()
@common
def runs(folder: Path, as_json: bool) -> None:
    """List the runs."""
    frame = store_to_query(folder).runs()
    columns = ["run", "title", "organisation", "precision", "n_events", "n_scalars", "first_step", "last_step", "clock"]
    show(frame, as_json, empty="no runs yet: begin with `replay ingest`", columns=columns)


@replay.command()
@click.option("--run", multiple=True, help="Only this run (repeatable).")
@click.option("--kind", multiple=True, type=kinds(), metavar="KIND", help="Only events of this kind (repeatable).")
@click.option(
    "--role",
    multiple=True,
    type=click.Choice(["symptom", "cause", "intervention", "outcome", "lifecycle"]),
    help="Only events in this role (repeatable).",
)
@click.option("--since", type=moment, metavar="TIME", help="Only events at or after this time.")
@click.option("--until", type=moment, metavar="TIME", help="Only events before this time.")
@click.option("--sources", type=click.Choice(["merged", "all"]), default="merged", show_default=True)
@common
def events(
    run: tuple[str, ...],
    kind: tuple[str, ...],
    role: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    sources: Literal["merged", "all"],
    folder: Path,
    as_json: bool,
) -> None:
    """List what happened: symptoms, causes, interventions, outcomes."""
    store = open_store(folder) if run else store_to_query(folder)
    for name in run:
        known_run(store, name)
    frame = store.events(
        run=list(run) or None,
        kind=list(kind) or None,
        role=list(role) or None,
        since=since,
        until=until,
        sources=sources,
    )
    columns = ["run", "time", "step", "step_end", "role", "kind", "before", "after", "text", "evidence", "source"]
    show(frame, as_json, empty="no events match", columns=columns)


@replay.command()
@click.argument("run")
@click.option("--tag", help="The values logged under this name.")
@click.option("--signal", help="The values of a canonical signal, whatever its tag: loss, grad_norm ...")
@click.option("--steps", type=steps_range, metavar="A:B", help="Only steps A to B, both included.")
@click.option("--view", type=click.Choice(["all", "surviving"]), default="all", show_default=True)
@common
def scalars(
    run: str,
    tag: str | None,
    signal: str | None,
    steps: tuple[int, int] | None,
    view: Literal["all", "surviving"],
    folder: Path,
    as_json: bool,
) -> None:
    """Print measured values of RUN; without --tag or --signal, list what was measured."""
    if tag and signal:
        raise click.UsageError("give --tag or --signal, not both")
    store = open_store(folder)
    known_run(store, run)
    if not tag and not signal and steps is None:
        show(store.tags(run), as_json, empty=f"{run} has no scalars", columns=None)
        return
    frame = store.scalars(run, tag=tag, signal=signal, steps=steps, view=view)
    if frame.empty and (tag or signal):
        _tell_what_there_is(store.tags(run), run, tag, signal)
    show(
        frame,
        as_json,
        empty="no values match; `replay scalars RUN` lists the tags",
        columns=["step", "wall_time", "tag", "value", "attempt", "source"],
    )


def _tell_what_there_is(tags: pd.DataFrame, run: str, tag: str | None, signal: str | None) -> None:
    """Say so where a run has no such tag or signal, for a mistyped name looks like a run that logged nothing."""
    from replay.output import visible

    column, wanted = ("tag", tag) if tag else ("signal", signal)
    names = sorted(set(tags[column].dropna()))
    if wanted is None or wanted in names:
        return
    near = f"; it has {close_to(wanted, names)}" if names else ""
    click.echo(f"{visible(run)} has no {column} {visible(wanted)!r}{near}", err=True)


@replay.command()
@click.argument("run")
@common
def attempts(run: str, folder: Path, as_json: bool) -> None:
    """Show the stretches of training between restarts, and what was lost of each.

    START_STEP is the step of the checkpoint that was loaded: the first step trained is the next.
    """
    store = open_store(folder)
    show(store.attempts(known_run(store, run)), as_json, empty=f"{run} has no steps to tell attempts by")


@replay.command()
@click.option("--run", multiple=True, help="Only this run (repeatable).")
@click.option("--saw", type=kinds("symptom"), metavar="KIND", help="Only incidents in which this symptom was seen.")
@click.option("--did", type=kinds("intervention"), metavar="KIND", help="Only incidents in which this was done.")
@common
def incidents(run: tuple[str, ...], saw: str | None, did: str | None, folder: Path, as_json: bool) -> None:
    """List incidents: what was seen, what was done, what came of it."""
    from replay import output
    from replay.cli.incident_text import describe

    store = open_store(folder) if run else store_to_query(folder)
    for name in run:
        known_run(store, name)
    frame = store.incidents(run=list(run) or None, saw=saw, did=did)
    if as_json:
        output.print_json(output.frame_as_json(frame))
    elif frame.empty:
        print("no incidents match")
    else:
        print("\n\n".join(describe(frame, store.events(run=sorted(set(frame["run"]))))))


@replay.command()
@click.argument("run")
@click.option(
    "--rules",
    "rule_files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Further rules in YAML (repeatable).",
)
@common
def flags(run: str, rule_files: tuple[Path, ...], folder: Path, as_json: bool) -> None:
    """Say which rules fire on RUN's signals, and which could not be checked."""
    from replay import output, rules
    from replay.flagging import evaluate_run
    from replay.store import StoreError

    store = open_store(folder)
    found = evaluate_run(store, known_run(store, run), rule_files)
    for failing in rules.lint(rule_files):
        # The rule's own test says that it does not do what its author meant.
        click.echo(
            f"warning: {output.visible(failing)}; the rule fails its own test and is used all the same", err=True
        )
    frame = rules.flags_frame(found.flags, run)
    try:
        store.put_flags(run, frame)
    except StoreError as error:
        click.echo(f"shown, but not kept: {error}", err=True)
    show(
        frame,
        as_json,
        empty="no rule fired" if found.checked else "no rule could be checked",
        columns=["step", "step_end", "time", "severity", "rule", "value", "baseline", "attempt", "message"],
    )
    for checked in found.checked:
        judged = f"{checked.judged:,} of {checked.points:,} points judged"
        if checked.reservation:
            judged += f", {checked.reservation}"
        click.echo(f"checked      {checked.rule} on {output.visible(checked.signal)}: {judged}", err=True)
    for unchecked in found.unchecked:
        click.echo(f"not checked  {unchecked.rule}: {output.visible(unchecked.reason)}", err=True)


@replay.command()
@click.argument("scenario")
@click.option("--seeds", type=click.IntRange(min=1, max=10_000), help="How many seeds (default: the scenario's).")
@click.option("--workers", type=click.IntRange(min=1), default=os.cpu_count(), help="Processes (default: all cores).")
@click.option(
    "--keep",
    type=FOLDER,
    help="Keep finished arms in this folder, and go on from there after an interruption.",
)
@common
def experiment(scenario: str, seeds: int | None, workers: int, keep: Path | None, folder: Path, as_json: bool) -> None:
    """Re-enact an intervention on the proxy, against controls: SCENARIO is a built-in name or a YAML file."""
    from replay import output
    from replay.experiment import BUILT_IN, load_scenario
    from replay.experiment.processes import run_on_processes

    if scenario not in BUILT_IN and not Path(scenario).exists():
        raise click.UsageError(f"no scenario {scenario!r}: name a YAML file, or one of {', '.join(BUILT_IN)}")
    loaded = load_scenario(scenario)
    chosen = loaded.seeds if seeds is None else tuple(range(seeds))
    store = open_store(folder)
    result = run_on_processes(loaded, chosen, workers=workers, keep=keep)
    # Shown before it is kept: a store that cannot be written must not cost the result.
    if as_json:
        output.print_json(output.frame_as_json(result.effects))
    else:
        print(result.summary())
    store.put_effects(loaded.name, result.effects)


@replay.command()
@click.argument("run")
@click.option("-o", "--output", "target", metavar="FILE", required=True, help="Where to; - is standard output.")
@common
def report(run: str, target: str, folder: Path, as_json: bool) -> None:
    """Write RUN's post-mortem as one HTML file that needs no network."""
    from replay import output
    from replay.report import build_report, prepare_report, write_report

    # What is left of a run is worth a report, however little: it says what is missing.
    store = open_store(folder, partial=True)
    known_run(store, run)
    path = None if target == "-" else prepare_report(local_path(target))
    html = build_report(store, run)
    if path is None:
        sys.stdout.write(html)
        return
    write_report(html, path)
    if as_json:
        output.print_json({"run": run, "report": str(path), "bytes": len(html.encode())})
    else:
        print(path)


@replay.command()
@click.option("--reports", type=FOLDER, default=Path("reports"), show_default=True)
@common
def demo(reports: Path, folder: Path, as_json: bool) -> None:
    """Do everything once: logbooks, a proxy run that fails, flags, an experiment, two reports."""
    from replay import output
    from replay.demo import run_demo

    written = run_demo(open_store(folder), reports)
    if as_json:
        output.print_json([str(path) for path in written])
    else:
        print("\n".join(f"report: {path}" for path in written))


for command in (ingest_command, audit_command, precedents_command, statistics_command):
    replay.add_command(command)
for command in (proxy_commands, precision_command):
    replay.add_command(command)
