"""A run of the proxy in a folder: its config, its event files, its checkpoints; stopped early when beyond hope."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch

from replay.proxy import parameters
from replay.proxy.checkpoint import MANIFEST, CheckpointError, read, write_atomically
from replay.proxy.config import ConfigError
from replay.proxy.data import batch_size_at, entropy_floor, training_batch
from replay.proxy.runtime import runtime_restored
from replay.proxy.settings import shown
from replay.proxy.telemetry import Clock, EventFileLog, MegatronLog
from replay.proxy.training import Training

METADATA = "run.json"
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class RunSummary:
    """How a run went.

    ``ended``: "completed", or why it was given up. ``loss``: mean of the last 20 steps that learned, nats.
    """

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

    The last step's checkpoint is always written. With ``give_up`` it ends before that when it is beyond hope
    (:mod:`replay.proxy.hope` says when): at the same step, wherever it was interrupted. ``progress`` is called with
    each step's signals and number. How the process computes is afterwards as it was before
    (:mod:`replay.proxy.runtime`).

    Raises:
        ConfigError: the data source cannot serve the config, or a fault names what the model has not; in general
            before anything is written.
    """
    _require_servable(training)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write_metadata(training, folder)
    first_step, started, losses = training.step + 1, time.perf_counter(), []
    with contextlib.ExitStack() as logs:
        events = logs.enter_context(EventFileLog(folder, clock=clock))
        text = None
        if megatron_log:
            text = logs.enter_context(MegatronLog(folder / "log.txt", steps=training.config.steps, clock=clock))
        while training.step < training.config.steps and not (give_up and training.hope.verdict):
            before = time.perf_counter()
            signals = training.advance()
            signals["step_seconds"] = time.perf_counter() - before
            events.log(training.step, signals)
            if text is not None:
                text.log(training.step, signals)
            if progress is not None:
                progress(signals, training.step)
            if "loss" in signals:
                losses.append(signals["loss"])
            if checkpoint_every and training.step % checkpoint_every == 0:
                # First the logs: a run that is killed and resumed from here has them of all steps up to here.
                events.settle()
                if text is not None:
                    text.settle()
                training.save(_checkpoint_folder(folder, training.step))
    last = _checkpoint_folder(folder, training.step)
    training.save(last)
    return RunSummary(
        folder=str(folder),
        first_step=first_step,
        last_step=training.step,
        ended=f"given up: {training.hope.verdict}" if give_up and training.hope.verdict else "completed",
        loss=fmean(losses[-20:]) if losses else math.nan,
        held_out_loss=training.evaluate(),
        entropy_floor=entropy_floor(training.config),
        parameters=parameters.parameter_count(training.config.model),
        tokens=training.tokens,
        seconds=time.perf_counter() - started,
        checkpoint=str(last),
    )


def _require_servable(training: Training) -> None:
    """Meet what would fail at some step before there is half a run in the folder."""
    training_batch(training.config, training.step + 1 + training.data_offset)
    sizes = {name: tensor.numel() for name, tensor in training.vector.named.items()}
    for fault in training.config.faults:
        if fault.kind != "optimizer_lost" and fault.element >= sizes.get(fault.parameter, 0):
            known = ", ".join(f"{name} ({size:,})" for name, size in sizes.items())
            raise ConfigError(
                f"faults: no element {fault.element} of a parameter {shown(fault.parameter)}; there are {known}"
            )


def _checkpoint_folder(folder: Path, step: int) -> Path:
    return folder / CHECKPOINTS / f"step-{step:07d}"


def _write_metadata(training: Training, folder: Path) -> None:
    config = training.config
    sequence = parameters.flops_per_sequence(config.model, config.model.context)
    metadata = {
        "config": config.to_dict(),
        "config_hash": config.content_hash(),
        "parameters": parameters.parameter_count(config.model),
        "flops_per_sequence": sequence,
        "flops_first_step": sequence * batch_size_at(config.data, training.step + 1 + training.data_offset),
        "flops_last_step": sequence * batch_size_at(config.data, config.steps + training.data_offset),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }
    write_atomically(folder / METADATA, (json.dumps(metadata, indent=1, sort_keys=True) + "\n").encode())


def holds_run(folder: Path) -> bool:
    """Whether a folder holds what :func:`train` writes, which another run would be mixed with."""
    return (folder / METADATA).exists() or any(folder.glob("events.out.tfevents.*")) or (folder / CHECKPOINTS).exists()


def last_checkpoint(folder: Path) -> Path:
    """The checkpoint itself where the folder is one, else the one of the highest step of the run that it holds."""
    found = _by_step(folder / CHECKPOINTS)
    return folder if (folder / MANIFEST).exists() or not found else found[-1]


def _by_step(folder: Path) -> list[Path]:
    found = [path.parent for path in folder.glob(f"step-*/{MANIFEST}")]
    return sorted(found, key=lambda path: (len(path.name), path))


@contextlib.contextmanager
def naming_another(folder: Path) -> Iterator[None]:
    """Where a run's checkpoint proves to be damaged, name the last one before it that is whole.

    Raises:
        CheckpointError: as the body raised it, with that name where there is such a one.
    """
    try:
        yield
    except CheckpointError as error:
        known = _by_step(folder.parent)
        earlier = reversed(known[: known.index(folder)] if folder in known else [])
        if _is_whole(folder) or (another := next(filter(_is_whole, earlier), None)) is None:
            raise
        raise CheckpointError(f"{error}; the last whole one before it is {another}") from error


def _is_whole(folder: Path) -> bool:
    try:
        read(folder)
    except CheckpointError:
        return False
    return True


def made_otherwise(folder: Path, threads: int) -> str:
    """What else decides the bits of a run and was other where a checkpoint was made; nothing where all is the same."""
    made_with = json.loads((folder / MANIFEST).read_bytes()).get("made_with")
    if not isinstance(made_with, dict):
        return ""
    now = {"torch": torch.__version__, "threads": threads}
    return " and ".join(
        f"with {name} {shown(made_with[name])}, not {now[name]!r}"
        for name in now
        if made_with.get(name, now[name]) != now[name]
    )


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
