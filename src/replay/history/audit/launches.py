"""The launches named in a book, and the clock that their names are printed in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from replay.history.audit.book import DAY, HALF_HOUR, Entry, Notes, Telling
from replay_parsers.chronicles.clock import epochs
from replay_parsers.records import TimePrecision

EARLY = timedelta(minutes=20)
"""People write the heading when the launch is under way: it may be a little later than the launch."""
EXACT = (TimePrecision.MINUTE, TimePrecision.SECOND)
_ENOUGH = 4
_MOST = 200


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
        if entry.printed is not None and entry.printed.precision in EXACT and entry.launches
    ]
    ahead = _ahead(differences) if len(differences) >= _ENOUGH else None
    return None if ahead is None else -ahead


def launched(entry: Entry, offset: timedelta | None) -> datetime | None:
    """The entry's first launch, in UTC."""
    stamps = [stamp for stamp, _ in entry.launches]
    return min(stamps) - offset if stamps and offset is not None else None


def two_clocks(telling: Telling, notes: Notes) -> None:
    """Headings and the names of launches on different clocks: the offset is established from the pairs."""
    pairs = [
        (entry, stamp)
        for entry in telling.entries
        if entry.printed is not None and entry.printed.precision in EXACT
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
    names = "another clock" if known is None else zone_name(known)
    headings = f"a clock {_hours(ahead)} ahead of it" if known is None else zone_name(known + ahead)
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


def zone_name(offset: timedelta) -> str:
    """A zone by its offset: UTC, UTC+8."""
    return "UTC" if not offset else f"UTC{offset / timedelta(hours=1):+g}"
