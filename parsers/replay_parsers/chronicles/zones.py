"""Time zones as people print them, and the IANA names they stand for."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_ZONES = {
    "z": "UTC", "utc": "UTC", "gmt": "UTC",
    "pt": "America/Los_Angeles", "pst": "Etc/GMT+8", "pdt": "Etc/GMT+7",
    "et": "America/New_York", "est": "Etc/GMT+5", "edt": "Etc/GMT+4",
    "ct": "America/Chicago", "cdt": "Etc/GMT+5",
    "mt": "America/Denver", "mst": "Etc/GMT+7", "mdt": "Etc/GMT+6",
    "cet": "Europe/Paris", "cest": "Europe/Paris", "jst": "Asia/Tokyo", "kst": "Asia/Seoul",
    "bst": "Etc/GMT-1", "eet": "Europe/Helsinki", "eest": "Europe/Helsinki", "msk": "Europe/Moscow",
    "ist": "Asia/Kolkata", "sgt": "Asia/Singapore", "hkt": "Asia/Hong_Kong",
    "aest": "Etc/GMT-10", "aedt": "Etc/GMT-11", "acst": "Australia/Darwin", "awst": "Australia/Perth",
    "nzst": "Etc/GMT-12", "nzdt": "Etc/GMT-13", "brt": "Etc/GMT+3",
    "北京时间": "Asia/Shanghai", "beijing": "Asia/Shanghai", "beijing time": "Asia/Shanghai",
    "东部时间": "America/New_York", "太平洋时间": "America/Los_Angeles",
    "jz": "Europe/Paris", "jz time": "Europe/Paris",
}  # fmt: skip
# Names that are words or other things beside ("CST" is said in Chicago, Shanghai and Havana) are left out.
NAMES = (
    r"UTC|GMT|P[SD]?T|E[SD]?T|M[SD]T|CDT|CES?T|EES?T|JST|KST|IST|BST|SGT|HKT|MSK|AE[SD]T|AC?WST|ACST|NZ[SD]T|BRT|"
    r"北京时间|东部时间|太平洋时间|Beijing(?: time)?"
)
# Behind a time: "z-loss" is no zone.
ZONE = (
    r"(?P<zone>Z(?![\w-])|(?:UTC|GMT)\s?[+-]\d{1,2}(?::?\d\d)?(?!\d)|\+\d\d:?\d\d(?!\d)|"
    # In capitals: "et" and "ist" are words.
    rf"(?:UTC|GMT)(?![\w-])|(?-i:{NAMES})(?![\w-])|(?-i:CT|MT)(?![\w-])|(?-i:America|Europe|Asia|Australia|Africa|"
    rf"Pacific)/[A-Z][A-Za-z_]+|"
    r"JZ(?: time)?(?!\w))"
)
_WEST = re.compile(r"^\s?[-−](?P<hours>0\d|1[0-2])(?P<colon>:?)(?P<minutes>00|30)(?![\d:])")


def behind_utc(before: str, behind: str, hour: int) -> tuple[str, int] | None:
    """The zone of a negative offset at the beginning of ``behind``, and its length; None where there is none.

    ``before`` is the printed time up to there and ``hour`` its hour: "10:00-11:30" is a span of time, so with a colon
    an offset must follow a time in the ISO notation, or be earlier than the time before it.
    """
    found = _WEST.match(behind)
    if found is None:
        return None
    iso = re.search(r"\dT\d|:\d\d:\d\d$", before) is not None
    if found["colon"] and not iso and int(found["hours"]) >= hour:
        return None
    name = zone_name(found[0].strip().replace("−", "-"))
    return (name, found.end()) if name else None


def zone(name: str | None) -> ZoneInfo | timezone:
    """The zone of an IANA name; UTC for None and for names the system does not know."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def fixed_zone(offset: timedelta) -> str | None:
    """The IANA name of a constant offset from UTC in whole hours (``Etc/GMT-8`` lies 8 h east), else None."""
    hours, rest = divmod(offset, timedelta(hours=1))
    if rest or not -12 <= hours <= 14:
        return None
    return "UTC" if hours == 0 else f"Etc/GMT{-hours:+d}"


def zone_name(printed: str | None) -> str | None:
    """The IANA name of a printed zone (``PT``, ``UTC+8``, ``Europe/Paris``), None when it is not known."""
    if not printed:
        return None
    name = printed.strip().lower()
    if name in _ZONES:
        return _ZONES[name]
    offset = re.fullmatch(r"(?:utc|gmt)?\s?([+-])(\d{1,2}):?(\d\d)?", name)
    if not offset:
        return printed if "/" in printed and zone(printed) is not UTC else None
    span = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
    return fixed_zone(span if offset[1] == "+" else -span)
