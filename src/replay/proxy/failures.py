"""The catalogue of failures: ways to make the proxy go wrong that are known from large runs.

Each names its source, what goes wrong in two lines, the settings that bring it about, what to expect and which signal
leads. ``replay proxy failures verify`` trains each with and without its cause and writes what came of it into
docs/failures.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replay.proxy.config import DataConfig, Defect, ModelConfig, OptimizerConfig, ProxyConfig, ScheduleConfig
from replay.proxy.training import Training


@dataclass(frozen=True)
class Case:
    """One seed of a failure: ``config`` goes wrong at step ``moment``, ``control`` is the same run without the cause.

    The two are identical, bit for bit, before ``moment``; where the cause lasts from the first step, ``moment`` is 1.
    """

    config: ProxyConfig
    control: ProxyConfig
    moment: int


@dataclass(frozen=True)
class Failure:
    """One entry of the catalogue; ``case`` makes its configs for a seed (and may train a little to find its moment)."""

    name: str
    title: str
    source: str
    mechanism: str
    signature: str
    leading_signal: str
    case: Callable[[int], Case]


CONVERGED_LOSS = 0.06
"""The copy task counts as learned at the first clean batch with a loss below this."""


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


def converged_step(config: ProxyConfig, limit: int = 1000) -> int:
    """The first step whose loss is below :data:`CONVERGED_LOSS`.

    Raises:
        RuntimeError: it does not come within ``limit`` steps.
    """
    training = Training.start(config)
    while training.step < limit:
        if training.advance()["loss"] < CONVERGED_LOSS:
            return training.step
    raise RuntimeError(f"seed {config.seed}: the copy task was not learned within {limit} steps")


def odd_batch(config: ProxyConfig, batch: int, share: float = 0.5) -> ProxyConfig:
    """The config with one odd batch: that share of its sequences is random."""
    defect = Defect(kind="random", first=batch, last=batch, share=share)
    return config.replace(data__defects=(*config.data.defects, defect))


ODD_BATCH_DELAY = 500
"""Steps from convergence to the odd batch: at 20 it does little harm, at 500 a lot."""


def data_and_state(seed: int, delay: int = ODD_BATCH_DELAY, steps_after: int = 120) -> Case:
    """The odd batch at ``delay`` steps behind convergence, and the run that never sees it."""
    control = copy_task(seed)
    moment = converged_step(control) + delay
    control = control.replace(steps=moment + steps_after)
    return Case(odd_batch(control, moment), control, moment)


CATALOGUE: dict[str, Failure] = {
    failure.name: failure
    for failure in (
        Failure(
            name="data-and-state",
            title="Batches that harm only from some states",
            source="PaLM section 5.1: spikes came of particular batches meeting a particular state; the same batches "
            "did no harm from an earlier checkpoint",
            mechanism="Long after convergence the weights and the second moment are used to tiny gradients: one odd "
            "batch then moves the weights far, as it does not in a younger model.",
            signature="the clean held-out loss rises by more than 0.5 nats within 50 steps and falls back after them",
            leading_signal="second_moment_lag",
            case=data_and_state,
        ),
    )
}


def get(name: str) -> Failure:
    """The failure of a name.

    Raises:
        KeyError: there is none; the message lists those that there are.
    """
    if name not in CATALOGUE:
        raise KeyError(f"no failure {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]
