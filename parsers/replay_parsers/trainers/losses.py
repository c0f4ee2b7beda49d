"""Which of a record's values is the training loss, and when it is none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
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
_MEASURED_OUTSIDE = re.compile(rf"(?:^|[^a-z])(?:{'|'.join(_HELD_OUT)})(?:$|[^a-z])", re.I)
_RATES = ("learning_rate", "lr")
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


def missing_loss(nulls: Iterable[str], numbers: Mapping[str, float]) -> str | None:
    """The key of a training loss that is null where it should have been measured; None when there is none.

    JSON has no nan, so that many loggers write null for one.  Others write it for all that a record does not measure,
    in evaluations for example: there it says nothing.

    >>> missing_loss(["loss"], {"step": 5, "lr": 1e-4}), missing_loss(["loss"], {"step": 5, "eval_loss": 2.5})
    ('loss', None)
    """
    nulls = tuple(nulls)
    key = _roles(nulls)[0]
    if key is None or training_loss(numbers) is not None or any(map(_MEASURED_OUTSIDE.search, numbers)):
        return None
    # A record whose other values are null as well must show that a step was taken.
    others = [name for name in nulls if name != key and _plain(name) not in _GRAD_NORMS]
    stepped = any(_plain(name) in _RATES or _plain(name) in _GRAD_NORMS for name in numbers)
    return key if stepped or not others else None
