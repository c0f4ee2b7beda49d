"""Everything that the store knows of one run, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from replay.errors import ReplayError
from replay.output import visible

CHARTED_SIGNALS = ("loss", "grad_norm", "learning_rate", "loss_scale")
"""Signals that the report draws, in this order."""


class ReadableStore(Protocol):
    """The queries that a report needs; :class:`replay.store.EventStore` answers them."""

    def runs(self) -> pd.DataFrame: ...
    def events(self, *, run: str) -> pd.DataFrame: ...
    def incidents(self, *, run: str) -> pd.DataFrame: ...
    def attempts(self, run: str) -> pd.DataFrame: ...
    def tags(self, run: str) -> pd.DataFrame: ...
    def scalars(self, run: str, *, tag: str) -> pd.DataFrame: ...
    def flags(self, run: str) -> pd.DataFrame: ...
    def problems(self) -> pd.DataFrame: ...
    def findings(self) -> pd.DataFrame: ...
    def ledger(self) -> pd.DataFrame: ...
    def effects(self) -> pd.DataFrame: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReading:
    """One signal as drawn: the tag with the most rows, and the names of the others that carry it.

    ``rows`` has the columns of ``store.scalars``.
    """

    signal: str
    tag: str
    rows: pd.DataFrame
    other_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """What the store holds on ``name``; frames have the columns of the store's queries."""

    name: str
    facts: dict[str, Any]
    events: pd.DataFrame
    incidents: pd.DataFrame
    attempts: pd.DataFrame
    tags: pd.DataFrame
    signals: dict[str, SignalReading]
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


def read_run(store: ReadableStore, run: str) -> RunReading:
    """Query ``store`` for all that a report on ``run`` shows.

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
    return RunReading(
        name=run,
        facts=facts,
        events=store.events(run=run),
        incidents=store.incidents(run=run),
        attempts=store.attempts(run),
        tags=tags,
        signals={signal: reading for signal in CHARTED_SIGNALS if (reading := _signal(store, run, tags, signal))},
        flags=store.flags(run),
        problems=_of_run(store.problems(), run, sources),
        findings=_of_run(store.findings(), run, sources),
        ledger=_of_run(store.ledger(), run, sources),
        effects=store.effects(),
    )


def _signal(store: ReadableStore, run: str, tags: pd.DataFrame, signal: str) -> SignalReading | None:
    named = tags[tags["signal"] == signal].sort_values(["rows", "tag"], ascending=[False, True], kind="stable")
    if named.empty:
        return None
    tag, *others = (str(name) for name in named["tag"])
    rows = store.scalars(run, tag=tag)
    return SignalReading(signal=signal, tag=tag, rows=rows, other_tags=tuple(others))


def _of_run(frame: pd.DataFrame, run: str, sources: Sequence[str]) -> pd.DataFrame:
    """The rows on ``run``, or, where rows name no run, on its sources."""
    mine = pd.Series(False, index=frame.index)
    if "source" in frame.columns:
        mine |= frame["source"].isin(sources)
    if "run" in frame.columns:
        mine = (frame["run"] == run) | (mine & frame["run"].isin(["", None]))
    return frame[mine]
