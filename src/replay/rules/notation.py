"""Made-up series for the tests that a rule carries: constants, ramps and noise, always the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MAXIMUM_POINTS = 200_000


@dataclass(frozen=True, slots=True)
class Piece:
    """``points`` values from ``start`` to ``end``, evenly spaced, each times 1 + noise x a standard normal number."""

    start: float
    end: float
    points: int
    noise: float = 0.0


def values(pieces: Sequence[Piece]) -> list[float]:
    """The values of pieces, one after the other.  The noise is a fixed sequence, so that a test never changes."""
    generator = np.random.Generator(np.random.Philox(20_22))
    result: list[float] = []
    for piece in pieces:
        level = piece.start == piece.end or piece.start != piece.start
        line = np.full(piece.points, piece.start) if level else np.linspace(piece.start, piece.end, piece.points)
        result += (line * (1 + piece.noise * generator.standard_normal(piece.points))).tolist()
    return result
