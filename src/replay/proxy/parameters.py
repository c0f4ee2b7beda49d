"""The proxy's parameters: their names, shapes and number, the arithmetic they stand for, and what they start as."""

from __future__ import annotations

import math
import zlib

import torch
from torch import Tensor

from replay.proxy.config import ModelConfig
from replay.proxy.streams import Purpose, generator

GATED = ("swiglu", "geglu")
"""Activations that multiply two inner layers."""


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters, in the order in which they are used. Matrices are [outputs, inputs]."""
    c, width, head = config, config.width, config.head_width
    gated = c.activation in GATED
    shapes: dict[str, tuple[int, ...]] = {"embedding.token": (c.vocabulary, width)}
    if c.positions == "learned":
        shapes["embedding.position"] = (c.context, width)
    if c.embedding_norm:
        shapes |= _norm_shapes("embedding.norm", width, c)
    for layer in range(c.depth):
        name = f"layer{layer}"
        shapes |= _norm_shapes(f"{name}.attention.norm", width, c)
        shapes |= _linear_shapes(f"{name}.attention.qkv", (c.heads + 2 * c.key_value_heads) * head, width, c)
        if c.qk_norm:
            shapes[f"{name}.attention.query_norm.gain"] = (head,)
            shapes[f"{name}.attention.key_norm.gain"] = (head,)
        shapes |= _linear_shapes(f"{name}.attention.output", width, width, c)
        if not c.parallel_layers:
            shapes |= _norm_shapes(f"{name}.mlp.norm", width, c)
        shapes |= _linear_shapes(f"{name}.mlp.input", (2 if gated else 1) * c.hidden_width, width, c)
        shapes |= _linear_shapes(f"{name}.mlp.output", width, c.hidden_width, c)
    if c.norm_placement == "pre":
        shapes |= _norm_shapes("final.norm", width, c)
    if not c.tied_embeddings:
        shapes["final.head"] = (c.vocabulary, width)
    return shapes


def _norm_shapes(name: str, width: int, config: ModelConfig) -> dict[str, tuple[int, ...]]:
    gain: dict[str, tuple[int, ...]] = {f"{name}.gain": (width,)}
    return gain | ({f"{name}.bias": (width,)} if config.biases else {})


def _linear_shapes(name: str, outputs: int, inputs: int, config: ModelConfig) -> dict[str, tuple[int, ...]]:
    weight: dict[str, tuple[int, ...]] = {f"{name}.weight": (outputs, inputs)}
    return weight | ({f"{name}.bias": (outputs,)} if config.biases else {})


def parameter_count(config: ModelConfig) -> int:
    """Exact number of parameters."""
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def flops_per_sequence(config: ModelConfig, length: int) -> int:
    """Floating-point operations of the matrix products of one forward and backward pass over [length] tokens.

    2 a multiply-add; the backward pass costs twice the forward one. All of the attention matrix counts, also the half
    that the causal mask hides, since the proxy computes it.
    """
    shapes = parameter_shapes(config)
    weights = sum(math.prod(shape) for name, shape in shapes.items() if name.endswith(".weight"))
    head = config.vocabulary * config.width
    attention = 2 * config.depth * config.heads * config.head_width * length
    return 3 * 2 * length * (weights + head + attention)


def initial_parameters(config: ModelConfig, seed: int) -> dict[str, Tensor]:
    """Fresh parameters, float32; each depends on the seed and its own name alone, whatever else the model has."""
    return {name: _initial(name, shape, config, seed) for name, shape in parameter_shapes(config).items()}


def _initial(name: str, shape: tuple[int, ...], config: ModelConfig, seed: int) -> Tensor:
    if name.endswith("gain"):
        return torch.ones(shape)
    if name.endswith("bias"):
        return torch.zeros(shape)
    if name == "embedding.position" and config.position_init == "sinusoidal":
        return sinusoids(*shape).clone()
    random = generator(seed, Purpose.INITIAL_WEIGHTS, zlib.crc32(name.encode()))
    weight = torch.from_numpy(random.standard_normal(shape, dtype="float32"))
    return weight * _initial_std(name, shape, config)


def _initial_std(name: str, shape: tuple[int, ...], config: ModelConfig) -> float | Tensor:
    """Standard deviation of a matrix, or of each of its rows, [outputs, 1]: DeepNorm scales values, but not queries."""
    if name == "embedding.token":
        return config.embedding_init_std
    if name == "final.head":
        return config.output_init_std
    std = _plain_std(name, shape, config)
    writes = name.endswith(("attention.output.weight", "mlp.output.weight"))
    if config.norm_placement in DEEPNORM:
        _, beta = deepnorm_factors(config)
        if name.endswith("qkv.weight"):
            values = config.key_value_heads * config.head_width
            scale = torch.ones(shape[0], 1)
            scale[-values:] = beta
            return std * scale
        return std * beta if ".mlp." in name or writes else std
    return std / math.sqrt(2 * config.depth) if writes and config.residual_init == "scaled" else std


def _plain_std(name: str, shape: tuple[int, ...], config: ModelConfig) -> float | Tensor:
    """Standard deviation of a weight matrix [outputs, inputs] before any scaling by depth; for "xavier" [outputs, 1].

    A matrix that holds several (queries, keys and values; gate and inner layer) starts as each of them would alone.
    """
    outputs, inputs = shape
    if config.init != "xavier":
        return inputs**-0.5 if config.init == "fan_in" else config.init_std
    if name.endswith("qkv.weight"):
        key_value = config.key_value_heads * config.head_width
        parts = [config.width, key_value, key_value]
    else:
        gated = name.endswith("mlp.input.weight") and config.activation in GATED
        parts = [outputs // 2] * 2 if gated else [outputs]
    stds = [torch.full((part, 1), math.sqrt(2 / (inputs + part))) for part in parts]
    return torch.cat(stds)


DEEPNORM = ("deepnorm", "glm_deepnorm")
"""Norm placements that widen the residual stream and narrow the initial weights by depth."""


def deepnorm_factors(config: ModelConfig) -> tuple[float, float]:
    """Factors of the residual stream (alpha) and of the initial weights (beta) of a decoder of this depth.

    Wang et al. 2022 (DeepNet) table of section 4: (2 L)^1/4 and (8 L)^-1/4. GLM-130B section 2.1: (2 L)^1/2 and
    (2 L)^-1/2. Both start from Xavier's initialisation: set ``init`` to "xavier" for it.
    """
    if config.norm_placement == "glm_deepnorm":
        return (2 * config.depth) ** 0.5, (2 * config.depth) ** -0.5
    return (2 * config.depth) ** 0.25, (8 * config.depth) ** -0.25


def sinusoids(length: int, width: int) -> Tensor:
    """Sines and cosines of positions, [length, width] (Vaswani et al. 2017 section 3.5)."""
    angles = rotary_angles(length, width)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def rotary_angles(length: int, width: int) -> Tensor:
    """Position times frequency, [length, width / 2]; frequencies fall from 1 to 1/10,000."""
    frequencies = 10_000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
