"""Steps against the clock: between two steps lies the time that the steps between them take."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise, product

from replay.history.audit.book import BRANCHES, Entry, Moment, Notes
from replay.history.audit.checkpoints import tell_far_back
from replay.history.audit.clashes import NEAR, alone, clashes_of, doubted, near_pairs
from replay.history.audit.clock_model import Anchor, anchors_of
from replay.history.audit.course import SLACK, Course, reachable
from replay.history.audit.due import bounds, tell_clash
from replay.history.audit.slips import number_slips
from replay_parsers.kinds import EventKind

CHECK = "steps against the clock"
_FEW = 3
_RAMP = 3.0
"""Where nothing else confirms a stretch, steps may have been so many times faster, as with a smaller batch."""


def check(one: Course, notes: Notes, told: set[int], every: int) -> None:
    """Test every step that has a time; ``told`` grows by the entries whose step is doubted."""
    if not one.models:
        if not notes.compared[CHECK]:
            notes.unchecked[CHECK] = (
                "no time of a step is stated, and no few stretches between entries agree on one"
                if one.points
                else "no entry has both a step and a time"
            )
    else:
        _against_clock(one, notes, told, every)
    if one.strand.open:
        notes.unchecked[BRANCHES] = "the book tells of branches, and entries do not say to which they belong"


def fits_clock(one: Course, offset: timedelta | None) -> Callable[[Entry, Moment, Mapping[int, Moment | None]], bool]:
    """A test of whether an entry's steps could have been reached at a given time, by the clock model."""
    entries = one.strand.telling.entries
    places = {entry.number: place for place, entry in enumerate(entries)}

    def fits(entry: Entry, moment: Moment, doubts: Mapping[int, Moment | None]) -> bool:
        place = places.get(entry.number)
        if place is None or not one.models or entry.number in one.strand.open:
            return True
        own = anchors_of(entry, moment, offset)
        for number in range(max(place - NEAR, 0), min(place + 1 + NEAR, len(entries))):
            other = entries[number]
            if number == place or other.number in one.strand.open:
                continue
            theirs = anchors_of(other, doubts.get(other.number, other.printed), offset)
            earlier, later = (theirs, own) if number < place else (own, theirs)
            for early, late in product(earlier, later):
                model = one.between(early, late)
                if model is not None and not reachable(early, late, model):
                    return False
        return True

    return fits


def _against_clock(one: Course, notes: Notes, told: set[int], every: int) -> None:
    usable = [
        point.going_on and (model := one.model_at(place)) is not None and point.step >= model.from_step
        for place, point in enumerate(one.points)
    ]
    pairs = near_pairs(usable)
    tested = {late for early, late in pairs if one.between(one.points[early], one.points[late]) is not None}
    notes.compared[CHECK] += len(tested)
    clashes = clashes_of(pairs, one.clash)
    numbers = list(dict.fromkeys(point.entry.number for point in one.points))
    wrong = doubted(clashes, lambda suspects, gone: _likelier(one, suspects, gone), len(one.points) // 2)
    entries = set() if wrong is None else {one.points[place].entry.number for place in wrong}
    single, runs = alone(entries, numbers)
    moving = sorted((point for point in one.points if point.going_on), key=lambda point: point.entry.number)
    steady = []
    for run in runs:
        if _steady(moving, run):
            steady.append(run)
        else:
            single += run
    if wrong is None or len(single) > max(1, len(numbers) // 4):
        notes.unchecked["steps against each other's times"] = "too many contradict each other to tell which are wrong"
        return
    if len(steady) > _FEW:
        notes.unchecked["steps where several on end are too fast"] = f"{len(steady)} times: the speed seems to vary"
    for run in steady if len(steady) <= _FEW else ():
        heading = next(point.entry.locator for point in one.points if point.entry.number == run[0])
        notes.unchecked[f"steps from {heading} on"] = (
            f"{len(run)} entries on end tell of steps faster than {next(iter(one.models.values()))}: "
            "the speed may have changed there"
        )
    certain = set(single)
    for place in sorted(wrong):
        point = one.points[place]
        if point.entry.number in told or point.entry.number not in certain or _ramp(one, place, wrong, notes):
            continue
        told.add(point.entry.number)
        tell_clash(one, place, wrong, notes, every)


def _steady(moving: Sequence[Anchor], run: Sequence[int]) -> bool:
    """Whether the entries of ``run`` and those around it tell of ever later steps, as training at another speed does
    and slips do not; ``moving`` are the points from which it went on.
    """
    first = bisect_left(moving, run[0], key=lambda point: point.entry.number)
    last = bisect_right(moving, run[-1], key=lambda point: point.entry.number)
    steps = [point.step for point in moving[max(first - 1, 0) : last + 1]]
    return all(later >= 0.95 * earlier for earlier, later in pairwise(steps))


def _ramp(one: Course, place: int, wrong: Collection[int], notes: Notes) -> bool:
    """Whether a point clashes only since a stretch that nothing else confirms went faster: the first one of a run, at
    a smaller batch, or the last one told, where the clock is only estimated.
    """
    point, model = one.points[place], one.model_at(place)
    others = [(number, other) for number, other in enumerate(one.points) if number not in wrong]
    if model is None or not others:
        return False
    if point.event.kind is EventKind.START and place < others[0][0]:
        pairs = [(point, other) for _, other in others[:NEAR]]
    elif not model.exact and place > others[-1][0]:
        pairs = [(other, point) for _, other in others[-NEAR:] if other.going_on]
    else:
        return False
    fits = all(
        late.step - early.step
        <= _RAMP * max((late.latest - early.earliest).total_seconds(), 0) / model.seconds_per_step + SLACK
        for early, late in pairs
    )
    if fits:
        notes.unchecked[f"steps at {point.entry.locator}"] = (
            f"they went faster than {model}, as steps may at the beginning or at the end, with a smaller batch or on "
            "more machines"
        )
    return fits


def far_back(one: Course, notes: Notes, told: set[int], every: int) -> None:
    """A plain restart that throws away far more than lies between two checkpoints.

    Only training that is put back on purpose goes far back; what was lost by a failure is since the last checkpoint.
    """
    moving = [point for point in one.points if point.going_on and point.entry.number not in told]
    for before, point in pairwise(moving):
        if point.event.kind is not EventKind.RESTART or before.entry.number == point.entry.number:
            continue
        notes.compared["restarts against the step before"] += 1
        if point.latest >= before.earliest:
            tell_far_back(one.strand.telling, point.entry, point.event, (before.step, point.step), notes, told, every)


def _likelier(one: Course, suspects: Sequence[int], wrong: Collection[int]) -> int:
    """Of points that clash equally often one that its own entry contradicts, else one that this does not
    confirm, that a slip explains, that steps back, or that no launch dates.
    """

    def doubtfulness(place: int) -> tuple[bool, bool, bool, bool, bool, int]:
        point = one.points[place]
        seen = [event.step for event in point.entry.symptoms if event.step is not None]
        undone = point.event.kind is EventKind.ROLLBACK and bool(seen) and point.step > min(seen)
        low, high = bounds(one, place, wrong)
        explained = low <= high and any(low <= slip <= high and slip % 50 == 0 for slip in number_slips(point.step))
        back = point.event.kind is EventKind.RESTART and any(
            other.step > point.step for other in one.points[max(place - NEAR, 0) : place]
        )
        confirmed = any(0 <= step - point.step <= 0.05 * step for step in seen)
        return undone, not confirmed, explained, back, not point.dated, -place

    return max(suspects, key=doubtfulness)
