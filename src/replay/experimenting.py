"""An experiment over several processes, its effects kept in a store."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.experiment import ExperimentResult, Scenario
    from replay.experiment.run import Progress
    from replay.store import EventStore


def run_and_store(
    store: EventStore, scenario: Scenario, seeds: Sequence[int], *, workers: int, keep: Path | None = None
) -> ExperimentResult:
    """Run ``scenario`` on ``seeds`` with ``workers`` processes and keep its effects in ``store``.

    Raises as :func:`replay.experiment.run_experiment` and :meth:`replay.store.EventStore.put_effects`.
    """
    from replay.experiment import run_experiment

    # Forked processes would inherit torch's threads half-alive.
    pool = ProcessPoolExecutor(max_workers=min(workers, len(seeds)), mp_context=get_context("spawn"))
    with pool, _progress() as progress:
        result = run_experiment(scenario, seeds, executor=pool, folder=keep, progress=progress)
    store.put_effects(scenario.name, result.effects)
    return result


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
