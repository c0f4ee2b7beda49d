"""Slips of the pen: what a person may have meant who wrote something else."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_DAY = timedelta(days=1)
_RANGE = re.compile(r"(?<![\w.])(\d{1,12})-(\d{1,12})(?![\w.])")


def number_slips(value: int) -> set[int]:
    """Whole numbers that become ``value`` by one slip: a digit changed, two exchanged, one dropped or doubled.

    >>> 31000 in number_slips(21000), 32100 in number_slips(23100), 39600 in number_slips(3960)
    (True, True, True)
    """
    text = str(value)
    found: set[str] = set()
    for place, digit in enumerate(text):
        found |= {text[:place] + other + text[place + 1 :] for other in "0123456789" if other != digit}
        found.add(text[:place] + text[place + 1 :])
        found |= {text[:place] + other + text[place:] for other in "0123456789"}
        if place:
            found.add(text[: place - 1] + digit + text[place - 1] + text[place + 1 :])
    found |= {text + other for other in "0123456789"}
    return {int(one) for one in found if one and (one == "0" or not one.startswith("0"))} - {value}


def nearest_slip(value: int, low: float, high: float, multiple: int = 1) -> int | None:
    """The number in ``low``..``high`` that one slip turns into ``value``, if there is just one."""
    found = [one for one in number_slips(value) if low <= one <= high and one % multiple == 0]
    return found[0] if len(found) == 1 else None


def moment_slips(printed: datetime, first: datetime, last: datetime) -> list[datetime]:
    """Times in ``first``..``last`` that may have been meant by ``printed``, fewest digits wrong first.

    The hour is kept and the day another, or the day is kept and the halves of the day are confused.
    """
    if last < first or last - first > 100 * _DAY:
        return []
    found = []
    day = datetime(first.year, first.month, first.day, printed.hour, printed.minute, tzinfo=printed.tzinfo) - _DAY
    while day <= last + _DAY:
        if first <= day <= last and day != printed:
            found.append(day)
        day += _DAY
    halves = [printed + sign * timedelta(hours=12) for sign in (-1, 1)]
    found += [time for time in halves if first <= time <= last and time.date() == printed.date()]
    return sorted(set(found), key=lambda time: (wrong_digits(printed, time), time))


def wrong_digits(printed: datetime, meant: datetime) -> int:
    """How many digits of the date differ; exchanging morning and evening counts as one."""
    if printed.date() == meant.date():
        return int(printed != meant)
    return sum(a != b for a, b in zip(f"{printed:%Y%m%d}", f"{meant:%Y%m%d}", strict=True))


def best(candidates: list[datetime], printed: datetime) -> list[datetime]:
    """Those of ``candidates`` with the fewest digits wrong."""
    fewest = min((wrong_digits(printed, time) for time in candidates), default=0)
    return [time for time in candidates if wrong_digits(printed, time) == fewest]


def ranges(text: str) -> list[tuple[int, int]]:
    """The ranges of whole numbers in a command-line option (``40701-40900``), also where they run backwards."""
    return [(int(first), int(last)) for first, last in _RANGE.findall(text)]
