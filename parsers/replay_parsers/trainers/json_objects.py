"""Objects of JSON as flat records of numbers and texts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.trainers.numbers import bounded, parse_integer, parse_number

_DEEPEST = 5


def parse_object(text: str) -> dict[str, Any] | None:
    """The object that a line holds; None when it holds none."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text, parse_int=parse_integer)
    # Nested a hundred thousand deep it is still only a bad line.
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def flatten(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every number and text of a record under its path, `train/loss`; lists and what lies deeper are left out."""
    for key, value in record.items():
        if isinstance(value, Mapping):
            if depth < _DEEPEST:
                yield from flatten(value, f"{prefix}{key}/", depth + 1)
        elif isinstance(value, int | float | str):
            yield f"{prefix}{key}", value


def numbers_of(flat: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a flat record, those in quotation marks included."""
    numbers: dict[str, float] = {}
    for key, value in flat.items():
        number = parse_number(value) if isinstance(value, str) else _as_float(value)
        if number is not None:
            numbers[key] = number
    return numbers


def _as_float(value: float) -> float:
    try:
        return bounded(float(value))
    except OverflowError:
        # An integer that no double holds, as 1e400 is none.
        return math.copysign(math.inf, value)
