"""One run of a failure, assessed: did it go wrong, when, and what could be seen ahead of it."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from replay.proxy.failure import Arm, Failure, Plan, Trace, first_step, moving_mean
from replay.proxy.recipes import CONVERGED_LOSS
from replay.proxy.training import Training

_DECIDES = ("config", "settings", "data", "text", "model", "optimisation", "precision", "observation", "training")
_JUDGES = ("failure", "recipes", "assessment")


@dataclass(frozen=True)
class Result:
    """One run: ``wrong_at`` is the step at which it went wrong, None if it did not.

    ``peak``: largest held-out rise behind the moment where it was measured, else the largest mean loss of five steps
    after the task was first learned, or after the lowest where it never was. ``final``: mean loss of the last 20 steps.
    ``leads``: by sign, how many steps before ``wrong_at`` it first held within the window, None when it did not.
    ``alarms``: by sign, at how many of the ``quiet`` steps (those before the window, or all of a run that stayed well)
    it held.
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
def _code() -> bytes:
    digest = hashlib.sha256(torch.__version__.encode())
    for name in (*_DECIDES, *_JUDGES):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.digest()


def definition_hash(failure: Failure, arm: Arm) -> str:
    """Hash of all that decides a result: the proxy's code, torch's version, the failure's case and judge, the arm."""
    parts = [inspect.getsource(failure.case), failure.criterion, repr(failure.signs)]
    parts += [f"{failure.window} {failure.held_out}", arm.name, repr(arm.settings), f"{arm.ahead} {arm.skip} {arm.of}"]
    if arm.plan_of is not None:
        parts.append(inspect.getsource(arm.plan_of))
    return hashlib.sha256(_code() + "\n".join(parts).encode()).hexdigest()[:16]


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
    learned = np.flatnonzero(mean < CONVERGED_LOSS)
    lowest = int(np.nanargmin(mean)) if np.isfinite(mean).any() else 0
    return float(np.max(mean[int(learned[0]) if len(learned) else lowest :]))
