"""`floor`, `ceiling` and `nonfinite`: conditions on a value by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.rules.detectors.base import Detector, Floats, State, Verdicts, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSettings:
    """Settings of `floor` and `ceiling`."""

    at: float = setting(float("nan"), "the level: at or beyond it the condition holds")
    seen_beyond: float = setting(float("nan"), "the signal must have been on the other side of this level before")


class _Level(Detector):
    """At or beyond a level, ``direction`` -1 for below and 1 for above."""

    direction: int

    def __init__(self, settings: LevelSettings) -> None:
        super().__init__()
        self.settings = settings
        self._armed = bool(np.isnan(settings.seen_beyond))

    @property
    def needs(self) -> int:
        """One point."""
        return 1

    def begin_attempt(self, first_step: int) -> None:
        """A level is a level: nothing is forgotten."""
        del first_step

    def advance(self, step: NDArray[np.int64], value: Floats) -> Verdicts:
        """Verdicts on the points that are numbers, infinities included."""
        del step
        seen = np.flatnonzero(~np.isnan(value))
        given = value[seen]
        verdicts = Verdicts.quiet(seen)
        verdicts.baseline[:] = self.settings.at
        beyond = self.direction * given >= self.direction * self.settings.at
        armed = np.full(len(given), True)
        if not self._armed:
            armed = np.logical_or.accumulate(self.direction * given <= self.direction * self.settings.seen_beyond)
        verdicts.firing[:] = beyond & armed
        with np.errstate(invalid="ignore"):
            verdicts.score[:] = np.where(verdicts.firing, np.abs(given - self.settings.at), 0.0)
        self._armed = self._armed or bool(armed.any())
        return verdicts

    def state_dict(self) -> State:
        """Whether the other side has been seen."""
        return super().state_dict() | {"armed": self._armed}

    def load_state_dict(self, state: State) -> None:
        """Go on from :meth:`state_dict`."""
        super().load_state_dict(state)
        self._armed = state["armed"]


class Floor(_Level):
    """At or below a level."""

    name = "floor"
    direction = -1


class Ceiling(_Level):
    """At or above a level."""

    name = "ceiling"
    direction = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NonfiniteSettings:
    """`nonfinite` has no settings."""


class Nonfinite(Detector):
    """Not a number, or infinite."""

    name = "nonfinite"

    def __init__(self, settings: NonfiniteSettings) -> None:
        super().__init__()
        self.settings = settings
        self._last = float("nan")

    @property
    def needs(self) -> int:
        """One point."""
        return 1

    def begin_attempt(self, first_step: int) -> None:
        """Nothing is forgotten."""
        del first_step

    def advance(self, step: NDArray[np.int64], value: Floats) -> Verdicts:
        """Verdicts on every point; the baseline is the last finite value."""
        del step
        finite = np.isfinite(value)
        with_last = np.concatenate([[self._last], value])
        latest = np.maximum.accumulate(np.where(finite, np.arange(1, len(value) + 1), 0))
        firing = ~finite
        baseline = with_last[latest]
        self._last = float(baseline[-1]) if len(value) else self._last
        never = np.zeros(len(value), dtype=bool)
        return Verdicts(np.arange(len(value)), firing, baseline, firing.astype(np.float64), never)

    def state_dict(self) -> State:
        """The last finite value."""
        return super().state_dict() | {"last": self._last}

    def load_state_dict(self, state: State) -> None:
        """Go on from :meth:`state_dict`."""
        super().load_state_dict(state)
        self._last = state["last"]
