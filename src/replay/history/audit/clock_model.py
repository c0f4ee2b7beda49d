"""The clock model of a run: how long a step takes, and so where training could be at a given time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np

from replay.history.audit.book import BACK, DAY, Entry, Moment, printed_step
from replay.history.audit.launches import launched
from replay.history.audit.strands import Strand
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event, TimePrecision

ALLOWANCE = 1.03
"""Training may run this much faster than the model says before a step counts as out of reach."""
_ENOUGH = 4
_AGREE = 1.15
_ABOUT = re.compile(
    r"(?:\babout|\broughly|\bapprox\w*\.?|\baround|~|≈|约|大约)\s?\d+(?:\.\d+)?\s?(?:s|sec\w*|秒)\s?(?:/|per|a|每)\s?(?:step|it|步)",
    re.IGNORECASE,
)
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


def anchors(strand: Strand, moments: Mapping[int, Moment | None], offset: timedelta | None) -> list[Anchor]:
    """Where training was known to stand, in the source's order; ``moments`` are the likely times of doubtful dates.

    ``offset`` is how far the launches' clock is ahead of that of the moments.
    """
    return [
        anchor
        for entry in strand.telling.entries
        if entry.number not in strand.open
        for anchor in anchors_of(entry, moments.get(entry.number, entry.printed), offset)
    ]


def anchors_of(entry: Entry, moment: Moment | None, offset: timedelta | None) -> list[Anchor]:
    """Where training stood by one entry, were its time ``moment``."""
    found: list[Anchor] = []
    for event in entry.events:
        span = _span(entry, event, moment, offset)
        if span is not None:
            found += _steps_of(entry, event, span)
    # A change at the step of a restart tells no second time where training stood.
    moved = {anchor.step for anchor in found if anchor.back and anchor.going_on}
    return [one for one in found if one.back or not one.going_on or one.step not in moved]


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


def clock_models(strand: Strand, points: Sequence[Anchor]) -> dict[int, ClockModel]:
    """The clock of each stretch of the run between two stated changes of its speed, where one can be told.

    Seconds a step are those stated (at full batch) as long as nothing makes steps faster; else the pace that several
    stretches between entries agree on.
    """
    run = strand.telling.run
    full_batch = run.batch_schedule[-1].from_step if run.batch_schedule else 0
    paces = _paces(strand, points, full_batch)
    stated = None
    if run.seconds_per_step:
        basis = run.metadata.get(PACE_BASIS, "stated")
        stated = ClockModel(
            seconds_per_step=run.seconds_per_step,
            from_step=full_batch,
            basis=basis,
            exact=_ABOUT.search(strand.telling.text) is None,
        )
    models = {}
    for regime in sorted({strand.going_on_at(point.entry) for point in points}):
        seen = agreed_pace(paces.get(regime, []))
        if stated is not None and (regime == 0 or _unchanged(strand, points, regime, stated)):
            models[regime] = stated
        elif seen is not None:
            models[regime] = ClockModel(
                seconds_per_step=round(seen, 1),
                from_step=full_batch,
                basis=f"estimated from {len(paces[regime])} stretches between entries",
                exact=False,
            )
    return models


def _paces(strand: Strand, points: Sequence[Anchor], full_batch: int) -> dict[int, list[float]]:
    """Seconds a step between restarts and changes that follow each other, by regime."""
    paces: dict[int, list[float]] = {}
    moving = [point for point in points if point.going_on and point.step >= full_batch]
    for earlier, later in pairwise(moving):
        regime = strand.going_on_at(earlier.entry)
        pace = _pace(earlier, later)
        if pace is not None and regime == strand.reached_at(later.entry):
            paces.setdefault(regime, []).append(pace)
    return paces


def _pace(earlier: Anchor, later: Anchor) -> float | None:
    """Seconds a step from one point to another; None where too little lies between to tell."""
    steps = later.step - earlier.step
    vague = (later.latest - later.earliest) + (earlier.latest - earlier.earliest)
    time = (later.earliest + (later.latest - later.earliest) / 2) - (
        earlier.earliest + (earlier.latest - earlier.earliest) / 2
    )
    if steps >= 100 and time > 3 * vague and time > timedelta(hours=6):
        return time.total_seconds() / steps
    return None


def agreed_pace(paces: Sequence[float]) -> float | None:
    """The fastest pace on which a third of the stretches, and three at least, agree; None where there is none.

    Time lost between entries makes steps look slower by any amount, so that most stretches need not agree; but where
    no few do, none of them tells how fast training can be.
    """
    if len(paces) < _ENOUGH:
        return None
    ordered = sorted(paces)
    needed = max(3, len(ordered) // 3)
    for place in range(len(ordered) - needed + 1):
        if ordered[place + needed - 1] <= _AGREE * ordered[place]:
            return float(np.median(ordered[place : place + needed]))
    return None


def _unchanged(strand: Strand, points: Sequence[Anchor], regime: int, stated: ClockModel) -> bool:
    """Whether steps still take the stated time after the speed was said to change, by most of three points or more."""
    paces = []
    last: Anchor | None = None
    for point in points:
        if last is not None and strand.reached_at(point.entry) == regime:
            pace = _pace(last, point)
            paces += [] if pace is None else [pace]
        if point.going_on:
            last = point if strand.going_on_at(point.entry) == regime else None
    return len(paces) >= 3 and float(np.median(paces)) * ALLOWANCE >= stated.seconds_per_step
