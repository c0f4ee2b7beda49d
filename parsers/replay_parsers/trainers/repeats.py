"""One report printed by many ranks: which of them to keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_REMEMBERED_STEPS = 64
_AT_ONCE = 10_000_000
"""Ranks that report one step do so within so many microseconds; a restart takes longer to come back to it."""


class Repeats:
    """Remembers the steps lately reported and by whom.

    Launchers mix the output of many ranks, and a rank may lag behind: its report of a step told before is neither a
    second measurement nor a step back.  A rank that goes back by itself is a restart.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._recent: dict[tuple[int, str], list[Any]] = {
            (int(step), about): told for step, about, *told in state.get("recent", [])
        }
        self._restarts = int(state.get("restarts", 0))

    def state(self) -> dict[str, Any]:
        return {"recent": [[*key, *told] for key, told in self._recent.items()], "restarts": self._restarts}

    def told(
        self,
        step: int,
        rank: str,
        restarts: int,
        *,
        about: str = "",
        time: int | None = None,
        mark: float | None = None,
    ) -> bool:
        """Whether ``step`` was told by another rank; if not, it is remembered.

        ``restarts`` counts the restarts that the log has told of: after one, steps are told anew.  ``about`` tells
        records of different content apart.  Where no rank is printed, a report of the same time (microseconds since
        1970) with the same ``mark``, a loss, is another rank's.
        """
        if restarts != self._restarts:
            self._restarts = restarts
            self._recent = {}
        if not rank and (time is None or mark is None):
            return False
        known = self._recent.get((step, about))
        if known is not None:
            by, when, what = known
            if rank or by:
                return bool(by != rank)
            if when is not None and time is not None and abs(time - when) <= _AT_ONCE and what == mark:
                return True
        elif rank and self._lags(step, rank):
            return True
        self._recent[step, about] = [rank, time, mark]
        if len(self._recent) > _REMEMBERED_STEPS:
            del self._recent[next(iter(self._recent))]
        return False

    def highest(self, about: str) -> int | None:
        """The highest step that is remembered of such records; None when there is none."""
        return max((step for step, what in self._recent if what == about), default=None)

    def remember(
        self, about: str, steps: NDArray[np.int64], times: NDArray[np.int64], marks: NDArray[np.float64]
    ) -> None:
        """Remember the last of many reports, all of which are known to be told for the first time."""
        for step, time, mark in zip(
            steps[-_REMEMBERED_STEPS:].tolist(),
            times[-_REMEMBERED_STEPS:].tolist(),
            marks[-_REMEMBERED_STEPS:].tolist(),
            strict=True,
        ):
            self._recent[step, about] = ["", time, mark]
            if len(self._recent) > _REMEMBERED_STEPS:
                del self._recent[next(iter(self._recent))]

    def _lags(self, step: int, rank: str) -> bool:
        """Whether a rank that begins late reports a step from before the first that is remembered."""
        if not 0 < len(self._recent) < _REMEMBERED_STEPS or step >= min(self._recent)[0]:
            return False
        return all(by != rank for by, _, _ in self._recent.values())
