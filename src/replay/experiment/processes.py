"""An experiment over several processes of this machine, with a progress bar where there is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from replay.experiment.run import ExperimentResult, Progress, run_experiment
from replay.experiment.scenario import Scenario


def run_on_processes(
    scenario: Scenario, seeds: Sequence[int], *, workers: int, keep: Path | None = None
) -> ExperimentResult:
    """Run ``scenario`` on ``seeds`` with ``workers`` processes, finished arms kept in the folder ``keep``.

    Raises as :func:`replay.experiment.run_experiment`.
    """
    # Forked processes would inherit torch's threads half-alive.
    pool = ProcessPoolExecutor(max_workers=min(workers, len(seeds)), mp_context=get_context("spawn"))
    with pool, _progress() as progress:
        return run_experiment(scenario, seeds, executor=pool, folder=keep, progress=progress)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on standard error while the body runs; none where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("seeds", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
