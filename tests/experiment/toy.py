"""A failure of seconds: a tiny model that copies, and one batch of noise.  Nothing about it is typical."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replay.experiment import Arm, Noticed, Scenario
from replay.experiment.interventions import GradClipChange, Rollback, SkipBatches
from replay.proxy.config import DataConfig, ModelConfig, OptimizerConfig, ProxyConfig, ScheduleConfig
from replay.proxy.failures import Case, odd_batch

ONSET = 30


def toy_case(seed: int, onset: int = ONSET) -> Case:
    config = ProxyConfig(
        seed=seed,
        steps=60,
        model=ModelConfig(vocabulary=8, context=8, width=8, depth=1, heads=2),
        data=DataConfig(batch_size=4),
        optimizer=OptimizerConfig(weight_decay=0.1),
        schedule=ScheduleConfig(learning_rate=1e-2, warmup_steps=5),
    )
    return Case(odd_batch(config, onset, share=1.0), config, onset)


@dataclass(frozen=True)
class ToyFailure:
    name: str = "toy"
    case: Callable[..., Case] = toy_case


TOY = ToyFailure()


def scenario(**changes: object) -> Scenario:
    back = Rollback(step=-10)
    settings: dict[str, object] = {
        "name": "toy",
        "failure": TOY,
        "noticed": Noticed(after_onset=3),
        "horizon": 8,
        "held_out_sequences": 4,
        "arms": (
            Arm(name="rollback+skip_batches", interventions=(back, SkipBatches(step=-9, step_end=3))),
            Arm(name="grad_clip_change", interventions=(GradClipChange(after=0.01),)),
            Arm(name="perturbed", interventions=(back,), perturbation=1e-6, control=True),
        ),
    }
    return Scenario(**(settings | changes))  # type: ignore[arg-type]
