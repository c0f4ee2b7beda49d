"""What all charts of the report share: axes, colours, and how a chart becomes data for the page.

Charts say what is drawn, never how a reader's theme colours it: colours are CSS variables of the page, so that
light, dark and print need no second chart.  Each chart carries its data as named datasets with few columns, its
own explicit names (Altair numbers unnamed parts by a counter that outlives a report), and a description that
tells a reader without the picture what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import pandas as pd

Rows = list[dict[str, Any]]

KEPT = "kept"
ROLLED_BACK = "rolled back"
SEVERITIES = ("info", "warning", "critical")

_AXIS_WIDTH = 150
"""Pixels left of every chart, so that charts over the same steps line up; the page halves it on a narrow screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart of the page.

    ``legend`` pairs a CSS class of the page's key with its words; ``notes`` are what a reader must know to read
    the chart rightly; ``zooms`` says that it shares the page's range of steps.
    """

    name: str
    title: str
    spec: dict[str, Any]
    description: str
    legend: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    zooms: bool = False


def step_axis(domain: tuple[int, int], name: str = "step") -> alt.X:
    """Steps from left to right, the same range in every chart."""
    first, last = domain
    margin = max(0.5, (last - first) / 150)
    axis = alt.Axis(title="step", format=",d", labelFlush=True, tickMinStep=1)
    return alt.X(
        f"{name}:Q", scale=alt.Scale(domain=[first - margin, last + margin], nice=False, zero=False), axis=axis
    )


def time_axis(name: str, times: Iterable[str]) -> alt.X:
    """Time in UTC from left to right, labelled no finer than the span of ``times`` (ISO 8601) asks for."""
    known = pd.to_datetime(list(times), utc=True, format="ISO8601")
    days = (known.max() - known.min()).days
    seconds = (known.max() - known.min()).total_seconds()
    shape = "%b %Y" if days > 600 else "%-d %b" if days > 6 else "%-d %b %H:%M" if days else "%H:%M"
    shape = shape if seconds > 3600 else "%H:%M:%S"
    axis = alt.Axis(
        title=f"time, UTC, {known.min():%-d %B %Y}" if not days else f"time, UTC, {known.min():%Y}",
        format=shape,
        labelFlush=True,
    )
    return alt.X(f"{name}:T", scale=alt.Scale(type="utc", padding=12), axis=axis)


def value_axis(*, ticks: bool = True) -> alt.Axis:
    """The axis at the left, of one width in every chart; the figure's heading says what it measures."""
    return alt.Axis(title=None, ticks=ticks, domain=ticks)


def step_zoom(name: str) -> alt.Parameter:
    """Drag to move along the steps, shift and wheel to zoom: the plain wheel scrolls the page."""
    return alt.selection_interval(
        name=f"zoom_{name}", bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]", translate=True
    )


def colour(field_name: str) -> alt.Color:
    """What survived, what was rolled back, and the severities: one scale, for layers of a chart share it."""
    shades = {KEPT: "var(--line-kept)", ROLLED_BACK: "var(--line-lost)"}
    shades |= {severity: f"var(--severity-{severity})" for severity in SEVERITIES}
    scale = alt.Scale(domain=list(shades), range=list(shades.values()))
    return alt.Color(f"{field_name}:N", scale=scale, legend=None)


def tooltip(**titles: str) -> list[alt.Tooltip]:
    """Fields and their titles, each shown as it stands."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]


def iso(time: Any) -> str:
    """A time in UTC as Vega reads it."""
    return pd.Timestamp(time).isoformat().replace("+00:00", "Z")


def specification(chart: Any, datasets: dict[str, Rows], description: str) -> dict[str, Any]:
    """``chart`` as Vega-Lite, filling its container's width, with its data beside it."""
    text = {"labelColor": "currentColor", "titleColor": "currentColor", "labelFontSize": 12, "titleFontSize": 12}
    chart = (
        chart.properties(width="container", background="transparent", description=description)
        .configure(font="system-ui, sans-serif", autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure_view(stroke=None)
        .configure_axisY(minExtent=_AXIS_WIDTH, maxExtent=_AXIS_WIDTH, labelLimit=_AXIS_WIDTH - 8)
        .configure_axis(
            **text,
            titleFontWeight="normal",
            gridColor="var(--grid)",
            domainColor="var(--axis)",
            tickColor="var(--axis)",
            labelOverlap=True,
        )
    )
    spec: dict[str, Any] = chart.to_dict()
    spec["datasets"] = datasets
    # The schema's address is only a name, and the one thing in the page that would look like a download.
    spec.pop("$schema", None)
    return spec
