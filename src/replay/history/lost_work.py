"""What trouble costs: steps trained twice, hours lost, and data left out, as stated or as follows from what is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.history.reliability import Runs, descriptions, first_number, numbers, times_of
from replay_parsers.kinds import EventKind as Kind

if TYPE_CHECKING:
    from replay.store import EventStore

_BACK = (str(Kind.ROLLBACK), str(Kind.RESTART))


def lost_work(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """Steps and hours lost, by run.

    A rollback or restart loses the steps that its source states, else those from the checkpoint to where training had
    been, where both are told; one that is told for several (``detail.count``) counts as many times.  Columns: run,
    restarts (how many), known (of how many the lost steps are known), lost_steps (of those), total_steps, share (of
    them), lost_hours (as stated), step_hours (lost_steps by the time of a step).  What is not told is NaN.
    """
    described = descriptions(store)
    events = store.events(run=run, derived=False)
    incidents = store.incidents(run=run)
    rows = []
    for name, own in events.groupby("run"):
        back = own[own["kind"].isin(_BACK)]
        each = [
            (_lost(event), times_of(event["detail"])) for event in cast("list[dict[str, Any]]", back.to_dict("records"))
        ]
        known = [(lost, times) for lost, times in each if lost is not None]
        lost = sum(lost * times for lost, times in known) if known else None
        total = total_steps(described[str(name)], own)
        pace = described[str(name)]["seconds_per_step"]
        rows.append(
            {
                "run": str(name),
                "restarts": sum(times for _, times in each),
                "known": sum(times for _, times in known),
                "lost_steps": lost,
                "total_steps": total,
                "share": lost / total if total and lost is not None else None,
                "lost_hours": incidents.loc[incidents["run"] == name, "lost_hours"].sum(min_count=1),
                "step_hours": None if pd.isna(pace) or lost is None else lost * float(pace) / 3600,
            }
        )
    kinds = {
        "run": "str",
        "restarts": "int64",
        "known": "int64",
        "lost_steps": "float64",
        "total_steps": "float64",
        "share": "float64",
        "lost_hours": "float64",
        "step_hours": "float64",
    }
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def _lost(event: dict[str, Any]) -> float | None:
    if not pd.isna(event["lost_steps"]):
        return float(event["lost_steps"])
    if event["unit"] != "step" or pd.isna(event["before"]) or pd.isna(event["step"]):
        return None
    return max(float(event["before"]) - float(event["step"]), 0.0)


def total_steps(run: dict[str, Any], events: pd.DataFrame) -> float | None:
    """How many steps a run has: where it ended, else what its description says."""
    end = events.loc[(events["kind"] == str(Kind.END)) & events["step"].notna(), "step"]
    if len(end):
        return float(end.max())
    return first_number(run["metadata"].get("total_steps", ""))


def skipped_data(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """Batches left out on purpose, by run, at least and at most, and at most what share of the data they are.

    A range of steps is that many batches; "200-500" is a range; what is told for several (``detail.count``) counts
    as many times.  A batch is taken at the run's largest, since it is not told when it was, which makes the tokens
    an upper bound.  A run of which no number is told has no row.  Columns: run, low_batches, high_batches,
    high_tokens, total_tokens, high_share.
    """
    described = descriptions(store)
    events = store.events(run=run, kind=str(Kind.SKIP_BATCHES), derived=False)
    rows = []
    for name, own in events.groupby("run"):
        about = described[str(name)]
        spans = _spans(cast("list[dict[str, Any]]", own.to_dict("records")))
        if not spans:
            continue
        low, high = sum(span[0] for span in spans), sum(span[1] for span in spans)
        batch, length = _largest_batch(about), about["sequence_length"]
        tokens = high * batch * float(length) if batch and not pd.isna(length) else None
        total = first_number(about["metadata"].get("total_tokens", ""))
        share = tokens / total if tokens and total else None
        rows.append((str(name), low, high, tokens, total, share))
    columns = ["run", "low_batches", "high_batches", "high_tokens", "total_tokens", "high_share"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"run": "str", **dict.fromkeys(columns[1:], "float64")})


def _spans(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """The least and most batches of each event; a range of steps that is named again is not left out again."""
    spans: list[tuple[float, float]] = []
    named: set[tuple[int, int]] = set()
    for event in events:
        times = times_of(event["detail"])
        if not pd.isna(event["step"]) and not pd.isna(event["step_end"]):
            steps = (int(event["step"]), int(event["step_end"]))
            if steps not in named:
                named.add(steps)
                spans.append((float(steps[1] - steps[0] + 1),) * 2)
        elif found := numbers(re.sub(r"(?<=\d)-(?=\d)", " ", event["detail"].get("batches", ""))):
            spans.append((min(found) * times, max(found) * times))
    return spans


def _largest_batch(run: dict[str, Any]) -> float | None:
    stages = run["batch_schedule"]
    return float(max(stage["samples"] for stage in stages)) if len(stages) else None
