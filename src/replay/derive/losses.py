"""Losses that are no numbers, told or left out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from replay.derive.reading import Reading, Signal, runs_of
from replay.measurements import missing_losses
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event


def find(reading: Reading) -> Iterator[Event]:
    """`nan_loss` events: not a number, infinite, 0 beside a gradient norm that is NaN, or missing."""
    for attempt, loss in reading.signals.get("loss", {}).items():
        bad = ~np.isfinite(loss.value) | _zero_for_nan(reading, loss, attempt)
        for first, last in runs_of(bad):
            yield _not_a_number(reading, loss, first, last)
    missing = missing_losses(reading.scalars)
    for _, rows in missing.groupby(["source", "attempt"], sort=True):
        yield from _missing(reading, rows.reset_index(drop=True))


def _zero_for_nan(reading: Reading, loss: Signal, attempt: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    norm = reading.signal("grad_norm", attempt)
    unknown = norm.step[np.isnan(norm.value)] if norm is not None else np.empty(0, dtype=np.int64)
    return np.asarray((loss.value == 0) & np.isin(loss.step, unknown))


def _not_a_number(reading: Reading, loss: Signal, first: int, last: int) -> Event:
    step, step_end = int(loss.step[first]), int(loss.step[last])
    value = loss.value[first]
    said = "0, with a gradient norm that is no number" if value == 0 else "infinite" if np.isinf(value) else "no number"
    where = f"at step {step}" if step == step_end else f"from step {step} to step {step_end}"
    return reading.event(
        EventKind.NAN_LOSS,
        step=step,
        step_end=step_end,
        detail={"reports": str(last - first + 1)},
        text=f"the loss is {said} {where}",
        source=loss.source,
        locator=loss.place(step, step_end),
        time=loss.time_at(first),
    )


def _missing(reading: Reading, rows: pd.DataFrame) -> Iterator[Event]:
    source, companion, tag = str(rows["source"][0]), str(rows["companion"][0]), str(rows["tag"][0])
    reports = reading.scalars[(reading.scalars["source"] == source) & (reading.scalars["tag"] == companion)]
    reports = reports[reports["attempt"] == rows["attempt"][0]]
    steps = np.unique(reports["step"].to_numpy(np.int64))
    absent = np.isin(steps, rows["step"].to_numpy(np.int64))
    for first, last in runs_of(absent):
        step, step_end = int(steps[first]), int(steps[last])
        time = rows.loc[rows["step"] == step, "wall_time"].iloc[0]
        where = f"step {step}" if step == step_end else f"steps {step} to {step_end}"
        yield reading.event(
            EventKind.NAN_LOSS,
            step=step,
            step_end=step_end,
            detail={"reports": str(last - first + 1)},
            text=f"the loss is missing at {where}, where {companion!r} is reported: a loss that is none is left out",
            source=source,
            locator=f"tag {tag!r} missing beside {companion!r}, {where}",
            time=None if pd.isna(time) else time.to_pydatetime(),
        )
