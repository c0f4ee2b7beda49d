"""Kinds, numbers and steps as a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from replay.output import is_missing

_SPELLED = {
    "lr": "learning rate",
    "nan": "NaN",
    "gpu": "GPU",
    "qk": "QK",
    "grad": "gradient",
    "init": "initialisation",
    "norm": "norm",
    "sgd": "SGD",
    "data": "data",
}

EVIDENCE_MEANING = {
    "logged": "a program wrote it",
    "stated": "a person wrote it",
    "figure": "read off a plot",
    "derived": "computed by replay from the logs",
    "second_hand": "quoted by someone who was not there",
    "proxy": "observed on the proxy transformer, not on this run",
}


def spelled(kind: str) -> str:
    """A kind, field or tag-like name in words.

    >>> spelled("lr_change"), spelled("nan_loss"), spelled("grad_norm")
    ('learning rate change', 'NaN loss', 'gradient norm')
    """
    return " ".join(_SPELLED.get(part, part) for part in str(kind).split("_") if part)


def number(value: Any, digits: int = 4) -> str:
    """A number with ``digits`` significant digits, thousands separated; an em dash when there is none.

    >>> number(6e-05), number(960.351), number(32768), number(float("inf"))
    ('6e-05', '960.4', '32,768', 'infinity')
    """
    if is_missing(value):
        return "—"
    value = float(value)
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 10 ** (digits - 1) and abs(value) < 1e15:
        return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:,.1f}"
    return f"{value:.{digits}g}"


def steps(first: Any, last: Any = None) -> str:
    """A step or an inclusive range of steps.

    >>> steps(40701, 40900), steps(33600), steps(None)
    ('40,701–40,900', '33,600', '')
    """
    if is_missing(first):
        return ""
    if is_missing(last) or int(last) == int(first):
        return f"{int(first):,}"
    return f"{int(first):,}–{int(last):,}"


def trained(start: Any, end: Any, kept_to: Any = None) -> str:
    """The steps of an attempt that began from the checkpoint of step ``start``: the next is the first it trained.

    Where its ``end`` is not known, it went on at least to the step that was kept of it.

    >>> trained(40700, 40900), trained(500, 500), trained(0, None, 4000), trained(0, None), trained(None, 22800)
    ('40,701–40,900', '500', '1–4,000 at least', 'from 1', 'to 22,800')
    """
    if is_missing(start):
        known = end if not is_missing(end) else kept_to
        return "" if is_missing(known) else f"to {steps(known)}"
    first = int(start) + 1
    if not is_missing(end):
        return steps(min(first, int(end)), end)
    if not is_missing(kept_to) and int(kept_to) >= first:
        return f"{steps(first, kept_to)} at least"
    return f"from {steps(first)}"


def moment(time: Any, precision: Any = None) -> str:
    """A time in UTC, no finer than it is known."""
    if is_missing(time):
        return ""
    stamp = pd.Timestamp(time)
    if is_missing(precision) or precision in {"", "minute"}:
        return f"{stamp:%Y-%m-%d %H:%M}"
    shapes = {"second": "%Y-%m-%d %H:%M:%S", "hour": "%Y-%m-%d %H h", "day": "%Y-%m-%d", "month": "%Y-%m"}
    return stamp.strftime(shapes.get(str(precision), "%Y-%m-%d %H:%M"))


def count(n: int, noun: str, plural: str | None = None) -> str:
    """``1 restart``, ``3 restarts``.

    >>> count(1, "loss spike"), count(2, "divergence"), count(0, "loss", "losses")
    ('1 loss spike', '2 divergences', '0 losses')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def listed(parts: Sequence[str], last: str = "and") -> str:
    """``a, b and c``.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', '')
    """
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def size(parameters: Any) -> str:
    """A parameter count as papers print it.

    >>> size(1.3e11), size(209_000), size(None)
    ('130B parameters', '209k parameters', '')
    """
    if is_missing(parameters) or float(parameters) <= 0:
        return ""
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if float(parameters) >= unit:
            return f"{float(parameters) / unit:.3g}{letter} parameters"
    return f"{int(parameters)} parameters"


def shortened(names: Iterable[str], limit: int = 6) -> str:
    """At most ``limit`` names, and how many more there are."""
    names = list(names)
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest:,} more" if rest > 0 else "")
