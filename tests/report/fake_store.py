"""A store in memory with the queries that a report asks, so that each test says what the store knows.

The queries take a run, as the real store's do; this one knows but one.
"""

# ruff: noqa: ARG002
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from replay_parsers.kinds import KINDS, EventKind

UTC_TIME = "datetime64[us, UTC]"
EVENT_TYPES = {
    "run": "str", "event": "str", "incident": "str", "role": "str", "kind": "str", "time": UTC_TIME,
    "time_precision": "str", "step": "Int64", "step_end": "Int64", "field": "str", "before": "float64",
    "after": "float64", "unit": "str", "detail": "object", "lost_steps": "float64", "lost_hours": "float64",
    "text": "str", "source": "str", "locator": "str", "evidence": "str",
}  # fmt: skip
INCIDENT_TYPES = {
    "run": "str", "incident": "str", "time": UTC_TIME, "step": "Int64", "saw": "object", "cause": "object",
    "did": "object", "then": "object", "recurred_after": "float64", "lost_steps": "float64", "lost_hours": "float64",
    "text": "str", "source": "str", "evidence": "str",
}  # fmt: skip
ATTEMPT_TYPES = {
    "run": "str", "attempt": "Int64", "parent": "Int64", "start_step": "Int64", "end_step": "Int64",
    "kept_to": "Int64", "lost_steps": "Int64", "start_time": UTC_TIME, "end_time": UTC_TIME, "end_cause": "str",
}  # fmt: skip
FLAG_TYPES = {
    "run": "str", "rule": "str", "signal": "str", "step": "Int64", "step_end": "Int64", "time": UTC_TIME,
    "severity": "str", "value": "float64", "baseline": "float64", "score": "float64", "message": "str",
    "attempt": "Int64",
}  # fmt: skip
SCALAR_TYPES = {
    "run": "str", "source": "str", "segment": "Int64", "tag": "str", "step": "int64", "wall_time": UTC_TIME,
    "value": "float64", "attempt": "Int64",
}  # fmt: skip
TAG_TYPES = {"tag": "str", "signal": "str", "rows": "int64", "first_step": "Int64", "last_step": "Int64"}
EFFECT_TYPES = {
    "scenario": "str", "arm": "str", "control": "str", "metric": "str", "n_seeds": "Int64", "mean": "float64",
    "low": "float64", "high": "float64", "verdict": "str", "note": "str",
}  # fmt: skip
PROBLEM_TYPES = {"run": "str", "source": "str", "kind": "str", "message": "str", "line": "Int64", "offset": "Int64"}
FINDING_TYPES = {
    "run": "str", "check": "str", "source": "str", "locator": "str", "readings": "object", "likely": "str",
    "reasons": "str", "incident": "str",
}  # fmt: skip
LEDGER_TYPES = {
    "source": "str", "run": "str", "format": "str", "confidence": "float64", "bytes_read": "Int64",
    "records": "Int64", "not_understood": "Int64", "lost_bytes": "Int64", "lost_records": "Int64",
    "examples": "object", "other": "object",
}  # fmt: skip


def table(types: dict[str, str], rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a frame with exactly these columns and types; what a row leaves out is missing."""
    lists = {"saw", "cause", "did", "then", "readings", "examples"}
    columns = {}
    for name, dtype in types.items():
        values = [row.get(name, {"detail": {}}.get(name, [] if name in lists else None)) for row in rows]
        columns[name] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(columns)


@dataclass
class FakeStore:
    """What the store knows, as rows; the queries make frames of them."""

    run: dict[str, Any]
    event_rows: list[dict[str, Any]] = field(default_factory=list)
    attempt_rows: list[dict[str, Any]] = field(default_factory=list)
    flag_rows: list[dict[str, Any]] = field(default_factory=list)
    scalar_frames: dict[tuple[str, str | None], pd.DataFrame] = field(default_factory=dict)
    problem_rows: list[dict[str, Any]] = field(default_factory=list)
    finding_rows: list[dict[str, Any]] = field(default_factory=list)
    ledger_rows: list[dict[str, Any]] = field(default_factory=list)
    effect_rows: list[dict[str, Any]] = field(default_factory=list)

    def add_event(self, kind: str, **fields: Any) -> None:
        name = self.run["run"]
        incident = fields.get("incident")
        row = {
            "run": name,
            "event": f"{incident or name}/{kind}",
            "kind": kind,
            "role": str(KINDS[EventKind(kind)].role),
        }
        row |= {"evidence": "stated", "text": "", "source": "log.md", "locator": ""} | fields
        if row.get("time") is not None:
            row["time"] = pd.Timestamp(row["time"], tz="UTC")
            row.setdefault("time_precision", "minute")
        self.event_rows.append(row)

    def add_scalars(
        self, tag: str, signal: str | None, step: Any, value: Any, attempt: Any = 1, start: str = "2024-05-01"
    ) -> None:
        step = np.asarray(step, np.int64)
        frame = pd.DataFrame({"step": step, "value": np.asarray(value, float)})
        frame["run"], frame["source"], frame["segment"], frame["tag"] = self.run["run"], "events", 0, tag
        frame["attempt"] = attempt
        frame["wall_time"] = pd.Timestamp(start, tz="UTC") + pd.to_timedelta(np.arange(len(step)), unit="s")
        self.scalar_frames[tag, signal] = frame[list(SCALAR_TYPES)].astype(SCALAR_TYPES)

    def runs(self) -> pd.DataFrame:
        empty = {
            "title": "",
            "organisation": "",
            "parameters": np.nan,
            "hardware": "",
            "precision": "",
            "optimizer": "",
        }
        empty |= {"batch": "", "schedule": "", "clock": None, "sources": ["log.md"], "metadata": {}}
        steps = [frame["step"] for frame in self.scalar_frames.values()]
        known = {
            "n_events": len(self.event_rows),
            "n_scalars": sum(map(len, steps)),
            "first_step": min((int(s.min()) for s in steps), default=None),
            "last_step": max((int(s.max()) for s in steps), default=None),
        }
        frame = pd.DataFrame([empty | known | self.run])
        return frame.astype({"first_step": "Int64", "last_step": "Int64"})

    def events(self, *, run: str) -> pd.DataFrame:
        return table(EVENT_TYPES, self.event_rows)

    def incidents(self, *, run: str) -> pd.DataFrame:
        rows: dict[str, dict[str, Any]] = {}
        column = {"symptom": "saw", "cause": "cause", "intervention": "did", "outcome": "then"}
        for event in self.event_rows:
            name = event.get("incident")
            if not name:
                continue
            row = rows.setdefault(
                name,
                {"run": run, "incident": name, "saw": [], "cause": [], "did": [], "then": [], "text": event["text"]}
                | {"source": event["source"], "evidence": event["evidence"]},
            )
            for key in ("time", "step", "lost_steps", "lost_hours", "recurred_after"):
                if row.get(key) is None:
                    row[key] = event.get(key)
            if event["role"] in column:
                row[column[event["role"]]].append(event["kind"])
        return table(INCIDENT_TYPES, list(rows.values()))

    def attempts(self, run: str) -> pd.DataFrame:
        return table(ATTEMPT_TYPES, self.attempt_rows)

    def tags(self, run: str) -> pd.DataFrame:
        rows = [
            {"tag": tag, "signal": signal, "rows": len(f), "first_step": f["step"].min(), "last_step": f["step"].max()}
            for (tag, signal), f in self.scalar_frames.items()
        ]
        return table(TAG_TYPES, rows)

    def scalars(self, run: str, *, tag: list[str]) -> pd.DataFrame:
        return pd.concat([frame for (name, _), frame in self.scalar_frames.items() if name in tag], ignore_index=True)

    def flags(self, run: str) -> pd.DataFrame:
        return table(FLAG_TYPES, self.flag_rows)

    def problems(self) -> pd.DataFrame:
        return table(PROBLEM_TYPES, self.problem_rows)

    def findings(self) -> pd.DataFrame:
        return table(FINDING_TYPES, self.finding_rows)

    def ledger(self) -> pd.DataFrame:
        return table(LEDGER_TYPES, self.ledger_rows)

    def effects(self) -> pd.DataFrame:
        return table(EFFECT_TYPES, self.effect_rows)
