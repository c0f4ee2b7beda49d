"""Steps against the clock: between two steps lies the time that the steps between them take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from replay.history.audit.book import DAY, Entry, Moment, Notes, Telling
from replay.history.audit.checkpoints import common_step
from replay.history.audit.clock_model import Anchor, ClockModel, anchors, clock_model
from replay.history.audit.slips import best, moment_slips, nearest_slip, number_slips
from replay_parsers.kinds import EventKind
from replay_parsers.records import TimePrecision

_SLACK = 60
_FAR = 0.02


def check(telling: Telling, moments: Mapping[int, Moment | None], notes: Notes, told: set[int]) -> ClockModel | None:
    """Test every step that has a time; returns the clock model used, None where there is none.

    ``told`` grows by the entries whose step is doubted.
    """
    points = anchors(telling, moments)
    model = clock_model(telling, points)
    if model is None:
        notes.unchecked["steps against the clock"] = (
            "no time of a step is stated, and too few entries have both a step and a time"
            if points
            else "no entry has both a step and a time"
        )
    else:
        _against_clock(telling, points, model, notes, told)
    _far_back(telling, points, notes, told)
    return model


def fits_clock(telling: Telling) -> Callable[[Entry, Moment, Mapping[int, Moment | None]], bool]:
    """A test of whether an entry's steps could have been reached at a given time, by the clock model."""
    model = clock_model(telling, anchors(telling, {}))

    def fits(entry: Entry, moment: Moment, doubts: Mapping[int, Moment | None]) -> bool:
        if model is None:
            return True
        points = anchors(telling, {**doubts, entry.number: moment})
        return all(
            _reachable(early, late, model)
            for place, late in enumerate(points)
            for early in points[:place]
            if entry.number in (early.entry.number, late.entry.number)
        )

    return fits


def _reachable(earlier: Anchor, later: Anchor, model: ClockModel) -> bool:
    """Whether training can have come from one to the other in the time between."""
    if not earlier.going_on or earlier.step < model.from_step or later.step <= earlier.step:
        return True
    if later.entry.number == earlier.entry.number:
        # An entry tells what was seen and what was done about it, in any order.
        return True
    return later.step - earlier.step <= model.steps_in(max(later.latest - earlier.earliest, timedelta())) + _SLACK


def _against_clock(telling: Telling, points: Sequence[Anchor], model: ClockModel, notes: Notes, told: set[int]) -> None:
    pairs = [
        (early, late)
        for late in range(len(points))
        for early in range(late)
        if points[early].step >= model.from_step and points[early].going_on
    ]
    notes.compared["steps against the clock"] += len(pairs)
    clashes = {pair for pair in pairs if not _reachable(points[pair[0]], points[pair[1]], model)}
    wrong: list[int] = []
    while clashes:
        involved = sorted({place for pair in clashes for place in pair})
        counts = {place: sum(place in pair for pair in clashes) for place in involved}
        most = max(counts.values())
        suspects = [place for place in involved if counts[place] == most]
        place = suspects[0] if len(suspects) == 1 else _likelier(points, suspects, wrong, model)
        wrong.append(place)
        clashes = {pair for pair in clashes if place not in pair}
    for place in sorted(wrong):
        point = points[place]
        if point.entry.number in told:
            continue
        told.add(point.entry.number)
        _tell_clash(telling, points, place, wrong, model, notes)


def _roundness(step: int) -> int:
    """The largest power of ten, up to a thousand, of which ``step`` is a multiple."""
    return next(every for every in (1000, 100, 10, 1) if step % every == 0)


def _far_back(telling: Telling, points: Sequence[Anchor], notes: Notes, told: set[int]) -> None:
    """A plain restart that throws away far more than lies between two checkpoints.

    Only training that is put back on purpose goes far back; what was lost by a failure is since the last checkpoint.
    """
    moving = [point for point in points if point.going_on and point.entry.number not in told]
    for before, point in pairwise(moving):
        if point.event.kind is not EventKind.RESTART or before.entry.number == point.entry.number:
            continue
        notes.compared["restarts against the step before"] += 1
        if before.step - point.step > max(500, _FAR * before.step) and point.latest >= before.earliest:
            told.add(point.entry.number)
            slip = nearest_slip(point.step, before.step, before.step * 1.5, common_step(telling))
            notes.add(
                telling,
                point.entry,
                "restart_far_back",
                (f"printed: step {point.step}", f"before it: step {before.step}"),
                str(slip) if slip is not None else None,
                "a restart that is no rollback goes on from the last checkpoint, and training had been further",
            )


def _likelier(points: Sequence[Anchor], suspects: Sequence[int], wrong: Sequence[int], model: ClockModel) -> int:
    """Of points that clash equally often one that its own entry contradicts, else one that a slip explains, that
    steps back, or that no launch dates.
    """

    def doubtfulness(place: int) -> tuple[bool, bool, bool, bool, int]:
        point = points[place]
        seen = [event.step for event in point.entry.symptoms if event.step is not None]
        undone = point.event.kind is EventKind.ROLLBACK and bool(seen) and point.step > min(seen)
        low, high = _bounds(points, place, wrong, model)
        explained = low <= high and any(low <= one <= high and one % 50 == 0 for one in number_slips(point.step))
        back = any(other.step > point.step for other in points[:place]) and point.event.kind is EventKind.RESTART
        return undone, explained, back, not point.dated, -place

    return max(suspects, key=doubtfulness)


def _bounds(points: Sequence[Anchor], place: int, wrong: Sequence[int], model: ClockModel) -> tuple[float, float]:
    """Between which steps training must have been there, by all other points."""
    point = points[place]
    low, high = 0.0, float("inf")
    for number, other in enumerate(points):
        if number == place or number in wrong or other.entry.number == point.entry.number:
            continue
        if number > place and other.latest >= point.earliest:
            low = max(low, other.step - (other.latest - point.earliest).total_seconds() / model.seconds_per_step)
        elif number < place and other.going_on and point.latest >= other.earliest and other.step >= model.from_step:
            high = min(high, other.step + (point.latest - other.earliest).total_seconds() / model.seconds_per_step)
    return low, high


def _window(
    points: Sequence[Anchor], place: int, wrong: Sequence[int], model: ClockModel
) -> tuple[datetime | None, datetime | None]:
    """Between which times training can have been at that step, by all other points."""
    point = points[place]
    first: datetime | None = None
    last: datetime | None = None
    for number, other in enumerate(points):
        if number == place or number in wrong or other.entry.number == point.entry.number:
            continue
        if number < place and other.going_on and other.step >= model.from_step:
            time = other.earliest + model.time_for(point.step - other.step - _SLACK)
            first = time if first is None else max(first, time)
        elif number > place and other.step >= model.from_step:
            time = other.latest - model.time_for(other.step - point.step - _SLACK)
            last = time if last is None else min(last, time)
    return first, last


def _tell_clash(
    telling: Telling, points: Sequence[Anchor], place: int, wrong: Sequence[int], model: ClockModel, notes: Notes
) -> None:
    point = points[place]
    low, high = _bounds(points, place, wrong, model)
    readings = [f"printed: step {point.step}", f"due by the clock: {_span(low, high)}"]
    likely = None if point.step < low and not point.back else _likely_step(point, low, high, telling)
    reasons = f"at {model}, " + _reason(points, place, wrong, model)
    if not point.dated and point.entry.printed is not None:
        dates = _likely_dates(point, _window(points, place, wrong, model))
        if dates:
            readings.append(f"printed date: {point.entry.printed}; at that step: {' or '.join(dates[:4])}")
            either = f"the date {' or '.join(dates[:4])}"
            likely = either if likely is None else f"{likely}, or {either}"
            reasons += "; either the step is misprinted or the date"
    if point.event.kind is EventKind.START:
        likely = None
        reasons += "; steps may have been shorter at first, as with a smaller batch"
    notes.add(telling, point.entry, "step_against_clock", readings, likely, reasons)


def _span(low: float, high: float) -> str:
    if high == float("inf"):
        return f"{low:.0f} or more"
    return f"{low:.0f} to {high:.0f}" if low <= high else f"at most {high:.0f}"


def _reason(points: Sequence[Anchor], place: int, wrong: Sequence[int], model: ClockModel) -> str:
    point = points[place]
    for number, other in enumerate(points):
        if number in wrong:
            continue
        if number > place and not _reachable(point, other, model):
            return (
                f"step {other.step} of {other.latest:%Y-%m-%d %H:%M} UTC cannot be reached from step {point.step} "
                f"at {point.earliest:%Y-%m-%d %H:%M} UTC"
            )
        if number < place and not _reachable(other, point, model):
            return (
                f"step {point.step} of {point.latest:%Y-%m-%d %H:%M} UTC cannot be reached from step {other.step} "
                f"at {other.earliest:%Y-%m-%d %H:%M} UTC"
            )
    return "it does not fit the others"


def _likely_step(point: Anchor, low: float, high: float, telling: Telling) -> str | None:
    every = max(common_step(telling), min(_roundness(point.step), 100))
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
