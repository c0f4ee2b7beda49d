"""The settings that logbooks change: their canonical names, the words for them, and the options that set them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from replay_parsers.chronicles.words.term import any_of
from replay_parsers.records import EventKind as K


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting: ``field`` is its canonical name, ``kind`` the kind of event its change is, ``words`` how prose
    calls it, ``options`` the command-line options and environment variables that set it."""

    field: str
    kind: K
    words: re.Pattern[str]
    options: frozenset[str]
    unit: str | None = None


def _parameter(field: str, kind: K, *words: str, options: str = "", unit: str | None = None) -> Parameter:
    return Parameter(field, kind, any_of(words), frozenset(options.split()), unit)


_RATE = r"(?:lr|learning[ _-]rates?)"
_WARM = r"warm[- _]?up"

# In the order of preference: a "minimum lr" is no "lr", an "lr warm-up" neither.
PARAMETERS: tuple[Parameter, ...] = (
    _parameter(
        "min_learning_rate",
        K.LR_SCHEDULE_CHANGE,
        rf"\bmin(?:imum|imal)?[ _-]*{_RATE}\b",
        rf"\b(?:end|final) {_RATE}\b",
        r"最小(?:lr|学习率)",
        options="min-lr end-learning-rate min-learning-rate",
    ),
    _parameter(
        "warmup_samples",
        K.LR_SCHEDULE_CHANGE,
        rf"\b(?:{_RATE}[ _-])?{_WARM}[ _-]samples\b",
        options="lr-warmup-samples",
        unit="sample",
    ),
    _parameter(
        "warmup_steps",
        K.LR_SCHEDULE_CHANGE,
        rf"\b{_RATE}[ _-]{_WARM}[ _-](?:iters|steps)\b",
        options="lr-warmup-iters lr-warmup-steps warmup-steps warmup-updates warmup-iters",
        unit="step",
    ),
    _parameter(
        "lr_decay_samples",
        K.LR_SCHEDULE_CHANGE,
        r"\blr[ _-]decay[ _-]samples\b",
        options="lr-decay-samples",
        unit="sample",
    ),
    _parameter(
        "lr_decay_steps",
        K.LR_SCHEDULE_CHANGE,
        r"\blr[ _-]decay[ _-](?:iters|steps)\b",
        options="lr-decay-iters lr-decay-steps",
        unit="step",
    ),
    _parameter(
        "embedding_grad_scale",
        K.EMBEDDING_GRAD_SCALE_CHANGE,
        r"\bshrink\w*[ _-]+(?:\w+[ _-]+)?(?:embed\w*|embb\w+)(?:[ _-]+gra\w*)?",
        r"\bembed\w*[ _-]+(?:gra\w+[ _-]+)?(?:shrink\w*|scal\w+)",
        r"\balpha\b|α",
        options="shrink-embedding-gradient shrink-embedding-gradient-alpha",
    ),
    _parameter(
        "checkpoint_interval",
        K.CHECKPOINT_INTERVAL_CHANGE,
        r"\b(?:sav(?:e|ing)|checkpoint(?:ing)?)[ _-](?:interval|frequency)\b",
        r"\bcheckpoint(?:ing)? cadence\b|\bcheckpoint saving(?= of\b)|\bcheckpoints? every\b|"
        r"\bsav\w* (?:a )?checkpoints? every\b",
        r"保存间隔|存档间隔|检查点间隔",
        options="save-interval checkpoint-interval save-steps save-every",
        unit="step",
    ),
    _parameter(
        "grad_clip",
        K.GRAD_CLIP_CHANGE,
        r"\b(?:grad(?:ient)?[ _-](?:norm[ _-])?clip\w*|clip(?:ped|ping)?[ _-]?(?:the )?(?:grad|norm)\w*|"
        r"(?<!activation )clipping|clip[ _-](?:threshold|value|norm|limit|level))\b|"
        r"\bclip\b(?=\s?(?:norm\s)?(?:to\s|at\s|of\s|=\s?|from\s|从|由|:\s)?\s?\d)",
        r"梯度裁剪|梯度截断",
        options="clip-grad clip-norm max-grad-norm gradient-clipping grad-clip",
    ),
    _parameter(
        "weight_decay", K.WEIGHT_DECAY_CHANGE, r"\bweight[ _-]decay\b|\bwd\b", r"权重衰减", options="weight-decay wd"
    ),
    _parameter(
        "beta1", K.OPTIMIZER_BETAS_CHANGE, r"\b(?:adam[ _-])?(?:beta|β)_?1\b", r"β1", options="adam-beta1 beta1"
    ),
    _parameter(
        "beta2", K.OPTIMIZER_BETAS_CHANGE, r"\b(?:adam[ _-])?(?:beta|β)_?2\b", r"β2", options="adam-beta2 beta2"
    ),
    _parameter(
        "adam_eps", K.OPTIMIZER_BETAS_CHANGE, r"\b(?:adam[ _-])?eps(?:ilon)?\b", options="adam-eps adam-epsilon eps"
    ),
    _parameter(
        "init_std",
        K.INIT_CHANGE,
        r"\binit(?:iali[sz]ation)?[ _-](?:method[ _-])?std\b|\bstd init\b",
        options="init-method-std init-std",
    ),
    # The share of one over the width whose root is the spread of the first weights.
    _parameter("init_coefficient", K.INIT_CHANGE, r"\binit(?:iali[sz]ation)?(?=\W{1,4}sqrt\b)"),
    _parameter("seed", K.SEED_CHANGE, r"\bseed\b", r"随机种子|种子", options="seed"),
    _parameter(
        "loss_scale",
        K.LOSS_SCALE_CHANGE,
        r"\b(?:initial |min(?:imum)? )?loss[ _-]scal\w+\b",
        r"损失缩放",
        options="loss-scale initial-loss-scale initial-loss-scale-power fp16-init-scale",
    ),
    _parameter("z_loss", K.Z_LOSS_CHANGE, r"\bz[ _-]loss\b", options="z-loss z-loss-weight z-loss-coef"),
    _parameter(
        "micro_batch_size",
        K.BATCH_SIZE_CHANGE,
        r"\b(?:micro[ _-]?batch(?:[ _-]?size)?|MBS)\b",
        options="micro-batch-size mbs",
        unit="sample",
    ),
    _parameter(
        "batch_size",
        K.BATCH_SIZE_CHANGE,
        r"\b(?:global[ _-])?batch[ _-]?size\b|\bGBS\b|\bBSZ\b|\b(?:larger|bigger|smaller) batch(?:es)?\b",
        r"批大小|批量大小|batch..2..大小",
        options="global-batch-size batch-size gbs bsz",
        unit="sample",
    ),
    _parameter("feed_forward_size", K.ARCHITECTURE_CHANGE, r"\bFFN_HIDDEN_SIZE\b", options="ffn-hidden-size"),
    _parameter("layers", K.ARCHITECTURE_CHANGE, r"\bNLAYERS\b", options="nlayers num-layers"),
    _parameter("hidden_size", K.ARCHITECTURE_CHANGE, r"\bNHIDDEN\b", options="nhidden hidden-size"),
    _parameter("heads", K.ARCHITECTURE_CHANGE, r"\bNHEADS\b", options="nheads num-attention-heads"),
    _parameter("zero_stage", K.TOPOLOGY_CHANGE, r"\bZERO[ _-]?stage\b", options="zero-stage"),
    _parameter(
        "evaluation_interval",
        K.MONITORING_CHANGE,
        r"\beval(?:uation)?[ _-]interval\b",
        options="eval-interval",
        unit="step",
    ),
    _parameter(
        "evaluation_steps",
        K.MONITORING_CHANGE,
        r"\beval(?:uation)? (?:for |iterations?|iters)",
        options="eval-iters",
        unit="step",
    ),
    _parameter("validation_workers", K.SOFTWARE_CHANGE, r"\bvalid\w*..30..\bnum_workers\b"),
    _parameter("data_workers", K.SOFTWARE_CHANGE, r"\bnum_workers\b", options="num-workers"),
    _parameter(
        "nodes",
        K.TOPOLOGY_CHANGE,
        r"\b(?<!spare )(?<!cpu )(?<!buffer )nodes\b",
        r"节点数",
        options="nodes nnodes",
        unit="node",
    ),
    _parameter("gpus", K.TOPOLOGY_CHANGE, r"\b(?:gpus|cards)\b", r"卡数", options="gpus num-gpus", unit="gpu"),
    _parameter(
        "learning_rate",
        K.LR_CHANGE,
        rf"\b(?:max(?:imum)? |peak )?{_RATE}\b",
        r"学习率",
        options="lr learning-rate max-lr",
    ),
)


def of_option(name: str) -> Parameter | None:
    """The parameter that an option or environment variable of this name sets."""
    wanted = name.strip("-").replace("_", "-").lower()
    return next((parameter for parameter in PARAMETERS if wanted in parameter.options), None)
