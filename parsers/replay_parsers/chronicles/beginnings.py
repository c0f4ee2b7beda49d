"""Dates at the beginning of a line, with what people write before them: labels, days of the run, weekdays."""

from __future__ import annotations

import re
from dataclasses import replace

from replay_parsers.chronicles import dates
from replay_parsers.chronicles.dates import PrintedTime

# "Date: 25/1/20", "训练时间：25/1/20"; "Day 2 (Tue 4 Feb 2025)", "Monday, 6 May".
_LABEL = re.compile(r"^[\W_]{0,3}(?:(?:date|time|when|day|日期|时间|训练时间|日志)\w{0,6})\s?[:：]\s?", re.IGNORECASE)
# "INC-01 — 2025-02-03", "1. 2025-02-03", "Incident 4: 3 May": headings are numbered.
_NUMBER = (
    r"(?:(?:[A-Z][A-Z0-9]{1,9}[-_ #]{1,2}\d{1,6}|#\d{1,6}|\(?\d{1,3}[.)](?!\d)|"
    r"(?i:incident|entry|event|case|issue|ticket|outage|note|log|attempt|run|trial|no\.?)\s?#?\d{1,6}|事件\s?\d{1,4})[\s:：|—–\-(\[]{1,5})"
)
_NUMBERED_BEFORE = re.compile(rf"[\W_]{{0,4}}{_NUMBER}")
_BEFORE_DATE = re.compile(
    r"[\W_]*(?:@?[\w.-]{1,40}\s(?:commented|wrote|replied|posted|opened this (?:issue|pull request|thread))(?: on)?\s)?"
    r"(?:(?:day|week|d|w)\s?\d{1,4}\b[\W_]*)?(?:(?:\w{3,6}day|mon|tue|wed|thu|fri|sat|"
    r"sun)[\W_]{1,3}|(?:周|星期).[\W_]?)?",
    re.IGNORECASE,
)


def at_start(text: str, *, bare: bool = False, day_first: bool = False) -> PrintedTime | None:
    """The time with which ``text`` begins, None when it begins otherwise."""
    label = _LABEL.match(text) if bare else None
    shift = label.end() if label else 0
    # "14:05 06/05/2024"
    clock = dates.time_at_start(text[shift:])
    if clock is not None and clock[1] is not None:
        behind = shift + clock[3]
        day = dates.find(text[behind:], bare=bare, day_first=day_first)
        if (
            day is not None
            and day.hour is None
            and re.fullmatch(r"[\s,]{0,3}(?:on )?", text[behind : behind + day.start])
        ):
            times = {"hour": clock[0], "minute": clock[1], "second": clock[2], "zone": clock[4]}
            return replace(day, start=shift, end=behind + day.end, **times)  # type: ignore[arg-type]
    printed = dates.find(text[shift:], bare=bare, day_first=day_first)
    if printed is None:
        return None
    ahead = text[shift : shift + printed.start]
    if bare and (numbered := _NUMBERED_BEFORE.match(ahead)):
        ahead = ahead[numbered.end() :]
    if not _BEFORE_DATE.fullmatch(ahead):
        return None
    return replace(printed, start=printed.start + shift, end=printed.end + shift)


def is_number(text: str) -> bool:
    """Whether ``text``, which stands before a heading's date, only numbers the heading."""
    return text.isdigit() or _NUMBERED_BEFORE.fullmatch(f"{text} ") is not None


def is_labelled(text: str) -> bool:
    """Whether ``text`` begins with a label such as "Date:" or "时间："."""
    return _LABEL.match(text) is not None
