"""The clocks of a logbook, established from what it prints.

A book may hold three kinds of time: headings, written by people in their own zone; names of launches with a time
stamp, written by the launcher; and names of event files with the seconds since 1970, which know no zone.  Where
a launch name and an event file stand together, the epoch tells the launcher's zone; headings and launch names
that stand together tell the headings' zone, since people write an entry when something happened and launch
after it: the smallest offset for which hardly any launch precedes its entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from replay_parsers.chronicles.zones import fixed_zone

_STAMP = re.compile(
    r"-(?P<y>20\d\d)[.-](?P<m>\d\d)[.-](?P<d>\d\d)[-_T](?P<H>\d\d)[:.-](?P<M>\d\d)[:.-](?P<S>\d\d)(?!\d)"
)
_NAME = re.compile(r"[A-Za-z][\w.-]{0,80}$")
EVENT_FILE = re.compile(r"\bevents\.out\.tfevents\.(?P<epoch>1\d{9})\b[\w.-]{0,120}")

_EARLY = timedelta(minutes=15)
_SHARE_EARLY = 0.1
_NEAR = timedelta(minutes=5)
_PROMPT = timedelta(minutes=45)
_GRID = timedelta(minutes=30)
_FEW = 3
_FEW_PROMPT = 2


@dataclass(frozen=True, slots=True)
class Launch:
    """The name of a launch and the time stamp in it, in the launcher's clock; ``prefix`` is the name without it."""

    name: str
    prefix: str
    stamp: datetime

    def utc(self, offset: timedelta) -> datetime:
        """The launch in UTC, the launcher's clock being ``offset`` ahead of it."""
        return (self.stamp - offset).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Clocks:
    """How far the headings' and the launch names' clocks are ahead of UTC; None where that cannot be told.

    ``agreeing`` counts the pairs of a launch name and an event file that agree on the launcher's offset, and
    ``pairs`` the headings with a launch; ``ahead`` is how far the headings are ahead of the launch names, which
    can be known where neither offset is.
    """

    headings: timedelta | None
    launches: timedelta | None
    ahead: timedelta | None
    agreeing: int
    pairs: int

    def zone(self, *, chinese: bool) -> str | None:
        """The IANA zone of the headings; China's own name where eight hours ahead and the book is Chinese."""
        if self.headings is None:
            return None
        if chinese and self.headings == timedelta(hours=8):
            return "Asia/Shanghai"
        return fixed_zone(self.headings)


def launches(text: str) -> list[Launch]:
    """The launch names in ``text``: a name followed by a date and a time to the second."""
    return [launch for launch, _ in _found(text)]


def without_launches(text: str) -> str:
    """``text`` with launch names and event files taken out."""
    for launch, _ in reversed(_found(text)):
        text = text.replace(launch.name, " ")
    return EVENT_FILE.sub(" ", text)


def _found(text: str) -> list[tuple[Launch, int]]:
    found = []
    for match in _STAMP.finditer(text):
        name = _NAME.search(text[max(0, match.start() - 80) : match.start()])
        if name is None:
            continue
        try:
            stamp = datetime(*(int(match[part]) for part in "ymdHMS"))  # type: ignore[arg-type]
        except ValueError:
            continue
        found.append((Launch(name[0] + match[0], name[0], stamp), match.start()))
    return found


def epochs(text: str) -> list[datetime]:
    """The beginnings of the event files named in ``text``, in UTC."""
    return [datetime.fromtimestamp(int(match["epoch"]), UTC) for match in EVENT_FILE.finditer(text)]


def establish(headed: list[tuple[datetime, datetime]], filed: list[tuple[datetime, datetime]]) -> Clocks:
    """The clocks from pairs that stand together: ``headed`` holds (heading, launch stamp), both without zone;
    ``filed`` holds (launch stamp, event file's beginning in UTC).
    """
    launcher, agreeing = _launcher_offset(filed)
    ahead = _ahead(headed)
    headings = None if ahead is None or launcher is None else ahead + launcher
    return Clocks(headings, launcher, ahead, agreeing, len(headed))


def _launcher_offset(filed: list[tuple[datetime, datetime]]) -> tuple[timedelta | None, int]:
    votes: dict[timedelta, int] = {}
    for stamp, began in filed:
        difference = stamp.replace(tzinfo=UTC) - began
        offset = _GRID * round(difference / _GRID)
        if abs(difference - offset) <= _NEAR and abs(offset) <= timedelta(hours=14):
            votes[offset] = votes.get(offset, 0) + 1
    if not votes:
        return None, 0
    offset = max(votes, key=lambda key: (votes[key], -abs(key)))
    return offset, votes[offset]


def _ahead(headed: list[tuple[datetime, datetime]]) -> timedelta | None:
    """How far the headings' clock is ahead of the launcher's; None when too few launches follow promptly to tell."""
    if len(headed) < _FEW:
        return None
    differences = [heading - stamp for heading, stamp in headed]
    allowed = int(len(differences) * _SHARE_EARLY)
    for half_hours in range(-24, 29):
        offset = _GRID * half_hours
        if sum(difference - offset > _EARLY for difference in differences) <= allowed:
            prompt = sum(-_EARLY <= offset - difference <= _PROMPT for difference in differences)
            return offset if prompt >= _FEW_PROMPT else None
    return None
