"""A signal as it is drawn: few enough points, what was rolled back apart, holes and NaN in sight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from replay.report.chart import KEPT, ROLLED_BACK, Rows
from replay.report.reading import RunReading, SignalReading, records
from replay.report.series import MAX_POINTS, holes, keep_extremes
from replay.report.words import count, number, shortened, spelled, steps

LOG_RATIO = 30.0
"""A positive signal whose largest value is this many times its median is drawn on a log scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSignal:
    """``line`` holds the points (null where the line breaks), ``broken`` where values are not finite, ``flags``
    what the rules said of this signal; ``sparse`` asks for dots, since so few points may not form a line."""

    line: Rows
    broken: Rows
    flags: Rows
    logarithmic: bool
    sparse: bool
    description: str
    notes: list[str]


def drawn_signal(reading: RunReading, signal: str) -> DrawnSignal | None:
    """What to draw of ``signal``; None when the run has not even two values of it."""
    source = reading.signals[signal]
    if len(source.rows) < 2:
        return None
    rows = with_branch(source.rows, reading.attempts)
    line: Rows = []
    broken: Rows = []
    for branch_rows in dict(list(rows.groupby(["attempt", "branch"], sort=True))).values():
        points, marks = _branch_points(branch_rows)
        line += points
        broken += marks
    value = rows["value"].to_numpy(float)
    finite = value[np.isfinite(value)]
    logarithmic = bool(len(finite)) and finite.min() > 0 and finite.max() > LOG_RATIO * float(np.median(finite))
    return DrawnSignal(
        line=line,
        broken=broken,
        flags=_flags(reading, signal),
        logarithmic=logarithmic,
        sparse=len(rows) <= 60,
        description=_description(signal, rows),
        notes=_notes(source, rows, len([row for row in line if row["value"] is not None])),
    )


def is_constant(reading: RunReading, signal: str) -> bool:
    """Whether a signal has the same finite value throughout, so that a drawing of it would say nothing."""
    value = reading.signals[signal].rows["value"]
    return bool(len(value)) and bool(np.isfinite(value).all()) and value.nunique() == 1


def with_branch(rows: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Scalars in order of attempt and step, with the column ``branch``: kept, or rolled back later.

    A row is rolled back when its step is beyond the step up to which a later attempt built on its attempt.
    """
    kept_to = (
        attempts.set_index("attempt")["kept_to"].astype("Float64") if len(attempts) else pd.Series(dtype="Float64")
    )
    limit = rows["attempt"].map(kept_to).fillna(np.inf).astype(float)
    rows["branch"] = np.where(rows["step"].to_numpy() > limit.to_numpy(), ROLLED_BACK, KEPT)
    return rows.sort_values(["attempt", "step"], kind="stable", ignore_index=True)


def _branch_points(part: pd.DataFrame) -> tuple[Rows, Rows]:
    """Points of one stretch of one attempt, and where its values are not finite."""
    attempt, branch = int(part["attempt"].iloc[0]), str(part["branch"].iloc[0])
    step, value = part["step"].to_numpy(np.int64), part["value"].to_numpy(float)
    missing = holes(step)
    # A line breaks where it meets a point without a value.
    step = np.insert(step, missing + 1, step[missing] + 1)
    value = np.insert(value, missing + 1, np.nan)
    inserted = np.zeros(len(step), bool)
    inserted[missing + 1 + np.arange(len(missing))] = True
    kept = keep_extremes(value)
    points = [{"step": int(step[i]), "value": _finite(value[i]), "attempt": attempt, "branch": branch} for i in kept]
    marks = [
        {"step": int(step[i]), "attempt": attempt, "what": _broken_word(value[i])}
        for i in kept
        if not np.isfinite(value[i]) and not inserted[i]
    ]
    return points, marks


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _broken_word(value: float) -> str:
    return "NaN" if np.isnan(value) else number(value)


def _flags(reading: RunReading, signal: str) -> Rows:
    """The flags on a signal, each with the signal's value at the flag's first step, where its mark is to stand."""
    flags = records(reading.flags[reading.flags["signal"] == signal])
    rows = reading.signals[signal].rows
    value_at = {
        (attempt, step): value
        for attempt, step, value in zip(rows["attempt"], rows["step"], rows["value"], strict=True)
        if flags
    }
    return [
        {
            "step": int(flag["step"]),
            "until": int(flag["step"] if pd.isna(flag["step_end"]) else flag["step_end"]),
            "when": steps(flag["step"], flag["step_end"]),
            "value": _finite(float(value_at.get((flag["attempt"], flag["step"]), np.nan))),
            "rule": flag["rule"],
            "severity": flag["severity"],
            "score": number(flag["score"], 3),
            "message": flag["message"],
        }
        for flag in flags
        if pd.notna(flag["step"])
    ]


def _description(signal: str, rows: pd.DataFrame) -> str:
    value, step = rows["value"].to_numpy(float), rows["step"].to_numpy(np.int64)
    name = spelled(signal)
    head = f"Line chart of the {name}, steps {steps(step.min(), step.max())}"
    good = np.isfinite(value)
    if not good.any():
        return f"{head}: not one of {count(len(value), 'value')} is a finite number."
    low = int(np.where(good, value, np.inf).argmin())
    high = int(np.where(good, value, -np.inf).argmax())
    last = int(np.flatnonzero(good)[-1])
    text = (
        f"{head}: lowest {number(value[low])} at step {steps(step[low])}, highest {number(value[high])} at step "
        f"{steps(step[high])}, last {number(value[last])} at step {steps(step[last])}"
    )
    return text + (f"; {count(int((~good).sum()), 'value')} not finite." if not good.all() else ".")


def _notes(source: SignalReading, rows: pd.DataFrame, drawn: int) -> list[str]:
    notes = [f"Logged as {shortened(source.tags, 4)}." if source.tags else "Computed from step times and batch sizes."]
    if drawn < np.isfinite(rows["value"].to_numpy(float)).sum():
        notes.append(
            f"Drawn with {drawn:,} of {len(rows):,} points, the lowest and highest of each stretch among them, "
            f"at most {MAX_POINTS:,} a line."
        )
    broken = int((~np.isfinite(rows["value"].to_numpy(float))).sum())
    if broken:
        notes.append(f"{count(broken, 'value')} not finite: ticks along the top edge, and breaks in the line.")
    return notes
