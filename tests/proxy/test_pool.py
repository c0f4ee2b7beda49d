"""Processes side by side: results in order, and none of them outlives the one that started them."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import is_running, program_with_workers, until, workers_in
from replay.proxy.pool import WorkerLostError, run_all

TASKS = """
import os, sys, time
from pathlib import Path

def work(folder, number):
    (Path(folder) / f"{os.getpid()}.worker").touch()
    if number >= 2:
        time.sleep(600)
    (Path(folder) / f"{number}.result").touch()
    return number
"""
PROGRAM = """
import sys
from replay.proxy.pool import run_all
from tasks import work

if __name__ == "__main__":
    print(list(run_all(work, [(sys.argv[1], number) for number in range(9)], jobs=2)))
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A program with two workers that are both in the middle of a task; two tasks have ended before."""
    with program_with_workers(tmp_path, PROGRAM, TASKS) as program:
        assert until(lambda: len(workers_in(tmp_path)) == 2 and len(list(tmp_path.glob("*.result"))) == 2)
        yield program, workers_in(tmp_path)


def test_results_come_in_the_order_of_their_tasks() -> None:
    tasks = [(2.0, 1.0), (3.0, 2.0), (2.0, 3.0)]
    assert list(run_all(math.pow, tasks, jobs=2)) == list(run_all(math.pow, tasks)) == [2.0, 9.0, 8.0]
    assert list(run_all(math.pow, [], jobs=2)) == []


def test_the_first_error_is_raised_and_what_runs_beside_it_is_ended() -> None:
    started = time.monotonic()
    with pytest.raises(ValueError, match="non-negative"):
        list(run_all(time.sleep, [(-1,), (600,), (600,)], jobs=2))
    assert time.monotonic() - started < 60


def test_one_that_looks_at_the_first_result_only_waits_for_no_other() -> None:
    started = time.monotonic()
    results = run_all(time.sleep, [(0.0,), (600.0,)], jobs=2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - started < 60


def test_a_process_that_is_killed_is_told() -> None:
    with pytest.raises(WorkerLostError, match="ended from outside"):
        list(run_all(os._exit, [(9,), (9,)], jobs=2))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_when_their_starter_is_killed(
    started: tuple[subprocess.Popen[str], list[int]], how: signal.Signals
) -> None:
    program, workers = started
    program.send_signal(how)
    program.wait(timeout=60)
    assert until(lambda: not any(map(is_running, workers)), seconds=10)


def test_an_interrupt_from_the_keyboard_ends_all_at_once(
    started: tuple[subprocess.Popen[str], list[int]], tmp_path: Path
) -> None:
    program, workers = started
    # A terminal sends it to all of them.
    os.killpg(program.pid, signal.SIGINT)
    _, told = program.communicate(timeout=10)
    assert until(lambda: not any(map(is_running, workers)), seconds=10)
    assert told.count("Traceback") == 1, "that of the starter, which its command line tells in a line"
    assert told.rstrip().endswith("KeyboardInterrupt")
    assert {path.name for path in tmp_path.glob("*.result")} == {"0.result", "1.result"}
