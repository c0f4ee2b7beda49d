"""Optimizers, schedules and clipping, over one flat vector of parameters.

All parameters are views of one vector (and their gradients of another), so that a step is a dozen vector operations
however many tensors there are, and whatever is wanted per tensor is one segmented sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from replay.proxy.config import OptimizerConfig, ScheduleConfig


def learning_rate(schedule: ScheduleConfig, step: int) -> float:
    """The learning rate of a step, 1 being the first.

    Warm-up is linear from 0; a re-warm likewise, from ``rewarm_start`` on. "cosine": Loshchilov & Hutter 2017;
    "inverse_sqrt": constant, then peak x sqrt(decay_start / step) (PaLM section 5); "wsd": constant, then linear to
    the minimum (Hu et al. 2024, MiniCPM section 4).
    """
    s = schedule
    rate = s.learning_rate
    if s.name == "inverse_sqrt":
        rate *= math.sqrt(s.decay_start / max(step, s.decay_start))
    elif s.name != "constant":
        passed = min(1.0, max(0.0, (step - s.decay_start) / (s.decay_end - s.decay_start)))
        left = 0.5 * (1.0 + math.cos(math.pi * passed)) if s.name == "cosine" else 1.0 - passed
        rate = s.minimum + (rate - s.minimum) * left
    if step < s.warmup_steps:
        rate *= step / s.warmup_steps
    if s.rewarm_steps and s.rewarm_start < step < s.rewarm_start + s.rewarm_steps:
        rate *= (step - s.rewarm_start) / s.rewarm_steps
    return s.factor * rate


class ParameterVector:
    """Named parameters laid out one after another.

    ``values`` and ``gradient`` are float32 [parameters]; ``named`` holds views of the values, as leaves whose
    gradients are views of ``gradient``. ``lengths``: elements of each tensor, int64 [tensors].
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.names = list(tensors)
        self.shapes = [tuple(tensor.shape) for tensor in tensors.values()]
        self._sizes = [tensor.numel() for tensor in tensors.values()]
        self.lengths = torch.tensor(self._sizes)
        self.values = torch.cat([tensor.detach().float().reshape(-1) for tensor in tensors.values()])
        self.gradient = torch.zeros_like(self.values)
        self.named = dict(zip(self.names, self.views(self.values), strict=True))
        for tensor, gradient in zip(self.named.values(), self.views(self.gradient), strict=True):
            tensor.requires_grad_(True)
            tensor.grad = gradient

    def views(self, vector: Tensor) -> list[Tensor]:
        """A vector [parameters] as one view a tensor, in its shape."""
        parts = torch.split(vector, self._sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def norms(self, vector: Tensor) -> Tensor:
        """L2 norm of each tensor's part of a vector, [tensors]."""
        return torch.stack(torch._foreach_norm(torch.split(vector, self._sizes)))

    def root_mean_square(self, vector: Tensor) -> Tensor:
        """RMS of each tensor's part of a vector, [tensors]."""
        return self.norms(vector) / self.lengths.sqrt()

    def spread(self, per_tensor: Tensor) -> Tensor:
        """[tensors] -> [parameters]: each tensor's number at each of its elements."""
        return per_tensor.repeat_interleave(self.lengths)


def clip_gradient(vector: ParameterVector, largest: float) -> Tensor:
    """The global norm of the gradient, []; when it exceeds ``largest`` (0: never) the gradient is scaled down to it."""
    norm: Tensor = torch.linalg.vector_norm(vector.gradient)
    if largest > 0:
        vector.gradient.mul_((largest / (norm + 1e-6)).clamp(max=1.0))
    return norm


class Optimizer(torch.optim.Optimizer):
    """AdamW, Adafactor or SGD over a :class:`ParameterVector`.

    A torch optimizer, so that torch's own GradScaler can unscale its gradient and withhold its step. The settings are
    read at each step: set :attr:`config`, :attr:`rate` and, for decay that stands alone, :attr:`peak_rate`, the
    schedule's largest, before it. After a step :attr:`update` holds what was subtracted, without weight decay,
    [parameters], and :attr:`second_moment_lag` AdamW's RMS of g^2/v of each tensor.
    """

    def __init__(self, vector: ParameterVector, config: OptimizerConfig) -> None:
        super().__init__([vector.values], {})
        self.vector = vector
        self.config = config
        self.rate = 0.0
        self.peak_rate = 0.0
        self.updates = 0
        self.update: Tensor | None = None
        self.second_moment_lag: Tensor | None = None
        self.moments: dict[str, Tensor] = {}
        matrices = torch.tensor([len(shape) > 1 for shape in vector.shapes])
        self._matrices = vector.spread(matrices.float())
        vector.values.grad = vector.gradient
        self._reset()

    def _reset(self) -> None:
        self.updates = 0
        names = {"adamw": ("first", "second"), "adafactor": ("first", "second"), "sgd": ("first",)}
        self.moments = {name: torch.zeros_like(self.vector.values) for name in names[self.config.name]}

    def forget(self) -> None:
        """Start anew: all moments zero, the step count too."""
        self._reset()

    @torch.no_grad()
    def step(self, closure: Any = None) -> bool:  # type: ignore[override]  # noqa: ARG002
        """Change the parameters by one step; True, so that a caller of GradScaler.step knows it was not withheld."""
        c, vector = self.config, self.vector
        self.updates += 1
        update = self._momentum() if c.name == "sgd" else self._adaptive()
        if c.parameter_scaling:
            # Adafactor section 8; the floor lets tensors that start at zero move at all.
            update = update * vector.spread(vector.root_mean_square(vector.values).clamp(min=1e-3))
        update = update.mul_(self.rate)
        self._decay()
        vector.values.sub_(update)
        self.update = update
        return True

    def _momentum(self) -> Tensor:
        """SGD with momentum, [parameters]."""
        return self.moments["first"].mul_(self.config.momentum).add_(self.vector.gradient).clone()

    def _adaptive(self) -> Tensor:
        """AdamW (Loshchilov & Hutter 2019), Adafactor (Shazeer & Stern 2018): the step before the learning rate."""
        c, gradient = self.config, self.vector.gradient
        beta2 = 1.0 - self.updates**-c.beta2_power if c.beta2_power > 0 else c.beta2
        second = self.moments["second"].mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
        if c.name == "adafactor" and c.factored:
            # Means are linear: those of the running average are the running averages of means that the paper keeps.
            second = self._factored(second)
        # With beta2 = 1 - step^-p the first step overwrites v, and there is no bias to correct.
        correction2 = 1.0 if c.beta2_power > 0 else 1.0 - c.beta2**self.updates
        root = (second / correction2).sqrt_()
        self.second_moment_lag = lag = self.lag(gradient, root)
        first = self.moments["first"].lerp_(gradient, 1.0 - c.beta1)
        update = (first / (1.0 - c.beta1**self.updates)).div_(root.add_(c.epsilon))
        if c.update_clip > 0:
            update.div_(self.vector.spread((lag / c.update_clip).clamp(min=1.0)))
        return update

    def lag(self, gradient: Tensor, root: Tensor) -> Tensor:
        """RMS over each tensor of g / sqrt(v), [tensors] (Wortsman et al. 2023 section 3.4).

        ``gradient``: g, and ``root``: sqrt(v), both [parameters].
        """
        return self.vector.root_mean_square(gradient / root.clamp(min=self.config.epsilon))

    def _factored(self, squares: Tensor) -> Tensor:
        """Squares [parameters], matrices replaced by (row means x column means) / mean (Adafactor section 3)."""
        parts = []
        for part in self.vector.views(squares):
            if part.dim() > 1:
                rows, columns = part.mean(dim=1, keepdim=True), part.mean(dim=0, keepdim=True)
                part = rows * columns / part.mean().clamp(min=1e-30)
            parts.append(part.reshape(-1))
        return torch.cat(parts)

    def _decay(self) -> None:
        c = self.config
        scheduled = self.rate / self.peak_rate if self.peak_rate else 0.0
        scale = {"learning_rate": self.rate, "learning_rate_squared": self.rate**2, "independent": scheduled}
        strength = scale[c.decay_scaling] * c.weight_decay
        if strength == 0.0:
            return
        if c.decay_all:
            self.vector.values.mul_(1.0 - strength)
        else:
            self.vector.values.mul_(1.0 - strength * self._matrices)
