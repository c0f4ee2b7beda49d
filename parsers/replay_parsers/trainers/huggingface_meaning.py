"""What Hugging Face's Trainer means beyond what it prints.

With `logging_nan_inf_filter` (on by default) the Trainer puts the mean of the losses so far in the place of one that
is nan or infinite (`transformers/trainer.py`): the curve looks healthy while the gradient norm beside it reads nan.

The last record of a run gives the mean of its losses beside how long it took; its name is one that others give to the
loss of a step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from replay_parsers.trainers.losses import grad_norm, training_loss, why_no_loss
from replay_parsers.trainers.reading import Book

RUN_MEAN = "train/train_loss"
"""What the mean over a run is called, as the Trainer itself names it in event files."""


def tells_a_run_mean(keys: Collection[str]) -> bool:
    """Whether a record of these keys is the last of a run, whose `train_loss` is the mean of all steps."""
    return "train_loss" in keys and "train_runtime" in keys and "loss" not in keys


def with_run_mean(fields: dict[str, float]) -> dict[str, float]:
    """The values of a record, the mean over a run under its own name."""
    if not tells_a_run_mean(fields):
        return fields
    return {RUN_MEAN if key == "train_loss" else key: value for key, value in fields.items()}


class FilteredLoss:
    """Tells, once a stretch, that the gradient norm is nan beside a loss that looks sound."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.inside = bool(state.get("inside", False))

    def state(self) -> dict[str, Any]:
        return {"inside": self.inside}

    def look(self, fields: Mapping[str, float], step: int, place: int | str, book: Book) -> None:
        """Look at what one record measures."""
        norm, loss = grad_norm(fields), training_loss(fields)
        if norm is None or loss is None:
            return
        nan_beside_sound = not math.isfinite(norm) and not why_no_loss(fields)
        if nan_beside_sound and not self.inside:
            book.finding(
                "loss_behind_nan_filter",
                place,
                (f"{loss} {fields[loss]:g} at step {step}", f"a gradient norm of {norm:g} beside it"),
                None,
                "a trainer that filters nan losses (Hugging Face's logging_nan_inf_filter) prints the mean of earlier "
                "losses in their place; the loss of these steps may not be what it seems",
            )
        self.inside = nan_beside_sound
