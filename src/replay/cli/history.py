"""Commands on the incident history: `replay audit`, `replay precedents`, `replay statistics`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.cli.options import common, kinds, known_run, open_store, store_to_query

if TYPE_CHECKING:
    from replay.history.audit import AuditReport
    from replay.history.precedents import Precedent
    from replay.history.similarity import Situation
    from replay_parsers.records import Problem


@click.command("audit")
@click.argument("targets", nargs=-1, required=True, metavar="RUN|FILE...")
@common
def audit_command(targets: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """Check a logbook against itself: dates, steps, options, sums, and sources against each other.

    Each target is a run in the store, or a file; files that tell the same run are compared.  Lists, branches and
    stretches at another speed are judged apart.  What could not be checked is listed with the reason.  Findings are
    data: they do not change the exit status, which is 1 only when a file could not be read.
    """
    from replay.history.audit import audit_files, audit_run

    files = [name for name in targets if Path(name).exists()]
    store = open_store(folder)
    runs = [known_run(store, name) for name in targets if name not in files]
    reports, problems = audit_files(files)
    reports += [audit_run(store, run) for run in runs]
    if as_json:
        _audit_as_json(reports, problems)
    else:
        print("\n\n".join(describe_audit(report) for report in reports))
    for problem in problems:
        click.echo(f"could not read: {problem}", err=True)
    if any(problem.kind != "truncated" for problem in problems):
        sys.exit(1)


def describe_audit(report: AuditReport) -> str:
    """The report of one run for a person: what was found, why, and what was and was not checked."""
    from replay.output import visible

    lines = [f"{report.run}: {len(report.found)} finding{'' if len(report.found) == 1 else 's'}"]
    if report.clock is not None:
        lines.append(f"  clock: {report.clock}")
    for one in report.found:
        finding = one.finding
        lines += [
            "",
            f"  {visible(finding.check)}  {visible(finding.locator)}",
            *(f"      reading  {visible(reading)}" for reading in finding.readings),
            f"      likely   {visible(finding.likely) if finding.likely else 'cannot be told'}",
            f"      because  {visible(finding.reasons)}",
            f"      found by {_FOUND_BY[one.by]}; source {visible(finding.source)}",
        ]
    lines.append("")
    lines += [f"  checked      {visible(name)}: {_counted(name, n)}" for name, n in report.compared.items() if n]
    lines += [f"  not checked  {visible(name)}: {visible(why)}" for name, why in report.unchecked.items()]
    return "\n".join(lines)


def _counted(check: str, count: int) -> str:
    """How much a check tested, by what it counts: "12 dates", not pairs of them."""
    words = check.split(" ")
    unit = next((unit for word, unit in _UNITS.items() if word in words), "comparison")
    plural = "es" if unit.endswith("nch") else "s"
    return f"{count:,} {unit}{'' if count == 1 else plural}"


_UNITS = {
    "dates": "date",
    "clocks": "named launch",
    "steps": "step",
    "restarts": "restart",
    "stops": "stop",
    "rollbacks": "restart",
    "checkpoints": "checkpoint",
    "ranges": "range",
    "options": "option",
    "values": "value",
    "lengths": "length",
    "percentages": "percentage",
    "sums": "sum",
    "counts": "count",
    "incidents": "incident",
}
_FOUND_BY = {
    "audit": "the audit",
    "source": "the logbook or its parser",
    "both": "the audit, and the logbook or its parser",
}


def _audit_as_json(reports: list[AuditReport], problems: list[Problem]) -> None:
    from replay import output

    output.print_json(
        {
            "runs": [
                {
                    "run": report.run,
                    "seconds_per_step": None if report.clock is None else report.clock.seconds_per_step,
                    "compared": dict(report.compared),
                    "not_checked": dict(report.unchecked),
                    "findings": [_finding(one.finding) | {"found_by": one.by} for one in report.found],
                }
                for report in reports
            ],
            "problems": [str(problem) for problem in problems],
        }
    )


def _finding(finding: Any) -> dict[str, Any]:
    return {
        "check": finding.check,
        "source": finding.source,
        "locator": finding.locator,
        "readings": list(finding.readings),
        "likely": finding.likely,
        "reasons": finding.reasons,
        "incident": finding.incident,
    }


class Symptoms(click.ParamType):  # type: ignore[type-arg]
    """Kinds of symptoms in their order, with commas between them."""

    name = "symptoms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        one = kinds("symptom")
        return tuple(one.convert(name.strip(), param, ctx) for name in str(value).split(",") if name.strip())


@click.command("precedents")
@click.argument("run", required=False)
@click.option("--at", "step", type=int, help="The step of RUN at which something is seen.")
@click.option("--saw", type=Symptoms(), metavar="KIND,KIND...", help="What is seen, in its order, without a run.")
@click.option("--within", type=click.IntRange(min=0), help="Steps from the first to the last of what --saw names.")
@click.option("--precision", default="", help="The run's number format: fp16, bf16 ...")
@click.option("--parameters", type=float, help="The run's number of parameters, as in 130e9.")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="How many to show.")
@common
def precedents_command(
    run: str | None,
    step: int | None,
    saw: tuple[str, ...] | None,
    within: int | None,
    precision: str,
    parameters: float | None,
    limit: int,
    folder: Path,
    as_json: bool,
) -> None:
    """Find who has seen this before, what they did, and what came of it.

    Either RUN with --at STEP, or --saw with what you see.  Similarity is explained in words; the proxy's evidence on
    what was done is shown where the store holds any.
    """
    from replay import output
    from replay.history import precedents

    store = store_to_query(folder) if run is None else open_store(folder)
    if run is not None and step is not None and not saw:
        sought = precedents.situation_at(store, known_run(store, run), step)
    elif saw and run is None and step is None:
        sought = precedents.situation(saw, precision=precision, parameters=parameters, within=within)
    else:
        raise click.UsageError("give RUN and --at STEP, or --saw with what is seen")
    found = precedents.find(store, sought, limit=limit)
    if as_json:
        output.print_json([_precedent_as_json(one) for one in found])
    else:
        print(describe_precedents(sought, found))


def describe_precedents(sought: Situation, found: list[Precedent]) -> str:
    """Precedents for a person, the most similar first."""
    from replay.history.similarity import in_words
    from replay.output import visible

    lines = [f"seen: {in_words(sought)}" + (f", {sought.note}" if sought.note else "")]
    if not found:
        lines.append("no incident on record is like it; `replay ingest --builtin` adds the public logbooks")
    for one in found:
        at = "" if one.step is None else f", step {one.step:,}"
        lines += ["", f"{visible(one.incident)}{at}   similarity {one.similarity:.2f}"]
        lines += [f"  alike    {visible(words)}" for words in one.alike]
        lines += [f"  unlike   {visible(words)}" for words in one.unlike]
        lines.append(f"  done     {_words(', '.join(one.did)) or 'nothing'}")
        lines.append(f"  then     {visible(one.came_of_it)}")
        lines += [
            f"  proxy    {_words(proof.arm)} against {_words(proof.control)}: {visible(proof.verdict)} "
            f"on {_words(proof.metric)} ({proof.n_seeds} seeds, {visible(proof.scenario)})"
            for proof in one.proxy
        ]
        lines.append(f"  told     {visible(one.text)}")
        lines.append(f"  source   {visible(one.source)}")
    return "\n".join(lines)


def _words(names: str) -> str:
    from replay.output import visible

    return visible(names.replace("_", " ").replace("+", ", "))


def _precedent_as_json(one: Precedent) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(one) | {"came_of_it": one.came_of_it}


@click.command("statistics")
@click.argument("runs", nargs=-1, metavar="RUN...")
@click.option("--within", type=click.IntRange(min=1), default=2_000, show_default=True, help="Steps, for recurrences.")
@click.option("--page", is_flag=True, help="Write the page of documentation that shows RUN... side by side.")
@common
def statistics_command(runs: tuple[str, ...], within: int, page: bool, folder: Path, as_json: bool) -> None:
    """Count restarts, failures, lost work and what was done about what; all runs, or RUN... alone."""
    from replay import output
    from replay.history import effectiveness, lost_work, reliability
    from replay.history.statistics_page import statistics_page

    store = open_store(folder) if runs else store_to_query(folder)
    names = [known_run(store, run) for run in runs] or None
    if page:
        if names is None:
            raise click.UsageError("name the runs to show side by side")
        print(statistics_page(store, names, within=within), end="")
        return
    tables = {
        "restarts_by_cause": reliability.restarts_by_cause(store, names),
        "restarts_by_week": reliability.restarts_by_week(store, names),
        **{
            f"time_between_{what}": reliability.mean_time_between(
                reliability.time_between(store, names, what=what),
                stated=reliability.stated_between(store, names, what=what),
            )
            for what in ("failures", "restarts")
        },
        "mtbf_per_gpu": reliability.mtbf_per_gpu(store, names),
        "lost_work": lost_work.lost_work(store, names),
        "skipped_data": lost_work.skipped_data(store, names),
        "interventions": effectiveness.interventions(store, names, within=within, pooled=names is None),
    }
    if as_json:
        output.print_json({name: output.frame_as_json(table) for name, table in tables.items()})
        return
    for number, (name, table) in enumerate(tables.items()):
        print(("\n" if number else "") + name.replace("_", " "))
        shown = table.pivot_table("restarts", ["run", "week"], "cause").reset_index() if "week" in table else table
        output.print_table(shown.drop(columns=["text"], errors="ignore"), None, empty="  nothing is told of it")
