"""From the fields of a timeline file to records: run, events and findings, each incident on its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from replay_parsers.printed_time import PrintedTimeError, parse_printed_time, printed_label
from replay_parsers.records import (
    KINDS,
    Coverage,
    Event,
    EventKind,
    Evidence,
    Finding,
    Problem,
    ProblemKind,
    RecordError,
    Records,
    Role,
    Run,
    TimePrecision,
    event_id,
    incident_id,
)
from replay_parsers.timeline_document import Fault, Node, read_document
from replay_parsers.timeline_fields import (
    EVENT_FIELDS,
    FILE_FIELDS,
    INCIDENT_FIELDS,
    READING_FIELDS,
    RUN_FIELDS,
    CitedSource,
)
from replay_parsers.timeline_values import Fields, Reader, read_fields

MAXIMUM_PROBLEMS = 200

LISTS = {
    "seen": Role.SYMPTOM,
    "cause": Role.CAUSE,
    "done": Role.INTERVENTION,
    "then": Role.OUTCOME,
    "lifecycle": Role.LIFECYCLE,
}
"""An incident's lists of events and the role of what stands in each."""


def build_records(data: bytes, *, source: str, format_name: str, default_run: str) -> Records:
    """Read the bytes of a timeline.  ``default_run`` names the run where the file fails to."""
    timeline = _Timeline(source=source, run_name=default_run)
    timeline.take(data)
    return timeline.records(format_name, len(data))


@dataclass(slots=True)
class _Incident:
    """What the events and findings of one incident take from it."""

    name: str
    time: datetime | None
    precision: TimePrecision | None
    source: str
    locator: str
    evidence: Evidence


@dataclass(slots=True)
class _Timeline:
    """One file on its way from bytes to records."""

    source: str
    run_name: str
    reader: Reader = field(default_factory=Reader)
    run: Run | None = None
    sources: dict[str, CitedSource] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    left_out: int = 0
    _incident_names: Counter[str] = field(default_factory=Counter)
    _incident_lines: dict[str, int] = field(default_factory=dict)

    def take(self, data: bytes) -> None:
        document = read_document(data)
        self.reader.faults.extend(document.faults)
        if document.root is None:
            self.reader.fault(1, "an empty timeline: it needs `run` and `incidents` (see logbooks/README.md)")
            return
        top = read_fields(self.reader, document.root, FILE_FIELDS, "a timeline")
        if top is None:
            return
        if "run" in top.values:
            self._take_run(top.values["run"])
        for node in top.get("incidents", ()):
            self._take_incident(node)
        for node in top.get("readings", ()):
            self._take_reading(node, None)

    def records(self, format_name: str, size: int) -> Records:
        problems = [self._problem(fault) for fault in sorted(self.reader.faults, key=lambda fault: fault.line)]
        if len(problems) > MAXIMUM_PROBLEMS:
            more = len(problems) - MAXIMUM_PROBLEMS
            last = Problem(
                source=self.source,
                kind=ProblemKind.INVALID,
                message=f"{more} more faults are not listed; mend those above and read the file again",
            )
            problems = [*problems[:MAXIMUM_PROBLEMS], last]
        return Records(
            source=self.source,
            format=format_name,
            end=size,
            run=self.run,
            events=tuple(self.events),
            problems=tuple(problems),
            findings=tuple(self.findings),
            coverage=Coverage(
                bytes_read=size,
                records=len(self.events),
                not_understood=len(self.reader.faults),
                lost_records=self.left_out,
                examples=tuple(problem.message for problem in problems[:5]),
            ),
        )

    def _problem(self, fault: Fault) -> Problem:
        kind = ProblemKind.CORRUPT if fault.breaks_off else ProblemKind.INVALID
        return Problem(source=self.source, kind=kind, message=fault.message, line=fault.line)

    def _take_run(self, node: Node) -> None:
        fields = read_fields(self.reader, node, RUN_FIELDS, "run")
        if fields is None:
            return
        values = dict(fields.values)
        self.run_name = values.pop("name", self.run_name)
        self.sources = values.pop("sources", {})
        if "clock" in values:
            self.reader.clock = ZoneInfo(values["clock"])
        urls = {f"url of {source.title}": source.url for source in self.sources.values() if source.url}
        values["metadata"] = {**values.get("metadata", {}), **urls}
        self.run = Run(run=self.run_name, sources=tuple(source.title for source in self.sources.values()), **values)

    def _take_incident(self, node: Node) -> None:
        fields = read_fields(self.reader, node, INCIDENT_FIELDS, "incident")
        if fields is None:
            self.left_out += 1
            return
        # Counted even when it is left out, so that mending it renames no other incident.
        name = self._incident_name(fields)
        incident = self._incident(fields, name) if name and fields.sound else None
        if incident is None:
            self.left_out += 1
            self.reader.fault(node, f"this incident is left out{f' ({name})' if name else ''}: see the faults in it")
            return
        kinds: Counter[EventKind] = Counter()
        for list_name, role in LISTS.items():
            for item in fields.get(list_name, ()):
                self._take_event(item, list_name, role, incident, kinds)
        for item in fields.get("readings", ()):
            self._take_reading(item, incident)

    def _incident_name(self, fields: Fields) -> str | None:
        """The incident's id, or None when it has none of its own; faults are noted."""
        if "id" in fields.values:
            name = incident_id(self.run_name, fields.values["id"])
        elif "at" in fields.values:
            label = printed_label(fields.values["at"])
            self._incident_names[label] += 1
            name = incident_id(self.run_name, label, self._incident_names[label])
        else:
            if "at" not in fields.lines and fields.sound:
                self.reader.fault(fields.line, "incident needs `at`, the time as printed, or an `id`")
            return None
        if name in self._incident_lines:
            first = self._incident_lines[name]
            self.reader.fault(fields.line, f"incident {name} is there already, on line {first}: give it another `id`")
            return None
        self._incident_lines[name] = fields.line
        return name

    def _incident(self, fields: Fields, name: str) -> _Incident | None:
        if not any(fields.get(part) for part in (*LISTS, "readings")):
            self.reader.fault(fields.line, f"incident {name} tells nothing: it needs one of {', '.join(LISTS)}")
            return None
        source = self._source(fields)
        if source is None:
            return None
        time, precision = None, None
        likely = fields.get("likely")
        if likely is not None:
            time, precision = likely.time.utc, likely.time.precision
        elif "at" in fields.values:
            try:
                printed = parse_printed_time(fields.values["at"], self.reader.clock)
            except PrintedTimeError as error:
                self.reader.fault(
                    fields.lines["at"], f"incident: `at`: {error}; if the source prints it so, give its `likely` time"
                )
                return None
            time, precision = printed.utc, printed.precision
        if "precision" in fields.values:
            if time is None:
                self.reader.fault(fields.lines["precision"], "incident: `precision` of what? there is no `at`")
                return None
            precision = fields.values["precision"]
        incident = _Incident(
            name, time, precision, source, fields.values["locator"], fields.get("evidence", Evidence.STATED)
        )
        if likely is not None:
            self._find(incident, "clock", [fields.get("at", ""), likely.time.label], likely.time.label, likely.because)
        return incident

    def _source(self, fields: Fields) -> str | None:
        """The title of the source that an incident, event or reading cites; None when it is unknown."""
        if not self.sources:
            return self.source  # the fault is in `run` and has been told there
        name = fields.get("source", next(iter(self.sources)))
        if name not in self.sources:
            known = ", ".join(self.sources)
            self.reader.fault(fields.lines["source"], f"source `{name}` is none of run.sources: {known}")
            return None
        return self.sources[name].title

    def _take_event(
        self, node: Node, list_name: str, role: Role, incident: _Incident, kinds: Counter[EventKind]
    ) -> None:
        event = self._event(node, list_name, role, incident, kinds)
        if event is None:
            self.left_out += 1
        else:
            self.events.append(event)

    def _event(
        self, node: Node, list_name: str, role: Role, incident: _Incident, kinds: Counter[EventKind]
    ) -> Event | None:
        fields = read_fields(self.reader, node, EVENT_FIELDS, f"event in `{list_name}`")
        if fields is None:
            return None
        kind = fields.get("kind")
        if kind is not None:
            kinds[kind] += 1
            if KINDS[kind].role is not role:
                right = next(name for name, other in LISTS.items() if other is KINDS[kind].role)
                self.reader.fault(fields.lines["kind"], f"{kind} belongs under `{right}`, not `{list_name}`")
                return None
        source = incident.source if "source" not in fields.values else self._source(fields)
        if not fields.sound or source is None:
            return None
        values: dict[str, Any] = dict(fields.values)
        printed, precision = values.pop("at", None), values.pop("precision", None)
        time, exact = (printed.utc, printed.precision) if printed else (incident.time, incident.precision)
        if precision and time is None:
            self.reader.fault(
                fields.lines["precision"], f"event in `{list_name}`: `precision` of what? there is no `at`"
            )
            return None
        values.update(source=source, time=time, time_precision=precision or exact, role=role)
        values.setdefault("locator", incident.locator)
        values.setdefault("evidence", incident.evidence)
        try:
            name = event_id(incident.name, values["kind"], kinds[values["kind"]])
            return Event(run=self.run_name, event=name, incident=incident.name, **values)
        except RecordError as error:
            self.reader.fault(fields.line, str(error))
            return None

    def _take_reading(self, node: Node, incident: _Incident | None) -> None:
        fields = read_fields(self.reader, node, READING_FIELDS, "reading")
        if fields is None or not fields.sound:
            self.left_out += 1
            return
        source = self._source(fields) if "source" in fields.values or incident is None else incident.source
        locator = fields.get("locator", incident.locator if incident else None)
        if locator is None:
            self.reader.fault(node, "reading needs `locator`, as it belongs to no incident")
        if source is None or locator is None:
            self.left_out += 1
            return
        at = _Incident(incident.name if incident else "", None, None, source, locator, Evidence.STATED)
        values = fields.values
        self._find(at, values["check"], values["values"], fields.get("likely"), values["because"])

    def _find(self, at: _Incident, check: str, readings: list[str], likely: str | None, because: str) -> None:
        self.findings.append(
            Finding(
                run=self.run_name,
                check=check,
                source=at.source,
                locator=at.locator,
                readings=tuple(readings),
                likely=likely,
                reasons=because,
                incident=at.name or None,
            )
        )
