"""The proxy's model: a decoder-only transformer, as functions on named tensors.

Shapes: B batch, T time, D width, H query heads, G key and value heads, K head width, F feed-forward width, V
vocabulary, L layers. A model is a dictionary from names to tensors (:mod:`replay.proxy.parameters`); :func:`forward` is
the whole of it.

What each knob computes, and whose it is: layer norm before each branch (GPT-2), after it (Vaswani et al. 2017) or
DeepNorm (Wang et al. 2022, or with GLM-130B's factors); RMSNorm (Zhang & Sennrich 2019); rotary positions (Su et al.
2021), ALiBi (Press et al. 2022; BLOOM), learned or sinusoidal ones; GELU, SiLU, ReLU, squared ReLU (So et al. 2021),
SwiGLU (Shazeer 2020; PaLM), GeGLU (GLM-130B); parallel layers (Wang & Komatsuzaki 2021; PaLM); multi-query and
grouped-query attention (Shazeer 2019; Ainslie et al. 2023); QK-norm (Dehghani et al. 2023); z-loss (PaLM section 5);
the shrunk embedding gradient (GLM-130B, on training stability); layer norm after the embedding (BLOOM); tied
embeddings.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from torch import Tensor

from replay.proxy.config import ModelConfig
from replay.proxy.linear import linear_map
from replay.proxy.parameters import DEEPNORM, deepnorm_factors, rotary_angles, sinusoids

Parameters = Mapping[str, Tensor]


# -- Parts -----------------------------------------------------------------------------------------------------------


def linear(x: Tensor, name: str, p: Parameters) -> Tensor:
    """[..., inputs] -> [..., outputs]."""
    return linear_map(x, p[f"{name}.weight"], p.get(f"{name}.bias"))


def norm(x: Tensor, name: str, p: Parameters, config: ModelConfig) -> Tensor:
    """[..., D] -> [..., D]: layer norm, or RMSNorm."""
    gain = p[f"{name}.gain"]
    if config.norm == "rmsnorm":
        return F.rms_norm(x, gain.shape, gain, 1e-6)
    return F.layer_norm(x, gain.shape, gain, p.get(f"{name}.bias"))


@functools.lru_cache(maxsize=16)
def _rotation(length: int, width: int) -> tuple[Tensor, Tensor]:
    angles = rotary_angles(length, width)
    return angles.cos(), angles.sin()


def rotate(x: Tensor) -> Tensor:
    """[B, heads, T, K] -> the same, each pair of coordinates turned in proportion to its position (RoPE)."""
    cos, sin = _rotation(x.shape[-2], x.shape[-1])
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).type_as(x)


@functools.lru_cache(maxsize=16)
def _attention_bias(length: int, alibi_heads: int) -> Tensor:
    """What is added to attention logits, [T queries, T keys] or [H, T, T]: -inf where the key is later than the query.

    With ALiBi also a penalty in proportion to distance, with slopes 2^(-8h/H) (Press et al. 2022 section 3).
    """
    future = torch.full((length, length), -math.inf).triu(1)
    return future + _alibi(alibi_heads, length) if alibi_heads else future


def _alibi(heads: int, length: int) -> Tensor:
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
    position = torch.arange(length, dtype=torch.float32)
    return slopes[:, None, None] * (position[None, :] - position[:, None]).clamp(max=0)


@dataclass
class Observed:
    """What a forward pass shows of itself, as tensors without gradient; one entry a layer.

    ``attention_logit_max``: largest query-key product of the batch after scaling, []. ``attention_entropy``: mean over
    heads and queries of the batch's first and last sequence, nats, []. ``activation_norm``: RMS of the residual stream
    after the layer, [].
    """

    attention_logit_max: list[Tensor] = field(default_factory=list)
    attention_entropy: list[Tensor] = field(default_factory=list)
    activation_norm: list[Tensor] = field(default_factory=list)


ENTROPY_SEQUENCES = 2
"""Sequences of a batch whose attention entropy is measured: the whole batch would cost as much as the softmax.

The first and the last, since spoilt sequences stand at the front of a batch and those of a second task at its end.
"""


def attention_logits(query: Tensor, key: Tensor, config: ModelConfig) -> Tensor:
    """Queries and keys [B x H, T, K] -> scaled products, -inf where the key is later than the query, [B x H, T, T]."""
    c, time = config, query.shape[1]
    bias = _attention_bias(time, c.heads if c.positions == "alibi" else 0)
    if bias.dim() == 3:
        bias = bias.repeat(len(query) // c.heads, 1, 1)
    if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.float16:
        # A product that overflowed to +inf must not turn a masked logit into inf - inf.
        scores = torch.bmm(query * c.head_width**-0.5, key.transpose(1, 2))
        return scores.masked_fill(bias == -math.inf, -math.inf) + bias
    return torch.baddbmm(bias, query, key.transpose(1, 2), alpha=c.head_width**-0.5)


def attention(x: Tensor, name: str, p: Parameters, config: ModelConfig, observed: Observed | None) -> Tensor:
    """Causal self-attention, [B, T, D] -> [B, T, D]."""
    c = config
    batch, time, _ = x.shape
    heads = linear(x, f"{name}.qkv", p).view(batch, time, c.heads + 2 * c.key_value_heads, c.head_width).transpose(1, 2)
    query, key, value = torch.split(heads, [c.heads, c.key_value_heads, c.key_value_heads], dim=1)  # [B, H|G|G, T, K]
    if c.qk_norm:
        query = F.layer_norm(query, (c.head_width,), p[f"{name}.query_norm.gain"])
        key = F.layer_norm(key, (c.head_width,), p[f"{name}.key_norm.gain"])
    if c.positions == "rope":
        query, key = rotate(query), rotate(key)
    if c.key_value_heads < c.heads:
        repeats = c.heads // c.key_value_heads
        key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    query, key, value = (part.reshape(batch * c.heads, time, c.head_width) for part in (query, key, value))
    scores = attention_logits(query, key, c)  # [B x H, T, T]
    weights = scores.softmax(dim=-1)
    if observed is not None:
        observed.attention_logit_max.append(scores.detach().amax())
        some = weights.detach().view(batch, c.heads, time, time)[:: max(1, batch - 1)].float()
        observed.attention_entropy.append(_mean_entropy(some))
    mixed = torch.bmm(weights.type_as(value), value).view(batch, c.heads, time, c.head_width)
    mixed = mixed.transpose(1, 2).reshape(batch, time, c.width)
    return linear(mixed, f"{name}.output", p)


def _mean_entropy(weights: Tensor) -> Tensor:
    """Rows [..., T] that sum to 1 -> their mean entropy in nats, []."""
    # Half the time of xlogy, and the same: what is too small to be a normal number adds nothing.
    logarithms = weights.clamp(min=torch.finfo(torch.float32).tiny).log()
    return -(weights * logarithms).sum(dim=-1).mean()


def mlp(x: Tensor, name: str, p: Parameters, config: ModelConfig) -> Tensor:
    """Feed-forward layer, [B, T, D] -> [B, T, F] -> [B, T, D]; the gated ones multiply two inner layers."""
    hidden = linear(x, f"{name}.input", p)
    match config.activation:
        case "gelu":
            hidden = F.gelu(hidden)
        case "relu":
            hidden = F.relu(hidden)
        case "squared_relu":
            hidden = F.relu(hidden).square()
        case "silu":
            hidden = F.silu(hidden)
        case "swiglu":
            gate, hidden = hidden.chunk(2, dim=-1)
            hidden = F.silu(gate) * hidden
        case "geglu":
            gate, hidden = hidden.chunk(2, dim=-1)
            hidden = F.gelu(gate) * hidden
    return linear(hidden, f"{name}.output", p)


def block(x: Tensor, name: str, p: Parameters, config: ModelConfig, observed: Observed | None) -> Tensor:
    """One layer, [B, T, D] -> [B, T, D]: where the norms stand is what the placements differ in."""
    c, first, second = config, f"{name}.attention", f"{name}.mlp"
    if c.parallel_layers:
        y = norm(x, f"{first}.norm", p, c)
        return x + attention(y, first, p, c, observed) + mlp(y, second, p, c)
    if c.norm_placement == "pre":
        x = x + attention(norm(x, f"{first}.norm", p, c), first, p, c, observed)
        return x + mlp(norm(x, f"{second}.norm", p, c), second, p, c)
    alpha = deepnorm_factors(c)[0] if c.norm_placement in DEEPNORM else 1.0
    x = norm(alpha * x + attention(x, first, p, c, observed), f"{first}.norm", p, c)
    return norm(alpha * x + mlp(x, second, p, c), f"{second}.norm", p, c)


def embed(tokens: Tensor, p: Parameters, config: ModelConfig, grad_scale: float) -> Tensor:
    """Tokens [B, T] -> [B, T, D]. A ``grad_scale`` below 1 lets that share of the gradient through to the tokens."""
    x = F.embedding(tokens, p["embedding.token"])
    if grad_scale != 1.0:
        x = grad_scale * x + (1.0 - grad_scale) * x.detach()
    if config.positions == "learned":
        x = x + p["embedding.position"][: tokens.shape[1]]
    elif config.positions == "sinusoidal":
        x = x + sinusoids(tokens.shape[1], config.width)
    return norm(x, "embedding.norm", p, config) if config.embedding_norm else x


# -- The whole -------------------------------------------------------------------------------------------------------


def forward(
    p: Parameters, tokens: Tensor, config: ModelConfig, observed: Observed | None = None, grad_scale: float = 1.0
) -> Tensor:
    """Tokens [B, T] -> logits [B, T, V]; what happens on the way is written into ``observed`` where one is given."""
    return transform(p, embed(tokens, p, config, grad_scale), config, observed)


def transform(p: Parameters, x: Tensor, config: ModelConfig, observed: Observed | None = None) -> Tensor:
    """Embedded tokens [B, T, D] -> logits [B, T, V]: all of :func:`forward` behind the embedding."""
    for layer in range(config.depth):
        x = block(x, f"layer{layer}", p, config, observed)
        if observed is not None:
            observed.activation_norm.append(
                torch.linalg.vector_norm(x.detach(), dtype=torch.float32) / x.numel() ** 0.5
            )
    if config.norm_placement == "pre":
        x = norm(x, "final.norm", p, config)
    logits = linear_map(x, p["embedding.token"] if config.tied_embeddings else p["final.head"])
    return logits if config.logit_scale == 1.0 else logits * config.logit_scale


@dataclass(frozen=True)
class Losses:
    """``total``: what is minimised, []; ``each``: cross-entropy of each target, nats, [B, T]; ``log_z``: [B, T]."""

    total: Tensor
    each: Tensor
    log_z: Tensor


def losses(logits: Tensor, targets: Tensor, weights: Tensor, z_loss: float = 0.0) -> Losses:
    """Mean cross-entropy over the targets that count, and z_loss times the mean square of log Z.

    ``logits`` [B, T, V], ``targets`` [B, T], ``weights`` [B, T]. log Z is the log of the sum of exp(logits); keeping it
    near 0 keeps the logits from drifting (PaLM section 5).
    """
    logits = logits.float()
    log_z = logits.logsumexp(dim=-1)
    each = log_z - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    penalised = each if z_loss == 0.0 else each + z_loss * log_z.square()
    return Losses((penalised * weights).sum() / weights.sum(), each.detach(), log_z.detach())


class Pass(NamedTuple):
    """A training step's forward pass: ``logits`` [B, T, V], their ``losses``, and what was ``observed`` on the way."""

    logits: Tensor
    losses: Losses
    observed: Observed


def training_pass(p: Parameters, x: Tensor, targets: Tensor, weights: Tensor, config: ModelConfig) -> Pass:
    """Embedded tokens [B, T, D], targets and weights [B, T] -> the step's forward pass."""
    observed = Observed()
    logits = transform(p, x, config, observed)
    return Pass(logits, losses(logits, targets, weights, config.z_loss), observed)
