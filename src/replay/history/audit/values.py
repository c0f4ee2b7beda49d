"""Numbers that are told twice."""

from __future__ import annotations

from collections.abc import Iterable


def among(number: float, others: Iterable[float], tolerance: float = 1e-6) -> bool:
    """Whether ``number`` is one of ``others``, to a part ``tolerance`` of it."""
    return any(abs(number - other) <= tolerance * max(abs(number), abs(other)) for other in others)
