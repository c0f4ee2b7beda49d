"""Incidents in words: what was seen, found, done, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from replay.output import cell, is_missing, visible

PARTS = (
    ("symptom", "seen"),
    ("cause", "cause"),
    ("intervention", "done"),
    ("outcome", "then"),
    ("lifecycle", "also"),
)

PREPOSITIONS = {"rollback": "to", "restart": "from", "skip_batches": "of"}


def describe(incidents: pd.DataFrame, events: pd.DataFrame) -> Iterator[str]:
    """One paragraph for each row of ``incidents``, from its rows of ``events``."""
    by_incident = dict(iter(events.groupby("incident", sort=False)))
    for row in _rows(incidents):
        yield _paragraph(row, by_incident.get(row["incident"]))


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _paragraph(incident: dict[str, Any], events: pd.DataFrame | None) -> str:
    head = [visible(incident["incident"])]
    if not is_missing(incident["time"]):
        head.append(f"{incident['time']:%Y-%m-%d %H:%M} UTC")
    if not is_missing(incident["step"]):
        head.append(f"step {incident['step']:,}")
    lines = ["   ".join(head)]
    rows = [] if events is None else _rows(events)
    for role, word in PARTS:
        lines += [f"  {word:<6} {event_line(row)}" for row in rows if row["role"] == role]
    if not is_missing(incident["recurred_after"]):
        lines.append(f"  again  after {incident['recurred_after']:,.0f} steps")
    lines.append(f"  source {visible(incident['source'])} ({visible(str(incident['evidence']))})")
    return "\n".join(lines)


def event_line(event: dict[str, Any]) -> str:
    """An event in one line: kind, steps, values, and the sentence that its source gives."""
    words = [str(event["kind"])]
    if not is_missing(event["step"]):
        last = event["step_end"]
        steps = f"{event['step']:,}" + ("" if is_missing(last) else f"-{last:,}")
        words.append(f"{PREPOSITIONS.get(event['kind'], 'at')} step {steps}")
    if not is_missing(event["field"]):
        values = [cell(event[name]) or "?" for name in ("before", "after")]
        known = any(value != "?" for value in values)
        words.append(visible(event["field"]) + (f" {values[0]} -> {values[1]}" if known else ""))
    return " ".join(words) + (f": {visible(event['text'])}" if event["text"] else "")
