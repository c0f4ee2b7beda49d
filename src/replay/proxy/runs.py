"""A run of the proxy in a folder: its config, its event files, its checkpoints; stopped early when beyond hope."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from replay.proxy import parameters
from replay.proxy.data import entropy_floor
from replay.proxy.runtime import runtime_restored
from replay.proxy.telemetry import Clock, EventFileLog, MegatronLog
from replay.proxy.training import Training

HOPELESS_STEPS = 50
"""A run whose loss has not been finite for so many steps in a row, or none of which made an update, is given up."""


@dataclass(frozen=True)
class RunSummary:
    """How a run went. ``ended``: "completed", or why it was given up. ``loss``: mean of the last 20 steps, nats."""

    folder: str
    first_step: int
    last_step: int
    ended: str
    loss: float
    held_out_loss: float
    entropy_floor: float | None
    parameters: int
    tokens: int
    seconds: float
    checkpoint: str


@runtime_restored()
def train(
    training: Training,
    folder: str | Path,
    *,
    checkpoint_every: int = 0,
    megatron_log: bool = False,
    give_up: bool = True,
    clock: Clock = time.time,
    progress: Callable[[dict[str, float], int], None] | None = None,
) -> RunSummary:
    """Train to the config's last step, writing ``folder``/run.json, event files, and checkpoints/step-<number>.

    The last step's checkpoint is always written. ``progress`` is called with each step's signals and number.
    How the process computes is afterwards as it was before (:mod:`replay.proxy.runtime`).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write_metadata(training, folder)
    first_step, started, losses, lame, ended = training.step + 1, time.perf_counter(), [], 0, "completed"
    with contextlib.ExitStack() as logs:
        events = logs.enter_context(EventFileLog(folder, clock=clock))
        text = None
        if megatron_log:
            text = logs.enter_context(MegatronLog(folder / "log.txt", steps=training.config.steps, clock=clock))
        while training.step < training.config.steps:
            before = time.perf_counter()
            signals = training.advance()
            signals["step_seconds"] = time.perf_counter() - before
            events.log(training.step, signals)
            if text is not None:
                text.log(training.step, signals)
            if progress is not None:
                progress(signals, training.step)
            loss = signals.get("loss", math.nan)
            losses.append(loss)
            deliberate = training.step in training.skipped_steps
            lame = 0 if deliberate or (math.isfinite(loss) and not signals["skipped_steps"]) else lame + 1
            if give_up and lame >= HOPELESS_STEPS:
                ended = f"given up: {lame} steps in a row without a finite loss or without an update"
                break
            if checkpoint_every and training.step % checkpoint_every == 0:
                training.save(_checkpoint_folder(folder, training.step))
    last = _checkpoint_folder(folder, training.step)
    training.save(last)
    return RunSummary(
        folder=str(folder),
        first_step=first_step,
        last_step=training.step,
        ended=ended,
        loss=sum(losses[-20:]) / max(1, len(losses[-20:])),
        held_out_loss=training.evaluate(),
        entropy_floor=entropy_floor(training.config),
        parameters=parameters.parameter_count(training.config.model),
        tokens=training.tokens,
        seconds=time.perf_counter() - started,
        checkpoint=str(last),
    )


def _checkpoint_folder(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:07d}"


def _write_metadata(training: Training, folder: Path) -> None:
    config = training.config
    metadata = {
        "config": config.to_dict(),
        "config_hash": config.content_hash(),
        "parameters": parameters.parameter_count(config.model),
        "flops_per_step": parameters.flops_per_sequence(config.model, config.model.context) * config.data.batch_size,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }
    (folder / "run.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n")


@dataclass(frozen=True)
class Forgetting:
    """What leaving out a part of a checkpoint does, by steps behind the resume.

    ``whole``, ``without``: held-out loss after each step, nats, with everything resumed and without the part.
    """

    part: str
    step: int
    whole: list[float]
    without: list[float]

    @property
    def peak_excess(self) -> float:
        """Largest difference."""
        return max((b - a for a, b in zip(self.whole, self.without, strict=True)), default=0.0)

    @property
    def end_excess(self) -> float:
        """Difference at the last step."""
        return self.without[-1] - self.whole[-1] if self.whole else 0.0


@runtime_restored()
def forgetting(folder: str | Path, part: str, steps: int = 50) -> Forgetting:
    """Resume a checkpoint twice, with all of it and without one part, and compare held-out losses.

    Raises:
        CheckpointError: the checkpoint cannot be read, or has no such part.
    """
    curves: list[list[float]] = []
    step = 0
    for left_out in ((), (part,)):
        training = Training.resume(folder, without=left_out)
        step = training.step
        curve = []
        for _ in range(steps):
            training.advance()
            curve.append(training.evaluate())
        curves.append(curve)
    return Forgetting(part, step, *curves)
