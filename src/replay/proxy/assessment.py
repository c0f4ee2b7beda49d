"""One run of a failure, assessed: did it go wrong, when, and what could be seen ahead of it."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from replay.proxy.failure import LOSS_SIGNS, Arm, Failure, Plan, Sign, Trace, first_step, moving_mean
from replay.proxy.recipes import CONVERGED_LOSS
from replay.proxy.training import Training

_DECIDE = ("training", "failure", "recipes", "assessment")
_PROSE = {
    "Failure": {
        *("title", "source", "mechanism", "settings", "signature", "leading_signal", "criterion", "search"),
        *("harmless", "lead_note"),
    },
    "Arm": {"source"},
}


@dataclass(frozen=True)
class Result:
    """One run: ``wrong_at`` is the step at which it went wrong, None if it did not.

    ``peak``: largest held-out rise behind the moment where it was measured, else the largest mean loss of five steps
    after the task was first learned, or after the lowest where it never was. ``final``: mean loss of the last 20 steps.
    ``leads``: by sign, how many steps before ``wrong_at`` it first held, within the window and not before the cause;
    None when it did not. ``alarms``: by sign, at how many of the ``quiet`` steps (those before the window, or all of a
    run that stayed well) it held.
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
    """SHA-256 of what decides a run's bits and how it is judged: code, torch and numpy, the processor's instructions.

    The code is that of all modules that training and judging import. Comments and docstrings do not count.
    """
    instructions = torch.backends.cpu.get_cpu_capability()
    digest = hashlib.sha256(f"{torch.__version__} {np.__version__} {instructions}".encode())
    folder, known, left = Path(__file__).parent, set[str](), list(_DECIDE)
    while left:
        name = left.pop()
        if name not in known:
            known.add(name)
            left += _imported((folder / f"{name}.py").read_text(), folder)
    for name in sorted(known):
        digest.update(_without_prose((folder / f"{name}.py").read_text()).encode())
    return digest.hexdigest()


def _imported(source: str, folder: Path) -> list[str]:
    """The proxy's modules that one imports."""
    package = __name__.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == package:
                names += [alias.name for alias in node.names]
            elif node.module.startswith(package + "."):
                names.append(node.module.removeprefix(package + "."))
    return [name for name in names if (folder / f"{name}.py").is_file()]


@functools.cache
def _catalogue_code(module: str) -> str:
    return _without_prose(inspect.getsource(sys.modules[module]))


def _without_prose(source: str) -> str:
    """What a module does, without docstrings and without the texts of its failures and arms."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PROSE:
            prose = _PROSE[node.func.id]
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in prose]
    return ast.dump(tree)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def _described(function: Callable[..., Any]) -> str:
    """A function's name and what it was made with: judges are made by functions, their thresholds live in its cells."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [_described(value) if inspect.isfunction(value) else repr(value) for value in cells]
    return f"{function.__module__}.{function.__qualname__} {function.__defaults__} {values}"


def definition_hash(failure: Failure, arm: Arm) -> str:
    """Hash of all that decides a result: the code, the catalogue's module, the failure's judge and signs, the arm."""
    parts = [code_digest(), _catalogue_code(failure.case.__module__), _described(failure.case)]
    parts += [_described(failure.judge), repr(failure.signs), f"{failure.window} {failure.held_out}"]
    parts += [arm.name, repr(arm.settings), f"{arm.ahead} {arm.skip} {arm.of}"]
    if arm.plan_of is not None:
        parts.append(_described(arm.plan_of))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def run_plan(plan: Plan, held_out: bool = False) -> Trace:
    """Train a plan to its end."""
    training = Training.start(plan.config)
    rows: list[dict[str, float]] = []
    while training.step < plan.config.steps:
        if plan.then is not None and training.step == plan.switch:
            before = training.snapshot() if plan.reload else None
            training.adopt(plan.then)
            training.skip_batches(plan.skip)
            if before is not None:
                training = Training.restore(before)
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
    start = max(end - failure.window, trace.moment - 1) if wrong_at is not None else end
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


def rival_sign(failure: Failure, results: Sequence[Result]) -> Sign:
    """The loss's own sign that the lead of the leading one is told against.

    It is the keenest that gives no more false alarms than that one in these results: a sign must not lead because
    another was made dull. Where none is as quiet, it is the dullest.
    """

    def alarms(sign: Sign) -> int:
        return sum(result.alarms.get(str(sign), 0) for result in results)

    as_quiet = [sign for sign in LOSS_SIGNS if alarms(sign) <= alarms(failure.signs[0])]
    return as_quiet[-1] if as_quiet else LOSS_SIGNS[0]


Order = Literal["ahead", "same step", "behind", "alone", "not seen"]
"""Where a leading sign stands beside its rival; "alone" where the loss showed nothing up to the failure."""


def lead_order(failure: Failure, result: Result, rival: Sign) -> Order:
    """Whether the leading sign of a run that went wrong came before the loss's own."""
    lead, other = (result.leads.get(str(sign)) for sign in (failure.signs[0], rival))
    if lead is None:
        return "not seen"
    if other is None:
        return "alone"
    return "ahead" if lead > other else "same step" if lead == other else "behind"


def _peak(failure: Failure, trace: Trace) -> float:
    if failure.held_out:
        held_out, start = trace["held_out"], trace.moment - 1
        return float(np.max(held_out[start:]) - np.nanmean(held_out[max(0, start - 5) : start]))
    mean = np.convolve(trace["loss"], np.ones(5) / 5, "valid")
    learned = np.flatnonzero(mean < CONVERGED_LOSS)
    lowest = int(np.nanargmin(mean)) if np.isfinite(mean).any() else 0
    return float(np.max(mean[int(learned[0]) if len(learned) else lowest :]))
