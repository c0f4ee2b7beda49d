"""The products of linear layers: those of any other library but for rounding, and their gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from replay.proxy import linear
from replay.proxy.linear import linear_map

needs_onednn = pytest.mark.skipif(not linear.ONEDNN, reason="torch was built without oneDNN")


def operands(shape: tuple[int, ...], outputs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, weight, bias, and a gradient of the result."""
    random = torch.Generator().manual_seed(sum(shape) + outputs)
    shapes = (shape, (outputs, shape[-1]), (outputs,), (*shape[:-1], outputs))
    x, weight, bias, gradient = (torch.randn(size, generator=random) for size in shapes)
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), gradient


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("shape", "outputs"), [((16, 64, 64), 192), ((16, 64, 64), 44), ((3, 5, 7), 2), ((2, 256), 64), ((1, 1, 1), 1)]
)
def test_values_and_gradients_are_those_in_double_precision(shape: tuple[int, ...], outputs: int, biased: bool) -> None:
    x, weight, bias, gradient = operands(shape, outputs)
    result = linear_map(x, weight, bias if biased else None)
    result.backward(gradient)  # type: ignore[no-untyped-call]

    exact = [tensor.detach().double().requires_grad_() for tensor in (x, weight, bias)]
    expected = F.linear(exact[0], exact[1], exact[2] if biased else None)
    expected.backward(gradient.double())  # type: ignore[no-untyped-call]

    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-4)
    for ours, theirs in zip((x, weight, bias) if biased else (x, weight), exact, strict=False):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert ours.grad.shape == ours.shape
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-4)


@needs_onednn
def test_a_transposed_or_sliced_operand_is_read_as_it_stands() -> None:
    x, weight = torch.randn(6, 10, 8).transpose(1, 2)[::2], torch.randn(12, 5).t()[:, ::2].repeat(1, 2)[:, :10]
    torch.testing.assert_close(linear_map(x, weight), x @ weight.t())


def test_without_onednn_the_products_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "ONEDNN", False)
    x, weight, bias, gradient = operands((16, 64, 64), 192)
    result = linear_map(x, weight, bias)
    result.backward(gradient)  # type: ignore[no-untyped-call]
    assert torch.equal(result, F.linear(x, weight, bias))
    assert weight.grad is not None
    assert weight.grad.shape == weight.shape


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_under_autocast_the_products_have_its_precision(precision: torch.dtype) -> None:
    x, weight, bias, _ = operands((4, 8, 16), 24)
    with torch.autocast("cpu", precision):
        result = linear_map(x, weight, bias)
    assert result.dtype == precision
    with torch.autocast("cpu", precision):
        assert torch.equal(result, F.linear(x, weight, bias))


def test_other_precisions_are_left_to_torch() -> None:
    x, weight, _, _ = operands((4, 8, 16), 24)
    assert torch.equal(linear_map(x.double(), weight.double()), F.linear(x.double(), weight.double()))


def test_what_is_not_finite_stays_so() -> None:
    x, weight = torch.ones(2, 4), torch.ones(3, 4)
    x[0, 1], weight[2, 3] = float("nan"), float("inf")
    result = linear_map(x, weight)
    assert result[0].isnan().all()
    assert result[1].tolist() == [4.0, 4.0, float("inf")]
