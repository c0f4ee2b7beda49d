"""Processes that a test started, seen from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # One that has ended and that nobody has waited for yet does not run.
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def until(happens: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happens():
            return True
        time.sleep(0.02)
    return False


def workers_in(folder: Path) -> list[int]:
    """The processes whose tasks have left ``<number>.worker`` in a folder."""
    return [int(path.stem) for path in folder.glob("*.worker")]


@contextlib.contextmanager
def program_with_workers(
    folder: Path, program: str, tasks: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A Python program in a session of its own, given the folder; it and what workers it left end with the body."""
    (folder / "tasks.py").write_text(tasks)
    (folder / "program.py").write_text(program)
    started = subprocess.Popen(
        [sys.executable, str(folder / "program.py"), str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        if started.stderr is not None:
            started.stderr.close()
        for worker in workers_in(folder):
            with contextlib.suppress(ProcessLookupError):
                if is_running(worker) and os.getsid(worker) == started.pid:
                    os.kill(worker, signal.SIGKILL)
