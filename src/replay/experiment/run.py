"""An experiment: arms x seeds, on any executor, to the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from replay.experiment import cache
from replay.experiment.arms import SIGNALS, ArmRun, arm_names, repeats, run_arms
from replay.experiment.effects import Effect, effects, effects_frame
from replay.experiment.measuring import excess, measure, reference_warning
from replay.experiment.metrics import METRICS
from replay.experiment.scenario import DO_NOTHING, REFERENCE, ROLLBACK_ONLY, Scenario, ScenarioError
from replay.experiment.summary import summary

Progress = Callable[[int, int], None]
"""Called with the number of seeds done and that of all."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SeedRun:
    """All arms of one seed, by name; ``onset`` is the first bad step, ``decision`` the last one before someone acts."""

    seed: int
    onset: int
    decision: int
    runs: dict[str, ArmRun]


@dataclass(frozen=True, eq=False, kw_only=True)
class ExperimentResult:
    """What came of an experiment.

    ``arms``: scenario, seed, arm, step, held_out_loss, excess_loss, loss, grad_norm, learning_rate; the surviving
    history of each arm, the run that never met the failure among them.  ``outcomes``: scenario, seed, arm, metric,
    value.  ``effects``: scenario, arm, control, metric, n_seeds, mean, low, high, verdict, note.
    ``repeated_on`` is the seed on which "roll back only" repeated "do nothing" bit for bit, None when no arm rolls
    back.  ``warnings`` say why a seed is doubtful.
    """

    scenario: Scenario
    seeds: tuple[int, ...]
    arms: pd.DataFrame
    outcomes: pd.DataFrame
    found: tuple[Effect, ...]
    repeated_on: int | None
    warnings: tuple[str, ...]

    @cached_property
    def effects(self) -> pd.DataFrame:
        """The effects as the store keeps them."""
        return effects_frame(self.scenario, self.found)

    def summary(self) -> str:
        """What came of it, in plain words."""
        return summary(
            self.scenario,
            seeds=self.seeds,
            outcomes=self.outcomes,
            found=self.found,
            repeated_on=self.repeated_on,
            warnings=self.warnings,
        )

    def to_bytes(self) -> bytes:
        """All tables as CSV with full precision: equal results are equal bytes."""
        buffer = io.StringIO()
        for frame in (self.arms, self.outcomes, self.effects):
            frame.to_csv(buffer, index=False, lineterminator="\n")
        return buffer.getvalue().encode("utf-8")


def run_experiment(
    scenario: Scenario,
    seeds: Sequence[int],
    *,
    executor: Executor | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> ExperimentResult:
    """Run every arm of ``scenario`` on every seed.

    ``executor`` takes one task a seed; without one the seeds run one after another in this process.  Finished arms
    are kept in ``folder``, if one is given that the workers see, and an interrupted experiment goes on from there.
    The result is the same bytes whatever the executor, the order in which seeds finish, and how often it stopped.

    Raises:
        ScenarioError: a seed cannot be prepared, or "roll back only" did not repeat "do nothing" bit for bit.
        MissingProxyError: the proxy's libraries are not installed.
    """
    _require_proxy()
    chosen = tuple(dict.fromkeys(int(seed) for seed in seeds))
    if not chosen:
        raise ScenarioError(f"{scenario.name}: an experiment needs at least one seed")
    if min(chosen) < 0:
        raise ScenarioError(f"{scenario.name}: a seed must not be negative, not {min(chosen)}")
    kept = None if folder is None else Path(folder)
    tasks = [(scenario, seed, seed == chosen[0], kept) for seed in chosen]
    done = {}
    if executor is None:
        for count, task in enumerate(tasks, start=1):
            done[task[1]] = run_seed(*task)
            if progress is not None:
                progress(count, len(tasks))
    else:
        done = _run_on(executor, tasks, progress)
    return _result(scenario, [done[seed] for seed in chosen])


def run_seed(scenario: Scenario, seed: int, with_rollback_only: bool = False, folder: Path | None = None) -> SeedRun:
    """All arms of one seed; those that ``folder`` holds are read, the others run and kept there."""
    from replay.proxy.runtime import runtime_restored

    with runtime_restored():
        return _run_seed(scenario, seed, with_rollback_only, folder)


def _run_seed(scenario: Scenario, seed: int, with_rollback_only: bool, folder: Path | None) -> SeedRun:
    case = scenario.case(seed)
    names = arm_names(scenario, with_rollback_only=with_rollback_only)
    keys = {name: cache.key(scenario, case, name) for name in names}
    runs = {} if folder is None else {name: run for name in names if (run := cache.load(folder, keys[name]))}
    missing = [name for name in names if name not in runs]
    if missing:
        for run in run_arms(scenario, case, missing):
            runs[run.arm] = run
            if folder is not None:
                cache.save(folder, keys[run.arm], run)
    decision = int(runs[DO_NOTHING].steps[-1]) - scenario.horizon
    return SeedRun(seed=seed, onset=case.moment, decision=decision, runs={name: runs[name] for name in names})


def _run_on(
    executor: Executor, tasks: Sequence[tuple[Scenario, int, bool, Path | None]], progress: Progress | None
) -> dict[int, SeedRun]:
    futures: dict[Future[SeedRun], int] = {executor.submit(run_seed, *task): task[1] for task in tasks}
    done = {}
    try:
        for future in as_completed(futures):
            done[futures[future]] = future.result()
            if progress is not None:
                progress(len(done), len(tasks))
    finally:
        for future in futures:
            future.cancel()
    return done


def _result(scenario: Scenario, seeds: Sequence[SeedRun]) -> ExperimentResult:
    first = seeds[0].runs
    if ROLLBACK_ONLY in first and not repeats(first[ROLLBACK_ONLY], first[DO_NOTHING]):
        raise ScenarioError(
            f"{scenario.name}: on seed {seeds[0].seed} rolling back alone did not repeat the run bit for bit, so that "
            "arms would differ by more than what is done in them; does something else change the threads or torch?"
        )
    outcomes = _outcomes(scenario, seeds)
    warned = [(one.seed, reference_warning(one.runs[REFERENCE], scenario)) for one in seeds]
    return ExperimentResult(
        scenario=scenario,
        seeds=tuple(one.seed for one in seeds),
        arms=_arms(scenario, seeds),
        outcomes=outcomes,
        found=tuple(effects(scenario, outcomes)),
        repeated_on=seeds[0].seed if ROLLBACK_ONLY in first else None,
        warnings=tuple(f"seed {seed}: {text}" for seed, text in warned if text),
    )


def _outcomes(scenario: Scenario, seeds: Sequence[SeedRun]) -> pd.DataFrame:
    rows = [
        {"scenario": scenario.name, "seed": one.seed, "arm": arm.name, "metric": metric, "value": values[metric]}
        for one in seeds
        for arm in scenario.all_arms
        for values in [measure(one.runs[arm.name], one.runs[REFERENCE], scenario, one.decision)]
        for metric in METRICS
    ]
    return pd.DataFrame(rows).astype({"scenario": "str", "seed": "int64", "arm": "str", "metric": "str"})


def _arms(scenario: Scenario, seeds: Sequence[SeedRun]) -> pd.DataFrame:
    parts = []
    for one in seeds:
        reference = one.runs[REFERENCE].column("held_out_loss")
        for name in (REFERENCE, *(arm.name for arm in scenario.all_arms)):
            run = one.runs[name]
            columns = {"held_out_loss": run.column("held_out_loss")}
            columns["excess_loss"] = excess(columns["held_out_loss"], reference)
            columns |= {signal: run.column(signal) for signal in SIGNALS}
            part = pd.DataFrame({"step": run.steps, **columns})
            part.insert(0, "scenario", scenario.name)
            part.insert(1, "seed", np.int64(one.seed))
            part.insert(2, "arm", name)
            parts.append(part)
    return pd.concat(parts, ignore_index=True).astype({"scenario": "str", "arm": "str"})


def _require_proxy() -> None:
    from replay.errors import MissingProxyError

    for library in ("torch", "safetensors"):
        if find_spec(library) is None:
            raise MissingProxyError(library)
