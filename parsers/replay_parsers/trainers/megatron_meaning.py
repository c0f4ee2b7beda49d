"""What a Megatron record means beyond its values: nan losses, skipped iterations, norms that were not measured.

Sources: `training_log` in Megatron-LM's `training.py` (a loss is printed only when it is greater than zero;
skipped and nan iterations are counted since the last report); the BigScience 104B logs, where DeepSpeed repeats
the last gradient norm over a skipped step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from replay_parsers.records import EventKind
from replay_parsers.trainers.reading import Book

SKIPPED = "number of skipped iterations"
NAN = "number of nan iterations"
GRAD_NORM = "grad norm"
LOSS_SCALE = "loss scale"
_NONFINITE = "nonfinite loss"
_HAS_LOSS = "has loss"
_MAIN_LOSSES = ("lm loss", "lm_loss")

ABSENT_AFTER = 5
"""So many records from the first with a gradient norm of zero, and the norm is held not to be computed."""


def is_loss(key: str) -> bool:
    """Whether a key of a record names a training loss; a loss scale is none."""
    return key.endswith("loss") and "scale" not in key


class RecordMeaning:
    """Gathers what matters of the record being read, and tells its meaning when it is complete."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.marks: dict[str, float] = dict(state.get("marks", {}))
        self.step: int | None = state.get("step")
        self.before: dict[str, float] = dict(state.get("before", {}))
        self.step_before: int | None = state.get("step_before")
        # An overflow line stood between the two.
        self.overflowed = bool(state.get("overflowed", False))
        self.stale = bool(state.get("stale", False))
        self.has_main_loss = bool(state.get("has_main_loss", False))
        # Zero norms counted from the first record on; -1 once a norm was not zero.
        self.zero_norms = int(state.get("zero_norms", 0))

    def state(self) -> dict[str, Any]:
        return {
            "marks": dict(self.marks),
            "step": self.step,
            "before": dict(self.before),
            "step_before": self.step_before,
            "overflowed": self.overflowed,
            "stale": self.stale,
            "has_main_loss": self.has_main_loss,
            "zero_norms": self.zero_norms,
        }

    def begin(self, step: int, book: Book) -> None:
        """A record of ``step`` begins."""
        self.before, self.step_before = self.marks, self.step
        self.marks, self.step = {}, step
        self.overflowed = book.events.overflow_told_since_report()
        book.events.reported()

    def take(self, fields: Mapping[str, float], line: int, time: int | None, book: Book) -> None:
        """Take in fields of the record.  With the counter of nan iterations it is complete: losses stand before it."""
        for key, value in fields.items():
            if is_loss(key):
                self.has_main_loss = self.has_main_loss or key in _MAIN_LOSSES
                # An auxiliary loss that is printed does not stand for the main one.
                if key in _MAIN_LOSSES or not self.has_main_loss:
                    self.marks[_HAS_LOSS] = 1.0
                if not math.isfinite(value):
                    self.marks[_NONFINITE] = value
        for key in (SKIPPED, GRAD_NORM, LOSS_SCALE):
            if key in fields:
                self.marks[key] = fields[key]
        if NAN in fields and self.step is not None:
            self._skipped(self.step, line, time, book)
            self._loss(self.step, fields[NAN], line, time, book)
            self._grad_norm(self.step, line, book)

    def _interval(self, step: int) -> int | None:
        """The iterations since the last report; None when they are not known."""
        # The first report: everything since the start, where as many were skipped as there were.
        since_start = step == 1 or self.marks.get(SKIPPED) == step
        before = 0 if self.step_before is None and since_start else self.step_before
        return step - before if before is not None and step > before else None

    def _skipped(self, step: int, line: int, time: int | None, book: Book) -> None:
        skipped = self.marks.get(SKIPPED, 0.0)
        # Where DeepSpeed has told each overflow on a line of its own, the count says nothing new.
        if not skipped > 0 or self.overflowed:
            return
        interval = self._interval(step)
        book.events.add(
            EventKind.OVERFLOW_SKIP,
            line,
            f"{skipped:g} skipped iterations reported at iteration {step}",
            step=step if interval is None else step - interval + 1,
            step_end=step,
            time=time,
            detail={"skipped": f"{skipped:g}"},
        )

    def _loss(self, step: int, nan_iterations: float, line: int, time: int | None, book: Book) -> None:
        skipped, interval = self.marks.get(SKIPPED, 0.0), self._interval(step)
        # A skipped iteration adds nothing to the loss: where all were skipped, its absence says no more.
        all_skipped = skipped > 0 and (interval is None or skipped >= interval)
        if nan_iterations > 0:
            detail, text = {"nan_iterations": f"{nan_iterations:g}"}, f"{nan_iterations:g} iterations with a nan loss"
        elif _NONFINITE in self.marks:
            value = self.marks[_NONFINITE]
            detail, text = {"value": f"{value:g}"}, f"the loss reads {value:g}"
        elif _HAS_LOSS not in self.marks and not all_skipped:
            detail = {"field": "missing"}
            text = "the loss is missing from the record: Megatron prints it only when it is greater than zero"
        else:
            return
        book.events.add(EventKind.NAN_LOSS, line, text, step=step, time=time, detail=detail)

    def _grad_norm(self, step: int, line: int, book: Book) -> None:
        """Tell gradient norms that were not measured: the one before printed again over a skipped step, or zero."""
        norm, before = self.marks.get(GRAD_NORM), self.before.get(GRAD_NORM)
        if norm is None:
            return
        self.zero_norms = self.zero_norms + 1 if norm == 0 and self.zero_norms >= 0 else -1
        if self.zero_norms == ABSENT_AFTER:
            book.finding(
                "absent_grad_norm",
                line,
                (f"grad norm 0.000 in the first {ABSENT_AFTER} records, up to iteration {step}",),
                "the gradient norm was not measured",
                "a model that learns has gradients; this version prints zero when it does not compute their norm",
            )
        if norm != before or norm == 0:
            self.stale = False
            return
        scale, scale_before = self.marks.get(LOSS_SCALE), self.before.get(LOSS_SCALE)
        backed_off = scale is not None and scale_before is not None and scale < scale_before
        if self.stale or not (self.overflowed or backed_off or self.marks.get(SKIPPED, 0) > 0):
            return
        self.stale = True
        book.finding(
            "stale_grad_norm",
            line,
            (f"grad norm {norm} at iteration {step}", f"the same to the last digit at iteration {self.step_before}"),
            f"the gradient norm of iteration {step} was not measured; the last one is printed again until it changes",
            "the step was skipped because its gradients overflowed, so that it had no norm",
        )
