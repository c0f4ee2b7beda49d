"""Attempts: the stretches of training between restarts, over time and over steps."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from replay.report.chart import (
    KEPT,
    ROLLED_BACK,
    Chart,
    Rows,
    colour,
    iso,
    specification,
    step_axis,
    step_zoom,
    time_axis,
    tooltip,
    value_axis,
)
from replay.report.reading import RunReading, records
from replay.report.words import count, moment, spelled

_LEGEND = [("kept", "kept"), ("lost", "rolled back")]


def stretches(attempts: pd.DataFrame) -> list[dict[str, Any]]:
    """Attempts whose first and last step are known, with ``start``, ``kept`` and ``end`` as numbers."""
    found = []
    for attempt in records(attempts):
        if pd.isna(attempt["start_step"]) or pd.isna(attempt["end_step"]):
            continue
        start, end = int(attempt["start_step"]), int(attempt["end_step"])
        kept = end if pd.isna(attempt["kept_to"]) else min(max(int(attempt["kept_to"]), start), end)
        found.append({**attempt, "attempt": int(attempt["attempt"]), "start": start, "kept": kept, "end": end})
    return found


def progress(reading: RunReading) -> Chart | None:
    """Step over time, each attempt a line and what was rolled back apart: a run's sawtooth."""
    timed = [
        row
        for row in stretches(reading.attempts)
        if pd.notna(row["start_time"]) and row["end_time"] > row["start_time"]
    ]
    if len(timed) < 2:
        return None
    rows: Rows = []
    for row in timed:
        first, last = row["start_time"], row["end_time"]
        share = (row["kept"] - row["start"]) / (row["end"] - row["start"]) if row["end"] > row["start"] else 1.0
        turn = (first + (last - first) * share, row["kept"])
        for branch, ends in ((KEPT, ((first, row["start"]), turn)), (ROLLED_BACK, (turn, (last, row["end"])))):
            if ends[0] != ends[1]:
                common = {"attempt": row["attempt"], "branch": branch}
                rows += [
                    common | {"time": iso(time), "when": f"{moment(time)} UTC", "step": step} for time, step in ends
                ]
    chart = (
        alt.Chart(alt.NamedData("progress"), name="progress_line")
        .mark_line(strokeWidth=2)
        .encode(
            x=time_axis("time", [row["time"] for row in rows]),
            y=alt.Y("step:Q", axis=value_axis(), scale=alt.Scale(zero=False)),
            color=colour("branch"),
            detail="attempt:N",
            tooltip=tooltip(attempt="attempt", step="step", when="when", branch="branch"),
        )
    )
    lost = sum(row["end"] > row["kept"] for row in timed)
    description = f"Steps reached over time by {count(len(timed), 'attempt')}, {lost} of them rolled back in part."
    return Chart(
        name="progress",
        title="Progress over time",
        spec=specification(chart.properties(height=220), {"progress": rows}, description),
        description=description,
        legend=_LEGEND,
        notes=["Each attempt is drawn straight from its first to its last known time."],
    )


def attempts_chart(reading: RunReading, domain: tuple[int, int]) -> Chart | None:
    """Each attempt a bar from its first to its last step."""
    known = stretches(reading.attempts)
    if len(known) < 2:
        return None
    rows: Rows = []
    for row in known:
        common = {"attempt": row["attempt"], "cause": spelled(row["end_cause"] or "not known")}
        # A bar begins where the one before it ends; its first step is the one after that.
        parts = [(row["start"], row["kept"], KEPT), (row["kept"], row["end"], ROLLED_BACK)]
        rows += [
            common | {"first": first, "from": min(first + 1, last), "last": last, "branch": branch}
            for first, last, branch in parts
            if last > first or branch == KEPT
        ]
    chart = (
        alt.Chart(alt.NamedData("attempts"), name="attempts_bars")
        .mark_bar(height=alt.RelativeBandSize(0.7), clip=True)
        .encode(
            x=step_axis(domain, "first"),
            x2="last",
            y=alt.Y("attempt:O", axis=value_axis()),
            color=colour("branch"),
            tooltip=tooltip(
                attempt="attempt", **{"from": "from step"}, last="to step", branch="branch", cause="ended by"
            ),
        )
        .add_params(step_zoom("attempts"))
    )
    unknown = len(reading.attempts) - len(known)
    description = (
        f"{count(len(known), 'attempt')} as bars from first to last step; the table of attempts says the same."
    )
    return Chart(
        name="attempts",
        title="Attempts",
        spec=specification(chart.properties(height=min(22 * len(known) + 10, 360)), {"attempts": rows}, description),
        description=description,
        legend=_LEGEND,
        notes=[f"{count(unknown, 'attempt')} whose last step no source tells: see the table."] if unknown else [],
        zooms=bool(reading.signals),
    )
