"""From verdicts on points to episodes: stretches of one attempt over which a condition held."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from replay.rules.detectors import Verdicts
from replay.rules.series import NO_TIME, Series


@dataclass(frozen=True, slots=True)
class Episode:
    """A condition held from ``step`` to ``step_end``; ``known_at`` is where it had held long enough (None: not yet)."""

    signal: str
    detector: str
    attempt: int
    step: int
    step_end: int
    time: int | None
    value: float
    baseline: float
    score: float
    points: int
    known_at: int | None


class EpisodeBuilder:
    """Joins points at which a condition holds; up to ``tolerate`` quiet points in between do not end an episode."""

    def __init__(self, signal: str, detector: str, *, for_points: int, for_steps: int, tolerate: int) -> None:
        self._signal, self._detector = signal, detector
        self._for_points, self._for_steps, self._tolerate = for_points, for_steps, tolerate
        self._open: Episode | None = None
        self._quiet = 0
        self._closed: list[Episode] = []

    def take(self, batch: Series, verdicts: Verdicts) -> None:
        """Use a detector's verdicts on ``batch``."""
        firing = np.flatnonzero(verdicts.firing)
        rows = verdicts.seen[firing]
        attempts = batch.attempt[rows]
        # A run of firing points ends where more than `tolerate` quiet ones follow, or with its attempt.
        ends = np.flatnonzero((np.diff(firing) > self._tolerate + 1) | (np.diff(attempts) != 0))
        bounds = [0, *(ends + 1).tolist(), len(firing)]
        for start, stop in itertools.pairwise(bounds):
            if start == stop:
                continue
            quiet = int(firing[start]) + (self._quiet if start == 0 else 0)
            goes_on = (
                start == 0
                and self._open is not None
                and self._open.attempt == int(attempts[0])
                and quiet <= self._tolerate
            )
            if not goes_on:
                self._close()
            self._extend(batch, rows[start:stop], verdicts, firing[start:stop])
        last = int(firing[-1]) + 1 if len(firing) else 0
        self._quiet = len(verdicts.seen) - last + (0 if len(firing) else self._quiet)
        another = len(batch) > 0 and self._open is not None and int(batch.attempt[-1]) != self._open.attempt
        if self._quiet > self._tolerate or another:
            self._close()

    def _extend(self, batch: Series, rows: Any, verdicts: Verdicts, firing: Any) -> None:
        step, value = batch.step[rows], batch.value[rows]
        score, baseline = verdicts.score[firing], verdicts.baseline[firing]
        farthest = int(np.argmax(score))
        time = int(batch.wall_time[rows[0]])
        new = Episode(
            signal=self._signal,
            detector=self._detector,
            attempt=int(batch.attempt[rows[0]]),
            step=int(step[0]),
            step_end=int(step[-1]),
            time=None if time == NO_TIME else time,
            value=float(value[farthest]),
            baseline=float(baseline[farthest]),
            score=float(score[farthest]),
            points=len(rows),
            known_at=None,
        )
        before = self._open
        begun, counted = (new.step, 0) if before is None else (before.step, before.points)
        long_enough = (counted + 1 + np.arange(len(rows)) >= self._for_points) & (step - begun >= self._for_steps)
        known_at = int(step[int(np.argmax(long_enough))]) if long_enough.any() else None
        if before is None:
            self._open = replace(new, known_at=known_at)
            return
        worst = new if new.score > before.score else before
        self._open = replace(
            before,
            step_end=new.step_end,
            value=worst.value,
            baseline=worst.baseline,
            score=worst.score,
            points=before.points + new.points,
            known_at=before.known_at if before.known_at is not None else known_at,
        )

    def _close(self) -> None:
        if self._open is not None and self._open.known_at is not None:
            self._closed.append(self._open)
        self._open = None

    def episodes(self) -> list[Episode]:
        """Those that held long enough, the present one included, in order."""
        present = [self._open] if self._open is not None and self._open.known_at is not None else []
        return self._closed + present

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered."""
        return {
            "open": None if self._open is None else asdict(self._open),
            "quiet": self._quiet,
            "closed": [asdict(episode) for episode in self._closed],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        self._open = None if state["open"] is None else Episode(**state["open"])
        self._quiet = state["quiet"]
        self._closed = [Episode(**episode) for episode in state["closed"]]


def any_of(parts: Sequence[Sequence[Episode]], within: int) -> list[Episode]:
    """Episodes of all parts; those that overlap, or follow within ``within`` steps, are one."""
    merged: list[Episode] = []
    for episode in _sorted(episode for part in parts for episode in part):
        last = merged[-1] if merged else None
        if last is not None and last.attempt == episode.attempt and episode.step <= last.step_end + within:
            merged[-1] = replace(
                last,
                step_end=max(last.step_end, episode.step_end),
                points=max(last.points, episode.points),
                known_at=min(last.known_at or 0, episode.known_at or 0),
            )
        else:
            merged.append(episode)
    return merged


def all_of(parts: Sequence[Sequence[Episode]], within: int) -> list[Episode]:
    """Where an episode of every part holds, or held at most ``within`` steps before."""
    result = list(parts[0])
    for part in parts[1:]:
        result = [
            _both(one, two)
            for one in result
            for two in part
            if one.attempt == two.attempt and max(one.step, two.step) <= min(one.step_end, two.step_end) + within
        ]
    return any_of([result], 0)


def one_then_another(parts: Sequence[Sequence[Episode]], within: int) -> list[Episode]:
    """Where the parts began one after the other, the last at most ``within`` steps after the first."""
    chains = [(first, first) for first in parts[0]]
    for part in parts[1:]:
        chains = [
            (first, _both(last, later))
            for first, last in chains
            for later in part
            if later.attempt == last.attempt and last.step <= later.step <= first.step + within
        ]
    return any_of([[last for _, last in chains]], 0)


def _both(one: Episode, two: Episode) -> Episode:
    """The later beginning decides; the numbers are those of the later one."""
    later, earlier = (two, one) if two.step >= one.step else (one, two)
    return replace(
        later,
        step_end=max(later.step, min(one.step_end, two.step_end)) if earlier.step_end >= later.step else later.step_end,
        known_at=max(one.known_at or 0, two.known_at or 0),
    )


def _sorted(episodes: Iterable[Episode]) -> list[Episode]:
    return sorted(episodes, key=lambda e: (e.attempt, e.step, e.step_end, e.signal, e.detector))
