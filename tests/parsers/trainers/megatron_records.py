"""Records as Megatron-DeepSpeed prints them, for the tests of its logs."""

from __future__ import annotations

LOSS = "lm loss"

OVERFLOW = (
    "[2022-01-19 13:16:17,683] [INFO] [stage_1_and_2.py:1644:step] [deepscale] OVERFLOW! Rank {} Skipping step."
    " Attempted loss scale: {}, reducing to {}"
)
"""What DeepSpeed prints: the rank, the scale before and after."""


def record(
    step: int, loss: float | str | None = 2.5, *, skipped: int = 0, nans: int = 0, norm: str = "1.250", **extra: object
) -> str:
    """One record as Megatron-DeepSpeed prints it in fp16."""
    shown = "" if loss is None else f" lm loss: {loss if isinstance(loss, str) else format(loss, '.6E')} |"
    scale = extra.get("scale", 65536.0)
    return (
        f" iteration {step:8d}/  100000 | consumed samples: {step * 64:12d} | elapsed time per iteration (ms): 812.4 |"
        f" learning rate: 6.000E-05 | global batch size:    64 |{shown} loss scale: {scale} | grad norm: {norm} |"
        f" num zeros: 0.0 | number of skipped iterations: {skipped:3d} | number of nan iterations: {nans:3d} |"
    )


def log_of(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)
