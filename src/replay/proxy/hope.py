"""When a run is beyond hope: what it is given up for, and what it is not.

Given up is a run (1) none of whose last 50 steps had a finite loss and made an update, or (2) which had learned, and
has since been no better than a uniform guess, for longer than it took to learn the first time, and never less than 500
steps. A loss that only stands still, or that is high in a run which has learned nothing yet, is no reason.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

STUCK_STEPS = 50
"""So many steps in a row without a finite loss or without an update, and a run is given up."""

RELAPSED_STEPS = 500
"""For at least so many steps a run that had learned must be as bad as a guess to be given up."""

_MEAN_OF = 20
_LEARNED, _GUESSED = 0.75, 0.99


class Hope:
    """Watches a run, step by step, from where it starts or resumes.

    Losses are means of the last 20. Below three quarters of ln V, the loss of a uniform guess among V symbols, the run
    counts as having learned; at or above 0.99 ln V (or not finite) as no better than a guess.
    """

    def __init__(self, vocabulary: int) -> None:
        self._guess = math.log(vocabulary)
        self._last: deque[float] = deque(maxlen=_MEAN_OF)
        self._steps = self._learned_at = 0
        self._stuck = self._relapsed = 0

    def lost(self, signals: Mapping[str, float]) -> str | None:
        """Take in the signals of a step; why the run is beyond hope after it, None while it is not.

        A step that was walked over on order has no loss, and says nothing either way.
        """
        if "loss" not in signals:
            return None
        self._steps += 1
        loss = signals["loss"]
        self._stuck = 0 if math.isfinite(loss) and not signals["skipped_steps"] else self._stuck + 1
        if self._stuck >= STUCK_STEPS:
            return f"{self._stuck} steps in a row without a finite loss or without an update"
        self._last.append(loss)
        if len(self._last) < _MEAN_OF:
            return None
        mean = sum(self._last) / _MEAN_OF
        if not self._learned_at and mean < _LEARNED * self._guess:
            self._learned_at = self._steps
        relapsed = self._learned_at and not mean < _GUESSED * self._guess
        self._relapsed = self._relapsed + 1 if relapsed else 0
        if self._relapsed > max(RELAPSED_STEPS, self._learned_at):
            guess = f"a guess (ln V = {self._guess:.2f})"
            return f"{self._relapsed} steps in a row no better than {guess} after it had learned"
        return None
