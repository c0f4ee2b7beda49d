"""The model computes what its papers say: shapes, counts, causality, and each knob against its definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from replay.proxy import ModelConfig, linear
from replay.proxy import model as proxy_model
from replay.proxy.model import Observed, forward, losses
from replay.proxy.parameters import flops_per_sequence, initial_parameters, parameter_count, parameter_shapes

SMALL = {"vocabulary": 11, "context": 8, "width": 16, "depth": 2, "heads": 4}


def tokens(batch: int = 3, time: int = 8) -> torch.Tensor:
    return torch.randint(0, 11, (batch, time), generator=torch.Generator().manual_seed(0))


KNOBS: list[dict[str, object]] = [
    {},
    {"kv_heads": 1},
    {"kv_heads": 2, "positions": "rope"},
    {"activation": "swiglu", "hidden": 24},
    {"activation": "geglu", "norm_placement": "deepnorm"},
    {"activation": "squared_relu", "norm": "rmsnorm"},
    {"positions": "alibi", "qk_norm": True},
    {"positions": "sinusoidal", "biases": True},
    {"positions": "none", "tied_embeddings": True, "logit_scale": 0.25},
    {"parallel_layers": True, "embedding_norm": True},
    {"norm_placement": "post", "residual_init": "scaled"},
]


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_no_position_sees_the_future_and_every_parameter_matters(knobs: dict[str, object]) -> None:
    config = ModelConfig(**SMALL, **knobs)  # type: ignore[arg-type]
    parameters = initial_parameters(config, seed=1)
    assert sum(tensor.numel() for tensor in parameters.values()) == parameter_count(config)
    for tensor in parameters.values():
        tensor.requires_grad_(True)
    seen = tokens()
    logits = forward(parameters, seen, config)
    assert logits.shape == (3, 8, 11)
    changed = seen.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 11
    difference = (forward(parameters, changed, config) - logits).abs().amax(dim=(0, 2))
    assert difference[:5].max() == 0
    assert difference[5] > 0
    logits.square().sum().backward()
    still = [name for name, tensor in parameters.items() if tensor.grad is None or not tensor.grad.any()]
    assert still == []


def test_known_parameter_counts() -> None:
    # GPT-2's smallest: 124,439,808 parameters, with biases, tied embeddings and learned positions.
    gpt2 = ModelConfig(vocabulary=50257, context=1024, width=768, depth=12, heads=12, biases=True, tied_embeddings=True)
    assert parameter_count(gpt2) == 124_439_808


def test_flops_are_those_of_the_matrix_products(monkeypatch: pytest.MonkeyPatch) -> None:
    # What counts them knows the products of torch alone.
    monkeypatch.setattr(linear, "ONEDNN", False)
    config = ModelConfig(**SMALL)
    parameters = initial_parameters(config, 0)
    for tensor in parameters.values():
        tensor.requires_grad_(True)
    with FlopCounterMode(display=False) as counter:
        forward(parameters, tokens(1), config).sum().backward()
    assert flops_per_sequence(config, 8) == counter.get_total_flops()


def test_initial_parameters_depend_on_seed_and_name_only() -> None:
    shallow = initial_parameters(ModelConfig(**SMALL), 3)
    deep = initial_parameters(ModelConfig(**{**SMALL, "depth": 3}), 3)
    assert all(torch.equal(tensor, deep[name]) for name, tensor in shallow.items())
    assert not torch.equal(initial_parameters(ModelConfig(**SMALL), 4)["final.head"], shallow["final.head"])


def test_initialisations_have_their_standard_deviations() -> None:
    def stds(**settings: object) -> dict[str, float]:
        config = ModelConfig(vocabulary=16, context=8, width=128, depth=8, heads=4, **settings)  # type: ignore[arg-type]
        weights = initial_parameters(config, 0)
        return {name.removeprefix("layer0."): float(w.std()) for name, w in weights.items() if "layer0" in name}

    assert stds(init="fan_in")["mlp.output.weight"] == pytest.approx(512**-0.5, rel=0.03)
    xavier = stds(init="xavier", activation="swiglu", hidden=256)
    assert xavier["attention.qkv.weight"] == pytest.approx((2 / 256) ** 0.5, rel=0.03), "as three square matrices"
    assert xavier["mlp.input.weight"] == pytest.approx((2 / 384) ** 0.5, rel=0.03), "as two of [256, 128]"
    for placement, beta in (("deepnorm", 64**-0.25), ("glm_deepnorm", 16**-0.5)):
        narrowed = stds(init="xavier", norm_placement=placement)
        assert narrowed["mlp.output.weight"] == pytest.approx(beta * (2 / 640) ** 0.5, rel=0.03)
        assert narrowed["attention.output.weight"] == pytest.approx(beta * (2 / 256) ** 0.5, rel=0.03)


def test_deepnorm_scales_values_but_not_queries_and_keys() -> None:
    config = ModelConfig(**{**SMALL, "width": 64}, norm_placement="deepnorm", init_std=1.0)
    weight = initial_parameters(config, 0)["layer0.attention.qkv.weight"]
    beta = (8 * 2) ** -0.25
    assert weight[:128].std().item() == pytest.approx(1.0, rel=0.05)
    assert weight[128:].std().item() == pytest.approx(beta, rel=0.05)


def test_rotary_products_depend_on_distance_alone() -> None:
    query, key = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(1)).expand(2, 1, 1, 10, 8)
    products = proxy_model.rotate(query) @ proxy_model.rotate(key).transpose(-2, -1)
    for distance in range(9):
        diagonal = products[0, 0].diagonal(-distance)
        assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5)


def test_alibi_penalises_distance_with_the_published_slopes() -> None:
    bias = proxy_model._attention_bias(4, 8)
    assert bias[0, 3].tolist() == [-1.5, -1.0, -0.5, 0.0]
    assert bias[7, 3, 0].item() == pytest.approx(-3 / 256)
    assert torch.isinf(bias[0, 0, 1:]).all()


def test_multi_query_attention_is_multi_head_with_equal_keys_and_values() -> None:
    one = ModelConfig(**SMALL, kv_heads=1)
    parameters = initial_parameters(one, 0)
    spread = dict(parameters)
    for layer in range(2):
        name = f"layer{layer}.attention.qkv.weight"
        query, key, value = parameters[name].split([16, 4, 4])
        spread[name] = torch.cat([query, key.repeat(4, 1), value.repeat(4, 1)])
    assert torch.allclose(
        forward(parameters, tokens(), one), forward(spread, tokens(), ModelConfig(**SMALL)), atol=1e-6
    )


def test_the_embedding_gradient_is_scaled_and_the_rest_is_not() -> None:
    config = ModelConfig(**SMALL)
    gradients = []
    for scale in (1.0, 0.1):
        parameters = {name: tensor.requires_grad_() for name, tensor in initial_parameters(config, 0).items()}
        forward(parameters, tokens(), config, grad_scale=scale).square().sum().backward()
        gradients.append({name: tensor.grad for name, tensor in parameters.items()})
    whole, scaled = gradients
    assert torch.allclose(scaled["embedding.token"], 0.1 * whole["embedding.token"], rtol=1e-4)
    assert torch.allclose(scaled["embedding.position"], whole["embedding.position"], rtol=1e-4)


def test_losses_weigh_targets_and_punish_log_z() -> None:
    logits = torch.zeros(1, 2, 4)
    logits[0, 1] = 5.0
    found = losses(logits, torch.tensor([[0, 1]]), torch.tensor([[0.0, 1.0]]), z_loss=0.1)
    log_z = 5.0 + math.log(4)
    assert found.each.tolist()[0] == pytest.approx([math.log(4)] * 2)
    assert found.total.item() == pytest.approx(math.log(4) + 0.1 * log_z**2)


def test_what_is_observed() -> None:
    config = ModelConfig(**SMALL, qk_norm=True)
    observed = Observed()
    forward(initial_parameters(config, 0), tokens(), config, observed)
    assert [len(observed.attention_logit_max), len(observed.attention_entropy), len(observed.activation_norm)] == [
        2
    ] * 3
    # Normalised queries and keys have length 2 = sqrt(4): their product over sqrt(4) is 2 at most.
    assert 0 < observed.attention_logit_max[0] <= 2.0
    most = sum(math.log(t + 1) for t in range(8)) / 8
    assert 0 < observed.attention_entropy[0] <= most + 1e-5


def test_names_tell_the_layer_and_the_part() -> None:
    assert list(parameter_shapes(ModelConfig(**{**SMALL, "depth": 1}))) == [
        "embedding.token",
        "embedding.position",
        "layer0.attention.norm.gain",
        "layer0.attention.qkv.weight",
        "layer0.attention.output.weight",
        "layer0.mlp.norm.gain",
        "layer0.mlp.input.weight",
        "layer0.mlp.output.weight",
        "final.norm.gain",
        "final.head",
    ]
