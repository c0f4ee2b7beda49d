"""The clock model of a run: how long a step takes, and so where training could be at a given time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np

from replay.history.audit.book import BACK, DAY, Entry, Moment, Telling, printed_step
from replay.history.audit.dates import launched, launcher_offset
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event, TimePrecision

ALLOWANCE = 1.03
"""Training may run this much faster than the model says before a step counts as out of reach."""
_ENOUGH = 4
PACE_BASIS = "seconds_per_step_from"
"""The key of a run's metadata that says whence the time of a step is, where nobody states it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockModel:
    """``seconds_per_step`` from step ``from_step`` on; ``basis`` says whence it is known.

    ``exact`` is False where it was estimated from the entries: then it is the fastest pace that several stretches
    kept up, since time lost between entries only ever makes steps look slower.
    """

    seconds_per_step: float
    from_step: int
    basis: str
    exact: bool

    def steps_in(self, time: timedelta) -> float:
        """The most steps that training can do in ``time``."""
        allowance = ALLOWANCE if self.exact else 1.2
        return time.total_seconds() / self.seconds_per_step * allowance

    def time_for(self, steps: float) -> timedelta:
        """The least time that ``steps`` take."""
        allowance = ALLOWANCE if self.exact else 1.2
        return timedelta(seconds=max(steps, 0) * self.seconds_per_step / allowance)

    def __str__(self) -> str:
        since = f" from step {self.from_step:,} on" if self.from_step else ""
        return f"{self.seconds_per_step:g} s a step{since} ({self.basis})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Training stood at ``step`` at some time in ``earliest``..``latest``, by ``entry``.

    ``going_on`` when it went on from there then: a (re)start, or a change made at that step.  Otherwise it had been
    there before (a symptom is noticed afterwards).  ``dated`` when a launch confirms the time.
    """

    entry: Entry
    event: Event
    earliest: datetime
    latest: datetime
    step: int
    going_on: bool
    dated: bool

    @property
    def back(self) -> bool:
        """Whether training (re)started here."""
        return self.event.kind in BACK


def anchors(telling: Telling, moments: Mapping[int, Moment | None]) -> list[Anchor]:
    """Where training was known to stand, in the source's order; ``moments`` are the likely times of doubtful dates."""
    offset = launcher_offset(telling)
    found = []
    for entry in telling.entries:
        moment = moments.get(entry.number, entry.printed)
        for event in entry.events:
            span = _span(entry, event, moment, offset)
            if span is not None:
                found += _steps_of(entry, event, span)
    return found


def _span(
    entry: Entry, event: Event, moment: Moment | None, offset: timedelta | None
) -> tuple[datetime, datetime, bool] | None:
    if event.kind in (*BACK, EventKind.START):
        launch = launched(entry, offset)
        if launch is not None:
            return launch, launch, True
    if moment is not None:
        return moment.earliest, moment.latest, False
    if entry.printed is None and event.time is not None and event.time_precision is not TimePrecision.MONTH:
        time = event.time.astimezone(UTC)
        return time, time + (DAY if event.time_precision is TimePrecision.DAY else timedelta()), False
    return None


def _steps_of(entry: Entry, event: Event, span: tuple[datetime, datetime, bool]) -> list[Anchor]:
    step = printed_step(event)
    found = []
    if event.kind in BACK and event.before is not None and event.unit == "step":
        found.append((int(event.before), False))
    if step is not None and event.step_end is None:
        if event.kind in (*BACK, EventKind.START):
            found.append((step, True))
        elif event.role is Role.SYMPTOM:
            found.append((step, False))
        elif event.role is Role.INTERVENTION:
            found.append((step, True))
    return [
        Anchor(
            entry=entry,
            event=event,
            earliest=span[0],
            latest=span[1],
            step=one,
            going_on=going_on,
            dated=span[2],
        )
        for one, going_on in found
    ]


def clock_model(telling: Telling, points: Sequence[Anchor]) -> ClockModel | None:
    """Seconds a step: as stated (at full batch), else the fastest pace that several stretches between entries show."""
    full_batch = telling.run.batch_schedule[-1].from_step if telling.run.batch_schedule else 0
    if telling.run.seconds_per_step:
        return ClockModel(
            seconds_per_step=telling.run.seconds_per_step,
            from_step=full_batch,
            basis=telling.run.metadata.get(PACE_BASIS, "stated"),
            exact=True,
        )
    paces = []
    moving = [point for point in points if point.going_on and point.step >= full_batch]
    for earlier, later in pairwise(moving):
        steps = later.step - earlier.step
        vague = (later.latest - later.earliest) + (earlier.latest - earlier.earliest)
        time = (later.earliest + (later.latest - later.earliest) / 2) - (
            earlier.earliest + (earlier.latest - earlier.earliest) / 2
        )
        if steps >= 100 and time > 3 * vague and time > timedelta(hours=6):
            paces.append(time.total_seconds() / steps)
    if len(paces) < _ENOUGH:
        return None
    pace = float(np.quantile(paces, 0.25))
    return ClockModel(
        seconds_per_step=round(pace, 1),
        from_step=full_batch,
        basis=f"estimated from {len(paces)} stretches between entries",
        exact=False,
    )
