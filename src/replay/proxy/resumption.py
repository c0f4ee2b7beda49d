"""What forgetting each part of a checkpoint does, against the full resume, which does nothing.

Over seeds: a run is saved in the middle, goes on, and is resumed from the file with all of it and without each part.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.proxy.config import PrecisionConfig, ProxyConfig
from replay.proxy.pool import run_all
from replay.proxy.recipes import language_task
from replay.proxy.runtime import runtime_restored
from replay.proxy.training import PARTS, Training

FULL = "nothing"
LEFT_OUT: dict[str, tuple[str, ...]] = {FULL: (), **{part: (part,) for part in PARTS}, "all four": PARTS}
"""What is left out of a checkpoint, by name; "all four" resumes the weights alone."""


def demonstration_task(seed: int, before: int) -> ProxyConfig:
    """A run in which every part of a checkpoint at step ``before``, half way, has something to lose.

    Long second moment, a learning rate that falls by a cosine to a tenth, and a loss scale that starts far too large:
    at 2^32, as Megatron-LM's does. The scaled gradients are tested against the range of fp16.
    """
    steps = 2 * before
    return language_task(seed, learning_rate=0.03, steps=steps).replace(
        optimizer__beta2=0.999,
        schedule__name="cosine",
        schedule__minimum=0.003,
        schedule__decay_end=steps,
        precision=PrecisionConfig(mode="fp16_gradients", initial_scale=2.0**32, growth_interval=50),
    )


@dataclass(frozen=True)
class Resumed:
    """One resume.

    ``held_out``: loss on clean data after each step behind it, nats; ``before``: the same at the checkpoint.
    ``learning_rate``: of the first step. ``update_rms``: RMS over all parameters of that step's update, NaN where it
    was withheld. ``withheld``: steps that made no update, since a gradient overflowed. ``seen_twice``: batches that
    were learned from before the checkpoint, too. ``same``: the state at the end is, bit for bit, that of the run that
    was never interrupted.
    """

    left_out: str
    seed: int
    before: float
    held_out: tuple[float, ...]
    learning_rate: float
    update_rms: float
    withheld: int
    seen_twice: int
    same: bool


@runtime_restored()
def resume_each(seed: int, before: int, after: int) -> list[Resumed]:
    """Save a run at step ``before`` and go on for ``after`` steps: never interrupted, and resumed in each way."""
    training = Training.start(demonstration_task(seed, before))
    while training.step < before:
        training.advance()
    with tempfile.TemporaryDirectory() as folder:
        training.save(folder)
        held_out = training.evaluate()
        while training.step < before + after:
            training.advance()
        uninterrupted = training.fingerprint()
        return [_resume(name, seed, Path(folder), after, held_out, uninterrupted) for name in LEFT_OUT]


def _resume(name: str, seed: int, folder: Path, after: int, before: float, uninterrupted: str) -> Resumed:
    training = Training.resume(folder, without=LEFT_OUT[name])
    saved_at = training.step
    signals, held_out, batches = [], [], []
    for _ in range(after):
        signals.append(training.advance())
        held_out.append(training.evaluate())
        batches.append(training.step + training.data_offset)
    return Resumed(
        left_out=name,
        seed=seed,
        before=before,
        held_out=tuple(held_out),
        learning_rate=signals[0]["learning_rate"],
        update_rms=signals[0].get("update_rms", math.nan),
        withheld=int(sum(row["skipped_steps"] for row in signals)),
        seen_twice=sum(batch <= saved_at for batch in batches),
        same=training.fingerprint() == uninterrupted,
    )


def demonstrate(seeds: Sequence[int], before: int = 200, after: int = 60, jobs: int = 1) -> Iterator[list[Resumed]]:
    """:func:`resume_each` over seeds, in so many processes."""
    return run_all(resume_each, [(seed, before, after) for seed in seeds], jobs)


def excess(resumed: Resumed, full: Resumed) -> list[float]:
    """Held-out loss after each step less that of the full resume of the same seed, nats."""
    return [one - other for one, other in zip(resumed.held_out, full.held_out, strict=True)]
