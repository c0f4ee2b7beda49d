"""An experiment on processes of this machine: none of them outlives it, and one that is lost is told."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from processes import is_running, program_with_workers, until, workers_in
from replay.experiment.processes import run_on_processes
from replay.proxy.failure import Case
from replay.proxy.pool import WorkerLostError

from .toy import ToyFailure, scenario

TASKS = """
import os, sys, time
from pathlib import Path
from experiment.toy import ToyFailure, scenario

def prepare(seed):
    (Path(sys.argv[1]) / f"{os.getpid()}.worker").touch()
    time.sleep(600)

def endless():
    return scenario(failure=ToyFailure(case=prepare))
"""
PROGRAM = """
from replay.experiment.processes import run_on_processes
from tasks import endless

if __name__ == "__main__":
    run_on_processes(endless(), range(4), workers=2)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_its_processes_end_when_it_is_killed(tmp_path: Path, root: Path, how: signal.Signals) -> None:
    path = os.pathsep.join([str(root / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    with program_with_workers(tmp_path, PROGRAM, TASKS, {"PYTHONPATH": path}) as program:
        assert until(lambda: len(workers_in(tmp_path)) == 2)
        program.send_signal(how)
        program.wait(timeout=60)
        assert until(lambda: not any(map(is_running, workers_in(tmp_path))), seconds=10)


def test_a_process_that_is_killed_is_told_in_a_line() -> None:
    with pytest.raises(WorkerLostError, match="ended from outside"):
        run_on_processes(scenario(failure=ToyFailure(case=killed)), [0, 1], workers=2)


def killed(seed: int) -> Case:
    os._exit(9)
