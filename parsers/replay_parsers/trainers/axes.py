"""Where a record of any keys stands on the axis of steps, and on the clock.

Records of JSON lines and CSV files name the step in many ways, or give samples, tokens or epochs instead.  A step is
a step; values over samples or tokens get ` vs samples` or ` vs tokens` behind their name, as Megatron's do, so that
they are not taken for values over steps; where there are only epochs, an epoch is a step.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from replay_parsers.trainers.losses import training_loss
from replay_parsers.trainers.numbers import MAX_STEP, as_step, parse_number
from replay_parsers.trainers.timestamps import printed_time

_STEPS = (
    "step",
    "global_step",
    "_step",
    "trainer/global_step",
    "train/global_step",
    "current_steps",
    "global_step/max_steps",
    "steps[global_step/max_steps]",
    "num_updates",
    "iteration",
    "iter",
    "train_step",
    "update",
    "updates",
    "steps",
    "global_steps",
    "step_num",
    "iter_num",
    "it",
    "batch",
)
_STEPS_OF_MANY_KINDS = ("update", "updates", "steps", "it", "batch")
_LOSS = re.compile(r"(?:^|[^a-z])loss(?:$|[^a-z])", re.I)
_HELD_OUT_LOSS = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|eval|test)[_/ -](?:[\w-]{1,40}[_/ -])?loss$", re.I)
_SAMPLES = ("samples", "consumed_samples", "consumed_train_samples", "num_samples", "samples_seen", "global_samples")
_TOKENS = ("tokens", "consumed_tokens", "tokens_seen", "num_tokens", "n_tokens", "total_tokens", "num_tokens_seen")
_EPOCHS = ("epoch", "epochs", "current_epoch")
_TIMES = (
    "timestamp",
    "_timestamp",
    "time",
    "wall_time",
    "wall time",
    "datetime",
    "created_at",
    "ts",
    "date",
    "asctime",
)

# Seconds, milliseconds, microseconds and nanoseconds since 1970: between which numbers, and how many microseconds.
_CLOCKS = ((1e8, 1e10, 1e6), (1e11, 1e13, 1e3), (1e14, 1e16, 1.0), (1e17, 1e19, 1e-3))

RECORD_NUMBER = "number of the record"


@dataclass(frozen=True, slots=True)
class Place:
    """A record's step, the keys that say so (no values of their own), and what a step is: "step", "epoch" ...

    ``suffix`` is added to the names of the values when the axis is not the step.
    """

    step: int
    keys: tuple[str, ...]
    axis: str
    suffix: str = ""


@lru_cache(maxsize=1_024)
def _candidates(keys: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of ``keys`` that are among ``names``, best first.  Records of a log have the same few sets of keys."""
    lowered = {key.lower().replace(" ", "_"): key for key in keys}
    wanted = (name.replace(" ", "_") for name in names)
    return tuple(lowered[name] for name in wanted if name in lowered)


def _named(record: Mapping[str, Any], keys: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, Any] | None:
    for key in _candidates(keys, names):
        value = record[key]
        if value is not None and value != "":
            return key, value
    return None


class Axis:
    """Finds the step of one record after another."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.count = int(state.get("count", 0))
        self.epochs = EpochSteps(state.get("epochs", {}))

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "epochs": self.epochs.state()}

    def place(self, record: Mapping[str, Any]) -> Place | None:
        """Where ``record`` stands; None when it names a step that is none."""
        self.count += 1
        present = tuple(record)
        epoch = _named(record, present, _EPOCHS)
        if (named := _named(record, present, _STEPS)) is not None:
            step = as_step(named[1])
            if step is None:
                return None
            number = as_step(epoch[1]) if epoch else None
            if number is not None:
                step = self.epochs.running(number, step)
            return Place(step, (named[0],), "step")
        for names, axis in ((_SAMPLES, "samples"), (_TOKENS, "tokens")):
            if (named := _named(record, present, names)) is not None and (step := as_step(named[1])) is not None:
                return Place(step, (named[0],), axis, f" vs {axis}")
        if epoch is not None and (step := as_step(epoch[1])) is not None:
            return Place(step, (epoch[0],), "epoch")
        return Place(self.count, (), RECORD_NUMBER)

    def skim(self, epochs: NDArray[np.float64], steps: NDArray[np.float64], count: int) -> bool:
        """Pass over ``count`` records at once, those that name a whole epoch given by it and their step.

        False, with nothing done, when steps begin anew or go back anywhere among them.
        """
        if not self.epochs.skim(epochs, steps):
            return False
        self.count += count
        return True


def tells_of_a_run(keys: tuple[str, ...]) -> bool:
    """Whether ``keys`` are those of a record of a training run: they name a loss, or its step beyond doubt.

    A column of steps counts walking as well, one of batches bread: such a name needs a loss beside it.
    """
    if training_loss(dict.fromkeys(keys, 0.0)) is not None or any(map(_HELD_OUT_LOSS.search, keys)):
        return True
    steps = _candidates(keys, _STEPS)
    if (steps and steps[0].lower() not in _STEPS_OF_MANY_KINDS) or _candidates(keys, _EPOCHS):
        return True
    axis = steps or _candidates(keys, _SAMPLES) or _candidates(keys, _TOKENS)
    return bool(axis) and any(map(_LOSS.search, keys))


def impossible_step(record: Mapping[str, Any]) -> object | None:
    """What a record gives as its step, where that is a number but none that a step can be; else None."""
    named = _named(record, tuple(record), _STEPS)
    if named is None or as_step(named[1]) is not None:
        return None
    value = named[1]
    number = parse_number(value.split("/", 1)[0]) if isinstance(value, str) else value
    # A step that is nan was never counted.
    return None if number is None or number != number else value


def step_and_epoch_keys(keys: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of ``keys`` that name the step, and those that name the epoch, best first."""
    return _candidates(keys, _STEPS), _candidates(keys, _EPOCHS)


class EpochSteps:
    """Steps that count from 0 or 1 in each epoch, made to run on.

    An epoch that begins below the step that the one before ended with counts anew; steps that go back within an
    epoch, or to an earlier one, are a restart and stay a step back.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._offsets: dict[int, int] = {int(epoch): offset for epoch, offset in state.get("offsets", [])}
        self._epoch: int | None = state.get("epoch")
        self._last: int = int(state.get("last", 0))
        self._first: int = int(state.get("first", 0))

    def state(self) -> dict[str, Any]:
        offsets = [list(pair) for pair in self._offsets.items()]
        return {"offsets": offsets, "epoch": self._epoch, "last": self._last, "first": self._first}

    def running(self, epoch: int, step: int) -> int:
        """The step counted from the first epoch on."""
        if self._epoch is None:
            self._epoch, self._first, self._last = epoch, step, step
            self._offsets[epoch] = 0
            return step
        if epoch == self._epoch + 1:
            offset = self._offsets[self._epoch]
            if step < self._last:
                # Counted from 0, an epoch of n steps ends with n - 1.
                offset += self._last + (1 if self._first == 0 else 0)
            self._offsets[epoch] = offset
        elif epoch not in self._offsets:
            self._offsets[epoch] = self._offsets[self._epoch]
        self._epoch, self._last = epoch, step
        if self._offsets[epoch] + step > MAX_STEP:
            self._offsets[epoch] = 0
        return self._offsets[epoch] + step

    def skim(self, epochs: NDArray[np.float64], steps: NDArray[np.float64]) -> bool:
        """As :meth:`running` for many records at once; false when it is not plain that their steps stay as they are."""
        if any(self._offsets.values()):
            return False
        if len(epochs) == 0:
            return True
        if (np.diff(epochs) < 0).any() or (np.diff(steps) < 0).any() or np.abs(epochs).max() > 2**53:
            return False
        if self._epoch is None:
            self._epoch, self._first, self._last = int(epochs[0]), int(steps[0]), int(steps[0])
        elif epochs[0] < self._epoch or steps[0] < self._last:
            return False
        for epoch in np.unique(epochs).tolist():
            self._offsets[int(epoch)] = 0
        self._epoch, self._last = int(epochs[-1]), int(steps[-1])
        return True


def clock_of_columns(names: tuple[str, ...], values: NDArray[np.float64]) -> tuple[int, float] | Literal[False] | None:
    """The row of ``values`` (shape [names, records]) that is a wall time, and the factor to microseconds.

    None when there is none, False when some of its values are times and others are not.
    """
    found = _candidates(names, _TIMES)
    if not found:
        return None
    row = names.index(found[0])
    for low, high, factor in _CLOCKS:
        inside = (values[row] >= low) & (values[row] < high)
        if inside.all():
            return row, factor
        if inside.any():
            return False
    return None


def time_of(record: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """The key of a record's wall time and the time in microseconds since 1970; (None, None) when it has none.

    Seconds, milliseconds and microseconds since 1970 are told apart by their size, times of day by their form.
    """
    named = _named(record, tuple(record), _TIMES)
    if named is None:
        return None, None
    key, value = named
    if isinstance(value, str) and (time := printed_time(value)) is not None:
        return key, time
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None, None
    for low, high, factor in _CLOCKS:
        if math.isfinite(number) and low <= number < high:
            return key, int(number * factor)
    return None, None
