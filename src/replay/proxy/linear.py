"""The matrix products of linear layers, by oneDNN where torch has it.

In fp32 torch multiplies by MKL, whose AVX512 kernels run on Intel's processors alone; those of oneDNN, the library by
which torch multiplies in bf16 and convolves, run on all that have the instructions, and take half the time on AMD's.
torch.compile calls the same operator when it makes a model for inference only; for training we give it its gradient.
Under autocast, where torch uses oneDNN itself, and where torch was built without it, the products are torch's usual
ones.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from torch import Tensor

ONEDNN: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
"""Whether torch was built with oneDNN."""


def linear_map(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., inputs], weight [outputs, inputs], bias [outputs] -> x weight^T + bias, [..., outputs]."""
    if not ONEDNN or x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    product: Tensor = _Product.apply(x, weight)  # type: ignore[no-untyped-call]
    return product if bias is None else product + bias


class _Product(torch.autograd.Function):
    """x [..., inputs], weight [outputs, inputs] -> x weight^T, [..., outputs], and its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _times_transposed(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        inputs, outputs = x.flatten(0, -2).t(), gradient.flatten(0, -2).t()  # [inputs, rows], [outputs, rows]
        # The first operand is copied, since its rows do not lie together: let it be the smaller one.
        if len(inputs) < len(outputs):
            of_weight = _times_transposed(inputs, outputs).t()
        else:
            of_weight = _times_transposed(outputs, inputs)
        return _times_transposed(gradient, weight.t()), of_weight


def _times_transposed(a: Tensor, b: Tensor) -> Tensor:
    """a [..., n], b [m, n] -> a b^T, [..., m]."""
    product: Tensor = _for_compilation(a, b) if torch.compiler.is_compiling() else _by_onednn(a, b)
    return product


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    return product


@torch.library.custom_op("replay::times_transposed", mutates_args=())
def _for_compilation(a: Tensor, b: Tensor) -> Tensor:
    """The same as one closed operator: torch.compile would take ``b`` for a constant, and refuse."""
    return _by_onednn(a, b)


@_for_compilation.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((*a.shape[:-1], len(b)))
