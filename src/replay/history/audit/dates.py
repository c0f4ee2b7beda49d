"""Dates: against the launches named under them, against their neighbours, and the clocks they are read from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from replay.history.audit.book import DAY, HALF_HOUR, Entry, Moment, Notes, Telling
from replay.history.audit.order import heaviest_in_order
from replay.history.audit.slips import best, moment_slips
from replay_parsers.chronicles.clock import epochs
from replay_parsers.records import TimePrecision

EARLY = timedelta(minutes=20)
"""People write the heading when the launch is under way: it may be a little later than the launch."""
_ENOUGH = 4
_MOST = 200
DISORDER = 0.25
"""Of entries out of order more than this part cannot be slips."""
_EXACT = (TimePrecision.MINUTE, TimePrecision.SECOND)


def known_offset(telling: Telling) -> timedelta | None:
    """How far the clock in the launches' names is ahead of UTC, as the source was read; None where that is open."""
    votes: Counter[timedelta] = Counter()
    for entry in telling.entries:
        for stamp, event in entry.launches:
            if event.time is not None and event.time_precision is TimePrecision.SECOND:
                votes[HALF_HOUR * round((stamp - event.time.astimezone(UTC)) / HALF_HOUR)] += 1
    return votes.most_common(1)[0][0] if votes else None


def launcher_offset(telling: Telling) -> timedelta | None:
    """How far the clock in the launches' names is ahead of that on which moments are held; None without launches.

    Moments are in UTC where the headings' zone is known, and then so is the launches'.  Otherwise they are on the
    headings' own clock, and the offset follows from the pairs of headings and launches.
    """
    known = known_offset(telling)
    if known is not None:
        return known
    differences = [
        entry.printed.earliest - min(stamp for stamp, _ in entry.launches)
        for entry in telling.entries
        if entry.printed is not None and entry.printed.precision in _EXACT and entry.launches
    ]
    ahead = _ahead(differences) if len(differences) >= _ENOUGH else None
    return None if ahead is None else -ahead


def launched(entry: Entry, offset: timedelta | None) -> datetime | None:
    """The entry's first launch, in UTC."""
    stamps = [stamp for stamp, _ in entry.launches]
    return min(stamps) - offset if stamps and offset is not None else None


Fits = Callable[[Entry, Moment, Mapping[int, Moment | None]], bool]
"""Whether an entry's steps could have been reached at a time, given the likely times of the doubtful others."""


def check(
    telling: Telling, lists: Sequence[Sequence[Entry]], offset: timedelta | None, notes: Notes, fits: Fits
) -> dict[int, Moment | None]:
    """Test every date; returns for each entry number found wrong the likely moment, None where it is open.

    ``lists`` are the entries that are each in the order of time, ``offset`` is :func:`launcher_offset`.
    """
    doubts: dict[int, Moment | None] = {}
    two_clocks(telling, notes)
    _impossible(telling, notes, doubts)
    _against_launches(telling, offset, notes, doubts)
    for entries in lists:
        _in_order(telling, entries, offset, notes, doubts, fits)
    return doubts


def two_clocks(telling: Telling, notes: Notes) -> None:
    """Headings and the names of launches on different clocks: the offset is established from the pairs."""
    pairs = [
        (entry, stamp)
        for entry in telling.entries
        if entry.printed is not None and entry.printed.precision in _EXACT
        for stamp in [min((stamp for stamp, _ in entry.launches), default=None)]
        if stamp is not None
    ]
    if len(pairs) < _ENOUGH:
        return
    notes.compared["clocks"] += len(pairs)
    ahead = _ahead([entry.printed.local - stamp for entry, stamp in pairs if entry.printed is not None])
    if not ahead:
        return
    # Seconds since 1970 in the names of event files know no zone: they tell the launcher's clock.
    near = _event_files(telling.text, sorted(stamp for _, stamp in pairs))
    known = known_offset(telling) if near is None else near[0]
    names = "another clock" if known is None else _zone_name(known)
    headings = f"a clock {_hours(ahead)} ahead of it" if known is None else _zone_name(known + ahead)
    prompt = sum(
        -EARLY <= ahead - (entry.printed.local - stamp) < DAY for entry, stamp in pairs if entry.printed is not None
    )
    notes.add(
        telling,
        pairs[0][0],
        "clock",
        (f"headings: {headings}", f"launch names: {names}"),
        f"headings are printed in {headings}, launch names in {names}",
        f"{prompt} of {len(pairs)} launches follow their heading within a day if headings run {_hours(ahead)} ahead"
        + (f"; {near[1]} event files begin within minutes of a launch if these are in {names}" if near else ""),
    )
    # It concerns the whole book, though its place is the first pair.
    notes.findings[-1] = replace(notes.findings[-1], incident=None)


def _event_files(text: str, stamps: Sequence[datetime]) -> tuple[timedelta, int] | None:
    """The launcher's offset from UTC by event files that begin within minutes of a launch, and how many say so."""
    votes: Counter[timedelta] = Counter()
    widest = timedelta(hours=14)
    for began in epochs(text):
        near = stamps[bisect_left(stamps, began - widest) : bisect_right(stamps, began + widest)][:_MOST]
        votes.update(
            {
                HALF_HOUR * round((stamp - began) / HALF_HOUR)
                for stamp in near
                if abs(stamp - began - HALF_HOUR * round((stamp - began) / HALF_HOUR)) < timedelta(minutes=5)
            }
        )
    return votes.most_common(1)[0] if votes else None


def _ahead(differences: Sequence[timedelta]) -> timedelta | None:
    """The offset, by half hours, at which hardly any launch precedes its heading and most follow at once."""
    allowed = max(1, len(differences) // 8)
    possible: dict[timedelta, int] = {}
    for half_hours in range(-24, 29):
        offset = HALF_HOUR * half_hours
        if sum(difference - offset > EARLY for difference in differences) <= allowed:
            possible[offset] = sum(-EARLY <= offset - difference <= timedelta(minutes=45) for difference in differences)
    best_offset = max(possible, key=lambda one: (possible[one], -one), default=None)
    return best_offset if best_offset is not None and possible[best_offset] >= 2 else None


def _hours(offset: timedelta) -> str:
    return f"{offset / timedelta(hours=1):g} h"


def _zone_name(offset: timedelta) -> str:
    return "UTC" if not offset else f"UTC{offset / timedelta(hours=1):+g}"


def _impossible(telling: Telling, notes: Notes, doubts: dict[int, Moment | None]) -> None:
    for entry in telling.entries:
        if entry.impossible is not None:
            notes.add(
                telling,
                entry,
                "clock",
                (f"printed: {entry.impossible}", "no calendar has this date"),
                None,
                "the day does not exist in that month",
            )
            doubts[entry.number] = None


def _against_launches(
    telling: Telling, offset: timedelta | None, notes: Notes, doubts: dict[int, Moment | None]
) -> None:
    lags = [
        (entry, entry.printed, start - entry.printed.earliest)
        for entry in telling.entries
        if entry.printed is not None
        and entry.printed.precision in _EXACT
        and (start := launched(entry, offset)) is not None
    ]
    wrong = [(entry, printed, lag) for entry, printed, lag in lags if not -EARLY <= lag < DAY]
    if len(lags) < _ENOUGH or len(wrong) > DISORDER * len(lags):
        if lags:
            notes.unchecked["dates against launches"] = "launches do not regularly follow their headings"
        return
    notes.compared["dates against launches"] += len(lags)
    for entry, printed, lag in wrong:
        days = (lag + EARLY) // DAY
        likely = printed.moved(days * DAY)
        doubts[entry.number] = likely
        notes.add(
            telling,
            entry,
            "clock",
            (f"printed: {printed}", f"its launch: {printed.local + lag:%Y-%m-%d %H:%M:%S} on the same clock"),
            str(likely),
            f"the launch comes {lag / timedelta(hours=1):.1f} h after the printed time, where the other "
            f"{len(lags) - len(wrong)} launches come at once or within a day",
        )
    for entry in telling.entries:
        for stamp, event in entry.launches:
            if event.time is None or event.time_precision is not TimePrecision.SECOND or offset is None:
                continue
            off = event.time.astimezone(UTC) - (stamp - offset)
            if abs(off) > timedelta(minutes=2):
                notes.add(
                    telling,
                    entry,
                    "launch_time",
                    (
                        f"told: {event.time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
                        f"in its name: {stamp:%Y-%m-%d %H:%M:%S}",
                    ),
                    f"{stamp - offset:%Y-%m-%d %H:%M:%S} UTC",
                    f"all other launches are told as their names say, on {_zone_name(offset)}",
                )


def _in_order(
    telling: Telling,
    entries: Sequence[Entry],
    offset: timedelta | None,
    notes: Notes,
    doubts: dict[int, Moment | None],
    fits: Fits,
) -> None:
    dated = [
        (entry, doubts.get(entry.number) or entry.printed)
        for entry in entries
        if entry.printed is not None and doubts.get(entry.number, entry.printed) is not None
    ]
    known = [(entry, moment) for entry, moment in dated if moment is not None]
    if len(known) < _ENOUGH:
        if known:
            notes.unchecked["order of dates"] = "too few dated entries"
        return
    weights = [3 if launched(entry, offset) is not None else 1 for entry, _ in known]
    kept = heaviest_in_order([moment for _, moment in known], weights)
    if len(known) - len(kept) > DISORDER * len(known):
        notes.unchecked["order of dates"] = "the entries are not kept in the order of time"
        return
    notes.compared["order of dates"] += len(known)
    before: list[datetime | None] = [None]
    for place, (entry, moment) in enumerate(known):
        last = _last(entry, moment, offset) if place in kept else None
        before.append(max((time for time in (before[-1], last) if time is not None), default=None))
    after: list[datetime | None] = [None]
    for place in reversed(range(len(known))):
        latest = known[place][1].latest if place in kept else None
        after.append(min((time for time in (after[-1], latest) if time is not None), default=None))
    after.reverse()
    for place, (entry, moment) in enumerate(known):
        if place not in kept and entry.number not in doubts:
            _out_of_place(telling, entry, moment, (before[place], after[place + 1]), notes, doubts, fits)


def _last(entry: Entry, moment: Moment, offset: timedelta | None) -> datetime:
    """The last time that an entry speaks of: what comes after it is later."""
    launch = launched(entry, offset)
    return moment.earliest if launch is None else max(moment.earliest, launch)


def _out_of_place(
    telling: Telling,
    entry: Entry,
    moment: Moment,
    between: tuple[datetime | None, datetime | None],
    notes: Notes,
    doubts: dict[int, Moment | None],
    fits: Fits,
) -> None:
    before, after = between
    # The neighbours' times are in UTC; the print's own offset makes them comparable with it.
    ahead = moment.local - moment.earliest
    first = (before or moment.earliest - 60 * DAY) + ahead
    last = (after or moment.latest + 60 * DAY) + ahead
    if moment.precision is TimePrecision.DAY:
        first = datetime(first.year, first.month, first.day, tzinfo=UTC)
    candidates = moment_slips(moment.local, first, last)
    possible = [time for time in candidates if fits(entry, moment.moved(time - moment.local), doubts)]
    by_clock = 0 < len(possible) < len(candidates)
    likely = [moment.moved(time - moment.local) for time in best(possible or candidates, moment.local)]
    doubts[entry.number] = likely[0] if len(likely) == 1 else None
    bounds = " to ".join("?" if time is None else f"{time + ahead:%Y-%m-%d %H:%M}" for time in between)
    notes.add(
        telling,
        entry,
        "date_order",
        (f"printed: {moment}", f"between its neighbours: {bounds}"),
        " or ".join(str(one) for one in likely[:3]) if 0 < len(likely) <= 3 else None,
        "the entries before and after it agree with each other, and it lies outside"
        + ("; the likely date differs in the fewest digits" if likely else "")
        + (" of those at which its steps could be reached" if likely and by_clock else ""),
    )
