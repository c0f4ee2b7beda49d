"""From incidents to events: ids, times in UTC, and a line that says what each event is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from replay_parsers.chronicles import zones
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.entries import Entry
from replay_parsers.chronicles.grouping import MOVES
from replay_parsers.chronicles.incidents import Incident
from replay_parsers.records import Event, EventKind, Evidence, RecordError, Role, TimePrecision, event_id

K = EventKind
_When = tuple[datetime | None, TimePrecision | None]

# What is said of an event where the kind's name alone would not do, in our own words.
_WORDS = {
    K.RESTART: "training resumed",
    K.ROLLBACK: "training was put back",
    K.SKIP_BATCHES: "batches were left out",
    K.START: "training began",
}
# Training goes on from the checkpoint that a restart loads; a rollback puts it back to one.
_PLACES = {K.RESTART: "from step", K.ROLLBACK: "to step"}


def describe(draft: Draft) -> str:
    """One line that says what an event is, from its fields alone."""
    words = [_WORDS.get(draft.kind, str(draft.kind).replace("_", " "))]
    if draft.field:
        words.append(f"({draft.field.replace('_', ' ')})" if draft.field not in words[0].replace(" ", "_") else "")
    if draft.before is not None and draft.kind not in MOVES and draft.after is not None:
        words.append(f"from {draft.before:g} to {draft.after:g}")
    elif draft.after is not None:
        words.append(f"at {draft.after:g}" if draft.role is Role.SYMPTOM else f"to {draft.after:g}")
    if draft.unit and draft.after is not None:
        words.append(draft.unit)
    if factor := draft.detail.get("factor"):
        words.append(f"times {factor}")
    if node := draft.detail.get("node"):
        words.append(node)
    if draft.step is not None:
        about = "about " if draft.detail.get("approximate") == "step" else ""
        place = _PLACES.get(draft.kind) or ("steps" if draft.step_end else "at step")
        words.append(f"{place} {about}{draft.step}" + (f" to {draft.step_end}" if draft.step_end is not None else ""))
    if draft.lost_hours is not None:
        words.append(f"({draft.lost_hours:g} h lost)")
    if draft.detail.get("certainty") == "suspected":
        words.append("(suspected)")
    line = " ".join(word for word in words if word)
    return line[0].upper() + line[1:] + "."


def to_events(run: str, source: str, incidents: Sequence[Incident], clock: str | None) -> list[Event]:
    """The events of ``incidents``: ids, times in UTC by ``clock``, roles in the order seen, cause, done, then."""
    events: list[Event] = []
    entries = {incident.name: incident.entry for incident in incidents}
    for incident in incidents:
        numbers: Counter[EventKind] = Counter()
        for draft in sorted(incident.drafts, key=lambda draft: _ROLE_ORDER[draft.role]):
            name = event_id(incident.name, draft.kind, numbers[draft.kind] + 1)
            entry = entries.get(draft.detail.get("told_by", ""), incident.entry)
            try:
                events.append(_event(run, source, incident, draft, name, when(entry, clock)))
            except RecordError:
                continue  # a sentence that leaves out what its kind needs tells no event
            numbers[draft.kind] += 1
    return events


_ROLE_ORDER = {Role.SYMPTOM: 0, Role.CAUSE: 1, Role.INTERVENTION: 2, Role.OUTCOME: 3, Role.LIFECYCLE: 4}


def _event(run: str, source: str, incident: Incident, draft: Draft, name: str, told: _When) -> Event:
    time, precision = told
    if draft.at is not None:
        time, precision = draft.at, TimePrecision.SECOND
    locator = draft.detail.get("locator") or f"§ {incident.entry.heading}"
    detail = {key: value for key, value in draft.detail.items() if key not in ("locator", "evidence")}
    if draft.quote:
        detail.setdefault("quote", draft.quote)
    return Event(
        run=run,
        event=name,
        incident=incident.name,
        kind=draft.kind,
        role=draft.role,
        time=time,
        time_precision=precision if time is not None else None,
        step=draft.step,
        step_end=draft.step_end,
        field=draft.field,
        before=draft.before,
        after=draft.after,
        unit=draft.unit,
        detail=detail,
        lost_steps=draft.lost_steps,
        lost_hours=draft.lost_hours,
        text=describe(draft),
        source=source,
        locator=locator,
        evidence=Evidence(draft.detail.get("evidence", Evidence.STATED)),
    )


def when(entry: Entry, clock: str | None) -> _When:
    """An entry's time in UTC and how exactly it is known.

    A date without an hour is kept at 00:00 UTC, since a zone could change the date; without a known clock an
    hour is not trusted beyond its day.
    """
    local = entry.local
    if local is None:
        return None, None
    if entry.printed is None:
        return local.replace(tzinfo=UTC), TimePrecision.DAY
    precision = entry.printed.precision
    if precision in (TimePrecision.DAY, TimePrecision.MONTH):
        return local.replace(tzinfo=UTC), precision
    known = entry.printed.zone or clock
    if known is None:
        return local.replace(tzinfo=UTC), TimePrecision.DAY
    return local.replace(tzinfo=zones.zone(known)).astimezone(UTC), precision
