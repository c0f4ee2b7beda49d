"""What sources count in all, rather than tell one by one: totals and rates of failures, and what follows for a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.history.stops import HARDWARE, STOPS, Runs, first_number, numbers
from replay.intervals import count_interval
from replay_parsers.kinds import EventKind as Kind

if TYPE_CHECKING:
    from replay.store import EventStore

_DAY = pd.Timedelta(days=1)
_YEAR_DAYS = 365.25


def stated_totals(store: EventStore, run: Runs = None) -> pd.DataFrame:
    """Failures and restarts that sources only count: how many, in how many days.

    A range ("1 to 2 a week") gives ``low_count`` and ``high_count``, and their middle as ``count``; ``rate`` marks what
    is told for any week or day rather than counted over a span.  ``of`` says what is counted: restarts or failures.
    Columns: run, incident, kind, of, component, count, low_count, high_count, rate, days, gpus, text, source, evidence.
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
                | {"of": "restarts" if _of_restarts(event) else "failures"}
                | {"component": event["detail"].get("component", ""), "count": count, "days": days, "gpus": gpus}
                | {"low_count": low, "high_count": high, "rate": days in (1.0, 7.0) and "count" not in event["detail"]}
            )
    kinds = {
        "run": "str",
        "incident": "str",
        "kind": "str",
        "of": "str",
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


def _of_restarts(event: dict[str, Any]) -> bool:
    named = {"restarts", "manual_restarts", "automatic_restarts"} & set(event["detail"])
    return event["kind"] in STOPS or bool(named)


def _counted(event: dict[str, Any]) -> tuple[float, float, float] | None:
    """The least and the most that is counted, and in how many days."""
    detail = event["detail"]
    if event["kind"] not in (*HARDWARE, *STOPS, str(Kind.CRASH), str(Kind.SOFTWARE_BUG), str(Kind.UNKNOWN_CAUSE)):
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
