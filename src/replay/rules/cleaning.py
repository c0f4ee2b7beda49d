"""What of a signal is a measurement: one value a step, no placeholder zeros, no stale repeats."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.rules.series import Series

NEVER_ZERO = frozenset({"grad_norm", "loss_scale", "throughput", "step_time", "param_norm", "batch_size"})
"""Signals that cannot be 0: a 0 is what trainers print when they did not measure, or rounded to nothing."""


class Cleaner:
    """Drops a step told twice (ranks that print in turn, duplicates), points of an attempt that is over, and zeros
    of signals that cannot be 0; counts what it drops.  Resumable, and the same for any split into batches."""

    def __init__(self, signal: str) -> None:
        self._never_zero = signal in NEVER_ZERO
        self._attempt: int | None = None
        self._step: int | None = None
        self.zeros = 0
        self.kept = 0
        self.first_step: int | None = None
        self.last_step: int | None = None

    def clean(self, batch: Series) -> Series:
        """The measurements among ``batch``."""
        if self._never_zero:
            zero = batch.value == 0
            self.zeros += int(np.count_nonzero(zero))
            batch = batch[~zero]
        if not len(batch):
            return batch
        kept = batch[self._new_steps(batch)]
        if len(kept):
            self._attempt, self._step = int(kept.attempt[-1]), int(kept.step[-1])
            self.kept += len(kept)
            lowest, highest = int(kept.step.min()), int(kept.step.max())
            self.first_step = lowest if self.first_step is None else min(self.first_step, lowest)
            self.last_step = highest if self.last_step is None else max(self.last_step, highest)
        return kept

    def _new_steps(self, batch: Series) -> NDArray[np.bool_]:
        """Points whose (attempt, step) lies beyond all before."""
        attempt, step = batch.attempt.astype(np.int64), batch.step
        if self._attempt is not None and self._step is not None:
            attempt = np.concatenate([[self._attempt], attempt])
            step = np.concatenate([[self._step], step])
        highest = np.maximum.accumulate(attempt)
        current = attempt == highest
        new = current.copy()
        bounds = [0, *(np.flatnonzero(np.diff(highest)) + 1).tolist(), len(step)]
        for start, stop in itertools.pairwise(bounds):
            rows = np.flatnonzero(current[start:stop]) + start
            reached = np.maximum.accumulate(step[rows])
            new[rows[1:]] = step[rows[1:]] > reached[:-1]
        return np.asarray(new[len(new) - len(batch) :])

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered."""
        return {
            "attempt": self._attempt,
            "step": self._step,
            "zeros": self.zeros,
            "kept": self.kept,
            "first_step": self.first_step,
            "last_step": self.last_step,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        self._attempt, self._step = state["attempt"], state["step"]
        self.zeros, self.kept = state["zeros"], state["kept"]
        self.first_step, self.last_step = state["first_step"], state["last_step"]
