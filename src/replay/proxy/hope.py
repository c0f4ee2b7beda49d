"""When a run is beyond hope: what it is given up for, and what it is not.

Given up is a run (1) none of whose last 50 steps had a finite loss and made an update, or (2) which had learned, and
has since been no better than a uniform guess, for longer than it took to learn the first time, and never less than 500
steps. A loss that only stands still, or that is high in a run which has learned nothing yet, is no reason.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

STUCK_STEPS = 50
"""So many steps in a row without a finite loss or without an update, and a run is given up."""

RELAPSED_STEPS = 500
"""For at least so many steps a run that had learned must be as bad as a guess to be given up."""

MEAN_OF = 20
"""Losses are means of so many steps."""

COUNTS = ("steps", "learned_at", "stuck", "relapsed")
"""What a run's hope counts, by its names in :meth:`Hope.state_dict`."""

_LEARNED, _GUESSED = 0.75, 0.99


class Hope:
    """Watches a run, step by step, from its start; what it counts goes into checkpoints: a resume is no new run.

    Losses are means of the last 20. Below three quarters of ln V, the loss of a uniform guess among V symbols, the run
    counts as having learned; at or above 0.99 ln V (or not finite) as no better than a guess.
    """

    def __init__(self, vocabulary: int) -> None:
        self._guess = math.log(vocabulary)
        self._last: deque[float] = deque(maxlen=MEAN_OF)
        self._steps = self._learned_at = 0
        self._stuck = self._relapsed = 0

    @property
    def verdict(self) -> str | None:
        """Why the run is beyond hope, None while it is not."""
        if self._stuck >= STUCK_STEPS:
            return f"{self._stuck} steps in a row without a finite loss or without an update"
        if self._relapsed > max(RELAPSED_STEPS, self._learned_at):
            guess = f"a guess (ln V = {self._guess:.2f})"
            return f"{self._relapsed} steps in a row no better than {guess} after it had learned"
        return None

    def lost(self, signals: Mapping[str, float]) -> str | None:
        """Take in the signals of a step; why the run is beyond hope after it, None while it is not.

        A step that was walked over on order has no loss, and says nothing either way.
        """
        if "loss" in signals:
            self._take(signals["loss"], withheld=bool(signals["skipped_steps"]))
        return self.verdict

    def _take(self, loss: float, *, withheld: bool) -> None:
        finite = math.isfinite(loss)
        self._steps += 1
        self._stuck = 0 if finite and not withheld else self._stuck + 1
        self._last.append(loss if finite else math.nan)
        if len(self._last) < MEAN_OF:
            return
        mean = sum(self._last) / MEAN_OF
        if not self._learned_at and mean < _LEARNED * self._guess:
            self._learned_at = self._steps
        relapsed = self._learned_at and not mean < _GUESSED * self._guess
        self._relapsed = self._relapsed + 1 if relapsed else 0

    def wait_anew(self) -> None:
        """Give the run its time again: something about it was changed, which may help it."""
        self._stuck = self._relapsed = 0

    def state_dict(self) -> dict[str, Any]:
        """All of it, as JSON takes it: ``last`` losses, None for one that was not finite, and :data:`COUNTS`."""
        last = [loss if math.isfinite(loss) else None for loss in self._last]
        return {"last": last, **{name: getattr(self, f"_{name}") for name in COUNTS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        self._last = deque((math.nan if loss is None else loss for loss in state["last"]), maxlen=MEAN_OF)
        for name in COUNTS:
            setattr(self, f"_{name}", state[name])
