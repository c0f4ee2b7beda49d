"""What a query of the store asks for, checked: names, kinds, moments and ranges of steps."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from difflib import get_close_matches
from typing import Any

from replay.storage.errors import StoreError
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Evidence

Names = str | Iterable[str] | None
Moment = str | date | datetime | None


def names_of(given: Names) -> list[str] | None:
    """One name or several as a list; None, which stands for all, as it is."""
    if given is None:
        return None
    return [given] if isinstance(given, str) else [str(name) for name in given]


def members_of(given: Names, kind: type[EventKind | Role | Evidence], what: str) -> list[str] | None:
    """As :func:`names_of`, of ``kind`` alone.  Raises :class:`StoreError` for a name that is none of its members."""
    names = names_of(given)
    known = [str(member) for member in kind]
    for name in names or ():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise StoreError(f"no {what} is called {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return names


def moment_of(given: Moment) -> datetime | None:
    """A date, a time or its ISO 8601 text, UTC where it names no zone.  Raises :class:`StoreError` for other text."""
    if given is None:
        return None
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise StoreError(f"{given!r} is no date; write 2022-06-20 or 2022-06-20T09:10+08:00") from None
    if not isinstance(given, datetime):
        given = datetime(given.year, given.month, given.day, tzinfo=UTC)
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


def touches(row: dict[str, Any], steps: tuple[int | None, int | None]) -> bool:
    """Whether an event's row lies in an inclusive range of steps, at least in part; one without a step does not."""
    if row["step"] is None:
        return False
    last = row["step"] if row["step_end"] is None else row["step_end"]
    return (steps[0] is None or last >= steps[0]) and (steps[1] is None or row["step"] <= steps[1])


def is_merged(sources: str) -> bool:
    """Whether each thing is told once, whoever tells it.  Raises :class:`StoreError` for another word."""
    if sources not in ("merged", "all"):
        raise StoreError(f"sources are 'merged' or 'all', not {sources!r}")
    return sources == "merged"
