"""The vital signs of one failing run, step by step around where it goes wrong: rows, and docs/proxy-vital-signs.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from replay.proxy.assessment import Result, assess, run_plan
from replay.proxy.failure import Arm, Failure, Trace
from replay.proxy.runtime import runtime_restored
from replay.proxy.tables import MECHANISM, joined, made_with, opening, significant, table
from replay.proxy.verification import WITH, WITHOUT

SIGNALS = (
    "loss",
    "held_out",
    "grad_norm",
    "embedding_grad_share",
    "second_moment_lag",
    "update_rms",
    "param_norm",
    "activation_norm",
    "attention_logit_max",
    "attention_entropy",
    "log_z",
    "loss_scale",
    "skipped_steps",
)

Rows = list[dict[str, float]]


@dataclass(frozen=True)
class VitalSigns:
    """A failing run and the same run without the cause.

    ``rows``, ``control_rows``: ``step``, :data:`SIGNALS` and what else its signs are of, at the same steps of both.
    ``result``, ``control``: how each was judged, and what its signs were worth. ``moment``: the step at which the cause
    sets in.
    """

    moment: int
    result: Result
    control: Result
    rows: Rows
    control_rows: Rows


@runtime_restored()
def examine(failure: Failure, seed: int, around: int = 10) -> VitalSigns:
    """Train a failure of a seed with its cause and without, and show both around the step at which it goes wrong.

    From ``around`` steps before it to as many behind; around the moment of the cause where it does not go wrong.
    """
    case = failure.case(seed)
    trace = run_plan(Arm(WITH).plan(case), failure.held_out)
    other = run_plan(Arm(WITHOUT, of="control").plan(case), failure.held_out)
    middle = failure.judge(trace) or trace.moment
    shown = tuple(dict.fromkeys([*SIGNALS, *(sign.signal for sign in failure.signs)]))
    return VitalSigns(
        moment=case.moment,
        result=assess(failure, WITH, seed, trace),
        control=assess(failure, WITHOUT, seed, other),
        rows=_around(trace, shown, middle, around),
        control_rows=_around(other, shown, middle, around),
    )


def _around(trace: Trace, signals: Sequence[str], middle: int, around: int) -> Rows:
    steps = range(max(1, middle - around), min(trace.steps, middle + around) + 1)
    return [
        {"step": step, **{name: float(trace[name][step - 1]) for name in signals if name in trace.columns}}
        for step in steps
    ]


def page(failure: Failure, seed: int, around: int, signs: VitalSigns) -> str:
    """The page docs/proxy-vital-signs.md."""
    result, control = signs.result, signs.control
    lines = opening(
        f"Vital signs of a failing run: {failure.title[0].lower()}{failure.title[1:]}",
        f"replay proxy failures show {failure.name} --seed {seed} --around {around} --docs docs/proxy-vital-signs.md",
        f"Seed {seed}; {made_with()}. One run, and so no intervals: on how many seeds it goes wrong, and how far ahead "
        f"its signs are seen over all of them, is told in [failures.md](failures.md#{failure.name}).",
        MECHANISM,
        failure.mechanism,
    )
    lines += ["", f"- Settings: {failure.settings}.", f"- Expected: {failure.signature}."]
    lines += [f"- Counts as gone wrong: {failure.criterion}."]
    cause = (
        "The cause lasts from the first step." if signs.moment == 1 else f"The cause sets in at step {signs.moment}."
    )
    lines += ["", f"{cause} With it {_ending(result)}; without it {_ending(control)}."]
    if failure.signs:
        head = ["sign", "first seen ahead, steps", "quiet steps with it", "the same without the cause"]
        lines += ["", "## Signs", "", *table(head, [_sign(str(sign), result, control) for sign in failure.signs]), ""]
        lines += [
            f"Ahead: within {failure.window} steps of going wrong; 0 is the same step. Quiet steps are those before "
            "that, or all of a run that stays well, once it has learned: a sign at one of them is a false alarm."
        ]
    constant = _constant(signs)
    for title, rows in (("The run", signs.rows), ("The same steps without the cause", signs.control_rows)):
        shown = [name for name in rows[0] if name not in constant]
        lines += ["", f"## {title}", "", *table(shown, [[significant(row[name]) for name in shown] for row in rows])]
    if constant:
        told = ", ".join(f"{name} {significant(value)}" for name, value in constant.items())
        lines += ["", f"The same at all of these steps, in both runs: {told}."]
    return joined(lines)


def _ending(result: Result) -> str:
    if result.wrong_at is None:
        return f"the run stays well and ends with a loss of {significant(result.final)} nats"
    peak = significant(result.peak)
    return f"it goes wrong at step {result.wrong_at} (peak {peak}, at the end {significant(result.final)} nats)"


def _sign(sign: str, result: Result, control: Result) -> list[str]:
    lead = result.leads[sign]
    alarms = [f"{one.alarms[sign]} of {one.quiet}" for one in (result, control)]
    return [sign, "not seen" if lead is None else str(lead), *alarms]


def _constant(signs: VitalSigns) -> dict[str, float]:
    """Signals that are one number at all steps shown of both runs, and that number."""
    rows: Sequence[dict[str, float]] = [*signs.rows, *signs.control_rows]
    names = [name for name in rows[0] if name != "step"]
    values = {name: {row.get(name, math.nan) for row in rows} for name in names}
    return {name: found.pop() for name, found in values.items() if len(found) == 1}
