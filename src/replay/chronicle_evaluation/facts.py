"""What a telling is counted in: its incidents, and each of their events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from replay_parsers import Records
from replay_parsers.records import Event, EventKind, Role

CATEGORIES = ("incident", "restart", "skip", "parameter")
"""What has a limit."""
STORY = ("symptom", "cause", "outcome", "other")
"""What is counted without one."""
MOVES = frozenset({EventKind.RESTART, EventKind.ROLLBACK, EventKind.RESTART_FROM_SCRATCH})
_ROLES = {Role.SYMPTOM: "symptom", Role.CAUSE: "cause", Role.OUTCOME: "outcome"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One countable fact: its ``category``, the ``heading`` it stands under, and the events that make it up.

    ``beside`` are events of the same incident that the timeline tells from another source.
    """

    category: str
    heading: str
    events: tuple[Event, ...]
    beside: tuple[Event, ...] = ()

    def __str__(self) -> str:
        if self.category == "incident":
            return f"{self.heading}: {', '.join(dict.fromkeys(str(event.kind) for event in self.events))}"
        event = self.events[0]
        parts = [str(event.kind)]
        if event.field and self.category == "parameter":
            values = [f"{value:g}" if value is not None else "?" for value in (event.before, event.after)]
            parts.append(f"{event.field} {values[0]} -> {event.detail.get('factor') or values[1]}")
        if event.step is not None:
            parts.append(f"step {event.step}" + (f" to {event.step_end}" if event.step_end is not None else ""))
        return f"{self.heading}: {' '.join(parts)}"


def facts(records: Records, source: str | None = None) -> list[Fact]:
    """The countable facts of a timeline or a parsed chronicle; ``source`` keeps those whose source contains it."""
    found = []
    for events, beside in _incidents(records, source):
        if len(events) < len(beside):
            continue  # told elsewhere; this source adds a detail or an outcome
        heading = _heading(events)
        found.append(Fact("incident", heading, events, beside))
        found += [Fact(_category(event), heading, (event,)) for event in events]
    return found


def told_elsewhere(records: Records, source: str | None) -> list[Fact]:
    """What a timeline tells from other sources of incidents that ``source`` tells as well, under its heading there."""
    return [
        Fact(_category(event), _heading(events), (event,))
        for events, beside in _incidents(records, source)
        for event in beside
        if events
    ]


def _incidents(records: Records, source: str | None) -> list[tuple[tuple[Event, ...], tuple[Event, ...]]]:
    groups: dict[str, list[Event]] = {}
    for event in records.events:
        if event.incident is not None:
            groups.setdefault(event.incident, []).append(event)
    parted = []
    for whole in groups.values():
        own = tuple(event for event in whole if source is None or source in event.source)
        parted.append((own, tuple(event for event in whole if event not in own)))
    return parted


def _heading(events: Sequence[Event]) -> str:
    """The heading most of an incident's events stand under."""
    locators = [event.locator.removeprefix("§").strip() for event in events]
    heading = max(dict.fromkeys(locators), key=locators.count)
    return re.sub(r"\s+", " ", heading)


def _category(event: Event) -> str:
    if event.kind in MOVES:
        return "restart"
    if event.kind is EventKind.SKIP_BATCHES:
        return "skip"
    if event.field and event.role is Role.INTERVENTION:
        return "parameter"
    return _ROLES.get(event.role, "other")
