"""How often training stops, why, for how long it runs in between, and what that costs: from the incidents of runs.

Every function takes a store and gives a DataFrame; ``run`` is a name, several, or None for all.  Counts are of what
sources tell one by one, where an entry may tell of several; where a source only gives a total over a time, that total
is used by :func:`mtbf_per_gpu` and shown by :func:`stated_totals`.  Nothing is ever filled in: a run of whose end
nothing is noted is censored there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.intervals import count_interval
from replay_parsers.kinds import EventKind as Kind

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
_STOPS = tuple(str(kind) for kind in (Kind.RESTART, Kind.ROLLBACK, Kind.RESTART_FROM_SCRATCH))
_STANDSTILL = {str(Kind.HANG), str(Kind.CRASH), str(Kind.GAP), str(Kind.THROUGHPUT_DROP)}
_CATEGORIES = (
    # The first that applies: a machine that fails while the loss is bad is still a machine that fails.
    ("hardware", set(HARDWARE)),
    ("software", {str(Kind.SOFTWARE_BUG), str(Kind.CONFIG_BUG)}),
    ("people", {str(Kind.OPERATOR_ERROR)}),
    ("data", {str(Kind.DATA_DEFECT)}),
)
_DAY = pd.Timedelta(days=1)
_YEAR_DAYS = 365.25


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
    found = events[events["kind"].isin(_STOPS)].copy()
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
    return "change" if set(incident["did"]) - set(_STOPS) else "not stated"


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

    Columns: run, incident, time, kinds.  What a source only counts (``detail.count``) is not among them.
    """
    events = store.events(run=run, derived=False)
    counted = events["detail"].map(lambda detail: bool({"count", "per_week", "per_day", "restarts"} & set(detail)))
    relevant = events[~counted & events["incident"].notna()]
    rows = []
    for name, own in relevant.groupby("incident", sort=False):
        kinds = set(own["kind"])
        causes = set(own.loc[own["role"] == "cause", "kind"])
        stopped = kinds & {str(Kind.CRASH), str(Kind.HANG)} and not causes - set(HARDWARE) - {str(Kind.UNKNOWN_CAUSE)}
        if causes & set(HARDWARE) or stopped:
            own_kinds = sorted(causes | kinds & {str(Kind.CRASH), str(Kind.HANG)})
            rows.append((own["run"].iloc[0], name, own["time"].min(), own_kinds))
    frame = pd.DataFrame(rows, columns=["run", "incident", "time", "kinds"])
    types = {"run": "str", "incident": "str", "time": "datetime64[us, UTC]", "kinds": "object"}
    return frame.astype(types).sort_values(["run", "time", "incident"], ignore_index=True)


def time_between(store: EventStore, run: Runs = None, *, what: str = "failures") -> pd.DataFrame:
    """Stretches between failures (or ``what="restarts"``), with those that the record cuts off.

    The first stretch begins with the run's record, the last ends with it and is censored: nothing is known of when
    it would have ended.  Events of one moment end one stretch, those dated to a month none.  Columns: run, start, end,
    hours, censored.

    Raises :class:`ValueError` for another ``what``.
    """
    if what not in ("failures", "restarts"):
        raise ValueError(f"time between {what!r} is not kept; it is 'failures' or 'restarts'")
    found = failures(store, run) if what == "failures" else restarts(store, run)
    events = store.events(run=run, derived=False)
    dated = events[events["time"].notna() & (events["time_precision"] != "month")]
    vague = set(events.loc[events["time_precision"] == "month", "incident"].dropna())
    rows = []
    for name, own in found[~found["incident"].isin(vague)].groupby("run"):
        record = dated.loc[dated["run"] == name]
        if record.empty:
            continue
        launch = record.loc[record["kind"] == str(Kind.START), "time"]
        begin, end = launch.min() if len(launch) else record["time"].min(), record["time"].max()
        stops = sorted({time for time in own["time"].dropna() if begin < time <= end})
        edges = [begin, *stops, *([end] if not stops or end > stops[-1] else [])]
        for number, (first, last) in enumerate(pairwise(edges)):
            rows.append((str(name), first, last, (last - first) / timedelta(hours=1), number >= len(stops)))
    kinds = {
        "run": "str",
        "start": "datetime64[us, UTC]",
        "end": "datetime64[us, UTC]",
        "hours": "float64",
        "censored": "bool",
    }
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def mean_time_between(stretches: pd.DataFrame, *, pooled: bool = False) -> pd.DataFrame:
    """The mean time between failures from :func:`time_between`: exposure divided by failures, with 95% intervals.

    Censored stretches count as exposure.  The interval is the exact one for a constant rate.  Columns: run (``all``
    when pooled), failures, hours (of exposure), mean_hours, low, high; without a failure the mean is infinite and
    only ``low`` says something.
    """
    table = stretches.assign(run="all") if pooled else stretches
    rows = []
    for name, own in table.groupby("run"):
        count, hours = int((~own["censored"]).sum()), float(own["hours"].sum())
        if not hours:
            continue
        fewest, most = count_interval(count)
        mean = hours / count if count else float("inf")
        rows.append((str(name), count, hours, mean, hours / most, hours / fewest if fewest else float("inf")))
    kinds = {
        "run": "str",
        "failures": "int64",
        "hours": "float64",
        "mean_hours": "float64",
        "low": "float64",
        "high": "float64",
    }
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def stated_totals(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """Failures and restarts that sources only count: how many, in how many days.

    A range ("1 to 2 a week") gives ``low_count`` and ``high_count``, and their middle as ``count``; ``rate`` marks what
    is told for any week or day rather than counted over a span.  Columns: run, incident, kind, component, count,
    low_count, high_count, rate, days, gpus, text, source, evidence.
    """
    described = descriptions(store)
    events = store.events(run=run, derived=False)
    rows = []
    for event in cast("list[dict[str, Any]]", events.to_dict("records")):
        counted = _counted(event)
        if counted is not None:
            low, high, days = counted
            gpus = first_number(event["detail"].get("gpus", "")) or gpus_of(described[event["run"]])
            row = {name: event[name] for name in ("run", "incident", "kind", "text", "source", "evidence")}
            count = (low + high) / 2
            rows.append(
                row
                | {"component": event["detail"].get("component", ""), "count": count, "days": days, "gpus": gpus}
                | {"low_count": low, "high_count": high, "rate": days in (1.0, 7.0) and "count" not in event["detail"]}
            )
    kinds = {
        "run": "str",
        "incident": "str",
        "kind": "str",
        "component": "str",
        "count": "float64",
        "low_count": "float64",
        "high_count": "float64",
        "rate": "bool",
        "days": "float64",
        "gpus": "float64",
        "text": "str",
        "source": "str",
        "evidence": "str",
    }
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def _counted(event: dict[str, Any]) -> tuple[float, float, float] | None:
    """The least and the most that is counted, and in how many days."""
    detail = event["detail"]
    if event["kind"] not in (*HARDWARE, *_STOPS, str(Kind.CRASH), str(Kind.SOFTWARE_BUG), str(Kind.UNKNOWN_CAUSE)):
        return None
    for name, days in (("per_week", 7.0), ("per_day", 1.0)):
        found = numbers(detail.get(name, ""))
        if found and "count" not in detail:
            return min(found), max(found), days
    parts = [first_number(detail.get(name, "")) for name in ("manual_restarts", "automatic_restarts")]
    total = sum(part for part in parts if part) or next(
        (number for name in ("unexpected", "count", "restarts") if (number := first_number(detail.get(name, "")))), 0
    )
    span = _days(detail, event["time"])
    return (float(total), float(total), span) if total and span else None


def _days(detail: dict[str, str], time: Any) -> float | None:
    stated = first_number(detail.get("days", ""))
    if stated:
        return stated
    since, until = detail.get("since", ""), detail.get("until", "")
    try:
        begin = pd.Timestamp(since, tz="UTC") if since else time
        return float((pd.Timestamp(until, tz="UTC") - begin) / _DAY) if until and not pd.isna(begin) else None
    except ValueError:
        return None


def descriptions(store: EventStore) -> dict[str, dict[str, Any]]:
    """What is said of each run, by its name."""
    rows = cast("list[dict[str, Any]]", store.runs().to_dict("records"))
    return {row["run"]: row for row in rows}


def gpus_of(run: dict[str, Any]) -> float | None:
    """The number of accelerators of a run, where its description gives it."""
    stated = first_number(run["metadata"].get("gpus", ""))
    hardware = run["hardware"] if isinstance(run["hardware"], str) else ""
    found = re.search(r"(\d[\d,]*) (?:GPUs|chips)", hardware)
    return stated or (float(found[1].replace(",", "")) if found else None)


def mtbf_per_gpu(store: EventStore, run: Runs = None, *, components: bool = False) -> pd.DataFrame:
    """Mean time between failures of one accelerator, in years, from what sources count over a whole run.

    Years are accelerators times days divided by failures; the interval combines the counting error (exact, for a
    constant rate) with a stated range.  ``components`` also gives the rows of tables by component.  Columns: run,
    incident, component, failures, days, gpus, years, low, high, text, source.
    """
    totals = stated_totals(store, run).dropna(subset=["gpus"])
    if not components:
        totals = totals[totals["component"] == ""]
    rows = []
    for total in cast("list[dict[str, Any]]", totals.to_dict("records")):
        exposure = total["gpus"] * total["days"] / _YEAR_DAYS
        fewest, most = total["low_count"], total["high_count"]
        if total["rate"]:
            # "About one a week" does not say how many weeks were counted: a range if any, but no counting error.
            fewest, most = (fewest, most) if fewest != most else (float("nan"), float("nan"))
        else:
            fewest, most = count_interval(round(total["count"]))
        row = {name: total[name] for name in ("run", "incident", "component", "days", "gpus", "text", "source")}
        rows.append(
            row
            | {"failures": total["count"], "years": exposure / total["count"]}
            | {"low": exposure / most, "high": exposure / fewest}
        )
    kinds = {
        "run": "str",
        "incident": "str",
        "component": "str",
        "failures": "float64",
        "days": "float64",
        "gpus": "float64",
        "years": "float64",
        "low": "float64",
        "high": "float64",
        "text": "str",
        "source": "str",
    }
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e\d+)?", text)]


def first_number(text: str) -> float | None:
    found = numbers(text)
    return found[0] if found else None
