"""What every finder of events reads: a run's signals, attempts, and how an event is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replay.rules.preparation import measured
from replay_parsers.kinds import KINDS, EventKind
from replay_parsers.records import Event, Evidence, TimePrecision, event_id


@dataclass(frozen=True)
class Signal:
    """One signal of one attempt, a row a step: ``step`` and ``value`` of shape [rows], ``time`` likewise (NaT where
    unknown), and the tag and source that most rows come from."""

    name: str
    attempt: int
    step: NDArray[np.int64]
    value: NDArray[np.float64]
    time: pd.Series
    tag: str
    source: str

    def __len__(self) -> int:
        return len(self.step)

    def time_at(self, index: int) -> datetime | None:
        """The time of a row, None when unknown."""
        time = self.time.iloc[index]
        return None if pd.isna(time) else time.to_pydatetime()

    def place(self, first: int, last: int | None = None) -> str:
        """The locator of steps ``first``..``last``."""
        steps = f"step {first}" if last is None or last == first else f"steps {first}..{last}"
        return f"tag {self.tag!r}, {steps}"


@dataclass(frozen=True)
class Reading:
    """One run: its scalars (with attempt and signal), its attempts, and its signals by attempt."""

    run: str
    scalars: pd.DataFrame
    attempts: pd.DataFrame
    signals: Mapping[str, Mapping[int, Signal]]

    @classmethod
    def of(cls, run: str, scalars: pd.DataFrame, attempts: pd.DataFrame) -> Reading:
        """Sort a run's scalars by signal and attempt."""
        found: dict[str, dict[int, Signal]] = {}
        for name, rows in measured(scalars).items():
            found[name] = {}
            for _, part in rows.groupby("attempt", sort=True):
                attempt = int(part["attempt"].iloc[0])
                found[name][attempt] = signal(name, attempt, part)
        return cls(run, scalars, attempts, found)

    def signal(self, name: str, attempt: int) -> Signal | None:
        """A signal of an attempt, None where it is not logged."""
        return self.signals.get(name, {}).get(attempt)

    def event(
        self,
        kind: EventKind,
        *,
        step: int,
        text: str,
        source: str = "",
        locator: str = "",
        time: datetime | None = None,
        **fields: Any,
    ) -> Event:
        """A derived event; its id is that which a log or a person telling the same would have."""
        return Event(
            run=self.run,
            event=event_id(self.run, kind, step=step),
            kind=kind,
            role=KINDS[kind].role,
            step=step,
            time=time,
            time_precision=None if time is None else TimePrecision.SECOND,
            text=text,
            source=source,
            locator=locator,
            evidence=Evidence.DERIVED,
            **fields,
        )


def signal(name: str, attempt: int, rows: pd.DataFrame) -> Signal:
    """A :class:`Signal` from rows sorted by step."""
    return Signal(
        name=name,
        attempt=attempt,
        step=rows["step"].to_numpy(np.int64),
        value=rows["value"].to_numpy(np.float64),
        time=rows["wall_time"].reset_index(drop=True),
        tag=str(rows["tag"].value_counts().idxmax()),
        source=str(rows["source"].value_counts().idxmax()),
    )


def runs_of(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The bounds (first, last), inclusive, of stretches of True."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def number(value: float) -> str:
    """A number for a line of text: whole numbers as they are, others with six significant digits at most."""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"
