"""Number formats of a step: fp32, bf16, or fp16 with torch's own dynamic loss scaling.

Weights and optimizer moments are always fp32 (master weights); bf16 and fp16 run the forward and backward pass under
``torch.autocast``. In fp16 the loss is multiplied by a scale so that small gradients do not vanish; when a gradient
overflows, the step is withheld and the scale halved; after ``growth_interval`` clean steps it doubles (Micikevicius et
al. 2018 section 3.2). Mode "fp16_gradients" computes in fp32 and only tests the scaled gradients against fp16's range.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from replay.proxy.config import PrecisionConfig
from replay.proxy.optimisation import Optimizer


class Precision:
    """The autocast of a run and its loss scaler."""

    def __init__(self, config: PrecisionConfig) -> None:
        self.config = config
        scaled = config.mode in ("fp16", "fp16_gradients")
        self.scaler = torch.amp.GradScaler(
            "cpu", init_scale=config.initial_scale, growth_interval=config.growth_interval, enabled=scaled
        )
        if scaled:
            # The scaler makes its scale lazily; a first multiplication lets it be read and saved before any step.
            self.scaler.scale(torch.zeros(()))

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The context of a forward pass."""
        if self.config.mode == "bf16":
            return torch.autocast("cpu", torch.bfloat16)
        if self.config.mode == "fp16":
            return torch.autocast("cpu", torch.float16)
        return contextlib.nullcontext()

    @property
    def loss_scale(self) -> float:
        """The current scale; 1 where there is no scaling."""
        return self.scaler.get_scale()

    def backward(self, loss: Tensor, optimizer: Optimizer) -> None:
        """Gradients of a loss into the optimizer's vector, unscaled; an overflow is remembered for :meth:`step`."""
        gradient = optimizer.vector.gradient
        gradient.zero_()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if self.config.mode == "fp16_gradients":
            # Cast as a run would that keeps its gradients in fp16: what exceeds its range becomes infinite.
            gradient.copy_(gradient.half())
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> bool:
        """Let the optimizer step, unless a gradient overflowed, and adapt the scale; whether it stepped."""
        stepped = bool(self.scaler.step(optimizer))
        self._adapt()
        return stepped

    def withhold(self) -> None:
        """End a step that some rule forbids; the scale adapts as after any other."""
        self._adapt()

    def _adapt(self) -> None:
        """Halve or double the scale as torch does, but halve it no further than to its floor."""
        floor = min(self.loss_scale, self.config.minimum_scale)
        self.scaler.update()
        if self.loss_scale < floor:
            self.scaler.update(floor)

    def changed_to(self, config: PrecisionConfig) -> Precision:
        """With other settings from here on, in mid-run.

        From one mode with a loss scale to the same or another such mode the scale and the count of clean steps towards
        its growth are carried over, the count cut to one step short of a shorter ``growth_interval``. The scale starts
        over, from ``initial_scale``, where that is what changed, or where there was no scaling before.
        """
        after = Precision(config)
        both_scale = self.scaler.is_enabled() and after.scaler.is_enabled()
        if both_scale and config.initial_scale == self.config.initial_scale:
            before = self.state_dict()
            # torch doubles when the count equals the interval: beyond it, it never would.
            clean = min(before["_growth_tracker"], config.growth_interval - 1)
            after.load_state_dict({**after.state_dict(), "scale": before["scale"], "_growth_tracker": clean})
        return after

    def state_dict(self) -> dict[str, float]:
        """The scaler's state, numbers only; empty where there is no scaling."""
        return dict(self.scaler.state_dict())

    def load_state_dict(self, state: dict[str, float]) -> None:
        """The inverse of :meth:`state_dict`; an empty state leaves the scaler fresh."""
        if state and self.scaler.is_enabled():
            self.scaler.load_state_dict(state)
            self.scaler.update(float(state["scale"]))
