"""Incidents, events, attempts and flags as the rows of the report's tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from replay.output import is_missing
from replay.report.links import Links, SourceLink
from replay.report.reading import RunReading, records
from replay.report.timeline import LANES, part
from replay.report.words import EVIDENCE_MEANING, count, moment, number, spelled, steps, trained


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event in words: its lane, what it was, where and when, what changed, who says so."""

    lane: str
    role: str
    what: str
    where: str
    change: str
    text: str
    details: list[tuple[str, str]]
    evidence: str
    source: SourceLink
    locator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One incident in words, with its events to unfold; ``order`` counts from 1 in the table's order.

    ``then`` pairs each outcome with the part it plays (see :func:`replay.report.timeline.part`); ``evidence`` holds the
    grade of each of its events, each once, in the order of :data:`replay.report.words.EVIDENCE_MEANING`.
    """

    order: int
    incident: str
    when: str
    step: str
    first_step: int | None
    saw: list[str]
    cause: list[str]
    did: list[str]
    then: list[tuple[str, str]]
    recurred: str
    lost: str
    text: str
    evidence: list[str]
    sources: list[SourceLink]
    events: list[EventRow] = field(default_factory=list)


def incident_rows(reading: RunReading) -> list[IncidentRow]:
    """The run's incidents in the order of the store's answer, each with its events in the order of their roles."""
    links = Links(reading.facts)
    by_incident = dict(iter(reading.events.groupby("incident", sort=False)))
    rows = []
    for order, row in enumerate(records(reading.incidents), start=1):
        events = by_incident.get(row["incident"])
        told = [] if events is None else [event_row(event, links) for event in records(events)]
        precision = None if events is None else _precision(events, row["time"])
        recurred = row["recurred_after"]
        rows.append(
            IncidentRow(
                order=order,
                incident=row["incident"],
                when=moment(row["time"], precision),
                step=steps(row["step"]),
                first_step=None if is_missing(row["step"]) else int(row["step"]),
                **{name: [spelled(kind) for kind in row[name]] for name in ("saw", "cause", "did")},
                then=[(part("outcome", kind), spelled(kind)) for kind in row["then"]],
                recurred="" if is_missing(recurred) else f"again {count(int(recurred), 'step')} later",
                lost=lost(row["lost_steps"], row["lost_hours"]),
                text=row["text"],
                evidence=_grades([row["evidence"], *(event.evidence for event in told)]),
                sources=links.each(row["source"]),
                events=sorted(told, key=lambda event: list(LANES.values()).index(event.lane)),
            )
        )
    return rows


def _grades(evidence: list[str]) -> list[str]:
    """Each grade once: what an incident rests on is no better than its weakest part."""
    known = list(EVIDENCE_MEANING)
    return sorted(
        {str(grade) for grade in evidence if not is_missing(grade) and grade},
        key=lambda grade: (known.index(grade) if grade in known else len(known), grade),
    )


def _precision(events: pd.DataFrame, time: Any) -> Any:
    known = events.loc[events["time"] == time, "time_precision"].dropna()
    return known.iloc[0] if len(known) else None


def loose_events(reading: RunReading) -> list[EventRow]:
    """Events that belong to no incident, in order of step and time."""
    links = Links(reading.facts)
    outside = reading.events[reading.events["incident"].isna()].sort_values(["step", "time"], kind="stable")
    return [event_row(event, links) for event in records(outside)]


def event_row(event: dict[str, Any], links: Links) -> EventRow:
    """An event of the store's ``events`` query in words."""
    where = [f"step {steps(event['step'], event['step_end'])}"] if not is_missing(event["step"]) else []
    where += [f"{moment(event['time'], event['time_precision'])} UTC"] if not is_missing(event["time"]) else []
    details = [(spelled(key), str(value)) for key, value in sorted((event["detail"] or {}).items())]
    role = part(event["role"], event["kind"])
    cost = lost(event["lost_steps"], event["lost_hours"])
    return EventRow(
        lane=LANES[role],
        role=role,
        what=spelled(event["kind"]),
        where=", ".join(where),
        change=_change(event),
        text=event["text"],
        details=details + ([("lost", cost)] if cost else []),
        evidence=str(event["evidence"]),
        source=links(event["source"]),
        locator=event["locator"],
    )


def _change(event: dict[str, Any]) -> str:
    before, after = event["before"], event["after"]
    if is_missing(before) and is_missing(after):
        return ""
    unit = "" if event["unit"] in {"", "step"} else f" {event['unit']}"
    name = f"{spelled(event['field'])} " if event["field"] else ""
    if event["kind"] in {"rollback", "restart"} and is_missing(after):
        return f"from step {number(before)} back to {steps(event['step'])}" if not is_missing(event["step"]) else ""
    return (
        f"{name}{'?' if is_missing(before) else number(before)} → {'?' if is_missing(after) else number(after)}{unit}"
    )


def lost(lost_steps: Any, lost_hours: Any) -> str:
    """What an incident cost, as stated: ``100 steps, 2.5 hours``."""
    parts = [] if is_missing(lost_steps) else [f"{number(lost_steps)} steps"]
    return ", ".join(parts + ([] if is_missing(lost_hours) else [f"{number(lost_hours)} hours"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """One flag in words."""

    rule: str
    severity: str
    signal: str
    where: str
    first_step: int | None
    value: str
    baseline: str
    message: str
    attempt: str


def flag_rows(reading: RunReading) -> list[FlagRow]:
    """What the rules said, in the store's order."""
    return [
        FlagRow(
            rule=flag["rule"],
            severity=str(flag["severity"]),
            signal=spelled(flag["signal"]),
            where=steps(flag["step"], flag["step_end"]),
            first_step=None if is_missing(flag["step"]) else int(flag["step"]),
            value=number(flag["value"]) if not _is_nan(flag["value"]) else "NaN",
            baseline=number(flag["baseline"]),
            message=flag["message"],
            attempt=steps(flag["attempt"]),
        )
        for flag in records(reading.flags)
    ]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt in words."""

    attempt: str
    parent: str
    span: str
    kept_to: str
    lost: str
    time: str
    cause: str


def attempt_rows(reading: RunReading) -> list[AttemptRow]:
    """The run's attempts in order."""
    return [
        AttemptRow(
            attempt=steps(row["attempt"]),
            parent=steps(row["parent"]),
            span=trained(row["start_step"], row["end_step"], row["kept_to"]),
            kept_to=steps(row["kept_to"]),
            lost="" if is_missing(row["lost_steps"]) or not row["lost_steps"] else number(row["lost_steps"]),
            time=" to ".join(filter(None, (moment(row["start_time"]), moment(row["end_time"])))),
            cause=spelled(row["end_cause"]),
        )
        for row in records(reading.attempts)
    ]
