"""Restarts and rollbacks that the order of steps shows, with what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replay.derive.reading import Reading
from replay.lineage import PIECES
from replay.lineage.segments import microseconds
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

_MICROSECONDS_AN_HOUR = 3_600_000_000
_Clocks = dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]
"""By attempt: (step, microseconds since 1970) of every row with a time."""


def find(reading: Reading) -> Iterator[Event]:
    """A `restart` for every attempt after the first that its rows show, and a `rollback` where steps were lost."""
    rows = reading.attempts.to_dict("records")
    clocks = _clocks(reading) if len(rows) > 1 else {}
    seen = {(piece.source, piece.segment) for piece in rows[0][PIECES]} if rows else set()
    for index in range(1, len(rows)):
        row, before = rows[index], rows[index - 1]
        own = {(piece.source, piece.segment) for piece in row[PIECES]}
        # An attempt that shares its segment with an earlier one is known from a logbook, not from steps.
        shown = bool(own) and not own <= seen
        seen |= own
        if not shown or pd.isna(row["start_step"]) or pd.isna(before["end_step"]):
            continue
        yield from _restart(reading, clocks, row, before)


def _restart(reading: Reading, clocks: _Clocks, row: dict[Any, Any], before: dict[Any, Any]) -> Iterator[Event]:
    start, reached = int(row["start_step"]), int(before["end_step"])
    number = int(row["attempt"])
    piece = row[PIECES][0]
    time, pause = _time(row["start_time"]), _hours(before["end_time"], row["start_time"])
    detail = {} if pause is None else {"downtime_hours": f"{pause:.3g}"}
    lost = reached - start
    again = f"goes back from step {reached} to {start}" if lost > 0 else f"goes on from step {start}"
    locator = f"steps {reached} and {piece.first}, one after the other"
    yield reading.event(
        EventKind.RESTART,
        step=start,
        before=float(reached),
        unit="step",
        detail={"attempt": str(number)} | detail,
        text=f"the record {again}: attempt {number} begins",
        source=piece.source,
        locator=locator,
        time=time,
    )
    if lost > 0:
        yield reading.event(
            EventKind.ROLLBACK,
            step=start,
            before=float(reached),
            unit="step",
            lost_steps=float(lost),
            lost_hours=_lost_hours(reading, clocks, number, start),
            detail={"attempt": str(number)} | detail,
            text=(
                f"{lost} steps after step {start} are computed anew; "
                "whether after a crash or by choice, the scalars do not say"
            ),
            source=piece.source,
            locator=locator,
            time=time,
        )


def _clocks(reading: Reading) -> _Clocks:
    """Steps and times of every attempt, where they are known."""
    clock = reading.scalars[["attempt", "step", "wall_time"]].dropna()
    clock = clock[clock["wall_time"] > pd.Timestamp("1990", tz="UTC")]
    attempt, step = clock["attempt"].to_numpy(np.int64), clock["step"].to_numpy(np.int64)
    order = np.argsort(attempt, kind="stable")
    numbers, first = np.unique(attempt[order], return_index=True)
    rows = np.split(order, first[1:])
    time = microseconds(clock["wall_time"])
    return {int(number): (step[own], time[own]) for number, own in zip(numbers, rows, strict=False)}


def _lost_hours(reading: Reading, clocks: _Clocks, number: int, start: int) -> float | None:
    """The time that earlier attempts had spent on steps after ``start`` that had survived until then."""
    starts = reading.attempts["start_step"]
    lost, known = 0, False
    for attempt in (earlier for earlier in clocks if earlier < number):
        step, time = clocks[attempt]
        later = [int(s) for s in starts[attempt + 1 : number].dropna()]
        undone = time[(step > start) & (step <= min(later, default=np.iinfo(np.int64).max))]
        if len(undone):
            known = True
            kept = time[step <= start]
            lost += int(undone.max() - (kept.max() if len(kept) else undone.min()))
    return round(lost / _MICROSECONDS_AN_HOUR, 6) if known and lost >= 0 else None


def _time(value: object) -> datetime | None:
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) and not pd.isna(value) else None


def _hours(begin: object, end: object) -> float | None:
    if not isinstance(begin, pd.Timestamp) or not isinstance(end, pd.Timestamp) or pd.isna(begin) or pd.isna(end):
        return None
    return float((end - begin).total_seconds() / 3600)
