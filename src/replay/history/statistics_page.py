"""Runs side by side: the statistics of the incident history as one page of markdown, every number computed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.history import effectiveness, lost_work, reliability

if TYPE_CHECKING:
    from replay.store import EventStore

WITHIN = 2_000
_FEWEST_TRIED = 3
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
        "counted, a record's end is treated as censoring, and every rate comes with a 95% interval. The functions are "
        "in `replay.history` (`reliability`, `lost_work`, `effectiveness`), and give DataFrames.",
        "## Overview",
        _overview(store, runs),
        _CAVEATS,
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
        f"The share is of those of which it is known whether it came back within {within:,} steps. These are "
        "observations: people try several things at once, and the mild ones first.",
    ]
    return "\n\n".join(part if part[0] in "#|`" else textwrap.fill(part, _WIDTH) for part in parts) + "\n"


_CAVEATS = (
    "Restarts are *told* by an entry of their own, or by one that says how many; *stated in all* are totals that a "
    "source gives, whatever it counts. "
    "Failures are incidents in which hardware failed, or training stopped and nothing else is told. *Lost steps* are "
    "known only where both the checkpoint and the step reached are told, lost hours only where a source gives them."
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
    totals = reliability.stated_totals(store, runs)
    mean = {
        what: {row["run"]: row for row in _rows(reliability.mean_time_between(stretches))}
        for what in ("failures", "restarts")
        for stretches in [reliability.time_between(store, runs, what=what)]
    }
    events = store.events(run=runs, derived=False)
    dated = events.dropna(subset=["time"])

    def stated(run: str) -> str:
        own = totals[(totals["run"] == run) & ~totals["rate"] & (totals["component"] == "")]
        return ", ".join(f"{row['count']:g} in {row['days']:g} days" for row in _rows(own)) or "–"

    def between(what: str) -> Callable[[str], str]:
        return lambda run: _interval(mean[what][run], "mean_hours") if run in mean[what] else "–"

    def of(frame: pd.DataFrame, column: str, digits: int = 0) -> Callable[[str], str]:
        return lambda run: _number(frame.loc[run, column], digits) if run in frame.index else "–"  # type: ignore[arg-type]

    lines: list[tuple[str, Callable[[str], str]]] = [
        ("parameters", lambda run: f"{_number(described[run]['parameters'] / 1e9)}B"),
        ("record", lambda run: _span(dated.loc[dated["run"] == run, "time"])),
        ("incidents told", lambda run: str(events.loc[events["run"] == run, "incident"].nunique())),
        ("restarts told", lambda run: str(int(restarts.loc[restarts["run"] == run, "times"].sum()))),
        ("failures or restarts stated in all", stated),
        ("hours between restarts, mean (95%)", between("restarts")),
        ("failures told one by one", lambda run: str(int((failures["run"] == run).sum()))),
        ("hours between failures, mean (95%)", between("failures")),
        ("lost steps, where known", of(work, "lost_steps")),
        ("restarts of which they are known", of(work, "known")),
        ("lost hours, where stated", of(work, "lost_hours", 1)),
        ("batches skipped", of(skipped, "high_batches")),
    ]
    return _table(["", *runs], [[name, *(value(run) for run in runs)] for name, value in lines])


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
    if pd.isna(row["share"]):
        return "–"
    share, low, high = (f"{100 * row[name]:.0f}" for name in ("share", "low", "high"))
    return f"{share}% ({low} to {high})"
