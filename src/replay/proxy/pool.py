"""Runs side by side in processes of one thread each; their bits are those of one after the other."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

R = TypeVar("R")


def run_all(function: Callable[..., R], tasks: Sequence[tuple[Any, ...]], jobs: int = 1) -> Iterator[R]:
    """What a function of a module returns for each task, its arguments; in the order of the tasks."""
    if jobs == 1:
        yield from (function(*task) for task in tasks)
        return
    # Not forked: a child that inherits the threads of torch's pool, but not what they hold, can hang.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(function, *zip(*tasks, strict=True))
