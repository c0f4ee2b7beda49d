"""Settings that change over batches or steps: a ramp from one value to another, and what ends it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from replay.proxy.settings import LARGEST_NUMBER, MOST_STEPS, require, require_whole, shown


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """A value that goes from ``before`` to ``after`` in a straight line over ``length`` positions from ``start`` on.

    Positions are batches for what belongs to the data (shares, batch sizes), steps for what belongs to the training.
    ``length`` 0 is a jump.
    """

    before: float
    after: float
    start: int
    length: int = 0

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            value = getattr(self, name)
            require(abs(value) <= LARGEST_NUMBER, f"a ramp's {name} must be a number up to 1e38, not {shown(value)}")
        require_whole("a ramp's start", self.start, -MOST_STEPS)
        require_whole("a ramp's length", self.length, 0)

    def at(self, position: int) -> float:
        """The value at one position; a jump has already happened at ``start``."""
        if position >= self.start + self.length:
            return self.after
        if position < self.start:
            return self.before
        return self.before + (self.after - self.before) * (position - self.start) / self.length


RAMP_OF = {"model.embedding_grad_scale": "model.embedding_grad_ramp", "data.batch_size": "data.batch_ramp"}
"""Settings that count for nothing while there is a ramp, and the setting that holds it."""


def ramps_ended(given: Collection[str]) -> list[str]:
    """The ramps that end because these settings were given (each as ``data.batch_size``).

    Who gives the plain value wants it to hold, so that it ends the ramp which would win over it; unless the ramp, or a
    part of it, was given along with it.
    """
    return [
        ramp
        for plain, ramp in RAMP_OF.items()
        if plain in given and not any(name == ramp or name.startswith(f"{ramp}.") for name in given)
    ]
