"""The vital signs of one failing run, step by step around where it goes wrong."""

from __future__ import annotations

from replay.proxy.assessment import run_plan
from replay.proxy.failure import Arm, Failure
from replay.proxy.runtime import runtime_restored

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


@runtime_restored()
def vital_signs(failure: Failure, seed: int, around: int = 10, control: bool = False) -> list[dict[str, float]]:
    """Rows of ``step`` and :data:`SIGNALS`, from ``around`` steps before the run goes wrong to as many behind.

    With ``control`` the same steps of the run without the cause. A run that does not go wrong is shown around the
    moment of its cause.
    """
    case = failure.case(seed)
    trace = run_plan(Arm("").plan(case), failure.held_out)
    middle = failure.judge(trace) or trace.moment
    if control:
        trace = run_plan(Arm("", of="control").plan(case), failure.held_out)
    steps = range(max(1, middle - around), min(trace.steps, middle + around) + 1)
    return [
        {"step": step, **{name: float(trace[name][step - 1]) for name in SIGNALS if name in trace.columns}}
        for step in steps
    ]
