"""Steps against the clock, against each other, and against what they undo."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from math import gcd

from replay.audit.book import BACK, DAY, Entry, Moment, Notes, Telling, printed_step
from replay.audit.clock_model import Anchor, ClockModel, anchors, clock_model
from replay.audit.slips import best, moment_slips, nearest_slip, number_slips
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event, TimePrecision

_SLACK = 60
_STOPPED = (EventKind.CRASH, EventKind.HANG)
_SHOWS_LATER = (
    EventKind.RECURRED,
    EventKind.RECOVERED,
    EventKind.RECOVERED_BY_ITSELF,
    EventKind.DELAYED,
    EventKind.WORSENED,
)
_ENOUGH = 6
_FEW = 4
_FAR = 0.02


def check(telling: Telling, moments: Mapping[int, Moment | None], notes: Notes) -> ClockModel | None:
    """Test every step; returns the clock model used, None where there is none."""
    points = anchors(telling, moments)
    model = clock_model(telling, points)
    told: set[int] = set()
    if model is None:
        notes.unchecked["steps against the clock"] = (
            "no time of a step is stated, and too few entries have both a step and a time"
            if points
            else "no entry has both a step and a time"
        )
    else:
        _against_clock(telling, points, model, notes, told)
    _far_back(telling, points, notes, told)
    _grid(telling, notes, told)
    _in_sequence(telling, notes, told)
    for entry in telling.entries:
        _within(telling, entry, notes)
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
            slip = nearest_slip(point.step, before.step, before.step * 1.5, _common_step(telling))
            notes.add(
                telling,
                point.entry,
                "restart_far_back",
                (f"printed: step {point.step}", f"before it: step {before.step}"),
                str(slip) if slip is not None else None,
                "a restart that is no rollback goes on from the last checkpoint, and training had been further",
            )


def _likelier(points: Sequence[Anchor], suspects: Sequence[int], wrong: Sequence[int], model: ClockModel) -> int:
    """Of points that clash equally often the one that a slip explains, else one that steps back, else the undated."""

    def doubtfulness(place: int) -> tuple[bool, bool, bool, int]:
        point = points[place]
        low, high = _bounds(points, place, wrong, model)
        explained = low <= high and any(low <= one <= high and one % 50 == 0 for one in number_slips(point.step))
        back = any(other.step > point.step for other in points[:place]) and point.event.kind is EventKind.RESTART
        return explained, back, not point.dated, -place

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
    every = _common_step(telling)
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


def _backs(telling: Telling) -> list[tuple[Entry, Event, int]]:
    return [
        (entry, event, step)
        for entry in telling.entries
        for event in entry.of_kind(*BACK)
        if (step := printed_step(event)) is not None and step > 0
    ]


def _common_step(telling: Telling) -> int:
    """The number of which nearly all checkpoints' steps are multiples: the interval of saving, or a part of it."""
    steps = [step for _, _, step in _backs(telling)]
    for every in (1000, 500, 250, 200, 100, 50, 10):
        if len(steps) >= _ENOUGH and sum(step % every == 0 for step in steps) >= 0.85 * len(steps):
            return every
    return 1


def _grid(telling: Telling, notes: Notes, told: set[int]) -> None:
    """Checkpoints off the grid on which all others lie."""
    every = _common_step(telling)
    if every < 10:
        return
    backs = _backs(telling)
    notes.compared["steps on the grid of checkpoints"] += len(backs)
    for entry, _, step in backs:
        if step % every and entry.number not in told:
            told.add(entry.number)
            near = [one for one in number_slips(step) if one % every == 0 and abs(one - step) < step / 5]
            notes.add(
                telling,
                entry,
                "checkpoint_grid",
                (f"printed: step {step}", f"the other checkpoints: multiples of {every}"),
                str(near[0]) if len(near) == 1 else None,
                f"{sum(one % every == 0 for _, _, one in backs)} of {len(backs)} steps that training went on from are "
                f"multiples of {every}",
            )


def _in_sequence(telling: Telling, notes: Notes, told: set[int]) -> None:
    """A restart's step out of line with those before and after, which agree with each other."""
    for entries in telling.by_source().values():
        numbers = {entry.number for entry in entries}
        backs = [one for one in _backs(telling) if one[0].number in numbers - told]
        if len(backs) < _FEW:
            continue
        notes.compared["steps in sequence"] += len(backs)
        for place in range(1, len(backs) - 1):
            before, (entry, event, step), after = backs[place - 1 : place + 2]
            others = [one[2] for one in (*backs[:place], *backs[place + 1 :])]
            if sum(one <= other for one, other in pairwise(others)) < 0.75 * (len(others) - 1):
                continue
            margin = max(100.0, 0.01 * after[2])
            beyond = step > after[2] + margin
            short = step < before[2] - margin and event.kind is EventKind.RESTART
            if before[2] > after[2] or not (beyond or short) or entry.number in told:
                continue
            told.add(entry.number)
            slip = nearest_slip(step, before[2], after[2], _common_step(telling))
            notes.add(
                telling,
                entry,
                "step_order",
                (f"printed: step {step}", f"before and after it: {before[2]} and {after[2]}"),
                str(slip) if slip is not None else f"{before[2]} to {after[2]}",
                "training had been at the step before it and went on to the step after it",
            )


def _within(telling: Telling, entry: Entry, notes: Notes) -> None:
    """Steps within one entry: what is undone lies after what is gone back to, what came of it after both."""
    seen = [
        (event, min(event.step, _number(event, "onset") or event.step))
        for event in entry.symptoms
        if event.step is not None and event.step_end is None
    ]
    stopped = [pair for pair in seen if pair[0].kind in _STOPPED]
    for event in entry.of_kind(*BACK):
        step = printed_step(event)
        if step is None:
            continue
        _named(telling, entry, event, step, notes)
        notes.compared["rollbacks against what they undo"] += 1
        if event.before is not None and event.unit == "step" and event.before < step:
            _undone(telling, entry, event, step, f"reached: {event.before:g}", event.before, notes)
        elif seen and event.kind is EventKind.ROLLBACK and step > min(one for _, one in seen):
            symptom, at = min(seen, key=lambda pair: pair[1])
            _undone(telling, entry, event, step, f"{_words(symptom)} at step {at}", at, notes)
        elif stopped and event.kind is EventKind.RESTART and step > max(one for _, one in stopped):
            # After any other symptom training may have gone on for a while.
            symptom, at = max(stopped, key=lambda pair: pair[1])
            _undone(telling, entry, event, step, f"{_words(symptom)} at step {at}", at, notes)
        for outcome in entry.outcomes:
            if outcome.kind in _SHOWS_LATER and outcome.step is not None and outcome.step < step:
                notes.add(
                    telling,
                    entry,
                    "outcome_before_restart",
                    (f"{_words(event)} to step {step}", f"{_words(outcome)} at step {outcome.step}"),
                    None,
                    "what came of it cannot lie before the step that training was put back to",
                )
    for event in entry.symptoms:
        for name, later in (("onset", False), ("peak_step", True)):
            value = _number(event, name)
            if event.step is None or value is None or (value >= event.step if later else value <= event.step):
                continue
            notes.add(
                telling,
                entry,
                "order_of_steps",
                (f"{_words(event)} at step {event.step}", f"{name.replace('_', ' ')}: {value}"),
                None,
                "it begins before it shows, and shows before its peak",
            )


def _named(telling: Telling, entry: Entry, event: Event, step: int, notes: Notes) -> None:
    """A checkpoint whose name gives another step than the words."""
    found = re.search(r"(?:step|iter)\w*?[_-]?0*(\d+)", event.detail.get("checkpoint", ""))
    if found is None:
        return
    notes.compared["checkpoints against their names"] += 1
    if int(found[1]) != step:
        notes.add(
            telling,
            entry,
            "checkpoint_name",
            (f"{_words(event)}: step {step}", f"checkpoint: {event.detail['checkpoint']}"),
            found[1],
            "a program names the checkpoint after its step",
        )


def _undone(telling: Telling, entry: Entry, event: Event, step: int, against: str, limit: float, notes: Notes) -> None:
    every = gcd(_common_step(telling), 1000)
    slip = nearest_slip(step, 0.8 * limit, limit, every)
    notes.add(
        telling,
        entry,
        "rollback_after_symptom" if event.kind is EventKind.ROLLBACK else "restart_not_reached",
        (f"{_words(event)} to step {step}", against),
        str(slip) if slip is not None else None,
        "a checkpoint to go back to must have been saved before what is undone",
    )


def _number(event: Event, name: str) -> int | None:
    text = event.detail.get(name, "")
    return int(text) if text.isdecimal() else None


def _words(event: Event) -> str:
    return str(event.kind).replace("_", " ")
