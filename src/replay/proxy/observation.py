"""The signals of a step, each named as its users name it, at bounded cost.

==========================  ======================================================================================
loss                        mean cross-entropy of the targets that count, nats; loss/first and loss/second apart when
                            two sources are mixed
grad_norm                   global L2 norm of the gradient before clipping; grad_norm/<group> by kind of tensor
embedding_grad_share        the token embedding's part of it: norm / global norm (GLM-130B's sign)
second_moment_lag           AdamW's RMS of g^2 / v, largest over tensors (Wortsman et al. 2023 section 3.4: RMS_t);
                            1 when v is up to date, high when it lags behind; .../<group> likewise
update_rms                  RMS over all parameters of what the optimizer subtracted
param_norm                  global L2 norm of the parameters
activation_norm             RMS of the last layer's residual stream; activation_norm/layer<i>
attention_logit_max         largest attention logit over layers; attention_logit_max/layer<i>
attention_entropy           mean attention entropy, nats, of the batch's first and last sequence alone, over layers;
                            attention_entropy/layer<i>
log_z                       mean log of the sum of exponentials of the output logits, over targets that count
output_logit_norm           RMS of the output logits
learning_rate, loss_scale   as set for this step; the scale as it is after it
skipped_steps               1 when this step made no update (overflow, skip rule, skipped range), else 0
batch_size, samples, tokens sequences of this batch; sequences and targets learned from so far
==========================  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from replay.proxy.model import Losses, Observed
from replay.proxy.optimisation import Optimizer, ParameterVector

GROUPS = ("embedding", "attention", "mlp", "norm", "head")
"""Kinds of tensor whose signals are told apart."""


def group_of(name: str) -> str:
    """The kind of a parameter, by its name."""
    if "norm" in name:
        return "norm"
    part = name.split(".")
    if part[0] == "embedding":
        return "embedding"
    return "head" if part[0] == "final" else part[1]


class Observer:
    """Computes the signals of a run; holds nothing of its state."""

    def __init__(self, vector: ParameterVector) -> None:
        self.vector = vector
        kinds = [group_of(name) for name in vector.names]
        self.groups = [group for group in GROUPS if group in kinds]
        self._members = torch.tensor([[kind == group for kind in kinds] for group in self.groups])

    @torch.no_grad()
    def before_step(
        self, losses: Losses, logits: Tensor, weights: Tensor, second: npt.NDArray[np.bool_], observed: Observed
    ) -> dict[str, Tensor]:
        """Signals known before the optimizer steps, as tensors [] each."""
        count = weights.sum()
        seen = {
            "loss": (losses.each * weights).sum() / count,
            "log_z": (losses.log_z * weights).sum() / count,
            "output_logit_norm": _rms(logits.detach()),
        }
        if second.any():
            apart = torch.from_numpy(second)[:, None] * weights
            other = weights - apart
            seen["loss/second"] = (losses.each * apart).sum() / apart.sum()
            if not second.all():
                seen["loss/first"] = (losses.each * other).sum() / other.sum()
        for name in ("attention_logit_max", "attention_entropy", "activation_norm"):
            layers: list[Tensor] = getattr(observed, name)
            seen |= {f"{name}/layer{i}": value for i, value in enumerate(layers)}
        seen["attention_logit_max"] = torch.stack(observed.attention_logit_max).max()
        seen["attention_entropy"] = torch.stack(observed.attention_entropy).mean()
        seen["activation_norm"] = observed.activation_norm[-1]
        squares = self.vector.norms(self.vector.gradient).square()
        norms = torch.where(self._members, squares, 0.0).sum(dim=1).sqrt()
        seen |= {f"grad_norm/{group}": norms[i] for i, group in enumerate(self.groups)}
        seen["embedding_grad_share"] = squares[self.vector.names.index("embedding.token")].sqrt() / squares.sum().sqrt()
        return seen

    @torch.no_grad()
    def signals(self, seen: dict[str, Tensor], norm: Tensor, optimizer: Optimizer | None) -> dict[str, float]:
        """All signals as numbers; those of the update are there when the optimizer stepped."""
        seen = {**seen, "grad_norm": norm, "param_norm": torch.linalg.vector_norm(self.vector.values)}
        if optimizer is not None and optimizer.update is not None:
            seen["update_rms"] = _rms(optimizer.update)
        if optimizer is not None and (lag := optimizer.second_moment_lag) is not None:
            seen["second_moment_lag"] = lag.max()
            largest = torch.where(self._members, lag, 0.0).amax(dim=1)
            seen |= {f"second_moment_lag/{group}": largest[i] for i, group in enumerate(self.groups)}
        return dict(zip(seen, _numbers(seen.values()), strict=True))


def _rms(x: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dtype=torch.float32)
    return norm.div(x.numel() ** 0.5)


def _numbers(tensors: Iterable[Tensor]) -> list[float]:
    numbers: list[float] = torch.stack([tensor.float() for tensor in tensors]).tolist()
    return numbers
