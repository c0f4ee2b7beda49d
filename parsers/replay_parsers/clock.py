"""Whether the clock of a log can be right: its times must go on as its steps do.

A machine whose battery is empty begins in 1970, a mistyped date sets another year, and what was set right in mid-run
goes back.  Such times are kept as they are; that they cannot be right is a finding, with what the pace of the run makes
of it.  Hours are no matter: summer time ends, and a run moves to a machine in another zone.  Nor is a step back, after
which another writer, or another run, may begin; nor a pause of months before a run goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay_parsers.records import NO_TIME, Finding, Records, Scalars

CHECK = "clock_jump"

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
FAR_BACK = 26 * _HOUR
"""Microseconds: as far apart as two zones are."""
FAR_AHEAD = 366 * _DAY
"""Microseconds: for so long no run pauses."""

_MOST_TRACKS = 4
"""So many names are followed, the first of a log: files that are written name by name go back at each."""
_MOST_FINDINGS = 8
_MOST_JUMPS = 1_000
_PACES = 31
_HEAD = 64
_GLANCE = 4096
"""Rows at the two ends of a piece that mostly tell all that is asked of one within which no clock can have jumped."""
# From 2000 to 2060.  A clock that shows another year was not set.
_LIKELY = (946_684_800_000_000, 2_840_140_800_000_000)

Place = tuple[int, int]
"""A step, and the time at which it was reported in microseconds since 1970."""


@dataclass(slots=True)
class _Track:
    """What has been seen of one name: the last report, how long the last steps took (microseconds), and the place
    where the clock was right last, while it is wrong."""

    segment: int
    last: Place
    paces: list[float] = field(default_factory=list)
    right: Place | None = None


@dataclass(frozen=True, slots=True)
class _Jump:
    """The clock goes from one place to another, which cannot be right; ``row`` is that of the second."""

    row: int
    before: Place
    now: Place
    right: Place
    pace: float | None


def checked(pieces: Iterable[Records], state: Mapping[str, Any], run: str) -> Iterator[Records]:
    """The pieces of one source, as its parser gives them, with what cannot be right in their clock among the findings.

    ``state``: of the piece before; what goes on from one piece to the next is kept in each one's own.
    """
    check = ClockCheck(state.get("clock"))
    for piece in pieces:
        found = check.look(piece.scalars, run, piece.source)
        noted = check.state()
        if noted["tracks"]:
            piece = replace(piece, findings=(*piece.findings, *found), state={**piece.state, "clock": noted})
        yield piece
        del piece  # the parser can use its memory again


class ClockCheck:
    """Looks at the rows of one source, piece by piece, and finds where its clock cannot be right.

    What it finds does not depend on where the pieces end.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._tracks = {
            name: _Track(segment, (last[0], last[1]), list(paces), None if right is None else (right[0], right[1]))
            for name, (segment, last, paces, right) in state.get("tracks", {}).items()
        }
        # Where the clock went, as told: what it shows there goes on, and is gone to again by a second writer.
        self._told: list[int] = list(state.get("told", []))
        self._count = int(state.get("count", 0))

    def state(self) -> dict[str, Any]:
        """Plain data from which another instance goes on."""
        tracks = {
            name: [one.segment, list(one.last), list(one.paces), None if one.right is None else list(one.right)]
            for name, one in self._tracks.items()
        }
        return {"tracks": tracks, "told": list(self._told), "count": self._count}

    def look(self, scalars: Scalars, run: str, source: str) -> tuple[Finding, ...]:
        """What the next rows of the source show."""
        if not len(scalars.wall_time):
            return ()
        least, most = int(scalars.wall_time.min()), int(scalars.wall_time.max())
        if most == NO_TIME:
            return ()
        timed = None if least != NO_TIME else scalars.wall_time != NO_TIME
        jumps: list[_Jump] = []
        followed = self._followed(scalars, timed)
        even = self._going_on_evenly(scalars, followed, least, most) if timed is None else ()
        for code in followed:
            if code in even:
                continue
            rows = np.flatnonzero(scalars.tag == code if timed is None else timed & (scalars.tag == code))
            if len(rows):
                jumps += self._follow(scalars, scalars.tags[code], rows)
        found = []
        for jump in sorted(jumps, key=lambda one: (one.row, one.now)):
            if self._count < _MOST_FINDINGS and not self._was_told(jump.now[1]):
                self._count += 1
                found.append(_finding(jump, run, source))
        return tuple(found)

    def _followed(self, scalars: Scalars, timed: NDArray[np.bool_] | None) -> list[int]:
        """The codes of the names that are followed, the first ones of the source; ``timed`` is None where all are."""
        for most in (_HEAD, len(scalars.tag)):
            if len(self._tracks) == _MOST_TRACKS or all(name in self._tracks for name in scalars.tags):
                break
            for code, row in _first_rows(scalars.tag[:most], None if timed is None else timed[:most]):
                name = scalars.tags[code]
                if name not in self._tracks and len(self._tracks) < _MOST_TRACKS:
                    place = (int(scalars.step[row]), int(scalars.wall_time[row]))
                    self._tracks[name] = _Track(int(scalars.segment[row]), place)
        return [code for code, name in enumerate(scalars.tags) if name in self._tracks]

    def _going_on_evenly(self, scalars: Scalars, followed: list[int], least: int, most: int) -> set[int]:
        """The codes of names whose clock cannot have jumped, since all times of the piece lie near each other.

        That is most pieces, and a glance at their ends is enough of them: what has to be known behind the piece is
        noted.  Names of which the end does not tell it are left out.
        """
        tracks = {code: self._tracks[scalars.tags[code]] for code in followed}
        near = [
            code
            for code, one in tracks.items()
            if one.right is None and max(most, one.last[1]) - min(least, one.last[1]) <= FAR_BACK
        ]
        if not near:
            return set()
        start = max(0, len(scalars.tag) - min(_GLANCE, 2 * _PACES * len(scalars.tags)))
        end = scalars.tag[start:]
        told = set()
        for code in near:
            rows = (end == code).nonzero()[0][-2 * _PACES :] + start
            step, time, segment = scalars.step[rows], scalars.wall_time[rows], scalars.segment[rows]
            steps = np.subtract(step[1:], step[:-1], dtype=np.float64)
            took = np.subtract(time[1:], time[:-1], dtype=np.float64)
            paced = ((segment[1:] == segment[:-1]) & (steps > 0) & (took >= 0)).nonzero()[0][-_PACES:]
            if len(paced) < _PACES:
                continue
            one = tracks[code]
            one.paces = (took[paced] / steps[paced]).tolist()
            one.segment, one.last = int(segment[-1]), (int(step[-1]), int(time[-1]))
            told.add(code)
        return told

    def _follow(self, scalars: Scalars, name: str, rows: NDArray[np.int64]) -> list[_Jump]:
        track = self._tracks[name]
        segment = np.concatenate(([track.segment], scalars.segment[rows]))
        step = np.concatenate(([track.last[0]], scalars.step[rows]))
        time = np.concatenate(([track.last[1]], scalars.wall_time[rows]))
        steps = np.diff(step.astype(np.float64))
        took = np.diff(time.astype(np.float64))
        goes_on = (np.diff(segment) == 0) & (steps >= 0)
        jumped = goes_on & ((took < -FAR_BACK) | (took > FAR_AHEAD))
        paced = np.flatnonzero(goes_on & ~jumped & (steps > 0) & (took >= 0))
        paces = np.concatenate((track.paces, took[paced] / steps[paced]))
        known_before = len(track.paces)
        breaks = np.flatnonzero(~goes_on)
        passed = 0
        jumps: list[_Jump] = []
        for at in np.flatnonzero(jumped)[:_MOST_JUMPS].tolist():
            broken = int(np.searchsorted(breaks, at))
            if broken > passed:
                track.right, passed = None, broken
            before, now = (int(step[at]), int(time[at])), (int(step[at + 1]), int(time[at + 1]))
            last = paces[: known_before + int(np.searchsorted(paced, at))][-_PACES:]
            pace = float(np.median(last)) if len(last) else None
            right = track.right or before
            if track.right is not None and _fits(right, now, pace):
                # Set right again.
                track.right = None
                continue
            track.right = right
            jumps.append(_Jump(int(rows[at]), before, now, right, pace))
        if len(breaks) > passed:
            track.right = None
        track.segment, track.last = int(segment[-1]), (int(step[-1]), int(time[-1]))
        track.paces = paces[-_PACES:].tolist()
        return jumps

    def _was_told(self, time: int) -> bool:
        """Whether the clock has been told to go there, be it under another name; where it goes on from is noted."""
        for number, told in enumerate(self._told):
            if abs(time - told) < FAR_BACK:
                self._told[number] = time
                return True
        self._told.append(time)
        return False


def _first_rows(tag: NDArray[np.int32], timed: NDArray[np.bool_] | None) -> list[tuple[int, int]]:
    """The codes of the names in some rows, and where each stands first, in that order."""
    if timed is None and len(tag) <= _HEAD:
        firsts: dict[int, int] = {}
        for row, code in enumerate(tag.tolist()):
            firsts.setdefault(code, row)
        return list(firsts.items())
    rows = np.arange(len(tag)) if timed is None else np.flatnonzero(timed)
    codes, first = np.unique(tag[rows], return_index=True)
    return sorted(zip(codes.tolist(), rows[first].tolist(), strict=True), key=lambda pair: pair[1])


def _expected(right: Place, now: Place, pace: float | None) -> float:
    """When the step of ``now`` is due."""
    return right[1] + (pace or 0.0) * (now[0] - right[0])


def _fits(right: Place, now: Place, pace: float | None) -> bool:
    """Whether the clock shows at ``now`` what it can show, since it was right."""
    return now[1] - right[1] >= -FAR_BACK and now[1] - _expected(right, now, pace) <= FAR_AHEAD


def _finding(jump: _Jump, run: str, source: str) -> Finding:
    (step_before, time_before), (step, time) = jump.before, jump.now
    days = abs(time - time_before) / _DAY
    way = "back" if time < time_before else "ahead"
    due = _expected(jump.right, jump.now, jump.pace)
    shown = f"step {step} at {_shown(time)}, as the clock shows"
    if jump.pace is None:
        by_pace = f"step {step} soon after {_shown(jump.right[1])}, when step {jump.right[0]} was reported"
        pace = ""
    else:
        by_pace = (
            f"step {step} about {_shown(due)}, as steps took {_span(jump.pace)} each since {_shown(jump.right[1])}"
        )
        pace = f", where a step takes {_span(jump.pace)} (the median of those before)"
    reasons = f"between steps {step_before} and {step} the clock goes {way} by {days:,.0f} days{pace}"
    was_set = _LIKELY[0] <= jump.right[1] < _LIKELY[1] or not _LIKELY[0] <= time < _LIKELY[1]
    if not was_set:
        reasons += f"; before, at {_shown(jump.right[1])}, it was not set"
    return Finding(
        run=run,
        check=CHECK,
        source=source,
        locator=f"step {step}",
        readings=(shown, by_pace),
        likely=by_pace if was_set else shown,
        reasons=reasons,
    )


def _shown(time: float) -> str:
    """A time to the second; numpy knows years that no datetime does."""
    within = min(max(time, np.iinfo(np.int64).min + 1), float(2**63 - 1024))
    return str(np.datetime64(int(within), "us").astype("datetime64[s]")).replace("T", " ")


def _span(microseconds: float) -> str:
    return f"{microseconds / 1e6:.3g} s"
