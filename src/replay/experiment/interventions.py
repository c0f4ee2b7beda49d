"""What can be done to a run, as something that can be done again to the proxy.

Each intervention is named as its kind of event in the store and has that event's fields, so that whatever a logbook
or a trainer log tells can be re-enacted.  Steps count from the onset of the failure: the first bad step is 0, so
``Rollback(step=-100)`` loads the checkpoint written 100 steps before it, whatever step that is for a seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from replay.errors import ReplayError
from replay_parsers.kinds import KINDS, EventKind, Role

if TYPE_CHECKING:
    from replay.proxy.training import Training

__all__ = ["REENACTED", "Intervention", "InterventionError", "Rollback", "SkipBatches", "from_fields"]


class InterventionError(ReplayError):
    """An intervention that the proxy cannot re-enact, or that lacks what it needs; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """One change to a run.  :meth:`apply` makes it on a training that stands where it happens."""

    kind: ClassVar[EventKind]

    def apply(self, training: Training) -> None:
        """Change ``training`` from its next step on."""


MOST_SEQUENCES = 10_000
"""A batch of more would not fit into the memory of a small machine."""

REENACTED: dict[EventKind, type[Intervention]] = {}
"""The interventions that the proxy re-enacts, by kind."""

T = TypeVar("T", bound=type[Intervention])


def _reenacts(kind: EventKind) -> Any:
    def register(owner: T) -> T:
        owner.kind = kind
        REENACTED[kind] = owner
        return owner

    return register


def from_fields(kind: str, fields: Mapping[str, Any]) -> Intervention:
    """The intervention of a kind with the fields of its event.

    Raises:
        InterventionError: no such kind, one that the proxy cannot re-enact (with the reason), a field that is
            missing, unknown or of the wrong type.
    """
    owner = _owner(kind)
    known = {field.name: field for field in dataclasses.fields(owner)}
    if unknown := sorted(set(fields) - set(known)):
        there_are = f"it has {', '.join(known)}" if known else "it has none"
        raise InterventionError(f"{kind}: no field {unknown[0]!r}; {there_are}")
    for name, value in fields.items():
        _check_type(f"{kind}.{name}", value, str(known[name].type))
    missing = [name for name, field in known.items() if field.default is dataclasses.MISSING and name not in fields]
    if missing:
        raise InterventionError(f"{kind}: needs {' and '.join(missing)}")
    return owner(**fields)


def _owner(kind: str) -> type[Intervention]:
    if kind not in {str(known) for known in KINDS}:
        raise InterventionError(f"no intervention {kind!r}; the proxy re-enacts {', '.join(REENACTED)}")
    rule = KINDS[EventKind(kind)]
    if rule.role != Role.INTERVENTION:
        raise InterventionError(f"{kind} is no intervention but what is {rule.role} in an incident")
    if rule.proxy:
        raise InterventionError(f"the proxy cannot re-enact {kind}: {rule.proxy}")
    if EventKind(kind) not in REENACTED:
        raise InterventionError(f"{kind} is not among what the proxy re-enacts: {', '.join(REENACTED)}")
    return REENACTED[EventKind(kind)]


def _check_type(name: str, value: Any, annotation: str) -> None:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "int": numeric and isinstance(value, int),
        "float": numeric,
        "float | None": value is None or numeric,
        "bool": isinstance(value, bool),
    }.get(annotation, isinstance(value, str))
    if not fits:
        expected = {"int": "a whole number", "bool": "true or false"}.get(annotation, "a number")
        expected = expected if annotation in {"int", "bool", "float", "float | None"} else "a word"
        raise InterventionError(f"{name} must be {expected}, not {value!r}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InterventionError(message)


@_reenacts(EventKind.ROLLBACK)
@dataclass(frozen=True, kw_only=True)
class Rollback(Intervention):
    """Go back to the checkpoint of ``step``, before the onset.  The experiment itself loads it."""

    step: int

    def __post_init__(self) -> None:
        _require(self.step < 0, f"rollback.step must lie before the onset, so below 0, not {self.step}")


SkipMode = Literal["shift", "advance"]


@_reenacts(EventKind.SKIP_BATCHES)
@dataclass(frozen=True, kw_only=True)
class SkipBatches(Intervention):
    """Leave out the batches that steps ``step`` to ``step_end``, both included, would have taken.

    ``mode`` "shift" takes later batches in their place, at the same step count (PaLM section 5.1); "advance" moves
    the step counter over them without an update (the flag of BigScience and GLM-130B).
    """

    step: int
    step_end: int
    mode: SkipMode = "shift"

    def __post_init__(self) -> None:
        _require(self.step <= self.step_end, f"skip_batches: steps {self.step}..{self.step_end} are no range")
        _require(self.mode in ("shift", "advance"), f"skip_batches.mode is shift or advance, not {self.mode!r}")

    def batches(self, onset: int) -> range:
        """Numbers of the batches to leave out, for a failure that begins at step ``onset``."""
        return range(onset + self.step, onset + self.step_end + 1)


@dataclass(frozen=True, kw_only=True)
class _Setting(Intervention):
    """The change of one number of the configuration to ``after``."""

    setting: ClassVar[str]
    after: float

    def apply(self, training: Training) -> None:
        training.change(**{self.setting: float(self.after)})


@_reenacts(EventKind.LR_CHANGE)
@dataclass(frozen=True, kw_only=True)
class LrChange(Intervention):
    """The learning rate: the schedule's peak becomes ``after``, or the whole schedule is multiplied by ``factor``.

    ``after`` is the peak whatever factors came before it; a ``factor`` multiplies what there is by then.
    """

    after: float | None = None
    factor: float | None = None

    def __post_init__(self) -> None:
        _require((self.after is None) != (self.factor is None), "lr_change: needs after or factor, one of the two")

    def apply(self, training: Training) -> None:
        if self.factor is not None:
            training.change(learning_rate_factor=float(self.factor))
        else:
            training.change(learning_rate=self.after)


@_reenacts(EventKind.LR_REWARM)
@dataclass(frozen=True, kw_only=True)
class LrRewarm(Intervention):
    """The learning rate rises from 0 again over ``steps``."""

    steps: int

    def apply(self, training: Training) -> None:
        training.change(rewarm_steps=self.steps)


@_reenacts(EventKind.GRAD_CLIP_CHANGE)
@dataclass(frozen=True, kw_only=True)
class GradClipChange(_Setting):
    """The bound on the global gradient norm; 0 for none."""

    setting = "grad_clip"


@_reenacts(EventKind.WEIGHT_DECAY_CHANGE)
@dataclass(frozen=True, kw_only=True)
class WeightDecayChange(_Setting):
    """The decoupled weight decay."""

    setting = "weight_decay"


@_reenacts(EventKind.UPDATE_CLIP_CHANGE)
@dataclass(frozen=True, kw_only=True)
class UpdateClipChange(_Setting):
    """The bound on a tensor's RMS of g^2/v (Adafactor section 6); 0 for none."""

    setting = "update_clip"


@_reenacts(EventKind.SKIP_STEP_RULE)
@dataclass(frozen=True, kw_only=True)
class SkipStepRule(_Setting):
    """No update when the gradient norm is above ``after`` medians of the last 128 (without the rule, too); 0: none."""

    setting = "skip_above"


@_reenacts(EventKind.EMBEDDING_GRAD_SCALE_CHANGE)
@dataclass(frozen=True, kw_only=True)
class EmbeddingGradScaleChange(_Setting):
    """The factor on the embedding's gradient (GLM-130B's alpha; 1 is none); it ends a ramp of it."""

    setting = "embedding_grad_scale"


@_reenacts(EventKind.Z_LOSS_CHANGE)
@dataclass(frozen=True, kw_only=True)
class ZLossChange(_Setting):
    """The weight of the auxiliary loss on the softmax normaliser."""

    setting = "z_loss"


@_reenacts(EventKind.BATCH_SIZE_CHANGE)
@dataclass(frozen=True, kw_only=True)
class BatchSizeChange(Intervention):
    """Sequences a step; it ends a ramp of them."""

    after: int

    def __post_init__(self) -> None:
        possible = 0 < self.after <= MOST_SEQUENCES
        _require(possible, f"batch_size_change.after must lie between 1 and {MOST_SEQUENCES:,}, not {self.after:,}")

    def apply(self, training: Training) -> None:
        training.change(batch_size=self.after)


@_reenacts(EventKind.OPTIMIZER_BETAS_CHANGE)
@dataclass(frozen=True, kw_only=True)
class OptimizerBetasChange(Intervention):
    """Adam's ``beta1`` or ``beta2``, named by ``field``."""

    field: str
    after: float

    def __post_init__(self) -> None:
        known = self.field in ("beta1", "beta2")
        _require(known, f"optimizer_betas_change.field is beta1 or beta2, not {self.field!r}")

    def apply(self, training: Training) -> None:
        training.change(**{self.field: float(self.after)})


@_reenacts(EventKind.OPTIMIZER_RESET)
@dataclass(frozen=True, kw_only=True)
class OptimizerReset(Intervention):
    """Moments and step count of the optimizer begin again at zero."""

    def apply(self, training: Training) -> None:
        training.reset_optimizer()


@_reenacts(EventKind.WAIT)
@dataclass(frozen=True, kw_only=True)
class Wait(Intervention):
    """Nothing is changed, and the run is watched."""
