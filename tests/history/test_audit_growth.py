"""The audit takes time in proportion to a book's length, also where its entries contradict each other.

The processor's time of a book and of an eighth of it is compared, so that no machine's speed matters.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from growth import grows_with_its_size
from replay.history.audit import audit_records
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event, Finding, Records, Run, TimePrecision, incident_id

ENTRIES = 2400


def book(entries: int, step_of: Callable[[int], int], time_of: Callable[[int], datetime]) -> Records:
    """A book of as many restarts, each with a crash, a lost number of steps, a new setting and a skipped range."""
    chance = random.Random(5)
    events, findings = [], []
    for number in range(entries):
        step, time = step_of(number), time_of(number)
        incident = incident_id("grown", f"{time:%Y-%m-%dT%H:%M}")
        locator = f"§ {time:%Y-%m-%d %H:%M} Node failure"

        def event(
            kind: EventKind,
            role: Role,
            step: int | None,
            *,
            incident: str = incident,
            time: datetime = time,
            locator: str = locator,
            number: int = number,
            **more: Any,
        ) -> Event:
            return Event(
                run="grown",
                event=f"{incident}/{kind}-{number}",
                kind=kind,
                role=role,
                incident=incident,
                time=time,
                time_precision=TimePrecision.MINUTE,
                step=step,
                source="grown.md",
                locator=locator,
                **more,
            )

        clip: dict[str, Any] = {"field": "grad_clip", "before": chance.random(), "after": 1.0}
        events += [
            event(EventKind.CRASH, Role.SYMPTOM, step),
            event(EventKind.RESTART, Role.LIFECYCLE, max(step - 50, 0), lost_steps=70.0),
            event(EventKind.GRAD_CLIP_CHANGE, Role.INTERVENTION, None, **clip),
            event(EventKind.SKIP_BATCHES, Role.INTERVENTION, step + 4000, step_end=step + 4100),
        ]
        findings.append(
            Finding(
                run="grown",
                check="date_order",
                source="grown.md",
                locator=locator,
                readings=(f"heading: {time}",),
                likely=None,
                reasons="its parser doubts it",
                incident=incident,
            )
        )
    run = Run(run="grown", clock="UTC", seconds_per_step=8.0)
    return Records(
        source="grown.md", format="markdown-logbook", run=run, events=tuple(events), findings=tuple(findings)
    )


def times(number: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=6 * number)


def some_other_time(number: int) -> datetime:
    chance = random.Random(number)
    return times(number) + timedelta(days=chance.randint(-300, 300) if chance.random() < 0.2 else 0)


def any_time(number: int) -> datetime:
    return times(random.Random(number).randint(0, 1400))


def some_other_step(number: int) -> int:
    chance = random.Random(number)
    return chance.randint(1000, 10_000_000) if chance.random() < 0.2 else 2700 * number


BOOKS: dict[str, tuple[Callable[[int], int], Callable[[int], datetime]]] = {
    "entries that agree": (lambda number: 2700 * number, times),
    "dates at random": (lambda number: 2700 * number, any_time),
    "every fifth date at random": (lambda number: 2700 * number, some_other_time),
    "steps at random": (lambda number: random.Random(number).randint(1000, 10_000_000), times),
    "every fifth step at random": (some_other_step, times),
    "two courses in turn": (lambda number: 2700 * number + 40_000 * (number % 2), times),
}


@pytest.mark.parametrize("name", BOOKS)
def test_time_grows_with_the_entries_however_they_contradict_each_other(name: str) -> None:
    def prepare(entries: int) -> Callable[[], object]:
        written = book(entries, *BOOKS[name])
        return lambda: audit_records([written])

    assert grows_with_its_size(prepare, ENTRIES)


def test_memory_stays_below_a_few_kilobytes_for_each_entry_that_contradicts_the_others() -> None:
    written = book(500, *BOOKS["steps at random"])
    tracemalloc.start()
    audit_records([written])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000 * 500


def test_what_is_compared_grows_with_the_entries() -> None:
    counts = [
        sum(audit_records([book(entries, *BOOKS["every fifth step at random"])])[0].compared.values())
        for entries in (200, 400, 800)
    ]
    assert counts[1] < 2.2 * counts[0]
    assert counts[2] < 2.2 * counts[1]
