"""Numbers that are told twice."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?<==)\d[\d_]*(?:\.\d+)?")


def among(number: float, others: Iterable[float], tolerance: float = 1e-6) -> bool:
    """Whether ``number`` is one of ``others``, to a part ``tolerance`` of it."""
    return any(abs(number - other) <= tolerance * max(abs(number), abs(other)) for other in others)


def numbers(text: str) -> list[float]:
    """The numbers that stand in ``text`` by themselves."""
    found = []
    for match in _NUMBER.finditer(text):
        try:
            found.append(float(match[0].replace("_", "")))
        except ValueError:
            continue
    return found
