"""When training stopped and went on: restarts by cause and week, and failures, as sources tell them one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from replay_parsers.kinds import EventKind as Kind
from replay_parsers.kinds import Role

if TYPE_CHECKING:
    from replay.store import EventStore

Runs = str | Iterable[str] | None

HARDWARE = tuple(
    str(kind)
    for kind in (
        Kind.NODE_FAILURE,
        Kind.GPU_FAILURE,
        Kind.MEMORY_ERROR,
        Kind.NETWORK_FAILURE,
        Kind.STORAGE_FAILURE,
    )
)
STOPS = tuple(str(kind) for kind in (Kind.RESTART, Kind.ROLLBACK, Kind.RESTART_FROM_SCRATCH))
_STANDSTILL = {str(Kind.HANG), str(Kind.CRASH), str(Kind.GAP), str(Kind.THROUGHPUT_DROP)}
_CATEGORIES = (
    # The first that applies: a machine that fails while the loss is bad is still a machine that fails.
    ("hardware", set(HARDWARE)),
    ("software", {str(Kind.SOFTWARE_BUG), str(Kind.CONFIG_BUG)}),
    ("people", {str(Kind.OPERATOR_ERROR)}),
    ("data", {str(Kind.DATA_DEFECT)}),
)
_DAY = pd.Timedelta(days=1)
_OVER_A_TIME = frozenset(
    {"per_week", "per_day", "days", "since", "until", "restarts", "manual_restarts", "automatic_restarts", "unexpected"}
)
"""Names in ``detail`` that mark what a source sums up over a time."""


def restarts(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """Each time training went on after it had stopped or had been put back.

    Columns: run, incident, kind (restart, rollback, restart_from_scratch), times (how many the entry tells of:
    ``detail.count``, else 1), time, week (its Monday), step, cause: why, as told by its incident: hardware,
    instability (something was seen in loss, gradients, activations or loss scale), software, people, data,
    maintenance, stopped (a crash or hang of unknown cause), change (a planned one), not stated; and kinds, the causes
    and symptoms themselves.
    """
    events = store.events(run=run, derived=False)
    incidents = store.incidents(run=run).set_index("incident")
    maintained = set(events.loc[events["kind"] == str(Kind.MAINTENANCE), "incident"].dropna())
    found = events[events["kind"].isin(STOPS)].copy()
    known = dict(zip(incidents.index, incidents.to_dict("records"), strict=True))
    found["cause"] = [_why(known.get(name), name in maintained) for name in found["incident"]]
    found["kinds"] = [
        [] if name not in known else [*known[name]["cause"], *known[name]["saw"]] for name in found["incident"]
    ]
    found["times"] = [times_of(detail) for detail in found["detail"]]
    days = found["time"].dt.floor("D")
    found["week"] = days - days.dt.day_of_week * _DAY
    columns = ["run", "incident", "kind", "times", "time", "week", "step", "cause", "kinds"]
    return found[columns].astype({"cause": "str", "times": "int64"}).reset_index(drop=True)


def times_of(detail: dict[str, str]) -> int:
    """How many events of a kind one entry tells of."""
    return int(first_number(detail.get("count", "")) or 1)


def _why(incident: dict[Any, Any] | None, maintained: bool) -> str:
    if incident is None:
        return "not stated"
    causes, saw = set(incident["cause"]), set(incident["saw"])
    for name, kinds in _CATEGORIES[:1]:
        if causes & kinds:
            return name
    if saw - _STANDSTILL:
        return "instability"
    for name, kinds in _CATEGORIES[1:]:
        if causes & kinds:
            return name
    if maintained:
        return "maintenance"
    if saw:
        return "stopped"
    return "change" if set(incident["did"]) - set(STOPS) else "not stated"


def restarts_by_cause(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """How many restarts each cause had, by run.  Columns: run, cause, restarts, share (of the run's)."""
    each = restarts(store, run).rename(columns={"times": "restarts"})
    counts = each.groupby(["run", "cause"], as_index=False)[["restarts"]].sum()
    counts["share"] = counts["restarts"] / counts.groupby("run")["restarts"].transform("sum")
    return counts.sort_values(["run", "restarts", "cause"], ascending=[True, False, True], ignore_index=True)


def restarts_by_week(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """How many dated restarts each week had, by run and cause; weeks without any are there with 0.

    Columns: run, week (Monday, UTC), cause, restarts.
    """
    dated = restarts(store, run).dropna(subset=["week"])
    rows = []
    for name, own in dated.groupby("run"):
        weeks = pd.date_range(own["week"].min(), own["week"].max(), freq="7D")
        counts = own.groupby(["week", "cause"])["times"].sum()
        rows += [
            (str(name), week, str(cause), int(counts.get((week, cause), 0)))
            for week in weeks
            for cause in sorted(own["cause"].unique())
        ]
    kinds = {"run": "str", "week": dated["week"].dtype, "cause": "str", "restarts": "int64"}
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def failures(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """Incidents in which hardware failed, or training stopped and no other cause is told, one by one.

    An incident in which a source sums up what failed over a time (``detail.per_week``, ``detail.since``,
    ``detail.restarts`` ...) is not among them, nor one of which only a number is told (``detail.count``) without a
    day: several machines that failed on one day are one failure.  ``time`` is that of the failure, never that of its
    outcome.  Columns: run, incident, time, kinds.
    """
    events = store.events(run=run, derived=False)
    events = events[events["incident"].notna() & (events["role"] != str(Role.OUTCOME))]
    rows = []
    for name, whole in events.groupby("incident", sort=False):
        if any(_OVER_A_TIME & set(detail) for detail in whole["detail"]):
            continue
        day = whole["time"].notna() & (whole["time_precision"] != "month")
        own = whole[day | whole["detail"].map(lambda detail: "count" not in detail)]
        kinds = set(own["kind"])
        causes = set(own.loc[own["role"] == str(Role.CAUSE), "kind"])
        stopped = kinds & {str(Kind.CRASH), str(Kind.HANG)} and not causes - set(HARDWARE) - {str(Kind.UNKNOWN_CAUSE)}
        if causes & set(HARDWARE) or stopped:
            own_kinds = sorted(causes | kinds & {str(Kind.CRASH), str(Kind.HANG)})
            rows.append((own["run"].iloc[0], name, own["time"].min(), own_kinds))
    frame = pd.DataFrame(rows, columns=["run", "incident", "time", "kinds"])
    types = {"run": "str", "incident": "str", "time": "datetime64[us, UTC]", "kinds": "object"}
    return frame.astype(types).sort_values(["run", "time", "incident"], ignore_index=True)


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e\d+)?", text)]


def first_number(text: str) -> float | None:
    found = numbers(text)
    return found[0] if found else None
