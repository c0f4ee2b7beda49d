"""The closed vocabulary of what can happen to a training run.

Every event that replay stores is of one kind from this list.  The list is closed so that two logbooks, a
trainer log and an experiment can be compared: "PaLM skipped batches" and "GLM-130B skipped batches" must be
the same word.  Each kind says in which role it usually stands, what it means, which fields an event of the
kind cannot do without, and, for interventions, whether the proxy can re-enact it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The part an event plays in an incident: what was seen, found, done, and what came of it."""

    SYMPTOM = "symptom"
    CAUSE = "cause"
    INTERVENTION = "intervention"
    OUTCOME = "outcome"
    LIFECYCLE = "lifecycle"


class EventKind(StrEnum):
    """What happened.  :data:`KINDS` documents each member."""

    # lifecycle
    START = "start"
    END = "end"
    RESTART = "restart"
    CHECKPOINT_SAVE = "checkpoint_save"
    CHECKPOINT_LOAD = "checkpoint_load"
    MAINTENANCE = "maintenance"
    # symptoms
    LOSS_SPIKE = "loss_spike"
    DIVERGENCE = "divergence"
    LOSS_EXPLOSION = "loss_explosion"
    NAN_LOSS = "nan_loss"
    PLATEAU = "plateau"
    GRAD_NORM_SPIKE = "grad_norm_spike"
    ACTIVATION_NORM_DRIFT = "activation_norm_drift"
    ATTENTION_LOGIT_GROWTH = "attention_logit_growth"
    LOSS_SCALE_DROP = "loss_scale_drop"
    LOSS_SCALE_FLOOR = "loss_scale_floor"
    OVERFLOW_SKIP = "overflow_skip"
    THROUGHPUT_DROP = "throughput_drop"
    HANG = "hang"
    CRASH = "crash"
    GAP = "gap"
    # causes
    NODE_FAILURE = "node_failure"
    GPU_FAILURE = "gpu_failure"
    MEMORY_ERROR = "memory_error"
    NETWORK_FAILURE = "network_failure"
    STORAGE_FAILURE = "storage_failure"
    SOFTWARE_BUG = "software_bug"
    DATA_DEFECT = "data_defect"
    CONFIG_BUG = "config_bug"
    OPERATOR_ERROR = "operator_error"
    UNKNOWN_CAUSE = "unknown_cause"
    # interventions
    ROLLBACK = "rollback"
    SKIP_BATCHES = "skip_batches"
    LR_CHANGE = "lr_change"
    LR_REWARM = "lr_rewarm"
    LR_SCHEDULE_CHANGE = "lr_schedule_change"
    GRAD_CLIP_CHANGE = "grad_clip_change"
    WEIGHT_DECAY_CHANGE = "weight_decay_change"
    OPTIMIZER_BETAS_CHANGE = "optimizer_betas_change"
    UPDATE_CLIP_CHANGE = "update_clip_change"
    SKIP_STEP_RULE = "skip_step_rule"
    OPTIMIZER_SWAP = "optimizer_swap"
    OPTIMIZER_RESET = "optimizer_reset"
    LOSS_SCALE_CHANGE = "loss_scale_change"
    EMBEDDING_GRAD_SCALE_CHANGE = "embedding_grad_scale_change"
    Z_LOSS_CHANGE = "z_loss_change"
    QK_NORM = "qk_norm"
    QK_CLIP = "qk_clip"
    INIT_CHANGE = "init_change"
    ARCHITECTURE_CHANGE = "architecture_change"
    RESTART_FROM_SCRATCH = "restart_from_scratch"
    ACTIVATION_CHANGE = "activation_change"
    PRECISION_CHANGE = "precision_change"
    DATA_CHANGE = "data_change"
    DATA_MIX_RAMP = "data_mix_ramp"
    DATA_RESHUFFLE = "data_reshuffle"
    SEED_CHANGE = "seed_change"
    BATCH_SIZE_CHANGE = "batch_size_change"
    SOFTWARE_CHANGE = "software_change"
    CODE_FIX = "code_fix"
    TOPOLOGY_CHANGE = "topology_change"
    NODE_REPLACEMENT = "node_replacement"
    CHECKPOINT_INTERVAL_CHANGE = "checkpoint_interval_change"
    MONITORING_CHANGE = "monitoring_change"
    WAIT = "wait"
    # outcomes
    RECOVERED = "recovered"
    RECOVERED_BY_ITSELF = "recovered_by_itself"
    RECURRED = "recurred"
    DELAYED = "delayed"
    UNAFFECTED = "unaffected"
    WORSENED = "worsened"
    ABANDONED = "abandoned"
    COMPLETED = "completed"
    NOT_STATED = "not_stated"


@dataclass(frozen=True, slots=True)
class KindRule:
    """What an event of one kind means and must carry.

    ``required`` holds groups of alternatives: of every group at least one field must be present.  A name that
    begins with ``detail.`` is a key of the event's detail; ``step+step_end`` asks for both.
    ``proxy`` is set for interventions only: ``""`` when the proxy can re-enact the kind, else the reason why not.
    """

    role: Role
    meaning: str
    required: tuple[tuple[str, ...], ...] = ()
    proxy: str | None = None


def _lifecycle(meaning: str, *required: tuple[str, ...]) -> KindRule:
    return KindRule(Role.LIFECYCLE, meaning, required)


def _symptom(meaning: str, *required: tuple[str, ...]) -> KindRule:
    return KindRule(Role.SYMPTOM, meaning, required)


def _cause(meaning: str) -> KindRule:
    return KindRule(Role.CAUSE, meaning)


def _intervention(meaning: str, *required: tuple[str, ...], proxy: str = "") -> KindRule:
    return KindRule(Role.INTERVENTION, meaning, required, proxy)


def _outcome(meaning: str) -> KindRule:
    return KindRule(Role.OUTCOME, meaning)


_HARDWARE = "the proxy runs on one machine: it has no nodes, network or storage to change"
_PEOPLE = "changes what people see, not how the model trains"
_CODE = "a change of code is not a setting: each one would have to be written anew"

_NEW_VALUE = ("after", "detail.factor", "detail.direction")

KINDS: dict[EventKind, KindRule] = {
    EventKind.START: _lifecycle("training begins"),
    EventKind.END: _lifecycle("training ends"),
    EventKind.RESTART: _lifecycle(
        "training resumes; `step` is the loaded checkpoint's step, so the first step executed is step + 1"
    ),
    EventKind.CHECKPOINT_SAVE: _lifecycle("a checkpoint is written", ("step", "detail.checkpoint")),
    EventKind.CHECKPOINT_LOAD: _lifecycle("a checkpoint is read", ("step", "detail.checkpoint")),
    EventKind.MAINTENANCE: _lifecycle("planned work on the machine"),
    EventKind.LOSS_SPIKE: _symptom("the loss rises sharply and may come back by itself"),
    EventKind.DIVERGENCE: _symptom("the loss rises, or stays up, for good"),
    EventKind.LOSS_EXPLOSION: _symptom("the loss leaves its range at once and does not come back unaided"),
    EventKind.NAN_LOSS: _symptom("the loss is not a number, or a trainer leaves it out because it is none"),
    EventKind.PLATEAU: _symptom("the loss no longer falls, or falls too slowly"),
    EventKind.GRAD_NORM_SPIKE: _symptom("the global gradient norm rises sharply"),
    EventKind.ACTIVATION_NORM_DRIFT: _symptom("the norm of the activations leaves its usual course"),
    EventKind.ATTENTION_LOGIT_GROWTH: _symptom("the largest attention logit grows without bound"),
    EventKind.LOSS_SCALE_DROP: _symptom("dynamic loss scaling backs off further than healthy training does"),
    EventKind.LOSS_SCALE_FLOOR: _symptom("the loss scale reaches its lowest allowed value"),
    EventKind.OVERFLOW_SKIP: _symptom("a step is skipped because its gradients overflowed"),
    EventKind.THROUGHPUT_DROP: _symptom("steps take longer than they should"),
    EventKind.HANG: _symptom("training stands still without ending"),
    EventKind.CRASH: _symptom("the training process ends unplanned"),
    EventKind.GAP: _symptom("steps or time are missing from the record", ("step+step_end", "time")),
    EventKind.NODE_FAILURE: _cause("a machine of the cluster failed"),
    EventKind.GPU_FAILURE: _cause("an accelerator failed"),
    EventKind.MEMORY_ERROR: _cause("host or device memory ran out or was faulty"),
    EventKind.NETWORK_FAILURE: _cause("the interconnect failed"),
    EventKind.STORAGE_FAILURE: _cause("a file system failed or lost data"),
    EventKind.SOFTWARE_BUG: _cause("a fault in the code"),
    EventKind.DATA_DEFECT: _cause("a fault in the training data"),
    EventKind.CONFIG_BUG: _cause("a setting other than intended"),
    EventKind.OPERATOR_ERROR: _cause("a person did something unintended"),
    EventKind.UNKNOWN_CAUSE: _cause("the cause was looked for and not found"),
    EventKind.ROLLBACK: _intervention(
        "training goes back to a checkpoint before the damage; `step` is that checkpoint's step, "
        "`before` the step that had been reached",
        ("step", "lost_steps", "detail.checkpoint"),
    ),
    EventKind.SKIP_BATCHES: _intervention(
        "batches are left out: steps `step`..`step_end`, or a number of them",
        ("step+step_end", "detail.batches", "detail.tokens"),
    ),
    EventKind.LR_CHANGE: _intervention("the learning rate is set to another value", _NEW_VALUE),
    EventKind.LR_REWARM: _intervention(
        "the learning rate is warmed up anew", ("step+step_end", "detail.steps", "detail.samples", "detail.tokens")
    ),
    EventKind.LR_SCHEDULE_CHANGE: _intervention(
        "the course of the learning rate is changed: minimum, decay length, shape",
        ("field",),
        ("after", "detail.schedule", "detail.factor", "detail.direction"),
    ),
    EventKind.GRAD_CLIP_CHANGE: _intervention("the bound on the global gradient norm changes", _NEW_VALUE),
    EventKind.WEIGHT_DECAY_CHANGE: _intervention("the weight decay changes", _NEW_VALUE),
    EventKind.OPTIMIZER_BETAS_CHANGE: _intervention("Adam's beta1 or beta2 changes", ("field",), ("after",)),
    EventKind.UPDATE_CLIP_CHANGE: _intervention("the bound on the size of an update changes"),
    EventKind.SKIP_STEP_RULE: _intervention("updates are skipped when a statistic is out of range"),
    EventKind.OPTIMIZER_SWAP: _intervention("another optimizer takes over", ("detail.optimizer",)),
    EventKind.OPTIMIZER_RESET: _intervention("the optimizer's state is discarded"),
    EventKind.LOSS_SCALE_CHANGE: _intervention("a person sets the loss scale or its rule", _NEW_VALUE),
    EventKind.EMBEDDING_GRAD_SCALE_CHANGE: _intervention(
        "the factor on the embedding's gradient changes (GLM-130B's alpha; 1 is none)", _NEW_VALUE
    ),
    EventKind.Z_LOSS_CHANGE: _intervention("the auxiliary loss on the softmax normaliser changes", ("after",)),
    EventKind.QK_NORM: _intervention("queries and keys are normalised"),
    EventKind.QK_CLIP: _intervention("query and key weights are rescaled when attention logits pass a bound"),
    EventKind.INIT_CHANGE: _intervention("parameters are initialised otherwise"),
    EventKind.ARCHITECTURE_CHANGE: _intervention("the network itself changes"),
    EventKind.RESTART_FROM_SCRATCH: _intervention("training begins again at step 0"),
    EventKind.ACTIVATION_CHANGE: _intervention("another activation function", ("detail.activation",)),
    EventKind.PRECISION_CHANGE: _intervention("another number format", ("detail.precision",)),
    EventKind.DATA_CHANGE: _intervention("other training data"),
    EventKind.DATA_MIX_RAMP: _intervention("a change of the data mixture is phased in"),
    EventKind.DATA_RESHUFFLE: _intervention("the data come in another order"),
    EventKind.SEED_CHANGE: _intervention("another random seed"),
    EventKind.BATCH_SIZE_CHANGE: _intervention("another batch size", _NEW_VALUE),
    EventKind.SOFTWARE_CHANGE: _intervention("another version of the software", proxy=_CODE),
    EventKind.CODE_FIX: _intervention("a fault in the code is mended", proxy=_CODE),
    EventKind.TOPOLOGY_CHANGE: _intervention("another layout over the machines", proxy=_HARDWARE),
    EventKind.NODE_REPLACEMENT: _intervention("a machine is exchanged", proxy=_HARDWARE),
    EventKind.CHECKPOINT_INTERVAL_CHANGE: _intervention(
        "checkpoints are saved more or less often", _NEW_VALUE, proxy=_PEOPLE
    ),
    EventKind.MONITORING_CHANGE: _intervention("something more or other is logged", proxy=_PEOPLE),
    EventKind.WAIT: _intervention("nothing is changed, and the run is watched"),
    EventKind.RECOVERED: _outcome("the symptom went after the intervention"),
    EventKind.RECOVERED_BY_ITSELF: _outcome("the symptom went without an intervention"),
    EventKind.RECURRED: _outcome("the symptom came back; `step` is where"),
    EventKind.DELAYED: _outcome("the symptom came back later than it would have"),
    EventKind.UNAFFECTED: _outcome("the intervention changed nothing that was looked at"),
    EventKind.WORSENED: _outcome("things were worse afterwards"),
    EventKind.ABANDONED: _outcome("the attempt was given up"),
    EventKind.COMPLETED: _outcome("the run or attempt went on to its end"),
    EventKind.NOT_STATED: _outcome("the source does not say what came of it"),
}
