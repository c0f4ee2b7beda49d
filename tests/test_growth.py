"""The yardstick itself: it tells work in proportion from work with the square of its size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

import growth
from growth import grows_with_its_size


def proportional(size: int) -> Callable[[], object]:
    return lambda: sum(number * number for number in range(300 * size))


def with_the_square(size: int) -> Callable[[], object]:
    return lambda: sum(1 for number in range(size) for other in range(size) if number == other)


def test_work_in_proportion_passes_and_work_with_the_square_does_not() -> None:
    assert grows_with_its_size(proportional, 10_000)
    assert not grows_with_its_size(with_the_square, 4_000)


def test_the_preparation_does_not_count() -> None:
    def prepare(size: int) -> Callable[[], object]:
        with_the_square(size)()
        return proportional(size)

    assert grows_with_its_size(prepare, 4_000)


def test_work_too_short_to_measure_passes() -> None:
    assert grows_with_its_size(with_the_square, 100)


def test_what_is_remembered_of_one_try_does_not_answer_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "TRIES", 2)
    remembered = cache(lambda size: with_the_square(size)())
    assert not grows_with_its_size(lambda size: lambda: remembered(size), 4_000)
