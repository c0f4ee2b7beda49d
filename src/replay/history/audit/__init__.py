"""A logbook checked against itself, as a careful historian would.

:func:`audit_files` audits files that any parser reads, :func:`audit_run` a run in a store, :func:`audit_records`
what has been read already.  The checks are general: nothing here knows any particular run.
Only entries of one list and one branch are judged by one course of training, and only stretches at one speed by one
clock; what cannot be checked is listed with the reason.

=============================  ==========================================================================
check                          what must hold
=============================  ==========================================================================
``clock``, ``launch_time``     a heading precedes its launch by less than a day; all of a book's launch names
                               are on one clock, all of its headings on one
``date_order``                 entries come in the order of time
``step_against_clock``         between two steps lies the time that the steps between them take
``step_order``                 restarts go on from ever later steps, unless something is undone; training stops
                               and ends at no step that it has left behind
``checkpoint_grid``,           checkpoints lie on the grid on which nearly all of them lie; the step in a
``checkpoint_name``            checkpoint's name is its step
``restart_far_back``           a restart that is no rollback goes on from about where training had been
``rollback_after_symptom``,    what is gone back to was saved before what is undone; a restart's step had been
``restart_not_reached``        reached
``outcome_before_restart``,    what came of it is later; it begins before it shows
``order_of_steps``
``skip_range``                 skipped batches cover what was seen, and do not end before training goes on
``flag_against_prose``         an option and the words beside it give the same numbers
``direction``, ``value_chain`` values change as the words say, from what they were last set to
``lost_steps``                 what is lost lies between the checkpoint and the step that had been reached
``length``                     a range is as long as stated, and samples are steps times the batch
``total``                      parts add up to totals, percentages follow from counts, in timelines, tables and
                               sentences; a count of restarts is that of the entries
``sources_disagree``           two tellings of an incident agree in what both tell
=============================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from replay.history.audit import comparison, dates, settings, steps, summaries, totals
from replay.history.audit.book import Notes, Telling, tellings
from replay.history.audit.clock_model import ClockModel
from replay.history.audit.course import course
from replay.history.audit.launches import launcher_offset
from replay.history.audit.merging import AUDIT, BOTH, KNOWN, Found, merge, standing
from replay.history.audit.passages import passages
from replay.history.audit.reach import fits_clock
from replay.history.audit.strands import chronological, lists, strands

if TYPE_CHECKING:
    import pandas as pd

    from replay.store import EventStore
    from replay_parsers.records import Finding, Problem, Records, Run

__all__ = [
    "AUDIT",
    "BOTH",
    "KNOWN",
    "AuditReport",
    "ClockModel",
    "Found",
    "audit_files",
    "audit_records",
    "audit_run",
    "findings_frame",
]

COLUMNS = ("run", "check", "source", "locator", "readings", "likely", "reasons", "incident", "found_by")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What the audit of one run found, on which clock, what it compared (how often) and what it could not check."""

    run: str
    found: tuple[Found, ...]
    clock: ClockModel | None = None
    compared: Mapping[str, int] = field(default_factory=dict)
    unchecked: Mapping[str, str] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """The findings alone."""
        return [one.finding for one in self.found]


def audit_records(records: Iterable[Records], texts: Mapping[str, str] | None = None) -> list[AuditReport]:
    """Audit what parsers read, run by run; ``texts`` holds the text of sources by name, where it is at hand."""
    by_run: dict[str, list[Telling]] = {}
    for telling in tellings(records, dict(texts or {})):
        by_run.setdefault(telling.run.run, []).append(telling)
    return [_audit(run, told) for run, told in by_run.items()]


def audit_run(store: EventStore, run: str) -> AuditReport:
    """Audit all that the store holds of ``run`` by logbooks and notes."""
    reports = audit_records(store.records(run))
    return next((report for report in reports if report.run == run), AuditReport(run=run, found=()))


def audit_files(paths: Iterable[str | Path]) -> tuple[list[AuditReport], list[Problem]]:
    """Audit files together: those that tell the same run are compared.

    Returns a report for each run, and what could not be read; all else is kept.
    """
    from replay.history.audit.files import read_files

    records, texts, problems = read_files(paths)
    return audit_records(records, texts), problems


def findings_frame(reports: Iterable[AuditReport]) -> pd.DataFrame:
    """The findings of ``reports`` as a table: the columns of ``EventStore.findings`` and ``found_by``."""
    import pandas as pd

    rows = [
        {name: getattr(one.finding, name) for name in COLUMNS[:-1]}
        | {"readings": list(one.finding.readings), "found_by": one.by}
        for report in reports
        for one in report.found
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({name: "str" for name in COLUMNS if name != "readings"})


def _audit(run: str, told: Sequence[Telling]) -> AuditReport:
    notes = Notes()
    clock: ClockModel | None = None
    told = [replace(chronological(telling), run=_described(telling.run, told)) for telling in told]
    for telling in told:
        model = _one_telling(telling, notes)
        clock = clock or model
    comparison.check(told, notes)
    curated = [finding for telling in told if telling.curated for finding in telling.findings]
    parsed = [finding for telling in told if not telling.curated for finding in telling.findings]
    parsed = standing(parsed, notes.findings, notes)
    return AuditReport(
        run=run,
        found=tuple(merge(notes.findings, curated, parsed)),
        clock=clock,
        compared=dict(notes.compared),
        unchecked={name: why for name, why in notes.unchecked.items() if not notes.compared[name]},
    )


def _one_telling(telling: Telling, notes: Notes) -> ClockModel | None:
    """Check one telling; returns the first clock model used."""
    where = passages(telling)
    found = strands(telling, where)
    offset = launcher_offset(telling)
    first: dict[int, dates.Fits] = {}
    for strand in found:
        fits = fits_clock(course(strand, {}, offset), offset)
        first.update((entry.number, fits) for entry in strand.telling.entries)
    moments = dates.check(
        telling,
        lists(telling, where),
        offset,
        notes,
        lambda entry, moment, doubts: first[entry.number](entry, moment, doubts),
    )
    courses = [course(strand, moments, offset) for strand in found]
    steps.check(telling, courses, where, notes)
    settings.check(telling, [telling] if telling.curated else [strand.telling for strand in found], notes)
    totals.check(telling, notes)
    summaries.check(telling, where, notes)
    return next((one.models[regime] for one in courses for regime in sorted(one.models)), None)


def _described(run: Run, told: Sequence[Telling]) -> Run:
    """``run`` with what another telling says of the time of a step and the batch, where it is silent."""
    pace = run.seconds_per_step or next((one.run.seconds_per_step for one in told if one.run.seconds_per_step), None)
    batch = run.batch_schedule or next((one.run.batch_schedule for one in told if one.run.batch_schedule), ())
    return replace(run, seconds_per_step=pace, batch_schedule=batch)
