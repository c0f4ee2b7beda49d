"""What every detector is: causal, resumable, and fed one signal in batches of any size.

A detector never looks ahead: what it says at a point follows from that point and those before it, so that any split
of a series into batches gives the same verdicts, and a live tail the same as a whole store.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from replay.rules.series import Series

Floats = NDArray[np.float64]
State = dict[str, Any]
"""Plain numbers, strings, lists and dictionaries, as JSON holds them."""


def setting(
    default: Any, meaning: str, *, low: float = -np.inf, high: float = np.inf, choices: tuple[str, ...] = ()
) -> Any:
    """A field of a detector's settings: its default, what it means, and the range or words allowed."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """What a detector says of the points of a batch that it looked at, each column of shape [points looked at].

    ``seen`` indexes the batch; ``baseline`` is what the value is compared with, ``score`` how far beyond its limit
    the value lies in the detector's own measure (robust sigmas as a rule); ``cautious`` where history was short, so
    that more was asked of an alarm than elsewhere.
    """

    seen: NDArray[np.int64]
    firing: NDArray[np.bool_]
    baseline: Floats
    score: Floats
    cautious: NDArray[np.bool_]

    @classmethod
    def quiet(cls, seen: NDArray[np.int64]) -> Verdicts:
        """Nothing fires."""
        count = len(seen)
        no = np.zeros(count, dtype=bool)
        return cls(seen, no, np.full(count, np.nan), np.zeros(count), no.copy())

    @classmethod
    def joined(cls, parts: list[Verdicts]) -> Verdicts:
        """Verdicts on parts of one batch, in order."""
        if not parts:
            return cls.quiet(np.empty(0, dtype=np.int64))
        return cls(
            np.concatenate([part.seen for part in parts]),
            np.concatenate([part.firing for part in parts]),
            np.concatenate([part.baseline for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.cautious for part in parts]),
        )


class Detector(ABC):
    """One condition on one signal.

    ``update`` takes further points, each batch in order of attempts and steps; ``state_dict`` and
    ``load_state_dict`` carry a detector over to another process.  ``needs`` is the number of points without which
    it can say nothing.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.attempt: int | None = None

    @property
    @abstractmethod
    def needs(self) -> int:
        """Points without which nothing can be said."""

    def update(self, batch: Series) -> Verdicts:
        """Verdicts on the points of ``batch``."""
        parts = []
        for start, stop in stretches(batch.attempt):
            attempt = int(batch.attempt[start])
            if attempt != self.attempt:
                if self.attempt is not None:
                    self.begin_attempt(int(batch.step[start]))
                self.attempt = attempt
            part = self.advance(batch.step[start:stop], batch.value[start:stop])
            parts.append(replace(part, seen=part.seen + start))
        return Verdicts.joined(parts)

    @property
    def caution(self) -> str:
        """What is asked of an alarm while history is short, in words; empty where nothing more is."""
        return ""

    @abstractmethod
    def begin_attempt(self, first_step: int) -> None:
        """Forget what was rolled back: what was seen at or after ``first_step``."""

    @abstractmethod
    def advance(self, step: NDArray[np.int64], value: Floats) -> Verdicts:
        """Verdicts on further points of the present attempt."""

    def state_dict(self) -> State:
        """All that is remembered."""
        return {"attempt": self.attempt}

    def load_state_dict(self, state: State) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self.attempt = state["attempt"]


def stretches(attempt: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """The bounds of runs of equal numbers."""
    if not len(attempt):
        return
    bounds = [0, *(np.flatnonzero(np.diff(attempt)) + 1).tolist(), len(attempt)]
    yield from itertools.pairwise(bounds)
