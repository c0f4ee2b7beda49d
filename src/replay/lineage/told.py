"""Restarts as logbooks and trainer logs tell them: the events from which attempts follow where scalars are silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

RESTARTS = ("restart", "rollback", "restart_from_scratch")
_SAME_RESTART_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class ToldRestart:
    """One (re)start as told.

    ``step`` is the loaded checkpoint's step, ``reached`` the step that the attempt before had reached, ``time`` UTC;
    ``cause`` is the kind of what ended the attempt before; ``lost`` counts steps, as stated.
    """

    step: int | None
    reached: int | None
    time: pd.Timestamp | None
    cause: str | None
    lost: float | None


@dataclass(frozen=True, slots=True)
class ToldRun:
    """What the events of a run say of its attempts, in order of time; ``start`` is the first one's, if told."""

    start: ToldRestart | None
    restarts: tuple[ToldRestart, ...]
    end_step: int | None
    end_time: pd.Timestamp | None
    ended: bool


def told_run(events: pd.DataFrame) -> ToldRun:
    """Read restarts, the start and the end out of a frame of events; what replay derived itself is left out."""
    if events.empty:
        return ToldRun(None, (), None, None, ended=False)
    told = events[events["evidence"] != "derived"] if "evidence" in events else events
    told = _in_order(told)
    restarts = _distinct(told[told["kind"].isin(RESTARTS)], told)
    starts, ends = told[told["kind"] == "start"], told[told["kind"] == "end"]
    start = None
    if len(starts):
        first = starts.iloc[0]
        start = ToldRestart(_integer(first["step"]) or 0, None, _time(first["time"]), None, None)
    end_step = end_time = None
    if len(ends):
        last = ends.iloc[-1]
        end_step, end_time = _integer(last["step"]), _time(last["time"])
    return ToldRun(start, restarts, end_step, end_time, ended=bool(len(ends)))


def _in_order(events: pd.DataFrame) -> pd.DataFrame:
    """By time; an event without one stays behind the one it follows in the frame."""
    key = events["time"].ffill().bfill()
    return events.assign(_key=key).sort_values("_key", kind="stable").drop(columns="_key")


def _distinct(rows: pd.DataFrame, events: pd.DataFrame) -> tuple[ToldRestart, ...]:
    """One restart for what an incident tells as a rollback and a restart, or several ranks each for itself."""
    found: list[tuple[object, ToldRestart]] = []
    for row in rows.to_dict("records"):
        incident = row.get("incident")
        incident = None if incident is None or pd.isna(incident) else incident
        restart = _restart(row, events[events["incident"] == incident] if incident is not None else events[:0])
        if found and _is_the_same(found[-1], (incident, restart)):
            found[-1] = (incident, _joined(found[-1][1], restart))
        else:
            found.append((incident, restart))
    return tuple(restart for _, restart in found)


def _is_the_same(earlier: tuple[object, ToldRestart], later: tuple[object, ToldRestart]) -> bool:
    (incident, one), (other_incident, two) = earlier, later
    if one.step is not None and two.step is not None and one.step != two.step:
        return False
    if incident is not None or other_incident is not None:
        return incident == other_incident
    if one.step is None or two.step is None:
        return False
    if one.time is None or two.time is None:
        return one.reached == two.reached
    return bool(abs((two.time - one.time).total_seconds()) <= _SAME_RESTART_SECONDS)


def _joined(one: ToldRestart, two: ToldRestart) -> ToldRestart:
    return ToldRestart(
        step=one.step if one.step is not None else two.step,
        reached=one.reached if one.reached is not None else two.reached,
        time=one.time if one.time is not None else two.time,
        cause=one.cause or two.cause,
        lost=one.lost if one.lost is not None else two.lost,
    )


def _restart(row: dict[Any, Any], incident: pd.DataFrame) -> ToldRestart:
    step = 0 if row["kind"] == "restart_from_scratch" else _integer(row["step"])
    reached = _integer(row["before"]) if row.get("unit") in (None, "step", "steps") or pd.isna(row["unit"]) else None
    causes = incident[incident["role"] == "cause"]
    symptoms = incident[incident["role"] == "symptom"]
    if reached is None:
        steps = [s for s in pd.concat([causes, symptoms])["step"].dropna() if step is None or s >= step]
        reached = int(max(steps)) if steps else None
    ended_by = causes if len(causes) else symptoms
    cause = str(ended_by["kind"].iloc[0]) if len(ended_by) else None
    lost = row.get("lost_steps")
    lost = None if lost is None or pd.isna(lost) else float(lost)
    return ToldRestart(step, reached, _time(row["time"]), cause, lost)


def _integer(value: Any) -> int | None:
    return None if value is None or pd.isna(value) else int(value)


def _time(value: Any) -> pd.Timestamp | None:
    return None if value is None or pd.isna(value) else pd.Timestamp(value)
