"""Restarts and rollbacks that the order of steps shows, with what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from replay.derive.reading import Reading
from replay.lineage import PIECES
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event


def find(reading: Reading) -> Iterator[Event]:
    """A `restart` for every attempt after the first that its rows show, and a `rollback` where steps were lost."""
    rows = reading.attempts.to_dict("records")
    seen = {(piece.source, piece.segment) for piece in rows[0][PIECES]} if rows else set()
    for index in range(1, len(rows)):
        row, before = rows[index], rows[index - 1]
        own = {(piece.source, piece.segment) for piece in row[PIECES]}
        # An attempt that shares its segment with an earlier one is known from a logbook, not from steps.
        shown = bool(own) and not own <= seen
        seen |= own
        if not shown or pd.isna(row["start_step"]) or pd.isna(before["end_step"]):
            continue
        yield from _restart(reading, row, before)


def _restart(reading: Reading, row: dict[Any, Any], before: dict[Any, Any]) -> Iterator[Event]:
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
            lost_hours=_lost_hours(reading, number, start),
            detail={"attempt": str(number)} | detail,
            text=(
                f"{lost} steps after step {start} are computed anew; "
                "whether after a crash or by choice, the scalars do not say"
            ),
            source=piece.source,
            locator=locator,
            time=time,
        )


def _lost_hours(reading: Reading, number: int, start: int) -> float | None:
    """The time that earlier attempts had spent on steps after ``start`` that had survived until then."""
    clock = reading.scalars[["attempt", "step", "wall_time"]].dropna()
    clock = clock[(clock["attempt"] < number) & (clock["wall_time"] > pd.Timestamp("1990", tz="UTC"))]
    starts = reading.attempts["start_step"]
    hours, known = 0.0, False
    for _, rows in clock.groupby("attempt"):
        later = [int(s) for s in starts[int(rows["attempt"].iloc[0]) + 1 : number].dropna()]
        limit = min(later, default=np.iinfo(np.int64).max)
        lost = rows[(rows["step"] > start) & (rows["step"] <= limit)]["wall_time"]
        if lost.empty:
            continue
        before = rows[rows["step"] <= start]["wall_time"]
        known = True
        hours += (lost.max() - (before.max() if len(before) else lost.min())).total_seconds() / 3600
    return round(hours, 6) if known and hours >= 0 else None


def _time(value: object) -> datetime | None:
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) and not pd.isna(value) else None


def _hours(begin: object, end: object) -> float | None:
    if not isinstance(begin, pd.Timestamp) or not isinstance(end, pd.Timestamp) or pd.isna(begin) or pd.isna(end):
        return None
    return float((end - begin).total_seconds() / 3600)
