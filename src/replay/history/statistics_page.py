"""Runs side by side: the statistics of the incident history as one page of markdown, every number computed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.history import effectiveness, lost_work, reliability
from replay.history.between import record

if TYPE_CHECKING:
    from replay.store import EventStore

WITHIN = 2_000
_FEWEST_TRIED = 3
FEWEST_STRETCHES = 3
"""Of fewer stretches that ended no mean time between failures is told."""
_WIDTH = 118


def statistics_page(store: EventStore, runs: Sequence[str], *, within: int = WITHIN) -> str:
    """The page for ``runs`` in the order given, with what all runs of the store show together.

    Raises :class:`ValueError` when ``within`` is not positive.
    """
    parts = [
        "# Restarts, failures and what was done: runs side by side",
        "This page is written by a command; no number in it was typed:",
        f"```console\n$ replay ingest --builtin\n$ replay statistics --page {' '.join(runs)} > docs/statistics.md\n```",
        "It counts what the sources in `logbooks/` tell. A log that tells little shows little: what is not told is not "
        "counted, and what a source counts in all stands beside what follows from single entries. The functions are in "
        "`replay.history` (`reliability`, `lost_work`, `effectiveness`), and give DataFrames.",
        "## Overview",
        _overview(store, runs),
        _CAVEATS,
        _EXPOSURE,
        "## Restarts by cause",
        _by_cause(store, runs),
        "A restart has the cause that its incident tells: *instability* when something was seen in loss, gradients, "
        "activations or loss scale; *change* when only settings, data or code were changed; *stopped* after a crash, a "
        "hang or a loss of speed of unknown cause.",
        "## Restarts by week",
        _by_week(store, runs),
        "Dated restarts only; weeks begin on Monday (UTC).",
        "## Years between failures of one GPU",
        _per_gpu(store),
        "GPUs times days divided by what the source counts, which need not be failures of GPUs alone. The interval is "
        "the exact one of a constant rate, or the range that the source states; a mere “about once a week” has none.",
        f"## What was done, and whether it came back within {within:,} steps",
        _interventions(store, within),
        "All runs of the store together; of what was seen before, each thing that was done counts once an incident. "
        f"The share is of those of which it is known whether it came back within {within:,} steps, and told of "
        f"{_FEWEST_TRIED} on. These are observations: people try several things at once, and the mild ones first.",
    ]
    return "\n\n".join(part if part[0] in "#|`" else textwrap.fill(part, _WIDTH) for part in parts) + "\n"


_CAVEATS = (
    "Restarts are *told* by an entry of their own, or by one that says how many; *stated in all* are totals that a "
    "source gives, whatever it counts. "
    "Failures are incidents in which hardware failed, or training stopped and nothing else is told. *Lost steps* are "
    "known only where both the checkpoint and the step reached are told, lost hours only where a source gives them."
)


_EXPOSURE = (
    "The *hours between* assume that a source which tells restarts or failures one by one tells all of them, from its "
    "first dated entry (or the launch) to its last; time that no such source covers is left out, and the end of each "
    "such record counts as a stretch that was cut off. The interval is the exact one of a constant rate. Where sources "
    "themselves state how often something happened, the hours that follow stand below, a stated failure counting as a "
    "restart, too; where they lie outside the interval, the entries evidently tell only some of what happened, and no "
    f"interval is given. A mean is told from {FEWEST_STRETCHES} stretches on that ended."
)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float, digits: int = 0) -> str:
    if value is None or pd.isna(value):
        return "–"
    return "∞" if math.isinf(value) else f"{value:,.{digits}f}"


def _interval(row: dict[str, Any], middle: str, digits: int = 0) -> str:
    bounds = f"{_number(row['low'], digits)} to {_number(row['high'], digits)}"
    known = not pd.isna(row["low"])
    return _number(row[middle], digits) + (f" ({bounds})" if known else "")


def _overview(store: EventStore, runs: Sequence[str]) -> str:
    described = reliability.descriptions(store)
    restarts = reliability.restarts(store, runs)
    failures = reliability.failures(store, runs)
    work = lost_work.lost_work(store, runs).set_index("run")
    skipped = lost_work.skipped_data(store, runs).set_index("run")
    events = store.events(run=runs, derived=False)
    records = {run: record(own) for run, own in events.dropna(subset=["time"]).groupby("run")}

    def of(frame: pd.DataFrame, column: str, digits: int = 0) -> Callable[[str], str]:
        return lambda run: _number(frame.loc[run, column], digits) if run in frame.index else "–"  # type: ignore[arg-type]

    lines: list[tuple[str, Callable[[str], str]]] = [
        ("parameters", lambda run: f"{_number(described[run]['parameters'] / 1e9)}B"),
        ("record", lambda run: _span(records[run]["time"]) if run in records else "–"),
        ("incidents told", lambda run: str(events.loc[events["run"] == run, "incident"].nunique())),
        ("restarts told", lambda run: str(int(restarts.loc[restarts["run"] == run, "times"].sum()))),
        ("failures or restarts stated in all", _stated(store, runs)),
        *_hours_between(store, runs, "restarts"),
        ("failures told one by one", lambda run: str(int((failures["run"] == run).sum()))),
        *_hours_between(store, runs, "failures"),
        ("lost steps, where known", of(work, "lost_steps")),
        ("restarts of which they are known", of(work, "known")),
        ("lost hours, where stated", of(work, "lost_hours", 1)),
        ("batches skipped", of(skipped, "high_batches")),
    ]
    return _table(["", *runs], [[name, *(value(run) for run in runs)] for name, value in lines])


def _stated(store: EventStore, runs: Sequence[str]) -> Callable[[str], str]:
    totals = reliability.stated_totals(store, runs)

    def in_words(row: dict[str, Any]) -> str:
        low, high = f"{row['low_count']:g}", f"{row['high_count']:g}"
        count = low if low == high else f"{low} to {high}"
        if row["rate"]:
            return f"{count} a {'week' if row['days'] == 7 else 'day'}"
        return f"{count} in {row['days']:g} days"

    def stated(run: str) -> str:
        own = totals[(totals["run"] == run) & (totals["component"] == "")]
        return ", ".join(in_words(row) for row in _rows(own)) or "–"

    return stated


def _hours_between(store: EventStore, runs: Sequence[str], what: str) -> list[tuple[str, Callable[[str], str]]]:
    """Two lines of the overview: the mean that follows from single entries, and what sources state."""
    stated = reliability.stated_between(store, runs, what=what)
    stretches = reliability.time_between(store, runs, what=what)
    means = {row["run"]: row for row in _rows(reliability.mean_time_between(stretches, stated=stated))}

    def told(run: str) -> str:
        if run not in means:
            return "–"
        return _interval(means[run], "mean_hours") if means[run]["failures"] >= FEWEST_STRETCHES else "too few"

    def as_stated(run: str) -> str:
        own = stated[(stated["run"] == run)]
        if own.empty:
            return "–"
        low, high = _number(own["low_hours"].min()), _number(own["high_hours"].max())
        return low if low == high else f"{low} to {high}"

    return [(f"hours between {what}, mean (95%)", told), (f"hours between {what}, as stated", as_stated)]


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", frame.to_dict("records"))


def _span(times: pd.Series) -> str:
    return f"{times.min():%Y-%m-%d} to {times.max():%Y-%m-%d}" if len(times) else "–"


def _by_cause(store: EventStore, runs: Sequence[str]) -> str:
    counts = reliability.restarts_by_cause(store, runs)
    wide = counts.pivot(index="cause", columns="run", values="restarts").reindex(columns=list(runs)).fillna(0)
    wide = wide.loc[wide.sum(axis=1).sort_values(ascending=False, kind="stable").index]
    return _table(
        ["cause", *runs], [[str(cause), *(_number(row[run]) for run in runs)] for cause, row in wide.iterrows()]
    )


def _by_week(store: EventStore, runs: Sequence[str]) -> str:
    weeks = reliability.restarts_by_week(store, runs)
    rows = []
    for run in runs:
        counts = weeks[weeks["run"] == run].groupby("week")["restarts"].sum()
        if len(counts):
            rows.append(
                [run, f"{counts.index[0]:%Y-%m-%d}", " ".join(str(count) for count in counts), str(counts.max())]
            )
    return _table(["run", "first week", "restarts, week by week", "most"], rows)


def _per_gpu(store: EventStore) -> str:
    rows = [
        [
            row["run"],
            row["source"],
            _number(row["failures"], 1),
            _number(row["days"]),
            _number(row["gpus"]),
            _interval(row, "years", 1),
            row["text"],
        ]
        for row in _rows(reliability.mtbf_per_gpu(store))
    ]
    return _table(
        ["run", "source", "failures", "in days", "GPUs", "years between failures of one (95%)", "as told"], rows
    )


def _interventions(store: EventStore, within: int) -> str:
    table = effectiveness.interventions(store, within=within)
    rows = [
        [
            row["kind"].replace("_", " "),
            str(row["tried"]),
            str(row["came_back"]),
            str(row["unaffected"]),
            str(row["within"]),
            str(row["within"] + row["not_within"]),
            _share(row),
        ]
        for row in _rows(table[table["tried"] >= _FEWEST_TRIED])
    ]
    head = ["done", "incidents", "came back at all", "changed nothing", "within", "of known", "share (95%)"]
    return _table(head, rows)


def _share(row: dict[str, Any]) -> str:
    known = row["within"] + row["not_within"]
    if known < _FEWEST_TRIED:
        return "too few" if known else "–"
    share, low, high = (f"{100 * row[name]:.0f}" for name in ("share", "low", "high"))
    return f"{share}% ({low} to {high})"
