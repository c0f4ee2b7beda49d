"""Training of the proxy: start, advance a step at a time, change settings, save and resume, bit for bit.

Step s (the first is 1) takes batch s + data_offset. All that a run depends on is its config, the few numbers of
:class:`Training` and its tensors; a checkpoint and a snapshot hold all of it. No state of any random generator belongs
to it: each draw is a function of the seed and what it is for (:mod:`replay.proxy.data`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import statistics
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from replay.proxy import checkpoint, data, model, observation, parameters, text
from replay.proxy.checkpoint import Checkpoint, CheckpointError
from replay.proxy.checkpoint_state import check_state, check_tensors
from replay.proxy.compilation import compiled_pass
from replay.proxy.config import ConfigError, ProxyConfig
from replay.proxy.hope import Hope
from replay.proxy.optimisation import Optimizer, ParameterVector, clip_gradient, learning_rate
from replay.proxy.precision import Precision
from replay.proxy.ramps import ramps_ended
from replay.proxy.settings import MOST_STEPS, shown
from replay.proxy.streams import Purpose, generator

PARTS = ("optimizer", "scaler", "schedule", "data")
"""Parts of a checkpoint that a resume can leave out, to see what forgetting them does."""

CHANGEABLE = {
    "learning_rate": "schedule__learning_rate",
    "min_learning_rate": "schedule__minimum",
    "schedule": "schedule",
    "rewarm_steps": "schedule__rewarm_steps",
    "beta1": "optimizer__beta1",
    "beta2": "optimizer__beta2",
    "epsilon": "optimizer__epsilon",
    "weight_decay": "optimizer__weight_decay",
    "grad_clip": "optimizer__grad_clip",
    "update_clip": "optimizer__update_clip",
    "skip_above": "optimizer__skip_above",
    "optimizer": "optimizer",
    "embedding_grad_scale": "model__embedding_grad_scale",
    "embedding_grad_ramp": "model__embedding_grad_ramp",
    "z_loss": "model__z_loss",
    "batch_size": "data__batch_size",
    "batch_ramp": "data__batch_ramp",
    "second_ramp": "data__second_ramp",
    "defects": "data__defects",
    "data": "data",
    "model": "model",
    "precision": "precision",
    "faults": "faults",
    "steps": "steps",
}
"""What :meth:`Training.change` can change in mid-run: its name, and the setting of the config."""

_NOT_OF_THE_FORWARD_PASS = ("z_loss", "embedding_grad_scale", "embedding_grad_ramp")
_OF_THE_START = (
    "init",
    "init_std",
    "embedding_init_std",
    "output_init_std",
    "position_init",
    "residual_init",
)
_SKIP_HISTORY = 128
_MOST_SKIPPED = 1_000_000


def configure_runtime(threads: int = 1) -> None:
    """Threads (their number changes the bits) and denormals flushed to zero (2.7x the speed once logits are large)."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)


class Training:
    """One run of the proxy. Make it with :meth:`start`, :meth:`resume` or :meth:`restore`.

    ``config``: what holds from here on. ``step``: steps done. ``data_offset``: step s takes batch s + data_offset.
    ``skipped_steps``: steps that are walked over without an update. ``tokens``, ``samples``: targets and sequences
    learned from so far. ``hope``: whether it is beyond hope, by all that it has done since its start.
    """

    def __init__(self, config: ProxyConfig, tensors: dict[str, Tensor]) -> None:
        configure_runtime()
        self.config = config
        self.step = 0
        self.data_offset = 0
        self.skipped_steps: set[int] = set()
        self.schedule_start = 0
        self.tokens = 0
        self.samples = 0
        self.vector = ParameterVector(tensors)
        self.optimizer = Optimizer(self.vector, config.optimizer)
        self.precision = Precision(config.precision)
        self.hope = Hope(config.model.vocabulary)
        self._norm_history: deque[float] = deque(maxlen=_SKIP_HISTORY)
        self._observer = observation.Observer(self.vector)

    # -- Making one --------------------------------------------------------------------------------------------------

    @classmethod
    def start(cls, config: ProxyConfig) -> Training:
        """A fresh run, no step done."""
        return cls(config, parameters.initial_parameters(config.model, config.seed))

    @classmethod
    def resume(cls, folder: str | Path, without: Iterable[str] = (), corpus: str | None = None) -> Training:
        """The run of a checkpoint, but for the parts that are left out (:data:`PARTS`).

        ``optimizer``: moments and step count start at zero. ``scaler``: the loss scale starts over. ``schedule``: the
        learning rate starts over with its warm-up. ``data``: the data start over with batch 1. ``corpus``: where the
        run's text is now, if it is no longer where the config says.

        Raises:
            CheckpointError: the checkpoint is missing, damaged or of another format, holds what no run can go on
                from, or there is no such part; or the corpus is not the text that the run learned from.
            ConfigError: the corpus cannot be read.
        """
        return cls.restore(checkpoint.read(folder), without=without, corpus=corpus)

    @classmethod
    def restore(cls, snapshot: Checkpoint, without: Iterable[str] = (), corpus: str | None = None) -> Training:
        """As :meth:`resume`, from a :meth:`snapshot`, which stays as it is."""
        forgotten = set(without)
        if unknown := forgotten - set(PARTS):
            raise CheckpointError(f"no part {sorted(unknown)[0]!r} in a checkpoint; there are {', '.join(PARTS)}")
        state = snapshot.state
        try:
            config = ProxyConfig.from_dict(state["config"])
            check_state(state, _SKIP_HISTORY)
            shapes = parameters.parameter_shapes(config.model)
            check_tensors(snapshot.tensors, ["model"], shapes)
            training = cls(config, {name: snapshot.tensors[f"model/{name}"] for name in shapes})
            training._load(state, snapshot.tensors, forgotten)
        except KeyError as error:
            raise CheckpointError(f"the checkpoint lacks {error.args[0]!r}; resume from another") from error
        except ConfigError as error:
            raise CheckpointError(f"the checkpoint's config: {error}") from error
        if corpus is not None:
            training.config = config.replace(data__corpus=corpus)
        if "data" not in forgotten:
            training._require_corpus(state.get("corpus_sha256"))
        return training

    def _require_corpus(self, digest: object) -> None:
        """Refuse to go on with another text than that of which a checkpoint tells the SHA-256."""
        if self._corpus_digest not in (None, digest) and digest is not None:
            raise CheckpointError(
                f"{self.config.data.corpus}: not the text that this run learned from (SHA-256 differs); put that one "
                "back, name where it is, or leave out the part 'data' to start over with the text as it is now"
            )

    @property
    def _corpus_digest(self) -> str | None:
        """SHA-256 of the text of a file, where the run learns from one."""
        where = self.config.data
        return text.corpus_digest(where.corpus) if "corpus" in (where.source, where.second_source) else None

    def _load(self, state: dict[str, Any], tensors: dict[str, Tensor], forgotten: set[str]) -> None:
        self.step = state["step"]
        self.data_offset = -self.step if "data" in forgotten else state["data_offset"]
        self.skipped_steps = set(state["skipped_steps"])
        self.schedule_start = self.step if "schedule" in forgotten else state["schedule_start"]
        self.tokens, self.samples = state["tokens"], state["samples"]
        self._norm_history.extend(state["norm_history"])
        if "hope" in state:
            self.hope.load_state_dict(state["hope"])
        if forgotten:
            self.hope.wait_anew()
        if "optimizer" not in forgotten:
            check_tensors(tensors, self.optimizer.moments, parameters.parameter_shapes(self.config.model))
            self.optimizer.updates = state["updates"]
            for moment, vector in self.optimizer.moments.items():
                for name, view in zip(self.vector.names, self.vector.views(vector), strict=True):
                    view.copy_(tensors[f"{moment}/{name}"])
        if "scaler" not in forgotten:
            self.precision.load_state_dict(state["scaler"])

    # -- Keeping one -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Checkpoint:
        """All of the run, in memory, as copies: what the run does later does not touch it."""
        vectors = {"model": self.vector.values, **self.optimizer.moments}
        tensors = {
            f"{part}/{name}": view.detach().clone()
            for part, vector in vectors.items()
            for name, view in zip(self.vector.names, self.vector.views(vector), strict=True)
        }
        state = {
            "config": self.config.to_dict(),
            "step": self.step,
            "data_offset": self.data_offset,
            "skipped_steps": sorted(self.skipped_steps),
            "schedule_start": self.schedule_start,
            "tokens": self.tokens,
            "samples": self.samples,
            "updates": self.optimizer.updates,
            "scaler": self.precision.state_dict(),
            "norm_history": list(self._norm_history),
            "hope": self.hope.state_dict(),
        }
        if (digest := self._corpus_digest) is not None:
            state["corpus_sha256"] = digest
        return Checkpoint(tensors, state)

    def save(self, folder: str | Path) -> str:
        """Write a checkpoint into a folder, replacing an older one there; returns its content hash (SHA-256)."""
        return checkpoint.write(folder, self.snapshot())

    def fingerprint(self) -> str:
        """SHA-256 of all that a checkpoint would hold: two runs with the same fingerprint go on identically."""
        snapshot = self.snapshot()
        digest = hashlib.sha256(json.dumps(snapshot.state, sort_keys=True).encode())
        for name in sorted(snapshot.tensors):
            digest.update(name.encode())
            digest.update(snapshot.tensors[name].contiguous().numpy().tobytes())
        return digest.hexdigest()

    # -- Going on ----------------------------------------------------------------------------------------------------

    def advance(self) -> dict[str, float]:
        """Do one step and return its signals (:mod:`replay.proxy.observation` names and explains them).

        A step in ``skipped_steps`` is walked over: its batch is not seen, nothing changes but the count, and of the
        signals only the counts and the learning rate come back: no loss.

        Raises:
            ConfigError: the data source cannot serve the config.
        """
        torch.set_flush_denormal(True)
        self.step += 1
        self.optimizer.config = self.config.optimizer
        self.optimizer.rate = learning_rate(self.config.schedule, self.step - self.schedule_start)
        self.optimizer.peak_rate = self.config.schedule.learning_rate
        if self.step in self.skipped_steps:
            return self._counts(stepped=False)
        self._break("weight_bit", "optimizer_lost")
        batch = data.training_batch(self.config, self.step + self.data_offset)
        inputs, targets, weights = (torch.from_numpy(array) for array in (batch.inputs, batch.targets, batch.weights))
        training_pass = compiled_pass() if self.config.compiled else model.training_pass
        with self.precision.autocast():
            embedded = model.embed(inputs, self.vector.named, self.config.model, self.embedding_grad_scale)
            logits, losses, observed = training_pass(self.vector.named, embedded, targets, weights, self.config.model)
        self.precision.backward(losses.total, self.optimizer)
        self._break("gradient_bit")
        seen = self._observer.before_step(losses, logits, weights, batch.second, observed)
        norm = clip_gradient(self.vector, self.config.optimizer.grad_clip)
        stepped = self._step(norm)
        self.samples += len(batch.inputs)
        self.tokens += batch.tokens
        signals = self._observer.signals(seen, norm, self.optimizer if stepped else None)
        signals |= self._counts(stepped) | {"batch_size": float(len(batch.inputs))}
        self.hope.lost(signals)
        return signals

    @property
    def embedding_grad_scale(self) -> float:
        """The embedding-gradient scale of the current step."""
        ramp = self.config.model.embedding_grad_ramp
        return self.config.model.embedding_grad_scale if ramp is None else ramp.at(self.step)

    def _break(self, *kinds: str) -> None:
        """Let the faults of these kinds happen that the config orders for this step."""
        for fault in self.config.faults:
            if fault.step != self.step or fault.kind not in kinds:
                continue
            if fault.kind == "optimizer_lost":
                self.reset_optimizer()
            else:
                self.flip_bit(fault.parameter, fault.element, fault.bit, gradient=fault.kind == "gradient_bit")

    def _step(self, norm: Tensor) -> bool:
        """Let the optimizer step, unless a rule or an overflow forbids it."""
        above, value = self.config.optimizer.skip_above, norm.item()
        known = above > 0 and len(self._norm_history) == _SKIP_HISTORY
        usual = statistics.median(self._norm_history) if known else math.inf
        # Norms are kept without the rule, too, so that one which is turned on in mid-run knows what is usual.
        if math.isfinite(value):
            self._norm_history.append(value)
        if above > 0 and not value <= above * usual:
            self.precision.withhold()
            return False
        return self.precision.step(self.optimizer)

    def _counts(self, stepped: bool) -> dict[str, float]:
        return {
            "learning_rate": self.optimizer.rate,
            "loss_scale": self.precision.loss_scale,
            "skipped_steps": float(not stepped),
            "samples": float(self.samples),
            "tokens": float(self.tokens),
        }

    @torch.no_grad()
    def evaluate(self, batches: int = 1, size: int = 128) -> float:
        """Loss on clean sequences that training never sees, nats a target; the same ones at every call."""
        total = 0.0
        for index in range(batches):
            batch = data.held_out_batch(self.config, index, size)
            inputs, targets, weights = (torch.from_numpy(x) for x in (batch.inputs, batch.targets, batch.weights))
            with self.precision.autocast():
                logits = model.forward(self.vector.named, inputs, self.config.model)
            total += model.losses(logits, targets, weights).total.item()
        return total / batches

    # -- Intervening -------------------------------------------------------------------------------------------------

    def change(self, *, learning_rate_factor: float | None = None, **settings: object) -> None:
        """Change settings from the next step on, by the names in :data:`CHANGEABLE`.

        ``learning_rate_factor`` multiplies the whole schedule, as it is by then. ``learning_rate`` is the schedule's
        peak that holds from here on: factors of earlier changes no longer count. ``rewarm_steps`` warms up again from
        here. ``embedding_grad_scale`` and ``batch_size`` end a ramp of theirs, unless it is given along with them.

        Raises:
            ConfigError: no such setting, an impossible value, or a model of other shapes.
        """
        changes: dict[str, object] = {}
        for name, value in settings.items():
            if name not in CHANGEABLE:
                raise ConfigError(f"{name!r} cannot be changed in mid-run; what can: {', '.join(CHANGEABLE)}")
            changes[CHANGEABLE[name]] = value
        for ramp in ramps_ended([name.replace("__", ".") for name in changes]):
            changes[ramp.replace(".", "__")] = None
        if "learning_rate" in settings:
            changes["schedule__factor"] = 1.0
        if learning_rate_factor is not None:
            earlier = 1.0 if "learning_rate" in settings else self.config.schedule.factor
            changes["schedule__factor"] = earlier * learning_rate_factor
        if "rewarm_steps" in settings:
            changes["schedule__rewarm_start"] = self.step - self.schedule_start
        self.adopt(self.config.replace(**changes))

    def adopt(self, after: ProxyConfig) -> None:
        """Take another config from the next step on.

        Raises:
            ConfigError: its model has other parameters, or computes something else with these, or its seed is another.
        """
        before = self.config
        if after.seed != before.seed:
            raise ConfigError(
                f"seed cannot change in mid-run, from {before.seed} to {after.seed}: the text of a word source, its "
                "held-out part and all later batches come from it; start a new run with it"
            )
        for name in (item.name for item in dataclasses.fields(after.model)):
            free = name in _NOT_OF_THE_FORWARD_PASS or name in _OF_THE_START
            if not free and getattr(before.model, name) != getattr(after.model, name):
                raise ConfigError(
                    f"model.{name} cannot change in mid-run: it would be another model; start a new run with it"
                )
        self.config = after
        if after != before.replace(steps=after.steps):
            self.hope.wait_anew()
        if after.precision != before.precision:
            self.precision = self.precision.changed_to(after.precision)
        if after.optimizer.name != before.optimizer.name:
            self.optimizer = Optimizer(self.vector, after.optimizer)

    def skip_batches(self, count: int) -> None:
        """Leave out the next ``count`` batches and take those behind them instead (PaLM's way: mode "shift").

        Raises:
            ConfigError: a negative count, or one beyond all bounds.
        """
        if not 0 <= count <= MOST_STEPS - self.data_offset:
            raise ConfigError(f"the number of batches to skip must be zero or positive, not {shown(count)}")
        self.data_offset += count

    def skip_steps(self, first: int, last: int) -> None:
        """Walk over steps ``first`` to ``last`` without updating (Megatron's way, GLM-130B: mode "advance").

        Raises:
            ConfigError: no range of steps, or one of more than a million.
        """
        if not 1 <= first <= last < first + _MOST_SKIPPED or last > MOST_STEPS:
            raise ConfigError(
                f"steps to skip: from 1 on, the first before the last, a million at most; not {shown(first)} to "
                f"{shown(last)}"
            )
        self.skipped_steps |= set(range(first, last + 1))

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments and step count."""
        self.optimizer.forget()

    @torch.no_grad()
    def perturb(self, scale: float = 1e-6, index: int = 0) -> None:
        """Multiply each parameter by 1 + scale x a standard normal number: the stand-in for hardware noise."""
        random = generator(self.config.seed, Purpose.PERTURBATION, index)
        noise = torch.from_numpy(random.standard_normal(len(self.vector.values), dtype="float32"))
        self.vector.values.mul_(1.0 + scale * noise)

    @torch.no_grad()
    def flip_bit(self, name: str, element: int, bit: int, *, gradient: bool = False) -> None:
        """Flip one bit of a parameter's element, or of its gradient's (see :class:`Fault` for the bits).

        Raises:
            ConfigError: no such parameter, element or bit.
        """
        if name not in self.vector.named:
            raise ConfigError(f"no parameter {name!r}; there are {', '.join(self.vector.names)}")
        views = self.vector.views(self.vector.gradient if gradient else self.vector.values)
        flat = views[self.vector.names.index(name)].view(-1)
        if not (0 <= element < len(flat) and 0 <= bit < 32):
            raise ConfigError(f"{name} has elements 0 to {len(flat) - 1} of bits 0 to 31, not {element}, {bit}")
        mask = 1 << bit if bit < 31 else -(1 << 31)
        flat.view(torch.int32)[element] ^= mask
