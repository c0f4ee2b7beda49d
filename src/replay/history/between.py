"""How long training runs between failures or restarts, from what is told one by one, beside what sources state.

A record is taken to be whole from the first to the last dated entry of a source that tells such events one by one, and
to hold nothing elsewhere.  A log that tells only what was remarkable is not whole: where a source states how often it
happened, that stands beside the estimate, and contradicts it where the log told little.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pandas as pd

from replay.history.stated import stated_totals
from replay.history.stops import Runs, failures, restarts
from replay.intervals import count_interval, survival
from replay_parsers.kinds import EventKind as Kind
from replay_parsers.kinds import Role

if TYPE_CHECKING:
    from replay.store import EventStore

FEWEST_ENDED = 10
"""Of fewer stretches that ended no median is told: it would be one or two of them."""

Span = tuple[pd.Timestamp, pd.Timestamp]


def time_between(store: EventStore, run: Runs = None, *, what: str = "failures") -> pd.DataFrame:
    """Stretches between failures (or ``what="restarts"``), with those that the record cuts off.

    The record of a run is where a source tells such events one by one: from its first dated entry, or the launch if
    that is later, to its last.  Time that no such source covers is no exposure.  The last stretch of a span is
    censored where it does not end with such an event.  Events of one moment end one stretch, those dated to a month
    none.  Columns: run, start, end, hours, censored.

    Raises :class:`ValueError` for another ``what``.
    """
    if what not in ("failures", "restarts"):
        raise ValueError(f"time between {what!r} is not kept; it is 'failures' or 'restarts'")
    found = failures(store, run) if what == "failures" else restarts(store, run)
    events = store.events(run=run, derived=False)
    # What came of something may be told weeks after the last entry: it makes the record no longer.
    dated = events[
        events["time"].notna() & (events["time_precision"] != "month") & (events["role"] != str(Role.OUTCOME))
    ]
    vague = set(events.loc[events["time_precision"] == "month", "incident"].dropna())
    rows = []
    for name, own in found[~found["incident"].isin(vague)].groupby("run"):
        told = own.dropna(subset=["time"])
        for begin, end in _spans(dated[dated["run"] == name], told):
            stops = sorted({time for time in told["time"] if begin < time <= end})
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


def record(events: pd.DataFrame) -> pd.DataFrame:
    """The dated events of one run from its launch on; all of them where no launch is dated."""
    launches = events.loc[events["kind"] == str(Kind.START), "time"].dropna()
    return events[events["time"] >= launches.min()] if len(launches) else events


def _spans(dated: pd.DataFrame, told: pd.DataFrame) -> list[Span]:
    """The times that sources cover which tell at least one of the events ``told``; overlapping ones are joined."""
    since_launch = record(dated)
    telling = set(dated.loc[dated["incident"].isin(set(told["incident"])), "source"])
    own = since_launch[since_launch["source"].isin(telling)].groupby("source")["time"]
    joined: list[Span] = []
    for begin, end in sorted(zip(own.min(), own.max(), strict=True)):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def mean_time_between(
    stretches: pd.DataFrame, *, pooled: bool = False, stated: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The mean time between failures from :func:`time_between`: exposure divided by failures, with 95% intervals.

    Censored stretches count as exposure.  The interval is the exact one for a constant rate.  Columns: run (``all``
    when pooled), failures, hours (of exposure), mean_hours, low, high; without a failure the mean is infinite and
    only ``low`` says something.

    With ``stated``, from :func:`stated_between`, there are also stated_low and stated_high.  Where these lie wholly
    outside the interval the log evidently tells only some of what happened: then there is no interval (NaN).
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
    columns = ["run", "failures", "hours", "mean_hours", "low", "high"]
    frame = pd.DataFrame(rows, columns=columns).astype({"run": "str", "failures": "int64"})
    frame = frame.astype(dict.fromkeys(columns[2:], "float64"))
    return frame if stated is None else _beside(frame, stated)


def _beside(means: pd.DataFrame, stated: pd.DataFrame) -> pd.DataFrame:
    ranges = stated.groupby("run").agg(stated_low=("low_hours", "min"), stated_high=("high_hours", "max"))
    both = means.merge(ranges.reset_index(), on="run", how="left")
    elsewhere = (both["stated_high"] < both["low"]) | (both["stated_low"] > both["high"])
    both.loc[elsewhere, ["low", "high"]] = float("nan")
    return both


def stated_between(store: EventStore, run: Runs = None, *, what: str = "failures") -> pd.DataFrame:
    """Hours between failures (or ``what="restarts"``) by the totals and rates that sources state, one row each.

    Each failure stops training, so that a stated number of failures is also one of restarts, at least.  Columns: run,
    incident, of, hours, low_hours, high_hours, text, source.
    """
    totals = stated_totals(store, run)
    totals = totals[(totals["component"] == "") & (totals["of"].isin(["failures", what]))]
    hours = 24 * totals["days"]
    columns = ["run", "incident", "of", "hours", "low_hours", "high_hours", "text", "source"]
    return totals.assign(
        hours=hours / totals["count"], low_hours=hours / totals["high_count"], high_hours=hours / totals["low_count"]
    )[columns].reset_index(drop=True)


def median_time_between(stretches: pd.DataFrame) -> pd.DataFrame:
    """The median time between failures from :func:`time_between`, by Kaplan and Meier, with its 95% interval.

    Of fewer than ``FEWEST_ENDED`` stretches that ended no median is told (NaN): a few lengths say next to nothing of
    the middle of all.  Columns: run, stretches, ended, median_hours, low, high; a bound that the data do not reach is
    infinite.
    """
    rows = []
    for name, own in stretches.groupby("run"):
        ended = int((~own["censored"]).sum())
        known: tuple[float, ...] = (float("nan"),) * 3
        if ended >= FEWEST_ENDED:
            lasting = survival(own["hours"], own["censored"])
            known = tuple(_first_below_half(lasting, column) for column in ("survival", "low", "high"))
        rows.append((str(name), len(own), ended, *known))
    columns = ["run", "stretches", "ended", "median_hours", "low", "high"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"run": "str", "stretches": "int64", "ended": "int64", **dict.fromkeys(columns[3:], "float64")})


def _first_below_half(lasting: pd.DataFrame, column: str) -> float:
    below = lasting.loc[lasting[column] <= 0.5, "time"]
    return float(below.iloc[0]) if len(below) else float("inf")
