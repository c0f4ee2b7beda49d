"""Runs side by side in processes of one thread each; their bits are those of one after the other.

No worker outlives the process that started it, however that ends: each holds the reading end of a pipe whose writing
end is with the starter alone, and leaves when that end is closed. Ctrl-C reaches the starter only, which then ends all.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from replay.errors import ReplayError

P = ParamSpec("P")
R = TypeVar("R")


class WorkerLostError(ReplayError, RuntimeError):
    """One of the processes that work side by side is gone."""


def run_all(function: Callable[..., R], tasks: Sequence[tuple[Any, ...]], jobs: int = 1) -> Iterator[R]:
    """What a function of a module returns for each task, its arguments; in the order of the tasks.

    Raises:
        WorkerLostError: a process was ended from outside.
        Exception: what the function raises.
    """
    if jobs == 1:
        yield from (function(*task) for task in tasks)
        return
    with process_pool(jobs) as pool:
        for future in [pool.submit(function, *task) for task in tasks]:
            yield future.result()


@contextlib.contextmanager
def process_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """An executor of so many processes, whose tasks are all awaited at the end; at an exception all end at once.

    Raises:
        WorkerLostError: one of them was ended from outside while the body waited for it.
    """
    # Not forked: a child that inherits the threads of torch's pool, but not what they hold, can hang.
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = _Pool(jobs, mp_context=context, initializer=_leave_with, initargs=(theirs,))
    try:
        yield pool
        pool.shutdown()
    except BrokenProcessPool as error:
        raise WorkerLostError("a process was ended from outside, as one that needs too much memory is") from error
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


class _Pool(ProcessPoolExecutor):
    """Starts its workers, which it does as tasks come, with Ctrl-C blocked in them from their first instruction on."""

    def submit(self, function: Callable[P, R], /, *arguments: P.args, **options: P.kwargs) -> Future[R]:
        with _interrupts_blocked():
            return super().submit(function, *arguments, **options)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows: there Ctrl-C reaches the workers, too
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_with(starter: Connection) -> None:
    def wait() -> None:
        # Nothing is ever sent: the wait ends when the starter closes its end, or the system does.
        with contextlib.suppress(OSError):
            starter.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
