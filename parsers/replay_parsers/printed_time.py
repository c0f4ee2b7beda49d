"""Times as people print them in logbooks, and what they mean on the run's clock."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from replay_parsers.records import TimePrecision

_PRINTED = re.compile(
    r"(?P<year>\d{4})[-./](?P<month>\d{1,2})(?:[-./](?P<day>\d{1,2})"
    r"(?:[T\s_]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?)?)?"
)
_YEARS = range(1970, 2200)


class PrintedTimeError(ValueError):
    """The text is no time, or names one that does not exist.  The message says which."""


@dataclass(frozen=True, slots=True)
class PrintedTime:
    """A time as printed: ``label`` is its form in ids (``2022-06-20T09:10``, ``2022-05-29``, ``2022-04``), whatever
    the notation of the source; ``utc`` what it means; ``precision`` how exactly.
    """

    label: str
    utc: datetime
    precision: TimePrecision


def parse_printed_time(text: str, clock: ZoneInfo | None) -> PrintedTime:
    """Read ``2022-06-20 09:10``, ``2022.06.26 16:00``, ``2022-03-21T13:34:34``, ``2022-05-29`` or ``2022-04``.

    A zone at the end (``Z``, ``UTC``, ``+08:00``) beats ``clock``.  A time of day is converted by the clock; with
    neither clock nor zone it is taken as UTC and known to the day only.  A date without an hour, or a month, stays
    what it is, at its first moment in UTC: shifting it could change the date.

    Raises :class:`PrintedTimeError`.

    >>> from zoneinfo import ZoneInfo
    >>> parse_printed_time("2022.06.20 09:10", ZoneInfo("Asia/Shanghai"))
    PrintedTime(label='2022-06-20T09:10', utc=datetime.datetime(2022, 6, 20, 1, 10, tzinfo=datetime.timezone.utc), \
precision=<TimePrecision.MINUTE: 'minute'>)
    """
    found = _match(text)
    year, month = int(found["year"]), int(found["month"])
    if year not in _YEARS or not 1 <= month <= 12:
        raise PrintedTimeError(f"`{text}`: there is no month {found['month']} of {found['year']} to date a run by")
    if found["day"] is None:
        return PrintedTime(_label(found), datetime(year, month, 1, tzinfo=UTC), TimePrecision.MONTH)
    day, days = int(found["day"]), monthrange(year, month)[1]
    if not 1 <= day <= days:
        raise PrintedTimeError(f"`{text}` does not exist: {year}-{month:02} has {days} days")
    label = _label(found)
    if found["hour"] is None:
        return PrintedTime(label, datetime(year, month, day, tzinfo=UTC), TimePrecision.DAY)
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise PrintedTimeError(f"`{text}` does not exist: hours run from 0 to 23, minutes and seconds from 0 to 59")
    zone = _zone(found["zone"], text) or clock
    local = datetime(year, month, day, hour, minute, second, tzinfo=zone or UTC)
    utc = local.astimezone(UTC)
    if utc.astimezone(local.tzinfo).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise PrintedTimeError(f"`{text}` does not exist in {zone}: the clocks were put forward over it")
    exact = TimePrecision.MINUTE if found["second"] is None else TimePrecision.SECOND
    return PrintedTime(label, utc, exact if zone else TimePrecision.DAY)


def printed_label(text: str) -> str:
    """The form in ids of a printed time, whether or not it exists: a misprint names its incident too.

    Raises :class:`PrintedTimeError` when the text is no time at all.

    >>> printed_label("2022.05.03 20:00"), printed_label("2024-02-30")
    ('2022-05-03T20:00', '2024-02-30')
    """
    return _label(_match(text))


def _match(text: str) -> re.Match[str]:
    found = _PRINTED.fullmatch(text.strip())
    if not found:
        raise PrintedTimeError(f"`{text}` is no time; write it like 2022-06-20 09:10, 2022-05-29 or 2022-04")
    return found


def _label(found: re.Match[str]) -> str:
    label = f"{found['year']}-{int(found['month']):02}"
    if found["day"] is not None:
        label += f"-{int(found['day']):02}"
    if found["hour"] is not None:
        label += f"T{int(found['hour']):02}:{found['minute']}"
    return label


def _zone(text: str | None, printed: str) -> tzinfo | None:
    """The zone written at the end of a time, or None."""
    if not text:
        return None
    if text in ("Z", "UTC"):
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 14 or minutes > 59:
        raise PrintedTimeError(f"`{printed}`: no zone is {text} from UTC")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)
