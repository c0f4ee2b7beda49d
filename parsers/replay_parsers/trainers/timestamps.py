"""Times as trainers print them in front of a line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6})\d{0,3})?(Z|[+-]\d\d:?\d\d)?")

WITHIN = 120
"""A time further into a line than this belongs to its message."""

_YEARS = range(1970, 2200)
"""In others nothing was trained, and at their ends a zone leads out of what a datetime can hold."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=64)
def _midnight(year: int, month: int, day: int) -> int:
    return int((datetime(year, month, day, tzinfo=UTC) - _EPOCH).total_seconds()) * 1_000_000


def printed_time(text: str) -> int | None:
    """The time printed at the beginning of a line, in microseconds since 1970; None when there is none.

    Trainers print local time without a zone, and so does this: unless the line names one, the clock's reading is
    taken as if it were UTC, and it is for the store, which may know the run's clock, to shift it.

    >>> printed_time("[2022-01-19 13:09:13,305] [INFO] OVERFLOW!")
    1642597753305000
    """
    match = _TIME.search(text, 0, WITHIN)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if int(year) not in _YEARS:
        return None
    try:
        midnight = _midnight(int(year), int(month), int(day))
    except ValueError:
        return None
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second)
    if seconds > 86_400:
        return None
    time = midnight + seconds * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    return time - _offset(zone) if zone and zone != "Z" else time


def _offset(zone: str) -> int:
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (-minutes if zone[0] == "-" else minutes) * 60_000_000


def as_datetime(time: int) -> datetime:
    """Microseconds since 1970 as a time in UTC."""
    return _EPOCH + timedelta(microseconds=time)
