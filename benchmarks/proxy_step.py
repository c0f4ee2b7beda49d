"""Speed of a proxy step: against the core's own bound, against a plain eager loop, and with large logits.

Run: ``python benchmarks/proxy_step.py [--quick] [--docs docs/proxy-speed.md]``. All figures are ratios taken in one
run, alternating, on one thread, by CPU time, the best of several rounds; so that a busy machine slows all alike.

1. A step with all telemetry, written into an event file, over the time that its matrix products would take at the
   speed of one large product, by whichever of torch's libraries is faster; and how much of it a step without any
   telemetry saves.
2. The same step, as written, compiled, and with its products by the library that the plain loop uses, against a loop
   in the manner of nanoGPT: modules, cross-entropy, AdamW by torch, the same signals, each read by itself; same
   model, same data. Attention entropy is taken of as many sequences as the proxy takes, and for comparison of the
   whole batch, as a loop that spares nothing would have it.
3. The step with attention logits in the thousands against the step as initialised.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from replay.proxy import (
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    ProxyConfig,
    ScheduleConfig,
    data,
    linear,
    model,
    observation,
    parameters,
)
from replay.proxy.linear import linear_map
from replay.proxy.optimisation import Optimizer
from replay.proxy.tables import joined, made_with, opening, table, write_page
from replay.proxy.telemetry import EventFileLog
from replay.proxy.training import Training, configure_runtime

CONFIG = ProxyConfig(
    steps=10_000,
    model=ModelConfig(vocabulary=44, context=64, width=64, depth=4, heads=4),
    data=DataConfig(source="zipf", batch_size=16),
    optimizer=OptimizerConfig(beta2=0.95),
    schedule=ScheduleConfig(learning_rate=0.01),
)
"""The model of the trial: 207k parameters, 1.43 GFLOP a step."""
QUICK, WHOLE = 5, 20
"""Rounds of a quick and of a whole measurement."""


class Attention(nn.Module):
    """Causal self-attention as most eager code writes it; keeps what is to be logged."""

    def __init__(self, width: int, heads: int, context: int, entropy_of: int) -> None:
        super().__init__()
        self.heads = heads
        self.entropy_of = entropy_of
        self.qkv, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))
        self.largest = 0.0
        self.entropy = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, width] -> the same."""
        batch, time_, width = x.shape
        query, key, value = (
            part.view(batch, time_, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        scores = query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5
        scores = scores.masked_fill(self.mask[:, :, :time_, :time_] == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        self.largest = scores.detach().max().item()
        some = weights.detach()[: self.entropy_of]
        self.entropy = torch.special.entr(some).sum(-1).mean().item()
        return self.output((weights @ value).transpose(1, 2).contiguous().view(batch, time_, width))


class Block(nn.Module):
    """Pre-norm block."""

    def __init__(self, width: int, heads: int, context: int, entropy_of: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.attention = Attention(width, heads, context, entropy_of)
        self.input, self.output = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.norm = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, width] -> the same."""
        x = x + self.attention(self.norm1(x))
        x = x + self.output(F.gelu(self.input(self.norm2(x))))
        self.norm = x.detach().pow(2).mean().sqrt().item()
        return x


class PlainTransformer(nn.Module):
    """The same model as :data:`CONFIG`, in modules."""

    def __init__(self, c: ModelConfig, entropy_of: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(c.vocabulary, c.width), nn.Embedding(c.context, c.width)
        self.blocks = nn.ModuleList(Block(c.width, c.heads, c.context, entropy_of) for _ in range(c.depth))
        self.norm, self.head = nn.LayerNorm(c.width, bias=False), nn.Linear(c.width, c.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, time] -> logits [batch, time, vocabulary]."""
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def groups_of(net: PlainTransformer) -> dict[str, list[nn.Parameter]]:
    """The parameters by the kinds of tensor of which the proxy tells signals apart."""
    groups: dict[str, list[nn.Parameter]] = {group: [] for group in observation.GROUPS}
    for name, parameter in net.named_parameters():
        if "norm" in name:
            kind = "norm"
        elif name.startswith("blocks."):
            kind = "attention" if ".attention." in name else "mlp"
        else:
            kind = "head" if name.startswith("head.") else "embedding"
        groups[kind].append(parameter)
    return groups


def norm_of(tensors: Iterable[Tensor]) -> Tensor:
    """L2 norm of all tensors together, []."""
    return torch.stack([tensor.norm() for tensor in tensors]).norm()


def plain_loop(entropy_of: int) -> Callable[[], dict[str, float]]:
    """A step of a plain eager loop that logs the proxy's signals: one ``.item()`` for each that torch computes."""
    net = PlainTransformer(CONFIG.model, entropy_of)
    assert sum(p.numel() for p in net.parameters()) == parameters.parameter_count(CONFIG.model)
    all_parameters, groups = list(net.parameters()), groups_of(net)
    blocks = [block for block in net.blocks if isinstance(block, Block)]
    size = sum(p.numel() for p in all_parameters)
    optimizer = torch.optim.AdamW(all_parameters, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    count = samples = tokens = 0

    def lag(p: nn.Parameter) -> Tensor:
        second = optimizer.state[p]["exp_avg_sq"] / (1 - 0.95**count)
        assert p.grad is not None
        squares: Tensor = (p.grad / (second.sqrt() + 1e-8)).square()
        return squares.mean().sqrt()

    def step() -> dict[str, float]:
        nonlocal count, samples, tokens
        count += 1
        batch = data.training_batch(CONFIG, count)
        logits = net(torch.from_numpy(batch.inputs))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), torch.from_numpy(batch.targets).reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(all_parameters, float("inf"))
        before = [p.detach().clone() for p in all_parameters]
        optimizer.step()
        samples += len(batch.inputs)
        tokens += batch.targets.size
        signals = {"loss": loss.item(), "grad_norm": norm.item()}
        signals["log_z"] = logits.detach().logsumexp(-1).mean().item()
        signals["output_logit_norm"] = logits.detach().pow(2).mean().sqrt().item()
        signals["embedding_grad_share"] = (net.token.weight.grad.norm() / norm).item()  # type: ignore[union-attr]
        signals["param_norm"] = norm_of(p.detach() for p in all_parameters).item()
        moved = norm_of(p.detach() - old for p, old in zip(all_parameters, before, strict=True))
        signals["update_rms"] = (moved / size**0.5).item()
        for name, members in groups.items():
            signals[f"grad_norm/{name}"] = norm_of(p.grad for p in members if p.grad is not None).item()
            signals[f"second_moment_lag/{name}"] = torch.stack([lag(p) for p in members]).max().item()
        signals["second_moment_lag"] = max(signals[f"second_moment_lag/{name}"] for name in groups)
        for i, block in enumerate(blocks):
            signals[f"attention_logit_max/layer{i}"] = block.attention.largest
            signals[f"attention_entropy/layer{i}"] = block.attention.entropy
            signals[f"activation_norm/layer{i}"] = block.norm
        signals["attention_logit_max"] = max(block.attention.largest for block in blocks)
        signals["attention_entropy"] = sum(block.attention.entropy for block in blocks) / len(blocks)
        signals["activation_norm"] = blocks[-1].norm
        signals |= {"learning_rate": 0.01, "loss_scale": 1.0, "skipped_steps": 0.0}
        signals |= {"batch_size": len(batch.inputs), "samples": samples, "tokens": tokens}
        return signals

    return step


def best_seconds(steps: dict[str, Callable[[], object]], rounds: int, repeats: int) -> dict[str, float]:
    """CPU seconds of one call of each, the best of several rounds taken in turn."""
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        step()
    for _ in range(rounds):
        for name, step in steps.items():
            started = time.process_time()
            for _ in range(repeats):
                step()
            best[name] = min(best[name], (time.process_time() - started) / repeats)
    return best


def with_large_logits() -> Training:
    """A run whose queries and keys are so large that attention logits are in the thousands."""
    training = Training.start(CONFIG.replace(schedule__learning_rate=1e-6))
    with torch.no_grad():
        for name, tensor in training.vector.named.items():
            if name.endswith("qkv.weight"):
                tensor.detach()[: 2 * CONFIG.model.width].mul_(100.0)
    return training


class Unobserved(Optimizer):
    """The optimizer without the signal that it computes on its way."""

    def lag(self, gradient: Tensor, root: Tensor) -> Tensor:  # noqa: ARG002
        """Nothing, at no cost."""
        return torch.zeros(())


def without_telemetry() -> Callable[[], object]:
    """The bare arithmetic of a step: forward, backward, update, nothing observed."""
    training = Training.start(CONFIG)
    training.optimizer = Unobserved(training.vector, CONFIG.optimizer)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        batch = data.training_batch(CONFIG, count)
        inputs, targets, weights = (torch.from_numpy(x) for x in (batch.inputs, batch.targets, batch.weights))
        logits = model.forward(training.vector.named, inputs, CONFIG.model)
        loss = model.losses(logits, targets, weights).total
        training.precision.backward(loss, training.optimizer)
        training.optimizer.rate = 0.01
        training.precision.step(training.optimizer)

    return step


def logged(training: Training, log: EventFileLog) -> Callable[[], object]:
    """A step as `replay proxy train` does it."""
    return lambda: log.log(training.step, training.advance())


def without_onednn(step: Callable[[], object]) -> Callable[[], object]:
    """The same step with its matrix products by torch's usual library."""

    def usual() -> None:
        available, linear.ONEDNN = linear.ONEDNN, False
        step()
        linear.ONEDNN = available

    return usual


@dataclass(frozen=True)
class Measured:
    """``seconds``: CPU seconds of one step of each kind, and of one product of 512 x 512 matrices under "product" (by
    oneDNN, where torch has it) and "usual product".

    ``flops``: of a step's matrix products. ``largest``: attention logit of the run with large ones.
    """

    seconds: dict[str, float]
    flops: float
    largest: float

    @property
    def over_bound(self) -> float:
        """How many times as long a step takes as its products would at the speed of one large product."""
        product = min(self.seconds["product"], self.seconds["usual product"])
        return self.seconds["proxy"] * (2 * 512**3 / product) / self.flops

    @property
    def telemetry(self) -> float:
        """Share of a step that its telemetry takes."""
        return 1 - self.seconds["bare"] / self.seconds["proxy"]

    @property
    def large_over_usual(self) -> float:
        """A step with large logits over one without."""
        return self.seconds["large"] / self.seconds["proxy"]

    def over_plain(self, ours: str, plain: str) -> float:
        """Steps per second over those of a plain loop."""
        return self.seconds[plain] / self.seconds[ours]


def measure(rounds: int, repeats: int = 5) -> Measured:
    """Take all steps in turn, so often."""
    training, large = Training.start(CONFIG), with_large_logits()
    compiled = Training.start(CONFIG.replace(compiled=True))
    largest = large.advance()["attention_logit_max"]
    usual = Training.start(CONFIG)
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    with contextlib.ExitStack() as logs:
        folder = Path(logs.enter_context(tempfile.TemporaryDirectory()))
        one, other, third, fourth = (logs.enter_context(EventFileLog(folder / name)) for name in "abcd")
        seconds = best_seconds(
            {
                "proxy": logged(training, one),
                "compiled": logged(compiled, other),
                "usual": without_onednn(logged(usual, fourth)),
                "bare": without_telemetry(),
                "plain": plain_loop(model.ENTROPY_SEQUENCES),
                "plain, whole entropy": plain_loop(CONFIG.data.batch_size),
                "large": logged(large, third),
                "product": lambda: linear_map(a, b),
                "usual product": lambda: a @ b,
            },
            rounds=rounds,
            repeats=repeats,
        )
    flops = parameters.flops_per_sequence(CONFIG.model, CONFIG.model.context) * CONFIG.data.batch_size
    return Measured(seconds, flops, largest)


def as_json(measured: Measured) -> str:
    """All figures as one JSON object."""
    return json.dumps(
        {
            "milliseconds": {name: round(1000 * value, 3) for name, value in measured.seconds.items()},
            "gflop_per_step": measured.flops / 1e9,
            "over_flop_bound": round(measured.over_bound, 2),
            "telemetry_share_of_step": round(measured.telemetry, 3),
            "steps_per_second_over_plain_loop": {
                f"{ours}, against {plain}": round(measured.over_plain(ours, plain), 2)
                for ours in ("proxy", "compiled", "usual")
                for plain in ("plain", "plain, whole entropy")
            },
            "large_logits": measured.largest,
            "large_logits_over_usual": round(measured.large_over_usual, 2),
        },
        indent=1,
    )


def page(measured: Measured, rounds: int) -> str:
    """The figures as docs/proxy-speed.md."""
    c, milliseconds = CONFIG.model, {name: f"{1000 * value:.2f}" for name, value in measured.seconds.items()}
    load = f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    lines = opening(
        "Speed of a proxy's step",
        f"python benchmarks/proxy_step.py{' --quick' if rounds == QUICK else ''} --docs docs/proxy-speed.md",
        f"{made_with()}; {platform.machine()}, {os.cpu_count()} cores, {platform.system()}{load}. All steps were taken "
        f"in one run, in turn, so that a busy machine slows all alike; CPU time, the least of {rounds} rounds.",
        f"The model: {c.depth} pre-LN layers of width {c.width}, {c.heads} heads, {CONFIG.data.batch_size} sequences "
        f"of {c.context} symbols a step; {parameters.parameter_count(c):,} parameters, {measured.flops / 1e9:.2f} "
        "GFLOP a step in matrix products. Every step but the bare one observes itself and is written into an event "
        "file; the plain loops keep theirs in memory.",
    )
    told = {
        "proxy": "the proxy, as written",
        "compiled": "the proxy, compiled",
        "usual": "the proxy, its products by torch's usual library",
        "bare": "the proxy's arithmetic, nothing observed",
        "plain": "a plain eager loop that logs the same signals",
        "plain, whole entropy": "a plain eager loop that also takes attention entropy of the whole batch",
        "large": f"the proxy, attention logits up to {measured.largest:,.0f}",
    }
    lines += ["", "## One step", ""]
    lines += table(["step", "ms of CPU time"], ([words, milliseconds[name]] for name, words in told.items()))
    lines += ["", "## What they come to", ""]
    lines += table(
        ["ratio", "value"],
        [
            ["a step with all telemetry over the bound of its matrix products", f"{measured.over_bound:.2f}"],
            ["telemetry's share of a step", f"{measured.telemetry:.1%}"],
            *(
                [f"steps per second, {told[ours]}, over {told[plain]}", f"{measured.over_plain(ours, plain):.2f}"]
                for ours in ("proxy", "compiled", "usual")
                for plain in ("plain", "plain, whole entropy")
            ),
            ["a step with large attention logits over the usual one", f"{measured.large_over_usual:.2f}"],
        ],
    )
    lines += [
        "",
        "The bound: as long as the step's matrix products would take at the speed of one product of two 512 x 512 "
        "matrices, on the same thread in the same run, by the faster of torch's two libraries: oneDNN "
        f"{milliseconds['product']} ms, the usual one {milliseconds['usual product']} ms. The proxy multiplies by "
        "oneDNN (`replay.proxy.linear`), plain torch in fp32 by the other, so part of what the proxy gains hangs on "
        "the processor: the third row of each kind has the rest. The plain loop is one in the manner of nanoGPT: "
        "modules, cross-entropy and AdamW by torch, the proxy's signals, each computed and read by itself and kept in "
        "memory.",
    ]
    return joined(lines)


def main() -> None:
    """Measure, print one JSON object, and write the page where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--docs", type=Path, help="write the figures into this file, as a page of markdown")
    options = parser.parse_args()
    configure_runtime()
    rounds = QUICK if options.quick else WHOLE
    measured = measure(rounds)
    print(as_json(measured))
    if options.docs is not None:
        write_page(options.docs, page(measured, rounds))


if __name__ == "__main__":
    main()
