"""Which of a record's values is the training loss, and when it is none."""

from __future__ import annotations

import math
from collections.abc import Mapping

# The first one present is the loss of the step.  NeMo's bar shows a smoothed `loss` beside the real one.
_LOSSES = (
    "reduced_train_loss",
    "global_avg_loss",
    "lm_loss",
    "ce_loss",
    "crossentropyloss",
    "train_loss",
    "training_loss",
    "loss",
    "trl",
    "closs",
    "total_loss",
    "avg_loss",
)
_HELD_OUT = ("eval", "val", "valid", "validation", "test", "dev")
_GRAD_NORMS = ("grad_norm", "total_grad_norm", "gnorm", "gradient_norm", "norm")


def _plain(key: str) -> str:
    parts = key.lower().replace(" ", "_").replace("-", "_").split("/")
    return "" if any(part in _HELD_OUT for part in parts[:-1]) else parts[-1]


def training_loss(fields: Mapping[str, float]) -> str | None:
    """The key of the training loss; None when there is none.

    >>> training_loss({"loss": 2.5, "reduced_train_loss": 2.6, "val_loss": 2.7})
    'reduced_train_loss'
    """
    keys = {_plain(key): key for key in fields}
    return next((keys[name] for name in _LOSSES if name in keys), None)


def grad_norm(fields: Mapping[str, float]) -> float | None:
    """The gradient norm; None when there is none."""
    for key, value in fields.items():
        if _plain(key) in _GRAD_NORMS:
            return value
    return None


def why_no_loss(fields: Mapping[str, float]) -> str:
    """Why the training loss is no number; "" when it is one, or there is none.

    A nan gradient norm beside a sound loss is no nan loss; beside a loss of exactly zero it is: mixed-precision
    trainers print zero when every step since the last report was thrown away.
    """
    key = training_loss(fields)
    if key is None:
        return ""
    value = fields[key]
    if not math.isfinite(value):
        return f"{key} reads {value:g}"
    norm = grad_norm(fields)
    if value == 0 and norm is not None and math.isnan(norm):
        return f"{key} reads 0 and the gradient norm nan"
    return ""
