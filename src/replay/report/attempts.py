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
    """Each attempt a bar from its first to its last step; where no source tells the last, to what was kept of it.

    An attempt of which no length is known is a tick where it began.
    """
    begun = [row for row in records(reading.attempts) if pd.notna(row["start_step"])]
    if len(begun) < 2:
        return None
    known = stretches(reading.attempts)
    open_ended = [_open_ended(row) for row in begun if pd.isna(row["end_step"])]
    bars = [bar for row in [*known, *open_ended] for bar in _bars(row)]
    ticks = [
        {"attempt": row["attempt"], "first": row["start"], "cause": spelled(row["end_cause"] or "not known")}
        for row in open_ended
        if row["end"] == row["start"]
    ]
    left_out = len(reading.attempts) - len(begun)
    description = f"{count(len(begun), 'attempt')} as bars over steps; the table of attempts says the same."
    chart = _attempts_drawing(domain, with_ticks=bool(ticks), with_bars=bool(bars))
    return Chart(
        name="attempts",
        title="Attempts",
        spec=specification(
            chart.properties(height=min(22 * len(begun) + 10, 480)), {"attempts": bars, "begun": ticks}, description
        ),
        description=description,
        legend=_LEGEND + ([("broken", "begun, of a length that is not known")] if ticks else []),
        notes=_attempts_notes(len(open_ended) - len(ticks), len(ticks), left_out),
        zooms=bool(reading.signals),
    )


def _open_ended(row: dict[str, Any]) -> dict[str, Any]:
    """An attempt whose last step is not known, as far as it was kept."""
    start = int(row["start_step"])
    kept = start if pd.isna(row["kept_to"]) else max(int(row["kept_to"]), start)
    return {**row, "attempt": int(row["attempt"]), "start": start, "kept": kept, "end": kept}


def _bars(row: dict[str, Any]) -> Rows:
    common = {"attempt": row["attempt"], "cause": spelled(row["end_cause"] or "not known")}
    # A bar begins where the one before it ends; its first step is the one after that.
    parts = [(row["start"], row["kept"], KEPT), (row["kept"], row["end"], ROLLED_BACK)]
    return [
        common | {"first": first, "from": min(first + 1, last), "last": last, "branch": branch}
        for first, last, branch in parts
        if last > first
    ]


def _attempts_drawing(domain: tuple[int, int], *, with_ticks: bool, with_bars: bool) -> Any:
    rank = alt.Y("attempt:O", axis=value_axis(), sort="ascending")
    bars = (
        alt.Chart(alt.NamedData("attempts"), name="attempts_bars")
        .mark_bar(height=alt.RelativeBandSize(0.7), clip=True)
        .encode(
            x=step_axis(domain, "first"),
            x2="last",
            y=rank,
            color=colour("branch"),
            tooltip=tooltip(
                attempt="attempt", **{"from": "from step"}, last="to step", branch="branch", cause="ended by"
            ),
        )
    )
    ticks = (
        alt.Chart(alt.NamedData("begun"), name="attempts_begun")
        .mark_tick(thickness=3, color="var(--severity-critical)", clip=True, orient="vertical")
        .encode(
            x=step_axis(domain, "first"),
            y=rank,
            tooltip=tooltip(attempt="attempt", first="begun at step", cause="ended by"),
        )
    )
    # A layer without a single mark would have no range of values, of which a browser complains.
    layers = [layer for layer, wanted in ((bars, with_bars), (ticks, with_ticks)) if wanted]
    return alt.layer(layers[0].add_params(step_zoom("attempts")), *layers[1:])


def _attempts_notes(kept: int, begun: int, left_out: int) -> list[str]:
    notes = []
    if kept:
        notes.append(f"No source tells how far {count(kept, 'attempt')} came: drawn to the step that was kept.")
    if begun:
        notes.append(f"{count(begun, 'attempt')} of unknown length: a tick where training began.")
    if left_out:
        notes.append(f"{count(left_out, 'attempt')} without a first step on record: not drawn, see the table.")
    return notes
