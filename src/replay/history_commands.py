"""Commands on the incident history: `replay audit`, `replay precedents`, `replay statistics`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.cli_options import common, known_run, open_store

if TYPE_CHECKING:
    from replay.audit import AuditReport
    from replay_parsers.records import Problem


@click.command("audit")
@click.argument("targets", nargs=-1, required=True, metavar="RUN|FILE...")
@common
def audit_command(targets: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """Check a logbook against itself: dates, steps, options, sums, and sources against each other.

    Each target is a run in the store, or a file; files that tell the same run are compared.  Findings are data: they
    do not change the exit status, which is 1 only when a file could not be read.
    """
    from replay.audit import audit_files, audit_run

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

    lines = [f"{report.run}: {len(report.found)} findings"]
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
    lines += [f"  checked      {name}: {count} compared" for name, count in report.compared.items() if count]
    lines += [f"  not checked  {name}: {why}" for name, why in report.unchecked.items()]
    return "\n".join(lines)


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
