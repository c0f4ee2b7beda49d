"""Dates: against the launches named under them, against their neighbours, and the clocks they are read from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from replay.history.audit.book import DAY, DISORDERED, Entry, Moment, Notes, Telling
from replay.history.audit.launches import EARLY, EXACT, launched, two_clocks, zone_name
from replay.history.audit.order import heaviest_in_order
from replay.history.audit.slips import best, moment_slips
from replay_parsers.records import TimePrecision

_ENOUGH = 4
_HEADED = re.compile(r"^#{1,6}\s{1,3}(20\d\d)[-./年](\d{1,2})[-./月](\d{1,2})(?!\d|\.\d)", re.MULTILINE)
DISORDER = 0.25
"""Of entries out of order more than this part cannot be slips."""


Fits = Callable[[Entry, Moment, Mapping[int, Moment | None]], bool]
"""Whether an entry's steps could have been reached at a time, given the likely times of the doubtful others."""


def check(
    telling: Telling, lists: Sequence[Sequence[Entry]], offset: timedelta | None, notes: Notes, fits: Fits
) -> dict[int, Moment | None]:
    """Test every date; returns for each entry number found wrong the likely moment, None where it is open.

    ``lists`` are the entries that are each in the order of time, ``offset`` is how far the launches' clock is ahead.
    """
    doubts: dict[int, Moment | None] = {}
    two_clocks(telling, notes)
    _impossible(telling, notes, doubts)
    _against_launches(telling, offset, notes, doubts)
    for entries in lists:
        _in_order(telling, entries, offset, notes, doubts, fits)
    return doubts


def _impossible(telling: Telling, notes: Notes, doubts: dict[int, Moment | None]) -> None:
    printed = {entry.impossible[:10] for entry in telling.entries if entry.impossible is not None}
    for found in () if telling.curated else _HEADED.finditer(telling.text):
        year, month, day = (int(part) for part in found.groups())
        if f"{year:04d}-{month:02d}-{day:02d}" in printed or _exists(year, month, day):
            continue
        readings = (f"printed: {found[0].strip(' #')}", "no calendar has this date")
        notes.add(telling, None, "clock", readings, None, "there is no such day or month")
        heading = telling.text[found.start() :].split("\n", 1)[0].strip("# ")
        notes.findings[-1] = replace(notes.findings[-1], locator=f"§ {heading[:80]}")
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


def _exists(year: int, month: int, day: int) -> bool:
    try:
        datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return False
    return True


def _against_launches(
    telling: Telling, offset: timedelta | None, notes: Notes, doubts: dict[int, Moment | None]
) -> None:
    lags = [
        (entry, entry.printed, start - entry.printed.earliest)
        for entry in telling.entries
        if entry.printed is not None
        and entry.printed.precision in EXACT
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
                    f"all other launches are told as their names say, on {zone_name(offset)}",
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
        notes.unchecked["order of dates"] = DISORDERED
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
