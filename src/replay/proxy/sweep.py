"""Sweeps: the learning rate with and without a cure, and the choices that PaLM's authors weighed, one at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from replay.proxy import parameters
from replay.proxy.config import ProxyConfig
from replay.proxy.pool import run_all
from replay.proxy.recipes import language_task
from replay.proxy.runtime import runtime_restored
from replay.proxy.training import Training

LEARNING_RATES = (3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
VARIANTS: dict[str, dict[str, object]] = {
    "plain": {},
    "QK-norm": {"model__qk_norm": True},
    "z-loss 1e-4": {"model__z_loss": 1e-4},
}
"""What the learning rate is swept with: nothing, and the two cures of Wortsman et al. 2023."""

SWITCHES: dict[str, dict[str, object]] = {
    "base (GELU, serial, multi-head, learned positions)": {},
    "SwiGLU, hidden 4 x width": {"model__activation": "swiglu"},
    "SwiGLU, hidden 8/3 x width (as many parameters)": {"model__activation": "swiglu", "model__hidden": 85},
    "parallel layers": {"model__parallel_layers": True},
    "multi-query attention": {"model__kv_heads": 1},
    "RoPE": {"model__positions": "rope"},
    "with biases (PaLM has none, nor has the base)": {"model__biases": True},
    "tied embeddings N(0, 1), logits / sqrt(width)": {
        "model__tied_embeddings": True,
        "model__embedding_init_std": 1.0,
        "model__logit_scale": 32**-0.5,
    },
    "fan-in initialisation": {"model__init": "fan_in"},
    "z-loss 1e-4": {"model__z_loss": 1e-4},
    "Adafactor, decay by lr^2, clip 1, lr 0.01 / sqrt": {
        "optimizer__name": "adafactor",
        "optimizer__beta2_power": 0.8,
        "optimizer__parameter_scaling": True,
        "optimizer__grad_clip": 1.0,
        "optimizer__weight_decay": 1.0,
        "optimizer__decay_scaling": "learning_rate_squared",
        "schedule__name": "inverse_sqrt",
        "schedule__decay_start": 100,
    },
}
"""PaLM's choices (sections 2 and 5), one at a time; as to biases the base makes PaLM's choice, and the row undoes it.

PaLM's learning rate fell behind step 10,000, here it does behind step 100.
"""


@dataclass(frozen=True)
class SweepRow:
    """One run: ``loss`` is the mean of the last 20 steps, nats; ``parameters`` and ``seconds_per_step`` as they are."""

    variant: str
    learning_rate: float
    seed: int
    loss: float
    attention_logit_max: float
    log_z: float
    parameters: int
    seconds_per_step: float


@runtime_restored()
def run_row(variant: str, config: ProxyConfig) -> SweepRow:
    """Train one config to its end; early, when its loss is no number any more."""
    training = Training.start(config)
    started = time.perf_counter()
    losses, logits, log_z = [], [], 0.0
    while training.step < config.steps:
        signals = training.advance()
        losses.append(signals["loss"])
        logits.append(signals["attention_logit_max"])
        log_z = signals["log_z"]
        if not math.isfinite(losses[-1]) and config.precision.mode != "fp16":
            break
    return SweepRow(
        variant=variant,
        learning_rate=config.schedule.learning_rate,
        seed=config.seed,
        loss=float(np.mean(losses[-20:])),
        attention_logit_max=float(np.nanmax(logits)),
        log_z=log_z,
        parameters=parameters.parameter_count(config.model),
        seconds_per_step=(time.perf_counter() - started) / training.step,
    )


def learning_rate_sweep(
    variants: Mapping[str, Mapping[str, object]] = VARIANTS,
    learning_rates: Sequence[float] = LEARNING_RATES,
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 400,
    jobs: int = 1,
) -> Iterator[SweepRow]:
    """Train every variant at every learning rate over seeds, on the word source, in so many processes."""
    tasks = [
        (variant, language_task(seed, learning_rate=rate, steps=steps).replace(**settings))
        for variant, settings in variants.items()
        for rate in learning_rates
        for seed in seeds
    ]
    return run_all(run_row, tasks, jobs)


def palm_switches(seeds: Sequence[int] = (0, 1, 2), steps: int = 400, jobs: int = 1) -> Iterator[SweepRow]:
    """Train PaLM's choices one at a time against the base, at learning rate 0.01, in so many processes."""
    tasks = [
        (variant, language_task(seed, learning_rate=0.01, steps=steps).replace(**settings))
        for variant, settings in SWITCHES.items()
        for seed in seeds
    ]
    return run_all(run_row, tasks, jobs)


INITIAL_LOSS = math.log(language_task(0, learning_rate=0.01).model.vocabulary)
"""The loss at the start of a sweep's runs, nats: all symbols are equally likely."""


def learning_rate_sensitivity(rows: Sequence[SweepRow], initial_loss: float = INITIAL_LOSS) -> dict[str, list[float]]:
    """How much is lost, on average, by a learning rate that is not the best: for each variant, one value a seed.

    Wortsman et al. 2023 section 2.2: the mean over the swept rates of min(loss, loss at the start), less the best loss
    of any of them. A run without a finite loss counts as the start.
    """
    by_seed: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        loss = row.loss if math.isfinite(row.loss) else initial_loss
        by_seed.setdefault(row.variant, {}).setdefault(row.seed, []).append(min(loss, initial_loss))
    return {
        variant: [float(np.mean(losses) - min(losses)) for losses in seeds.values()]
        for variant, seeds in by_seed.items()
    }


def mean_rows(rows: Sequence[SweepRow]) -> list[dict[str, object]]:
    """Rows averaged over seeds, in their order; ``spread`` is the standard deviation of the loss."""
    groups: dict[tuple[str, float], list[SweepRow]] = {}
    for row in rows:
        groups.setdefault((row.variant, row.learning_rate), []).append(row)
    return [
        {
            "variant": variant,
            "learning_rate": rate,
            "seeds": len(group),
            "loss": float(np.mean([row.loss for row in group])),
            "spread": float(np.std([row.loss for row in group])),
            "attention_logit_max": float(np.mean([row.attention_logit_max for row in group])),
            "parameters": group[0].parameters,
            "ms_per_step": 1000 * float(np.mean([row.seconds_per_step for row in group])),
        }
        for (variant, rate), group in groups.items()
    ]
