"""Dates and times as people print them in logbooks, in English and Chinese.

A printed time is kept as it is printed: impossible dates are told, not mended, and no zone is assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from replay_parsers.chronicles.zones import ZONE, behind_utc, zone_name
from replay_parsers.chronicles.zones import zone as zone_of
from replay_parsers.records import TimePrecision

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|"
    # German and French: the prose of such a book is not understood, but its entries are found and counted.
    r"januar|februar|märz|mai|juni|juli|oktober|dezember|"
    r"janvier|février|fevrier|mars|avril|juin|juillet|août|aout|septembre|octobre|novembre|décembre|decembre)\b\.?"
)
_FIRST_LETTERS = {"mär": 3, "mai": 5, "okt": 10, "dez": 12, "fév": 2, "fev": 2, "avr": 4, "aoû": 8, "aou": 8, "déc": 12}

_DAY = r"(?P<day>[0-3]?\d)"
_YEAR = r"(?P<year>(?:19|20)\d\d)"

# In the order in which they are tried; the first that matches at the earliest place wins.
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\d./-]){_YEAR}(?P<sep>[-./])(?P<month>[01]?\d)(?P=sep)(?P<day>[0-3]?\d|XX|\?\?)(?!\d|[-./]\d)",
        rf"{_YEAR}\s*年\s*(?P<month>[01]?\d)\s*月\s*(?:{_DAY}\s*[日号])?",
        rf"(?<!\d)(?P<month>[01]?\d)\s*月\s*{_DAY}\s*[日号]",
        rf"\b{_MONTH},?\s+{_DAY}(?:st|nd|rd|th)?(?!\d|:)(?:\s*,?\s*{_YEAR}\b)?",
        rf"(?<![\d.])\b{_DAY}(?:st|nd|rd|th|er|\.)?\s+(?:of\s+)?{_MONTH}(?:\s*,?\s*{_YEAR})?\b",
        rf"(?<![\d./-])(?P<first>[0-3]?\d)(?P<sep>[/.-])(?P<second>[0-3]?\d)(?P=sep){_YEAR}(?!\d|[./-]\d)",
        r"(?<![\d.\w-])(?P<year>20\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])(?![\d.])",
        rf"(?<![\d.]){_YEAR}[ -]{_MONTH}[ -]{_DAY}\b",
        rf"(?<![\d.-])\b{_DAY}-{_MONTH}-(?:{_YEAR}|(?P<year2>2\d))\b",
        r"(?P<cn_month>[一二三四五六七八九十]{1,2})月(?P<cn_day>[一二三四五六七八九十]{1,3})[日号]",
        rf"\b{_MONTH}\s+{_YEAR}\b",
    )
)

# Only taken where a date must stand (a heading's or bullet's beginning): elsewhere 3/4 is a fraction.
_SHORT_YEAR = re.compile(
    r"^\W{0,3}(?P<year2>2\d)(?P<sep>[/.-])(?P<month>0?[1-9]|1[0-2])(?P=sep)(?P<day>0?[1-9]|[12]\d|3[01])(?![\d./-])"
)
_SHORT_SLASH = re.compile(
    r"^\W{0,3}(?P<first>[0-3]?\d)(?P<sep>[/.])(?P<second>[0-3]?\d)(?P=sep)(?P<year2>2\d)(?![\d./-])"
)
_BARE = re.compile(
    r"^\W{0,3}(?:(?P<month>0?[1-9]|1[0-2])(?P<sep>[-/])(?P<day>0[1-9]|[12]\d|3[01]|[1-9])|"
    r"(?P<m>0[1-9])\.(?P<d>[0-3]\d))"
    r"(?![\w./-]|\s*%)"
)

_TIME = re.compile(
    r"^(?:[T_ ,，、\-–—(（\[)）\]]|at\b|around\b|~|\s)*"
    r"(?:(?P<half>凌晨|早上|上午|中午|下午|晚上|晚)\s*)?"
    r"(?:(?P<hour>[0-2]?\d)[:：](?P<minute>[0-5]\d)(?:[:：](?P<second>[0-5]\d)(?:\.\d+)?)?|"
    r"(?P<hour2>[0-2]?\d)\s*[点时]\s*(?:(?P<minute2>[0-5]?\d)\s*分?|(?P<thirty>半))?"
    r"|(?P<hour4>[0-2]?\d)h(?P<minute4>[0-5]\d)(?!\w)|(?P<hour5>[0-2]?\d)(?=\s?Uhr\b)(?:\s?Uhr)"
    r"|(?P<hour3>[01]?\d)(?=\s*[ap]\.?m\b))"
    rf"\s*(?P<ampm>[ap]\.?m\b\.?)?\s*(?:\(?{ZONE}\)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTime:
    """A time as printed, in whatever clock the writer used.

    ``year`` is None where only month and day are printed, ``day`` where only a month is; ``zone`` is the IANA
    name of a printed zone; ``start``..``end`` is where it stands in the text.
    """

    year: int | None
    month: int
    day: int | None = None
    hour: int | None = None
    minute: int | None = None
    second: int | None = None
    zone: str | None = None
    start: int = 0
    end: int = 0
    ambiguous: bool = False

    @property
    def precision(self) -> TimePrecision:
        """How much of the time is printed."""
        if self.day is None:
            return TimePrecision.MONTH
        if self.hour is None:
            return TimePrecision.DAY
        if self.minute is None:
            return TimePrecision.HOUR
        return TimePrecision.MINUTE if self.second is None else TimePrecision.SECOND

    @property
    def key(self) -> str:
        """The time as incident ids print it: ``2022-06-20T09:10``, ``2022-05-29``, ``2022-04``."""
        date = f"{self.year:04d}-{self.month:02d}" if self.year is not None else f"{self.month:02d}"
        if self.day is None:
            return date
        date += f"-{self.day:02d}"
        return date if self.hour is None else f"{date}T{self.hour:02d}:{self.minute or 0:02d}"

    @property
    def local(self) -> datetime | None:
        """The time without a zone; None where no such time exists (31 June) or the year is unknown."""
        if self.year is None:
            return None
        try:
            return datetime(self.year, self.month, self.day or 1, self.hour or 0, self.minute or 0, self.second or 0)
        except ValueError:
            return None

    def utc(self, clock: str | None) -> datetime | None:
        """The time in UTC: by its own zone, else by ``clock`` (an IANA zone), else as if it were UTC."""
        local = self.local
        if local is None:
            return None
        return local.replace(tzinfo=zone_of(self.zone or clock)).astimezone(UTC)


def _month(name: str) -> int:
    letters = name[:4].lower()
    if letters in ("juin", "juil"):
        return 6 if letters == "juin" else 7
    return _FIRST_LETTERS.get(letters[:3]) or _MONTH_NAMES.index(letters[:3]) + 1


def _counted(numeral: str) -> int:
    """A Chinese numeral up to 99: 五, 十二, 二十, 三十一."""
    tens, ten, ones = numeral.rpartition("十")
    digits = "一二三四五六七八九"
    return (digits.find(tens) + 1 if tens else 1) * bool(ten) * 10 + (digits.find(ones) + 1 if ones else 0)


def _month_day(found: re.Match[str], day_first: bool) -> tuple[int, int | None, bool] | None:
    """Month, day, and whether the order of the two was guessed; None when they cannot be a date."""
    groups = found.groupdict()
    if groups.get("first") is not None:
        first, second = int(groups["first"]), int(groups["second"])
        ambiguous = first <= 12 and second <= 12 and first != second and groups["sep"] == "/"
        # 31.12.2021 is the continental order, 12/31/2021 the American one unless the book shows otherwise.
        if first > 12 or groups["sep"] == "." or (day_first and second <= 12):
            first, second = second, first
        month, day = first, second
    elif groups.get("cn_month"):
        return _counted(groups["cn_month"]), _counted(groups["cn_day"]), False
    else:
        ambiguous = False
        name = groups.get("name")
        month = _month(name) if name else int(groups.get("month") or groups["m"])
        printed = groups.get("day") or groups.get("d")
        day = int(printed) if printed and printed.isdigit() else 0
    if not 1 <= month <= 12 or not 0 <= day <= 31:
        return None
    return month, day or None, ambiguous


_COMPACT = re.compile(r"^[ T_-](?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?(?!\w)")


def _with_time(printed: PrintedTime, text: str) -> PrintedTime:
    if text[printed.start : printed.end].strip().isdigit() and (compact := _COMPACT.match(text[printed.end :])):
        second = int(compact["second"]) if compact["second"] else None
        end = printed.end + compact.end()
        return replace(printed, hour=int(compact["hour"]), minute=int(compact["minute"]), second=second, end=end)
    found = _TIME.match(text[printed.end :])
    if not found or printed.day is None:
        return printed
    groups = found.groupdict()
    hour = int(next(groups[f"hour{n}"] for n in ("", "2", "3", "4", "5") if groups[f"hour{n}"]))
    minute_text = groups["minute"] or groups["minute2"] or groups["minute4"] or ("30" if groups["thirty"] else None)
    half = (groups["ampm"] or "").lower().replace(".", "")
    afternoon = half == "pm" or groups["half"] in ("下午", "晚上", "晚") or (groups["half"] == "中午" and hour < 11)
    if afternoon and hour < 12:
        hour += 12
    elif (half == "am" or groups["half"] == "凌晨") and hour == 12:
        hour = 0
    if hour > 24:
        return printed
    zone, end = zone_name(groups["zone"]), printed.end + found.end()
    if groups["zone"] is None and (west := behind_utc(text[printed.start : end], text[end:], hour)):
        zone, end = west[0], end + west[1]
    return replace(
        printed,
        hour=0 if hour == 24 else hour,
        minute=int(minute_text) if minute_text else None,
        second=int(groups["second"]) if groups["second"] else None,
        zone=zone,
        end=end,
    )


def find(text: str, *, bare: bool = False, day_first: bool = False) -> PrintedTime | None:
    """The first date in ``text``, with the time that follows it.

    ``bare`` also takes a month and a day without a year at the beginning (``05-06``); ``day_first`` reads
    ``03/04/2021`` as 3 April.

    >>> find("## 2022.06.26 16:00 Node failure").key
    '2022-06-26T16:00'
    >>> find("11月24日下午3点半 重启").key
    '11-24T15:30'
    >>> find("on November 11, 2021 at 12:46pm PST").key
    '2021-11-11T12:46'
    """
    short = (_SHORT_SLASH, _SHORT_YEAR) if day_first else (_SHORT_YEAR, _SHORT_SLASH)
    patterns = (*_DATES, *short, _BARE) if bare else _DATES
    best: PrintedTime | None = None
    for pattern in patterns:
        for found in pattern.finditer(text):
            month_day = _month_day(found, day_first)
            if month_day is None or (best is not None and found.start() >= best.start):
                continue
            groups = found.groupdict()
            best = PrintedTime(
                year=int(groups.get("year") or f"20{groups['year2']}")
                if groups.get("year") or groups.get("year2")
                else None,
                month=month_day[0],
                day=month_day[1],
                ambiguous=month_day[2],
                start=found.start(),
                end=found.end(),
            )
            break
    return None if best is None else _with_time(best, text)


_CLOCK = re.compile(r"^[\W_]{0,4}")


def time_at_start(text: str) -> tuple[int, int | None, int | None, int, str | None] | None:
    """Hour, minute, second, where they end, and the zone of a time of day at the beginning of ``text``.

    >>> time_at_start("14:05 restarted"), time_at_start("9pm PT: node down")[:2], time_at_start("4000 steps")
    ((14, 5, None, 6, None), (21, None), None)
    """
    lead = _CLOCK.match(text)
    start = lead.end() if lead else 0
    probe = _with_time(PrintedTime(year=2000, month=1, day=1, start=0, end=start), text)
    if probe.hour is None:
        return None
    return probe.hour, probe.minute, probe.second, probe.end, probe.zone
