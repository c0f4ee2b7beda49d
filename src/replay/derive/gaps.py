"""Holes in the record: steps that should have been reported and were not, and hours in which nothing was."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replay import signals
from replay.derive.reading import Reading, Signal, number, signal
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

# A hole is at least two reports missing; a report or two late happen.
_LEAST_REPORTS = 3
_REGULAR_SHARE = 0.8
_LEAST_DIFFERENCES = 4
_LEAST_PAUSE_HOURS = 1.0
_PAUSE_TIMES = 20
# Steps that took less than this share of their usual time were not executed.
_SKIPPED_SHARE = 0.2
_MOST_PAUSES = 0.005


def find(reading: Reading) -> Iterator[Event]:
    """`gap` events, and `skip_batches` where the step counter moved on in no time."""
    before: Signal | None = None
    for attempt in sorted(int(a) for a in reading.scalars["attempt"].dropna().unique()):
        main = _main_tag(reading, attempt)
        if main is None:
            continue
        interval = _interval(main)
        if before is not None and interval is not None and main.step[0] - before.step[-1] >= _LEAST_REPORTS * interval:
            yield _missing_steps(reading, before, main, int(before.step[-1]), int(main.step[0]), interval)
        if interval is not None:
            yield from _within(reading, main, interval)
        before = main


def _main_tag(reading: Reading, attempt: int) -> Signal | None:
    """The tag that is reported most often in an attempt; the loss, if it is reported nearly as often."""
    rows = reading.scalars[reading.scalars["attempt"] == attempt]
    counts = rows["tag"].value_counts()
    counts = counts[[signals.axis_of(str(tag)) == signals.STEP_AXIS for tag in counts.index]]
    if counts.empty:
        return None
    loss = reading.signal("loss", attempt)
    if loss is not None and len(loss) * 2 >= counts.iloc[0]:
        return loss
    chosen = rows[rows["tag"] == counts.index[0]].sort_values("step", kind="stable").drop_duplicates("step")
    return signal(str(counts.index[0]), attempt, chosen)


def _reported_steps(reading: Reading, attempt: int) -> NDArray[np.int64]:
    """The steps at which an attempt reported anything, ascending."""
    rows = reading.scalars[reading.scalars["attempt"] == attempt]
    tags = [tag for tag in rows["tag"].unique() if signals.axis_of(str(tag)) == signals.STEP_AXIS]
    return np.unique(rows.loc[rows["tag"].isin(tags), "step"].to_numpy(np.int64))


def _interval(main: Signal) -> int | None:
    """The distance of two reports, if nearly all have the same."""
    distances = np.diff(main.step)
    if len(distances) < _LEAST_DIFFERENCES:
        return None
    values, counts = np.unique(distances, return_counts=True)
    usual = int(np.argmax(counts))
    return int(values[usual]) if counts[usual] >= _REGULAR_SHARE * len(distances) else None


def _within(reading: Reading, main: Signal, interval: int) -> Iterator[Event]:
    distances = np.diff(main.step)
    seconds = main.time.diff().dt.total_seconds().to_numpy(np.float64)[1:]
    timed = seconds[np.isfinite(seconds) & (distances == interval)]
    pace = float(np.median(timed)) if len(timed) else None
    holes = np.flatnonzero(distances >= _LEAST_REPORTS * interval).tolist()
    reported = _reported_steps(reading, main.attempt) if holes else main.step
    for index in holes:
        first, last = int(main.step[index]), int(main.step[index + 1])
        if np.searchsorted(reported, last, "left") > np.searchsorted(reported, first, "right"):
            continue  # this tag is missing there, others are not
        took = float(seconds[index])
        usual = None if pace is None else pace * (last - first) / interval
        if usual and np.isfinite(took) and took < _SKIPPED_SHARE * usual:
            yield _skipped(reading, main, index, took, usual)
        else:
            yield _missing_steps(reading, main, main, first, last, interval)
    if not pace or pace <= 0:
        return
    limit = max(_PAUSE_TIMES * pace, _LEAST_PAUSE_HOURS * 3600)
    with np.errstate(invalid="ignore"):
        pauses = np.flatnonzero((seconds > limit) & (distances < _LEAST_REPORTS * interval))
    # What happens again and again, as an evaluation does, is no hole in the record.
    if len(pauses) > max(3, _MOST_PAUSES * len(seconds)):
        return
    for index in pauses.tolist():
        hours = float(seconds[index]) / 3600
        yield reading.event(
            EventKind.GAP,
            step=int(main.step[index]),
            step_end=int(main.step[index + 1]),
            detail={"hours": number(hours)},
            text=f"no report for {number(round(hours, 2))} hours, where one is due every {number(pace)} s",
            source=main.source,
            locator=main.place(int(main.step[index]), int(main.step[index + 1])),
            time=main.time_at(index),
        )


def _missing_steps(reading: Reading, before: Signal, after: Signal, first: int, last: int, interval: int) -> Event:
    time = before.time[before.step <= first].max() if before.time.notna().any() else None
    return reading.event(
        EventKind.GAP,
        step=first,
        step_end=last,
        detail={"interval": str(interval)},
        text=f"nothing is reported between steps {first} and {last}, where every {ordinal(interval)} step is",
        source=after.source,
        locator=after.place(first, last),
        time=None if time is None or pd.isna(time) else time.to_pydatetime(),
    )


def _skipped(reading: Reading, main: Signal, index: int, took: float, usual: float) -> Event:
    first, last = int(main.step[index]) + 1, int(main.step[index + 1]) - 1
    return reading.event(
        EventKind.SKIP_BATCHES,
        step=first,
        step_end=last,
        detail={"batches": str(last - first + 1)},
        text=f"steps {first} to {last} pass in {number(took)} s, where {number(usual)} s are usual: they were left out",
        source=main.source,
        locator=main.place(first - 1, last + 1),
        time=main.time_at(index + 1),
    )


def ordinal(interval: int) -> str:
    """`2nd`, `10th`; nothing for 1."""
    if interval == 1:
        return "single"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(interval % 10, "th") if interval % 100 not in (11, 12, 13) else "th"
    return f"{interval}{ending}"
