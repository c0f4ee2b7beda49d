"""What a logbook's own times and steps say about its entries: prints that cannot be right, and the likely ones.

Nothing here knows any particular logbook.  An entry's date is tested against its own launch and against its
neighbours; a restart's step against the steps that could have been reached by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from replay_parsers.chronicles.entries import Entry
from replay_parsers.chronicles.moves import K

_DAY = timedelta(days=1)
_MONTH = timedelta(days=31)
_PROMPT = timedelta(minutes=90)
_EARLY = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An entry's print that cannot be right: all readings, the likely one, and why.

    ``at`` is the likely time without zone, ``step`` the likely step; one of them is set where it can be told.
    """

    entry: int
    check: str
    readings: tuple[str, ...]
    reasons: str
    at: datetime | None = None
    step: int | None = None
    printed_step: int | None = None


@dataclass(frozen=True, slots=True)
class Anchor:
    """Training went on from ``step`` at ``time`` (the headings' clock), told by entry number ``entry``.

    ``reached`` marks a step that was seen rather than gone on from.
    """

    entry: int
    time: datetime
    step: int
    reached: bool = False


def launched(entry: Entry, ahead: timedelta | None) -> datetime | None:
    """The entry's first launch in the headings' clock, which is ``ahead`` of the launcher's."""
    return entry.launches[0].stamp + ahead if ahead is not None and entry.launches else None


def doubtful_dates(entries: Sequence[Entry], ahead: timedelta | None, seconds_per_step: float | None) -> list[Doubt]:
    """Entries whose printed time disagrees with their launch or with their neighbours."""
    doubts: dict[int, Doubt] = {}
    for index, entry in enumerate(entries):
        if doubt := _against_launch(index, entry, ahead):
            doubts[index] = doubt
    spans = [_span(entry, doubts.get(index), ahead) for index, entry in enumerate(entries)]
    for index in range(len(entries)):
        if index not in doubts and (doubt := _against_neighbours(index, entries, spans, ahead, seconds_per_step)):
            doubts[index] = doubt
            spans[index] = _span(entries[index], doubt, ahead)
    return [doubts[index] for index in sorted(doubts)]


def _against_launch(index: int, entry: Entry, ahead: timedelta | None) -> Doubt | None:
    """A launch that follows the print by a whole number of days: people write the day wrong, not the hour."""
    start, local = launched(entry, ahead), entry.printed.local if entry.printed else None
    if start is None or local is None or not entry.timed:
        return None
    days = round((start - local - _PROMPT / 2) / _DAY)
    rest = start - local - days * _DAY
    if days == 0 or not -_EARLY <= rest <= _PROMPT:
        return None
    likely = local + days * _DAY
    return Doubt(
        entry=index,
        check="clock",
        readings=(
            f"heading: {local:%Y-%m-%d %H:%M}",
            f"launch named under it: {start:%Y-%m-%d %H:%M:%S} on the headings' clock",
        ),
        reasons=(
            f"the launch is stamped {days:+d} day(s) and {rest.total_seconds() / 60:.0f} minutes after the heading, "
            f"and launches follow their headings within minutes to hours; so the day is misprinted"
        ),
        at=likely,
    )


def _span(entry: Entry, doubt: Doubt | None, ahead: timedelta | None) -> tuple[datetime, datetime] | None:
    """From when to when an entry holds: its time, and its last launch."""
    local = doubt.at if doubt and doubt.at else entry.printed.local if entry.printed else None
    if local is None or (doubt and doubt.at is None):
        return None
    last = entry.launches[-1].stamp + ahead if ahead is not None and entry.launches else local
    return local, max(local, last)


def _against_neighbours(
    index: int,
    entries: Sequence[Entry],
    spans: Sequence[tuple[datetime, datetime] | None],
    ahead: timedelta | None,
    seconds_per_step: float | None,
) -> Doubt | None:
    """An entry out of its place in time, where its neighbours agree with each other."""
    entry = entries[index]
    if entry.printed is None:
        return None
    local = entry.printed.local
    before = _beside(range(index - 1, -1, -1), entry, entries, spans)
    after = _beside(range(index + 1, len(spans)), entry, entries, spans)
    if before is None or after is None or before[0] > after[0]:
        return None
    impossible = local is None and entry.printed.year is not None
    # A date without an hour may stand for any hour of its day, one without a day for any day of its month.
    slack = timedelta() if entry.timed else _MONTH if entry.printed.day is None else _DAY
    if not impossible and (local is None or before[0] - slack <= local <= after[0]):
        return None
    start = launched(entry, ahead)
    if not impossible and start is not None and local is not None and -_EARLY <= start - local <= _PROMPT:
        return None  # its own launch agrees with it: the entry is out of order, not misdated
    candidates = _candidates(entry, before[1], after[0])
    candidates = [
        time for time in candidates if _fits_steps(index, time, entries, spans, seconds_per_step)
    ] or candidates
    nearest = min((_digits(entry, time) for time in candidates), default=0)
    best = [time for time in candidates if _digits(entry, time) == nearest]
    print_ = entry.printed.key.replace("T", " ")
    return Doubt(
        entry=index,
        check="date_order",
        readings=(
            f"heading: {print_}",
            f"between its neighbours: {before[1]:%Y-%m-%d %H:%M} to {after[0]:%Y-%m-%d %H:%M}",
        ),
        reasons=(
            "there is no such date"
            if impossible
            else "the entries before and after it agree with each other, and it lies outside"
        )
        + (f"; at {seconds_per_step:g} s a step the steps fit the likely date" if seconds_per_step and best else ""),
        at=best[0] if len(best) == 1 else None,
    )


def _beside(
    places: range, entry: Entry, entries: Sequence[Entry], spans: Sequence[tuple[datetime, datetime] | None]
) -> tuple[datetime, datetime] | None:
    """The span of the nearest entry of the same list."""
    return next((spans[place] for place in places if spans[place] and entries[place].group == entry.group), None)


def _candidates(entry: Entry, first: datetime, last: datetime) -> list[datetime]:
    if last - first > 60 * _DAY:
        return []
    printed = entry.printed
    hour, minute = (printed.hour or 0, printed.minute or 0) if printed else (0, 0)
    day = datetime(first.year, first.month, first.day, hour, minute)
    days = [day + number * _DAY for number in range((last - first).days + 2)]
    lower = first if entry.timed else first - _DAY
    return [time for time in days if lower <= time <= last]


def _digits(entry: Entry, time: datetime) -> int:
    printed = entry.printed
    if printed is None:
        return 0
    text = f"{printed.year or 0:04d}{printed.month:02d}{printed.day or 0:02d}"
    return sum(a != b for a, b in zip(text, f"{time:%Y%m%d}", strict=True))


def entry_step(entry: Entry) -> int | None:
    """The step that training goes on from in an entry, as printed."""
    steps = [draft.step for draft in entry.drafts if draft.kind in (K.RESTART, K.ROLLBACK) and draft.step is not None]
    return steps[0] if steps else None


def _fits_steps(
    index: int,
    time: datetime,
    entries: Sequence[Entry],
    spans: Sequence[tuple[datetime, datetime] | None],
    seconds_per_step: float | None,
) -> bool:
    """Whether the steps of the next entries could be reached from here, were this entry at ``time``."""
    step = entry_step(entries[index])
    if step is None or seconds_per_step is None:
        return True
    for place in range(index + 1, len(entries)):
        span, target = spans[place], entry_step(entries[place])
        if span is not None and target is not None:
            reachable = step + (span[0] - time).total_seconds() / seconds_per_step
            return target <= reachable * 1.005 + 50
    return True


def rate(entries: Sequence[Entry], ahead: timedelta | None, stated: float | None) -> float | None:
    """Seconds a step: as stated, else the median over stretches between entries that name steps."""
    if stated:
        return stated
    points = anchors(entries, ahead)
    rates = [
        (later.time - earlier.time).total_seconds() / (later.step - earlier.step)
        for earlier, later in pairwise(points)
        if later.step > earlier.step and later.time > earlier.time
    ]
    return median(rates) if len(rates) >= 3 else None


def anchors(entries: Sequence[Entry], ahead: timedelta | None) -> list[Anchor]:
    """Where training was known to stand, in the order told."""
    found = []
    for index, entry in enumerate(entries):
        if entry.local is None or not entry.timed:
            continue
        seen = [draft.step for draft in entry.drafts if draft.role == "symptom" and draft.step is not None]
        if seen:
            found.append(Anchor(index, entry.local, max(seen), reached=True))
        for part in entry.parts:
            steps = [
                draft.step for draft in part.drafts if draft.kind in (K.RESTART, K.ROLLBACK) and draft.step is not None
            ]
            if steps:
                time = part.launch.stamp + ahead if part.launch and ahead is not None else entry.local
                found.append(Anchor(index, max(time, entry.local), steps[0]))
    return found


def doubtful_steps(
    entries: Sequence[Entry],
    ahead: timedelta | None,
    seconds_per_step: float | None,
    interval: int | None,
    *,
    stated: bool = True,
) -> list[Doubt]:
    """Restarts from steps from which what comes next could not have been reached in the time between.

    A rate that the book itself states (``stated``) is trusted more than one estimated from its entries.
    """
    if seconds_per_step is None:
        return []
    points = anchors(entries, ahead)
    doubts = []
    for place, point in enumerate(points[1:-1], 1):
        if point.reached:
            continue
        before, after = points[place - 1], points[place + 1]
        due_after = after.step - (after.time - point.time).total_seconds() / seconds_per_step
        due_before = before.step + (point.time - before.time).total_seconds() / seconds_per_step
        slack = 0.02 * max(after.step - before.step, 0) + 2 * (interval or 100)
        agree = before.step <= due_after - slack / 10 and due_after <= due_before + slack and before.step < after.step
        needed = (after.time - point.time).total_seconds() / max(after.step - point.step, 1)
        too_fast = needed < seconds_per_step * (0.8 if stated else 0.5)
        if not agree or not too_fast or point.step == before.step or due_after - point.step <= slack:
            continue
        likely = _due(due_after, interval)
        doubts.append(
            Doubt(
                entry=point.entry,
                check="step_against_clock",
                readings=(f"printed: {point.step}", f"due by the clock: {due_after:.0f} to {due_before:.0f}"),
                reasons=(
                    f"at {seconds_per_step:g} s a step, step {after.step} of {after.time:%Y-%m-%d %H:%M} is too far "
                    f"from step {point.step} at {point.time:%Y-%m-%d %H:%M}"
                ),
                step=likely,
                printed_step=point.step,
            )
        )
    return doubts


def _due(due: float, interval: int | None) -> int:
    """The first checkpoint at or after ``due``: whatever time was lost in between makes the true step later."""
    every = interval or 100
    return -int(-due // every) * every
