"""What was due where a step and the clock contradict each other: the likely step, the likely date, and why."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from replay.history.audit.book import DAY, Notes
from replay.history.audit.clock_model import Anchor
from replay.history.audit.course import SLACK, Course, reachable
from replay.history.audit.slips import best, moment_slips, nearest_slip
from replay_parsers.kinds import EventKind
from replay_parsers.records import TimePrecision


def bounds(one: Course, place: int, wrong: Collection[int]) -> tuple[float, float]:
    """Between which steps training must have been at a point, by the points near it."""
    point = one.points[place]
    low, high = 0.0, float("inf")
    for number, other, model in one.beside(place, wrong):
        if number > place and other.latest >= point.earliest:
            low = max(low, other.step - (other.latest - point.earliest).total_seconds() / model.seconds_per_step)
        elif number < place and other.going_on and point.latest >= other.earliest and other.step >= model.from_step:
            high = min(high, other.step + (point.latest - other.earliest).total_seconds() / model.seconds_per_step)
    return low, high


def tell_clash(one: Course, place: int, wrong: Collection[int], notes: Notes, every: int) -> None:
    """The finding that a point's step cannot be right at its time; ``every`` is the grid of checkpoints."""
    point = one.points[place]
    low, high = bounds(one, place, wrong)
    readings = [f"printed: step {point.step}", f"due by the clock: {_span(low, high)}"]
    likely = None if point.step < low and not point.back else _likely_step(point, low, high, every)
    reasons = _reason(one, place, wrong)
    if not point.dated and point.entry.printed is not None:
        dates = _likely_dates(point, _window(one, place, wrong))
        if dates:
            readings.append(f"printed date: {point.entry.printed}; at that step: {' or '.join(dates[:4])}")
            either = f"the date {' or '.join(dates[:4])}"
            likely = either if likely is None else f"{likely}, or {either}"
            reasons += "; either the step is misprinted or the date"
    if point.event.kind is EventKind.START:
        likely = None
        reasons += "; steps may have been shorter at first, as with a smaller batch"
    notes.add(one.strand.telling, point.entry, "step_against_clock", readings, likely, reasons)


def _window(one: Course, place: int, wrong: Collection[int]) -> tuple[datetime | None, datetime | None]:
    """Between which times training can have been at that step, by the points near it."""
    point = one.points[place]
    first: datetime | None = None
    last: datetime | None = None
    for number, other, model in one.beside(place, wrong):
        if number < place and other.going_on and other.step >= model.from_step:
            time = other.earliest + model.time_for(point.step - other.step - SLACK)
            first = time if first is None else max(first, time)
        elif number > place and other.step >= model.from_step:
            time = other.latest - model.time_for(other.step - point.step - SLACK)
            last = time if last is None else min(last, time)
    return first, last


def _span(low: float, high: float) -> str:
    if high == float("inf"):
        return f"{low:.0f} or more"
    return f"{low:.0f} to {high:.0f}" if low <= high else f"at most {high:.0f}"


def _reason(one: Course, place: int, wrong: Collection[int]) -> str:
    point = one.points[place]
    for number, other, model in one.beside(place, wrong):
        early, late = (point, other) if number > place else (other, point)
        if not reachable(early, late, model):
            return (
                f"at {model}, step {late.step} of {late.latest:%Y-%m-%d %H:%M} UTC cannot be reached from step "
                f"{early.step} at {early.earliest:%Y-%m-%d %H:%M} UTC"
            )
    return "it does not fit the others"


def _roundness(step: int) -> int:
    """The largest power of ten, up to a thousand, of which ``step`` is a multiple."""
    return next(every for every in (1000, 100, 10, 1) if step % every == 0)


def _likely_step(point: Anchor, low: float, high: float, grid: int) -> str | None:
    every = max(grid, min(_roundness(point.step), 100))
    top = high if high != float("inf") else low * 1.05 + 500
    slip = nearest_slip(point.step, low - every, top + every, every)
    if slip is not None:
        return str(slip)
    if low > point.step:
        return f"about {-int(-low // every) * every}"
    return f"at most about {int(high // every) * every}" if high != float("inf") else None


def _likely_dates(point: Anchor, window: tuple[datetime | None, datetime | None]) -> list[str]:
    printed, (first, last) = point.entry.printed, window
    if printed is None or (first is None and last is None):
        return []
    ahead = printed.local - printed.earliest
    month = 31 * DAY
    low = (first if first is not None else (last or printed.earliest) - month) + ahead
    high = (last if last is not None else (first or printed.latest) + month) + ahead
    if printed.precision is TimePrecision.DAY:
        low = low.replace(hour=0, minute=0, second=0, microsecond=0)
    found = best(moment_slips(printed.local, low, high), printed.local)
    return [str(printed.moved(time - printed.local)) for time in found]
