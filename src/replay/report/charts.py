"""The report's charts: which there are, and the curves of the signals among them."""

from __future__ import annotations

import altair as alt
import pandas as pd

from replay.report.attempts import attempts_chart, progress
from replay.report.chart import (
    KEPT,
    ROLLED_BACK,
    SEVERITIES,
    Chart,
    Rows,
    colour,
    specification,
    step_axis,
    step_zoom,
    tooltip,
    value_axis,
)
from replay.report.drawn import DrawnSignal, drawn_signal, is_constant
from replay.report.reading import RunReading, records
from replay.report.timeline import timeline
from replay.report.words import listed, spelled

_HEIGHT = {"loss": 250, "grad_norm": 200}
_MINOR_HEIGHT = 120


def charts(reading: RunReading) -> list[Chart]:
    """All charts that the run has data for, the timeline first; of minor signals only those that ever change."""
    domain = step_domain(reading)
    shown = [name for name in reading.signals if name in _HEIGHT or not is_constant(reading, name)]
    made = [timeline(reading, domain), *(signal_chart(reading, name, domain) for name in shown)]
    made += [progress(reading), attempts_chart(reading, domain)]
    return [chart for chart in made if chart is not None]


def step_domain(reading: RunReading) -> tuple[int, int]:
    """The first and last step that was measured or trained or, where none was, that an event mentions."""
    columns = [signal.rows["step"] for signal in reading.signals.values()]
    columns += [reading.attempts["start_step"], reading.attempts["end_step"], reading.attempts["kept_to"]]
    if not any(column.notna().any() for column in columns):
        columns = [reading.events["step"], reading.events["step_end"]]
    known = [column.dropna() for column in columns if column.notna().any()]
    if not known:
        return 0, 1
    first, last = min(int(column.min()) for column in known), max(int(column.max()) for column in known)
    return first, max(last, first + 1)


def signal_chart(reading: RunReading, signal: str, domain: tuple[int, int]) -> Chart | None:
    """A signal over steps: what survived, what was rolled back, where it is no number, and its flags."""
    drawn = drawn_signal(reading, signal)
    if drawn is None:
        return None
    x = step_axis(domain)
    scale = alt.Scale(zero=False, nice=False, padding=10)
    if drawn.logarithmic:
        scale = alt.Scale(type="log", nice=False, padding=10)
    elif not any(row["value"] is not None for row in drawn.line):
        # A browser would look for the range of no values at all, and complain.
        scale = alt.Scale(domain=[0, 1])
    y = alt.Y("value:Q", scale=scale, axis=value_axis())
    line = (
        alt.Chart(alt.NamedData("line"), name=f"{signal}_line")
        .mark_line(strokeWidth=1.4, clip=True, point=alt.OverlayMarkDef(size=18) if drawn.sparse else False)
        .encode(
            x=x,
            y=y,
            color=colour("branch"),
            detail="attempt:N",
            tooltip=tooltip(step="step", value=spelled(signal), attempt="attempt", branch="branch"),
        )
        .add_params(step_zoom(signal))
    )
    layers: list[alt.Chart] = [_incident_rules(x), line]
    layers += [_broken_marks(x)] if drawn.broken else []
    layers += _flag_marks(x, y, drawn.flags) if drawn.flags else []
    datasets = {"line": drawn.line, "broken": drawn.broken, "flags": drawn.flags, "incidents": _incident_rows(reading)}
    sized = alt.layer(*layers).properties(height=_HEIGHT.get(signal, _MINOR_HEIGHT))
    return Chart(
        name=signal,
        title=spelled(signal).capitalize() + (", log scale" if drawn.logarithmic else ""),
        spec=specification(sized, datasets, drawn.description),
        description=drawn.description,
        legend=_legend(drawn, reading),
        notes=drawn.notes,
        zooms=True,
    )


def _incident_rows(reading: RunReading) -> Rows:
    return [
        {
            "step": int(row["step"]),
            "incident": row["incident"],
            "saw": listed([spelled(kind) for kind in row["saw"]]),
        }
        for row in records(reading.incidents)
        if pd.notna(row["step"])
    ]


def _incident_rules(x: alt.X) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(alt.NamedData("incidents"))
        .mark_rule(stroke="var(--lane-symptom)", strokeDash=[2, 3], opacity=0.7, clip=True)
        .encode(x=x, tooltip=tooltip(incident="incident", saw="seen", step="step"))
    )
    return chart


def _broken_marks(x: alt.X) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(alt.NamedData("broken"))
        .mark_tick(thickness=2, height=12, color="var(--severity-critical)", clip=True, y=6)
        .encode(x=x, tooltip=tooltip(what="value", step="step", attempt="attempt"))
    )
    return chart


def _flag_marks(x: alt.X, y: alt.Y, flags: Rows) -> list[alt.Chart]:
    """The stretch that a flag covers, and a diamond on the curve, or at the top where the value is no number."""
    valued = {row["value"] is not None for row in flags}
    color = colour("severity")
    hints = tooltip(rule="rule", severity="severity", when="step", score="score", message="in words")
    base = alt.Chart(alt.NamedData("flags"))
    covered = base.mark_rect(opacity=0.13, clip=True).encode(x=x, x2="until", color=color, tooltip=hints)
    diamond = alt.MarkDef(type="point", shape="diamond", filled=True, size=80, opacity=1, clip=True)
    on_curve = base.transform_filter("isValid(datum.value)").encode(x=x, y=y, color=color, tooltip=hints)
    on_curve.mark = diamond
    at_top = base.transform_filter("!isValid(datum.value)").encode(x=x, y=alt.value(8), color=color, tooltip=hints)
    at_top.mark = diamond
    # A layer without a single mark would have no range of values, of which a browser complains.
    return [covered, *([on_curve] if True in valued else []), *([at_top] if False in valued else [])]


def _legend(drawn: DrawnSignal, reading: RunReading) -> list[tuple[str, str]]:
    branches = {row["branch"] for row in drawn.line}
    severities = {row["severity"] for row in drawn.flags}
    present = [
        (KEPT in branches and ROLLED_BACK in branches, "kept", "kept"),
        (ROLLED_BACK in branches, "lost", "rolled back"),
        (bool(drawn.broken), "broken", "not a finite number"),
        *((level in severities, f"diamond {level}", f"{level} flag") for level in SEVERITIES),
        (reading.incidents["step"].notna().any(), "rule", "incident on record"),
    ]
    return [(css, words) for shown, css, words in present if shown]
