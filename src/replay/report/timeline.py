"""The timeline: what was seen, found, done and came of it, one lane a kind, the lanes grouped by role."""

from __future__ import annotations

from collections import Counter
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from replay.report.chart import Chart, Rows, iso, specification, step_axis, step_zoom, time_axis, tooltip, value_axis
from replay.report.reading import RunReading, records
from replay.report.words import count, moment, spelled, steps

LANES = {
    "flag": "flagged",
    "symptom": "seen",
    "cause": "cause",
    "intervention": "done",
    "outcome": "then, well",
    "setback": "then, not well",
    "unknown": "then, not told",
    "lifecycle": "lifecycle",
}
"""Groups of lanes from top to bottom: the part an event plays, and the word for it."""

_WELL = {"recovered", "recovered_by_itself", "completed"}


def part(role: str, kind: str) -> str:
    """The role of an event, outcomes told apart: what ended well, what did not, and what no source tells.

    >>> part("outcome", "recovered"), part("outcome", "recurred"), part("symptom", "crash")
    ('outcome', 'setback', 'symptom')
    """
    if role != "outcome" or kind in _WELL:
        return role
    return "unknown" if kind == "not_stated" else "setback"


LANES_A_ROLE = 5
"""The most frequent kinds of a role have a lane each; the others share one."""

MAX_MARKS = 1_500
"""Marks that one lane may have."""

_LANE_HEIGHT = 19


def timeline(reading: RunReading, domain: tuple[int, int]) -> Chart | None:
    """Every event and flag in its lane, over steps when the run has scalars to compare with, else over time.

    None when nothing, or a single event among many, can be placed.
    """
    by_time = not reading.signals and reading.events["time"].notna().sum() >= reading.events["step"].notna().sum()
    placed, unplaced = _rows(reading, by_time)
    if not placed or len(placed) < 2 <= unplaced:
        return None
    lanes = _assign_lanes(placed)
    rows = [row for lane in lanes for row in _thinned([row for row in placed if row["lane"] == lane])]
    description = _description(placed, by_time)
    notes = []
    if unplaced:
        missing = "time" if by_time else "step"
        notes.append(f"{count(unplaced, 'event')} without a {missing} cannot be placed here; see the tables.")
    if len(rows) < len(placed):
        left_out = count(len(placed) - len(rows), "event")
        notes.append(f"{left_out} of crowded lanes are left out of the drawing, not of the store.")
    links = _incidents(rows, lanes)
    chart = _draw(rows, lanes, by_time, domain, with_links=bool(links)).properties(height=_LANE_HEIGHT * len(lanes))
    roles = {row["role"] for row in rows}
    return Chart(
        name="timeline",
        title="Timeline",
        spec=specification(chart, {"events": rows, "incidents": links}, description),
        description=description,
        legend=[(f"dot {role}", word) for role, word in LANES.items() if role in roles],
        notes=[*notes, *(["Click a mark to open its incident."] if len(reading.incidents) else [])],
        zooms=not by_time,
    )


def _draw(rows: Rows, lanes: list[str], by_time: bool, domain: tuple[int, int], *, with_links: bool) -> Any:
    x = time_axis("at", [row["at"] for row in rows]) if by_time else step_axis(domain, "at")
    band = alt.Scale(domain=lanes)
    axis = value_axis(ticks=False)
    y = alt.Y("lane:N", scale=band, axis=axis)
    shades = alt.Scale(domain=list(LANES), range=[f"var(--lane-{role})" for role in LANES])
    color = alt.Color("role:N", scale=shades, legend=None)
    shape = alt.Shape(
        "role:N", scale=alt.Scale(domain=list(LANES), range=["diamond"] + ["circle"] * (len(LANES) - 1)), legend=None
    )
    hints = tooltip(what="what", when="when", incident="incident", text="in words", source="source")
    base = alt.Chart(alt.NamedData("events"))
    marks = (
        base.properties(name="timeline_marks")
        .mark_point(filled=True, size=75, opacity=0.9, clip=True, cursor="pointer")
        .encode(x=x, y=y, color=color, shape=shape, tooltip=hints)
    )
    layers = []
    # A layer without a single mark would have no range of values, of which a browser complains.
    if with_links:
        links = alt.Chart(alt.NamedData("incidents")).mark_rule(color="var(--axis)", opacity=0.5, clip=True)
        layers.append(links.encode(x=x, y=alt.Y("top:N", scale=band, axis=axis), y2="bottom"))
    if any(row["until"] is not None for row in rows):
        spans = base.transform_filter("isValid(datum.until)").mark_rule(strokeWidth=6, opacity=0.4, clip=True)
        layers.append(spans.encode(x=x, x2="until", y=y, color=color, tooltip=hints))
    return alt.layer(*layers, marks if by_time else marks.add_params(step_zoom("timeline")))


def _incidents(rows: Rows, lanes: list[str]) -> Rows:
    """For each moment of an incident the lanes to join, so that what belongs together is seen together."""
    joined: dict[tuple[str, Any], list[int]] = {}
    for row in rows:
        if row["incident"]:
            joined.setdefault((row["incident"], row["at"]), []).append(lanes.index(row["lane"]))
    return [
        {"at": at, "top": lanes[min(positions)], "bottom": lanes[max(positions)]}
        for (_, at), positions in joined.items()
        if min(positions) < max(positions)
    ]


def _assign_lanes(rows: Rows) -> list[str]:
    """Give each row its lane; returns the lanes from top to bottom."""
    lanes: list[str] = []
    for role, word in LANES.items():
        mine = [row for row in rows if row["role"] == role]
        ranked = sorted(Counter(row["kind"] for row in mine).items(), key=lambda item: (-item[1], item[0]))
        own = [kind for kind, _ in ranked[:LANES_A_ROLE]]
        if len(ranked) == LANES_A_ROLE + 1:
            own.append(ranked[-1][0])
        for row in mine:
            row["lane"] = row["kind"] if row["kind"] in own else f"{word}: other"
        lanes += own + ([f"{word}: other"] if len(ranked) > len(own) else [])
    return lanes


def _rows(reading: RunReading, by_time: bool) -> tuple[Rows, int]:
    """Events and flags that can be placed on the axis, and the number of those that cannot."""
    told = [_event(event) for event in records(reading.events)]
    told += [_flag(flag) for flag in records(reading.flags)]
    rows: Rows = []
    for row in told:
        step, step_end, time = row.pop("step"), row.pop("step_end"), row.pop("time")
        at = time if by_time else step
        if pd.isna(at):
            continue
        long = not by_time and pd.notna(step_end) and step_end > step
        rows.append(row | {"at": iso(at) if by_time else int(at), "until": int(step_end) if long else None})
    return rows, len(told) - len(rows)


def _event(event: dict[str, Any]) -> dict[str, Any]:
    where = [f"step {steps(event['step'], event['step_end'])}"] if pd.notna(event["step"]) else []
    where += [f"{moment(event['time'], event['time_precision'])} UTC"] if pd.notna(event["time"]) else []
    return {
        "step": event["step"],
        "step_end": event["step_end"],
        "time": event["time"],
        "role": part(event["role"], event["kind"]),
        "kind": spelled(event["kind"]),
        "what": f"{LANES[part(event['role'], event['kind'])]}: {spelled(event['kind'])}",
        "when": ", ".join(where),
        "incident": event["incident"],
        "text": event["text"],
        "source": f"{event['source']}, {event['locator']}".strip(", "),
    }


def _flag(flag: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": flag["step"],
        "step_end": flag["step_end"],
        "time": flag["time"],
        "role": "flag",
        "kind": f"flag: {flag['rule']}",
        "what": f"{flag['severity']} flag of {flag['rule']}",
        "when": f"step {steps(flag['step'], flag['step_end'])}",
        "incident": "",
        "text": flag["message"],
        "source": "computed by replay",
    }


def _description(rows: Rows, by_time: bool) -> str:
    ranked = sorted(Counter(row["kind"] for row in rows).items(), key=lambda item: (-item[1], item[0]))
    return (
        f"Timeline of {count(len(rows), 'event')} over {'time' if by_time else 'steps'}, one lane a kind. Most often: "
        + ", ".join(f"{kind} ({n}×)" for kind, n in ranked[:5])
        + ". The tables below say the same in words."
    )


def _thinned(rows: Rows) -> Rows:
    if len(rows) <= MAX_MARKS:
        return rows
    return [rows[index] for index in np.linspace(0, len(rows) - 1, MAX_MARKS).astype(int)]
