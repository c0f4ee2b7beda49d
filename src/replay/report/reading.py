"""Everything that the store knows of one run, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from replay.errors import ReplayError
from replay.flagging import signal_series
from replay.output import visible
from replay.rules import Evaluation, Rule, Series, evaluate, flags_frame, load
from replay.rules.series import NO_TIME

CHARTED_SIGNALS = ("loss", "grad_norm", "learning_rate", "loss_scale", "throughput")
"""Signals that the report draws, in this order."""


class ReadableStore(Protocol):
    """The queries that a report needs; :class:`replay.store.EventStore` answers them."""

    def runs(self) -> pd.DataFrame: ...
    def events(self, *, run: str) -> pd.DataFrame: ...
    def incidents(self, *, run: str) -> pd.DataFrame: ...
    def attempts(self, run: str) -> pd.DataFrame: ...
    def tags(self, run: str) -> pd.DataFrame: ...
    def scalars(self, run: str, *, tag: list[str]) -> pd.DataFrame: ...
    def flags(self, run: str) -> pd.DataFrame: ...
    def problems(self) -> pd.DataFrame: ...
    def findings(self) -> pd.DataFrame: ...
    def ledger(self) -> pd.DataFrame: ...
    def effects(self) -> pd.DataFrame: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReading:
    """One signal as the rules read it: one value a step of each attempt, a loss that is missing as NaN.

    ``tags`` are the names under which it was logged.  ``rows`` has the columns attempt, step, time and value, in
    order of attempts and steps.
    """

    signal: str
    tags: tuple[str, ...]
    rows: pd.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """What the store holds on ``name``; frames have the columns of the store's queries.

    ``evaluation`` is what ``rules`` say of the run's signals: what was checked and what could not be.
    """

    name: str
    facts: dict[str, Any]
    events: pd.DataFrame
    incidents: pd.DataFrame
    attempts: pd.DataFrame
    tags: pd.DataFrame
    signals: dict[str, SignalReading]
    rules: tuple[Rule, ...]
    evaluation: Evaluation
    flags: pd.DataFrame
    problems: pd.DataFrame
    findings: pd.DataFrame
    ledger: pd.DataFrame
    effects: pd.DataFrame


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a query's answer as dictionaries; text that is missing is empty text."""
    words = {name: "" for name in frame.columns if isinstance(frame[name].dtype, pd.StringDtype)}
    frame = frame.fillna(words) if words else frame
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def read_run(store: ReadableStore, run: str, rules: Sequence[Rule] | None = None) -> RunReading:
    """Query ``store`` for all that a report on ``run`` shows, and look at it with ``rules`` (the built-in ones).

    Flags are what the rules say now, and those that the store keeps of other rules.

    Raises :class:`ReplayError` when the store holds no such run.
    """
    runs = store.runs()
    rows = records(runs[runs["run"] == run])
    if not rows:
        held = ", ".join(visible(str(name)) for name in list(runs["run"])[:5]) or "none"
        raise ReplayError(f"no run {visible(run)!r} in the store; it holds {held}")
    facts = rows[0]
    sources = [str(source) for source in facts.get("sources") or []]
    tags = store.tags(run)
    series = signal_series(store, run)
    chosen = load() if rules is None else rules
    evaluation = evaluate(chosen, series)
    kept = store.flags(run)
    of_others = kept[~kept["rule"].isin([rule.name for rule in chosen])]
    return RunReading(
        name=run,
        facts=facts,
        events=store.events(run=run),
        incidents=store.incidents(run=run),
        attempts=store.attempts(run),
        tags=tags,
        signals={name: _signal(name, tags, series[name]) for name in CHARTED_SIGNALS if name in series},
        rules=tuple(chosen),
        evaluation=evaluation,
        flags=pd.concat([flags_frame(evaluation.flags, run), of_others], ignore_index=True),
        problems=_of_run(store.problems(), run, sources),
        findings=_of_run(store.findings(), run, sources),
        ledger=_of_run(store.ledger(), run, sources),
        effects=store.effects(),
    )


def _signal(signal: str, tags: pd.DataFrame, series: Series) -> SignalReading:
    time = pd.Series(series.wall_time).where(series.wall_time != NO_TIME)
    rows = pd.DataFrame(
        {
            "attempt": series.attempt.astype("int64"),
            "step": series.step,
            "time": pd.to_datetime(time, unit="us", utc=True),
            "value": series.value,
        }
    )
    named = tags[tags["signal"] == signal].sort_values(["rows", "tag"], ascending=[False, True], kind="stable")
    return SignalReading(signal=signal, tags=tuple(str(tag) for tag in named["tag"]), rows=rows)


def _of_run(frame: pd.DataFrame, run: str, sources: Sequence[str]) -> pd.DataFrame:
    """The rows on ``run``, or, where rows name no run, on its sources."""
    mine = pd.Series(False, index=frame.index)
    if "source" in frame.columns:
        mine |= frame["source"].isin(sources)
    if "run" in frame.columns:
        mine = (frame["run"] == run) | (mine & frame["run"].isin(["", None]))
    return frame[mine]
