"""What a checkpoint of a run must hold, checked before anything of it is used.

A file may be whole and yet not say what a run can go on from: made by other code, or changed by hand. Each fault is
told by the name of what is wrong; nothing is rounded, cut, repeated or put into another number format to make it fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from replay.proxy.checkpoint import CheckpointError
from replay.proxy.hope import COUNTS, MEAN_OF
from replay.proxy.settings import LARGEST_NUMBER, MOST_STEPS, shown

_COUNTS = {"step": MOST_STEPS, "updates": MOST_STEPS, "tokens": 2**62, "samples": 2**62}
"""Whole numbers of a state, and the most that each can be."""

_SCALER_NUMBERS = {"scale": 10 * LARGEST_NUMBER, "growth_factor": LARGEST_NUMBER, "backoff_factor": 1.0}
"""What torch's GradScaler keeps, under its own names: floats, and the most that each can be."""
_SCALER_COUNTS = ("growth_interval", "_growth_tracker")


def _fault(name: str, needed: str, value: object) -> CheckpointError:
    return CheckpointError(f"the checkpoint's {name}: {needed} is needed, not {shown(value)}; resume from another")


def _check_whole(name: str, value: object, least: int, most: int = MOST_STEPS) -> None:
    if type(value) is not int or not least <= value <= most:
        raise _fault(name, f"a whole number from {least:,} to {most:,}", value)


def _check_number(name: str, value: object, most: float) -> None:
    if type(value) is not float or not 0 <= value <= most:
        raise _fault(name, f"a number with a point from 0.0 to {most:g}", value)


def check_state(state: Mapping[str, Any], history: int) -> None:
    """Check the numbers of a state, of which ``history`` gradient norms at most are kept.

    Raises:
        CheckpointError: a value of the wrong type or out of range.
        KeyError: one is missing.
    """
    for name, most in _COUNTS.items():
        _check_whole(name, state[name], 0, most)
    _check_whole("schedule_start", state["schedule_start"], 0, state["step"])
    _check_whole("data_offset", state["data_offset"], -state["step"])
    if not isinstance(state["skipped_steps"], list):
        raise _fault("skipped_steps", "a list", state["skipped_steps"])
    for step in state["skipped_steps"]:
        _check_whole("skipped_steps", step, 1)
    norms = state["norm_history"]
    if not isinstance(norms, list) or len(norms) > history:
        raise _fault("norm_history", f"a list of at most {history}", norms)
    for norm in norms:
        _check_number("norm_history", norm, 10 * LARGEST_NUMBER)
    _check_scaler(state["scaler"])
    if "hope" in state:  # checkpoints of earlier versions know nothing of it
        _check_hope(state["hope"])


def _check_hope(hope: object) -> None:
    if not isinstance(hope, dict) or set(hope) != {"last", *COUNTS}:
        raise _fault("hope", f"a mapping of last, {', '.join(COUNTS)}", hope)
    last = hope["last"]
    if not isinstance(last, list) or len(last) > MEAN_OF:
        raise _fault("hope.last", f"a list of at most {MEAN_OF}", last)
    for loss in last:
        if loss is not None and (type(loss) is not float or not abs(loss) <= 10 * LARGEST_NUMBER):
            raise _fault("hope.last", "a finite number with a point, or null,", loss)
    for name in COUNTS:
        _check_whole(f"hope.{name}", hope[name], 0)


def _check_scaler(scaler: object) -> None:
    if not isinstance(scaler, dict):
        raise _fault("scaler", "a mapping", scaler)
    if not scaler:
        return
    if set(scaler) != {*_SCALER_NUMBERS, *_SCALER_COUNTS}:
        raise _fault("scaler", f"a mapping of {', '.join([*_SCALER_NUMBERS, *_SCALER_COUNTS])}", scaler)
    for name, most in _SCALER_NUMBERS.items():
        _check_number(f"scaler.{name}", scaler[name], most)
    for name in _SCALER_COUNTS:
        _check_whole(f"scaler.{name}", scaler[name], 0, 2**31 - 1)


def check_tensors(tensors: Mapping[str, Tensor], parts: Iterable[str], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that each part holds a float32 tensor of the model's shape for each parameter, and no other tensor.

    Raises:
        CheckpointError: one is of another shape or number format, or of no parameter.
        KeyError: one is missing.
    """
    for part in parts:
        known = {f"{part}/{name}" for name in shapes}
        if others := sorted(name for name in tensors if name.startswith(f"{part}/") and name not in known):
            raise CheckpointError(f"the checkpoint's tensor {others[0]} has no place in its config's model")
        for name, shape in shapes.items():
            tensor = tensors[f"{part}/{name}"]
            if tuple(tensor.shape) != shape or tensor.dtype != torch.float32:
                found = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
                raise CheckpointError(
                    f"the checkpoint's tensor {part}/{name} is {found} where its config makes float32 {list(shape)}; "
                    "resume from another"
                )
