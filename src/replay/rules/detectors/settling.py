"""When a signal that first falls has come to rest: dynamic loss scaling searches its scale from above.

Training in half precision begins with a scale that is too large by design, halved at every overflow until gradients
fit.  That fall is calibration and no incident (DeepSpeed, Megatron-LM: 2^16 to 2^32 at the start).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A log that begins later than this begins somewhere in the run, where the scale has long been found.
_START_OF_TRAINING = 100
_RESTING_AT_START = 20
_RESTING = 3
# Falls count from one halving on; averages over an interval wobble by less.
_FALL = 0.5


class Settling:
    """Consumes points until enough in a row have not fallen.  Levels are as :class:`Excursion` sees them: for a
    fall upward."""

    def __init__(self) -> None:
        self._settled = False
        self._wanted: int | None = None
        self._steps: list[int] = []
        self._levels: list[float] = []

    def begin_attempt(self, *, scale_known: bool) -> None:
        """A new process carries its scale on from the checkpoint; where none was known, wait again."""
        self._settled = scale_known
        self._wanted = None
        self._steps, self._levels = [], []

    def settle(self, steps: NDArray[np.int64], levels: Floats) -> int:
        """How many of the points belong to the calibration."""
        index = 0
        while not self._settled and index < len(levels):
            if self._wanted is None:
                self._wanted = _RESTING_AT_START if steps[index] <= _START_OF_TRAINING else _RESTING
            level = float(levels[index])
            if self._levels and level > self._levels[-1] + _FALL:
                self._steps, self._levels = [], []
            self._steps.append(int(steps[index]))
            self._levels.append(level)
            self._settled = len(self._levels) >= self._wanted
            index += 1
        return index

    def resting_points(self) -> tuple[NDArray[np.int64], Floats]:
        """The points at rest, once: they are the first of the baseline."""
        if not self._settled:
            return np.empty(0, dtype=np.int64), np.empty(0)
        points = np.array(self._steps, dtype=np.int64), np.array(self._levels, dtype=np.float64)
        self._steps, self._levels = [], []
        return points

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered."""
        return {
            "settled": self._settled,
            "wanted": self._wanted,
            "steps": list(self._steps),
            "levels": list(self._levels),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        self._settled, self._wanted = state["settled"], state["wanted"]
        self._steps, self._levels = list(state["steps"]), list(state["levels"])
