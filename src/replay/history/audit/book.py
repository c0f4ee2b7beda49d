"""A logbook as its auditor reads it: entries in the order of the source, with what is *printed* in them.

Parsers and curators already put right some of what a source prints; an audit must come to its own conclusion, so the
print is restored here: an entry's time from its incident's id (which always keeps the print), a step from
``detail.printed_step``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event, Evidence, Finding, Records, Run, TimePrecision

DAY = timedelta(days=1)
DISORDERED = "the entries are not kept in the order of time"
"""Why what follows from an order is not checked."""
BRANCHES = "steps of branches"
"""What is not checked where entries do not say to which branch they belong."""
HALF_HOUR = timedelta(minutes=30)
BACK = (EventKind.RESTART, EventKind.ROLLBACK)

_PRINT = re.compile(
    r"/(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d)(?:T(?P<hour>\d\d):(?P<minute>\d\d))?)?(?:-\d{1,3})?$"
)
_STAMP = re.compile(
    r"(?P<year>20\d\d)[.-](?P<month>\d\d)[.-](?P<day>\d\d)[-_T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
)
_CURATED = "timeline"
_EXACT = (TimePrecision.SECOND, TimePrecision.MINUTE)
_WIDEST_OFFSET = timedelta(hours=14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A printed time: it lies in ``earliest``..``latest`` (UTC), ``local`` is how it reads on its own clock.

    A date without an hour may stand for any hour of its day, a month for any of its days.
    """

    earliest: datetime
    latest: datetime
    local: datetime
    precision: TimePrecision

    def moved(self, by: timedelta) -> Moment:
        """The same print, ``by`` later."""
        return replace(self, earliest=self.earliest + by, latest=self.latest + by, local=self.local + by)

    def __str__(self) -> str:
        if self.precision is TimePrecision.MONTH:
            return f"{self.local:%Y-%m}"
        return f"{self.local:%Y-%m-%d}" if self.precision is TimePrecision.DAY else f"{self.local:%Y-%m-%d %H:%M}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one source tells of one incident.

    ``printed`` is its time as printed, None when it prints none; ``impossible`` is a printed date that no calendar
    has.  ``events`` are those the entry itself tells, ``outcomes`` what came of it, often told by a later entry.
    """

    number: int
    incident: str
    source: str
    locator: str
    printed: Moment | None
    impossible: str | None
    events: tuple[Event, ...]
    outcomes: tuple[Event, ...]

    @property
    def launches(self) -> list[tuple[datetime, Event]]:
        """The stamps in the names of launches, as printed (held as UTC, on the launcher's clock), with their event."""
        found: dict[datetime, Event] = {}
        for event in self.events:
            if (stamp := stamp_of(event)) is not None:
                found.setdefault(stamp, event)
        return list(found.items())

    def of_kind(self, *kinds: EventKind) -> list[Event]:
        """The entry's events of any of ``kinds``."""
        return [event for event in self.events if event.kind in kinds]

    @property
    def symptoms(self) -> list[Event]:
        """What was seen."""
        return [event for event in self.events if event.role is Role.SYMPTOM]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One source's account of one run, in the source's own order; ``text`` is the source itself where at hand.

    ``curated`` when people made it a timeline and noted what cannot be right; otherwise its findings are a parser's.
    """

    run: Run
    source: str
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...] = ()
    text: str = ""
    curated: bool = False

    def by_source(self) -> dict[str, list[Entry]]:
        """The entries by what they cite: a curated timeline follows several sources one after the other."""
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.source, []).append(entry)
        return groups


@dataclass(slots=True)
class Notes:
    """What the checks have to say: findings, and for each check how much was compared and what could not be."""

    findings: list[Finding] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    unchecked: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        telling: Telling,
        entry: Entry | None,
        check: str,
        readings: Sequence[str],
        likely: str | None,
        reasons: str,
    ) -> None:
        """A finding in ``entry`` of ``telling``."""
        self.findings.append(
            Finding(
                run=telling.run.run,
                check=check,
                source=telling.source if entry is None else entry.source,
                locator=(telling.entries[0].locator if telling.entries else "") if entry is None else entry.locator,
                readings=tuple(readings),
                likely=likely,
                reasons=reasons,
                incident=None if entry is None else entry.incident,
            )
        )


def stamp_of(event: Event) -> datetime | None:
    """The time stamp in the event's run name, as printed; None without one."""
    found = _STAMP.search(event.detail.get("run_name", ""))
    if found is None:
        return None
    try:
        return datetime(*(int(part) for part in found.groups()), tzinfo=UTC)  # type: ignore[arg-type,misc]
    except ValueError:
        return None


def printed_step(event: Event) -> int | None:
    """The step as the source prints it."""
    text = event.detail.get("printed_step", "")
    return int(text) if text.isdecimal() else event.step


def tellings(records: Iterable[Records], texts: dict[str, str] | None = None) -> list[Telling]:
    """The tellings in ``records``, one for each source and run, in the order given."""
    described: dict[tuple[str, str], Run] = {}
    events: dict[tuple[str, str], list[Event]] = {}
    findings: dict[tuple[str, str], list[Finding]] = {}
    curated: set[str] = set()
    for piece in records:
        if piece.format == _CURATED:
            curated.add(piece.source)
        if piece.run is not None:
            described[piece.source, piece.run.run] = piece.run
            events.setdefault((piece.source, piece.run.run), [])
        for event in piece.events:
            events.setdefault((piece.source, event.run), []).append(event)
        for finding in piece.findings:
            findings.setdefault((piece.source, finding.run), []).append(finding)
    return [
        Telling(
            run=described.get(key, Run(run=key[1])),
            source=key[0],
            entries=tuple(_entries(described.get(key, Run(run=key[1])), told)),
            findings=tuple(findings.get(key, ())),
            text=(texts or {}).get(key[0], ""),
            curated=key[0] in curated,
        )
        for key, told in events.items()
    ]


def _entries(run: Run, events: Sequence[Event]) -> Iterator[Entry]:
    groups: dict[str, list[Event]] = {}
    for event in events:
        # What a program concluded is no print; what a reader concludes of an outcome is told with the entry.
        if event.incident is not None and (event.evidence is not Evidence.DERIVED or event.role is Role.OUTCOME):
            groups.setdefault(event.incident, []).append(event)
    common = _common_offset(groups)
    # A book on one unknown clock is in order with itself; where some entries name a zone, the others may be anywhere.
    mixed = any(event.time_precision in _EXACT for told in groups.values() for event in told)
    for number, (incident, told) in enumerate(groups.items()):
        own = [event for event in told if event.role is not Role.OUTCOME] or told
        printed, impossible = _printed(run, incident, told, common, mixed)
        yield Entry(
            number=number,
            incident=incident,
            source=own[0].source,
            locator=own[0].locator,
            printed=printed,
            impossible=impossible,
            events=tuple(event for event in told if event.role is not Role.OUTCOME),
            outcomes=tuple(event for event in told if event.role is Role.OUTCOME),
        )


def _printed(
    run: Run, incident: str, events: Sequence[Event], common: timedelta, mixed: bool
) -> tuple[Moment | None, str | None]:
    found = _PRINT.search(incident)
    if found is None:
        return None, None
    year, month, day, hour, minute = (None if part is None else int(part) for part in found.groups())
    precision = TimePrecision.MONTH if day is None else TimePrecision.DAY if hour is None else TimePrecision.MINUTE
    try:
        local = datetime(year or 0, month or 0, day or 1, hour or 0, minute or 0, tzinfo=UTC)
    except ValueError:
        return None, found[0].removeprefix("/").replace("T", " ")
    if precision is TimePrecision.MONTH:
        return Moment(earliest=local, latest=local + 31 * DAY, local=local, precision=precision), None
    if precision is TimePrecision.DAY:
        # Kept as that date at 00:00 UTC, whatever the clock.
        return Moment(earliest=local, latest=local + DAY, local=local, precision=precision), None
    offset = _zone_offset(run.clock, local) if run.clock else _offset(local, events)
    start = local - (common if offset is None else offset)
    vague = mixed and {event.time_precision for event in events} == {TimePrecision.DAY}
    slack = DAY if vague else timedelta()
    return Moment(earliest=start - slack, latest=start + slack, local=local, precision=precision), None


def _zone_offset(clock: str, local: datetime) -> timedelta:
    try:
        zone = ZoneInfo(clock)
    except (ZoneInfoNotFoundError, ValueError):
        return timedelta()
    return local.replace(tzinfo=zone).utcoffset() or timedelta()


def _offset(local: datetime, events: Iterable[Event]) -> timedelta | None:
    """How far the print is ahead of the time that its reader made of it, where that can be a zone."""
    for event in events:
        if event.time is not None and event.role is not Role.OUTCOME:
            ahead = local - event.time.astimezone(UTC)
            if abs(ahead) <= _WIDEST_OFFSET and ahead % HALF_HOUR == timedelta():
                return ahead
    return None


def _common_offset(groups: dict[str, list[Event]]) -> timedelta:
    counts: Counter[timedelta] = Counter()
    for incident, events in groups.items():
        found = _PRINT.search(incident)
        if found is None or found["hour"] is None:
            continue
        try:
            local = datetime(*(int(part) for part in found.groups()), tzinfo=UTC)  # type: ignore[arg-type,misc]
        except ValueError:
            continue
        if (offset := _offset(local, events)) is not None:
            counts[offset] += 1
    return counts.most_common(1)[0][0] if counts else timedelta()
