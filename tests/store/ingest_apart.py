"""Ingest a folder of toy logs: a process for the tests to stop, to kill, and to run beside others.

Usage: ingest_apart.py HOW STORE PATH...

It prints ``ready`` after its imports, and then ingests.  HOW is ``freely``; ``counting``, to print at last how many
functions it called; the number of a call, to be killed just then; or ``step by step``, to print ``piece`` after each
piece of a log and wait for a line, until its input ends.  None of them is by the clock, so that the machine's speed
does not matter.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import toy

import replay
import replay.storage.commits
import replay.storage.planning
import replay.storage.reading
import replay_parsers.detection


def main() -> None:
    """Ingest, with commits often enough that kills fall between them."""
    how, folder, *paths = sys.argv[1:]
    replay_parsers.detection.all_parsers = replay.storage.planning.all_parsers = lambda: toy.PARSERS
    replay.storage.reading.COMMIT_BYTES = 6000
    replay.storage.commits.BATCH_ENTRIES = 2
    if how == "step by step":
        toy.between_pieces = wait_for_a_line
    print("ready", flush=True)
    if how == "counting" or how.isdecimal():
        calls = count_calls(until=int(how) if how.isdecimal() else None)
        replay.open(folder).ingest(paths)
        sys.setprofile(None)
        print(calls())
    else:
        replay.open(folder).ingest(paths)


def wait_for_a_line() -> None:
    """Say that a piece is done, and wait until it may go on."""
    print("piece", flush=True)
    sys.stdin.readline()


def count_calls(until: int | None) -> Callable[[], int]:
    """Count the calls of functions, Python's and the built-in ones; kill this process at number ``until``."""
    count = 0

    def count_one(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
            if count == until:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count_one)
    return lambda: count


if __name__ == "__main__":
    main()
