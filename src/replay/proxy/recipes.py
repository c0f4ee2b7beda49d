"""The runs that the catalogue, the sweeps and the demonstrations start from."""

from __future__ import annotations

import functools

from replay.errors import ReplayError
from replay.proxy.config import DataConfig, Defect, ModelConfig, OptimizerConfig, ProxyConfig, ScheduleConfig
from replay.proxy.training import Training

CONVERGED_LOSS = 0.06
"""The copy task counts as learned at the first clean batch with a loss below this."""


class NotLearnedError(ReplayError, RuntimeError):
    """A run that was to be disturbed once it has learned its task, and has not learned it."""


def copy_task(seed: int, *, steps: int = 1000) -> ProxyConfig:
    """The copy task at which the proxy is fragile once it has converged: strong weight decay, slow second moment."""
    return ProxyConfig(
        seed=seed,
        steps=steps,
        model=ModelConfig(vocabulary=16, context=16, width=32, depth=2, heads=4),
        data=DataConfig(source="copy", batch_size=32),
        optimizer=OptimizerConfig(weight_decay=0.3, beta1=0.9, beta2=0.999),
        schedule=ScheduleConfig(learning_rate=3e-3, warmup_steps=20),
    )


def language_task(seed: int, *, learning_rate: float, steps: int = 300) -> ProxyConfig:
    """Text of the word source, context 32: two layers of width 32, about 28,000 parameters, 3 to 4 ms a step."""
    return ProxyConfig(
        seed=seed,
        steps=steps,
        model=ModelConfig(vocabulary=44, context=32, width=32, depth=2, heads=4),
        data=DataConfig(source="zipf", batch_size=16),
        optimizer=OptimizerConfig(weight_decay=0.1, beta1=0.9, beta2=0.95),
        schedule=ScheduleConfig(learning_rate=learning_rate, warmup_steps=20),
    )


@functools.lru_cache(maxsize=64)
def converged_step(config: ProxyConfig, limit: int = 1000) -> int:
    """The first step whose loss is below :data:`CONVERGED_LOSS`.

    Raises:
        NotLearnedError: it does not come within ``limit`` steps.
    """
    training = Training.start(config)
    while training.step < limit:
        if training.advance()["loss"] < CONVERGED_LOSS:
            return training.step
    raise NotLearnedError(f"seed {config.seed}: the copy task was not learned within {limit} steps; try another seed")


def odd_batch(config: ProxyConfig, batch: int, share: float = 0.5) -> ProxyConfig:
    """The config with one odd batch: that share of its sequences is random."""
    defect = Defect(kind="random", first=batch, last=batch, share=share)
    return config.replace(data__defects=(*config.data.defects, defect))
