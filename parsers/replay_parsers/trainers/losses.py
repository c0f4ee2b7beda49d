"""Which of a record's values is the training loss, and when it is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

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
    if any(part in _HELD_OUT for part in parts[:-1]):
        return ""
    # Composer's `loss/train/total` ends in a word that alone means nothing.
    return "loss" if parts[-1] == "total" and parts[0] == "loss" else parts[-1]


@lru_cache(maxsize=1_024)
def _roles(keys: tuple[str, ...]) -> tuple[str | None, str | None]:
    """The keys of the training loss and of the gradient norm.  Records of a log have the same few sets of keys."""
    by_name = {_plain(key): key for key in keys}
    loss = next((by_name[name] for name in _LOSSES if name in by_name), None)
    norm = next((key for key in keys if _plain(key) in _GRAD_NORMS), None)
    return loss, norm


def training_loss(fields: Mapping[str, float]) -> str | None:
    """The key of the training loss; None when there is none.

    >>> training_loss({"loss": 2.5, "reduced_train_loss": 2.6, "val_loss": 2.7})
    'reduced_train_loss'
    """
    return _roles(tuple(fields))[0]


def grad_norm(fields: Mapping[str, float]) -> float | None:
    """The gradient norm; None when there is none."""
    key = _roles(tuple(fields))[1]
    return None if key is None else fields[key]


def why_no_loss(fields: Mapping[str, float]) -> str:
    """Why the training loss is no number; "" when it is one, or there is none.

    A nan gradient norm beside a sound loss is no nan loss; beside a loss of exactly zero it is: mixed-precision
    trainers print zero when every step since the last report was thrown away.
    """
    key, norm = _roles(tuple(fields))
    if key is None:
        return ""
    value = fields[key]
    if not math.isfinite(value):
        return f"{key} reads {value:g}"
    if value == 0 and norm is not None and math.isnan(fields[norm]):
        return f"{key} reads 0 and the gradient norm nan"
    return ""
