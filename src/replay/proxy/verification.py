"""Does each failure of the catalogue go wrong, over fresh seeds, and stay well without its cause?

Every run is written down when it ends, one small JSON file each, so that a verification that was stopped goes on where
it stopped. A result counts only for the code that made it: the files of the proxy that decide a run's bits.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import math
import multiprocessing
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from replay.proxy.failure import Arm, Failure, Plan, Trace, first_step, moving_mean
from replay.proxy.failures import CATALOGUE, get
from replay.proxy.recipes import CONVERGED_LOSS
from replay.proxy.training import Training

FRESH_SEEDS = tuple(range(1000, 1008))
"""Seeds of the verification; the search used none of them."""

WITH, WITHOUT = "with the cause", "without"
_DECIDES = ("config", "settings", "data", "text", "model", "optimisation", "precision", "observation", "training")
_DECIDES_TOO = ("failure", "failures", "recipes", "verification")


@dataclass(frozen=True)
class Result:
    """One run: ``wrong_at`` is the step at which it went wrong, None if it did not.

    ``peak``: largest held-out rise behind the moment where it was measured, else the largest mean loss of five steps
    after the lowest. ``final``: mean loss of the last 20 steps. ``leads``: by sign, how many steps before ``wrong_at``
    it first held within the window, None when it did not. ``alarms``: by sign, at how many of the ``quiet`` steps
    (those before the window, or all of a run that stayed well) it held.
    """

    failure: str
    arm: str
    seed: int
    wrong_at: int | None
    peak: float
    final: float
    leads: dict[str, int | None]
    alarms: dict[str, int]
    quiet: int


@functools.cache
def code_digest() -> str:
    """Hash of the files that decide a run's bits, and of torch's version."""
    digest = hashlib.sha256(torch.__version__.encode())
    folder = Path(__file__).parent
    files = [folder / f"{name}.py" for name in (*_DECIDES, *_DECIDES_TOO)]
    for path in [*files, *sorted((folder / "catalogue").glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run_plan(plan: Plan, held_out: bool = False) -> Trace:
    """Train a plan to its end."""
    training = Training.start(plan.config)
    rows: list[dict[str, float]] = []
    while training.step < plan.config.steps:
        if plan.then is not None and training.step == plan.switch:
            training.adopt(plan.then)
            training.skip_batches(plan.skip)
        row = training.advance()
        if held_out and training.step >= plan.moment - 5:
            row["held_out"] = training.evaluate()
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return Trace({name: np.array([row.get(name, math.nan) for row in rows]) for name in names}, plan.moment)


def arms_of(failure: Failure) -> list[Arm]:
    """All runs of a failure: with the cause, without, and the cures and contrasts."""
    return [Arm(WITH), Arm(WITHOUT, of="control"), *failure.arms]


def assess(failure: Failure, arm: str, seed: int, trace: Trace) -> Result:
    """Judge a run and look for its signs."""
    wrong_at = failure.judge(trace)
    end = trace.steps if wrong_at is None else wrong_at
    start = max(0, end - failure.window) if wrong_at is not None else end
    leads: dict[str, int | None] = {}
    alarms: dict[str, int] = {}
    learned = first_step(moving_mean(trace["loss"], 5) < CONVERGED_LOSS) or 0
    quiet = slice(min(max(20, learned), start), start)
    for sign in failure.signs:
        holds = sign.holds(trace)
        seen = np.flatnonzero(holds[start:end])
        leads[str(sign)] = int(end - (start + seen[0] + 1)) if wrong_at is not None and len(seen) else None
        alarms[str(sign)] = int(holds[quiet].sum())
    return Result(
        failure=failure.name,
        arm=arm,
        seed=seed,
        wrong_at=wrong_at,
        peak=_peak(failure, trace),
        final=float(np.mean(trace["loss"][-20:])),
        leads=leads,
        alarms=alarms,
        quiet=quiet.stop - quiet.start,
    )


def _peak(failure: Failure, trace: Trace) -> float:
    if failure.held_out:
        held_out, start = trace["held_out"], trace.moment - 1
        return float(np.max(held_out[start:]) - np.nanmean(held_out[max(0, start - 5) : start]))
    mean = np.convolve(trace["loss"], np.ones(5) / 5, "valid")
    lowest = int(np.nanargmin(mean)) if np.isfinite(mean).any() else 0
    return float(np.max(mean[lowest:]))


def run_one(name: str, arm_name: str, seed: int, folder: str) -> Result:
    """One run of a failure, from its file if there is one of the same code."""
    failure = get(name)
    path = Path(folder) / name / f"{_slug(arm_name)}-{seed}.json"
    if (known := _load(path)) is not None:
        return known
    arm = next(arm for arm in arms_of(failure) if arm.name == arm_name)
    result = assess(failure, arm_name, seed, run_plan(arm.plan(failure.case(seed)), failure.held_out))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"code": code_digest(), **dataclasses.asdict(result)}, indent=1, sort_keys=True))
    temporary.replace(path)
    return result


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def _load(path: Path) -> Result | None:
    """A result of this code; None where there is none (a half-written one never bears the final name)."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if values.pop("code", None) != code_digest():
        return None
    return Result(**values)


def verify(
    names: Sequence[str] = (),
    seeds: Sequence[int] = FRESH_SEEDS,
    *,
    folder: str | Path,
    with_arms: bool = True,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Run failures over seeds; results in the order of the catalogue, arms and seeds. See :func:`run_one`.

    Raises:
        UnknownFailureError: there is no failure of that name.
    """
    tasks = [
        (failure.name, arm.name, seed, str(folder))
        for failure in ([get(name) for name in names] or CATALOGUE.values())
        for arm in arms_of(failure)[: None if with_arms else 2]
        for seed in seeds
    ]
    results = []
    for result in _run_all(tasks, jobs):
        results.append(result)
        if progress is not None:
            progress(len(results), len(tasks))
    return results


def _run_all(tasks: list[tuple[str, str, int, str]], jobs: int) -> Iterator[Result]:
    if jobs == 1:
        yield from (run_one(*task) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(run_one, *zip(*tasks, strict=True))


def wilson(count: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share (Wilson 1927): sound for small numbers and for 0 or all of them."""
    share, spread = count / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / of + spread / (4 * of)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
