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
        before = self.loss_scale
        self.scaler.update()
        if self.loss_scale < min(before, self.config.minimum_scale):
            self.scaler.update(self.config.minimum_scale)
        return stepped

    def state_dict(self) -> dict[str, float]:
        """The scaler's state, numbers only; empty where there is no scaling."""
        return dict(self.scaler.state_dict())

    def load_state_dict(self, state: dict[str, float]) -> None:
        """The inverse of :meth:`state_dict`; an empty state leaves the scaler fresh."""
        if state and self.scaler.is_enabled():
            self.scaler.load_state_dict(state)
            self.scaler.update(float(state["scale"]))

    def withhold(self) -> None:
        """End a step that some rule forbids; the scale adapts as after any other."""
        if self.scaler.is_enabled():
            self.scaler.update()
