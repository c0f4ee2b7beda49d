"""An experiment over several processes of this machine, with a progress bar where there is a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from replay.experiment.run import ExperimentResult, run_experiment
from replay.experiment.scenario import Scenario
from replay.proxy.command_helpers import progress_bar
from replay.proxy.pool import process_pool


def run_on_processes(
    scenario: Scenario, seeds: Sequence[int], *, workers: int, keep: Path | None = None
) -> ExperimentResult:
    """Run ``scenario`` on ``seeds`` with ``workers`` processes, finished arms kept in the folder ``keep``.

    The processes end when this one does, however that is (:mod:`replay.proxy.pool`).

    Raises as :func:`replay.experiment.run_experiment`, and
        WorkerLostError: a process was ended from outside.
    """
    with process_pool(min(workers, len(seeds))) as pool, progress_bar("seeds", 0) as advance:
        return run_experiment(scenario, seeds, executor=pool, folder=keep, progress=advance)
