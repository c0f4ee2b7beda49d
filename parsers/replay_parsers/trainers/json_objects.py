"""Objects of JSON as flat records of numbers and texts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replay_parsers.trainers.numbers import bounded, parse_integer, parse_number

DEEPEST = 5
"""An object within so many others, the record itself not counted, is still looked into."""

NESTED = f"values nested more than {DEEPEST} objects deep"
LISTS = "lists"
NULLS = "null values"
TEXTS = "texts in place of numbers"
"""What of a record that is understood is left out, by its kind."""


@dataclass(slots=True)
class FlatRecord:
    """The numbers and texts of a record by path, `train/loss`, and how many other values it holds, by kind.

    ``nulls`` are the paths of those that are null.
    """

    values: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    nulls: list[str] = field(default_factory=list)


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


def flat_record(record: Mapping[str, Any]) -> FlatRecord:
    """Every number and text of a record under its path; what is left out is counted.

    >>> flat_record({"step": 5, "train": {"loss": 2.5}, "layers": [1, 2], "norm": None})
    FlatRecord(values={'step': 5, 'train/loss': 2.5}, left_out={'lists': 1, 'null values': 1}, nulls=['norm'])
    """
    flat = FlatRecord()
    _gather(record, "", 0, flat)
    return flat


def _gather(record: Mapping[str, Any], prefix: str, depth: int, flat: FlatRecord) -> None:
    for key, value in record.items():
        if isinstance(value, int | float | str):
            flat.values[prefix + key] = value
        elif isinstance(value, Mapping):
            if depth < DEEPEST:
                _gather(value, f"{prefix}{key}/", depth + 1, flat)
            elif count := _values_within(value):
                flat.left_out[NESTED] = flat.left_out.get(NESTED, 0) + count
        elif value is None:
            flat.left_out[NULLS] = flat.left_out.get(NULLS, 0) + 1
            flat.nulls.append(prefix + key)
        else:
            flat.left_out[LISTS] = flat.left_out.get(LISTS, 0) + 1


def _values_within(record: Mapping[str, Any]) -> int:
    """How many values an object holds, at any depth; a list is one."""
    count = 0
    ahead = [record]
    while ahead:
        for value in ahead.pop().values():
            if isinstance(value, Mapping):
                ahead.append(value)
            else:
                count += 1
    return count


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
