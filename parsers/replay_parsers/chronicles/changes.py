"""Changes of settings: from prose ("reducing minimum lr from 8e-6 to 4e-6") and from options (``--min-lr 4e-6``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.phrases import NUMBER, Flag, number, positions, ranges, steps
from replay_parsers.records import EventKind

K = EventKind


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting: its canonical name, the kind of event its change is, the words for it, its options."""

    field: str
    kind: EventKind
    words: re.Pattern[str]
    options: tuple[str, ...] = ()
    unit: str | None = None


def _parameter(field: str, kind: EventKind, words: str, *options: str, unit: str | None = None) -> Parameter:
    return Parameter(field, kind, re.compile(words, re.IGNORECASE), options, unit)


# In the order of preference: "minimum lr" is not "lr", "lr warm-up" neither.
PARAMETERS: tuple[Parameter, ...] = (
    _parameter("min_learning_rate", K.LR_SCHEDULE_CHANGE, r"\bmin(?:imum|imal)?[ _-]*(?:lr|learning[ _-]rate)\b|\bend (?:lr|learning rate)\b|最小(?:lr|学习率)", "min-lr", "min_lr", "end-learning-rate"),
    _parameter("warmup_samples", K.LR_SCHEDULE_CHANGE, r"\b(?:lr[ _-])?warm-?up[ _-]samples\b", "lr-warmup-samples", unit="samples"),
    _parameter("warmup_steps", K.LR_SCHEDULE_CHANGE, r"\blr[ _-]warm-?up[ _-](?:iters|steps)\b", "lr-warmup-iters", "lr-warmup-steps", "warmup-steps", "warmup-updates", unit="step"),
    _parameter("lr_decay_samples", K.LR_SCHEDULE_CHANGE, r"\blr[ _-]decay[ _-]samples\b", "lr-decay-samples", unit="samples"),
    _parameter("embedding_grad_scale", K.EMBEDDING_GRAD_SCALE_CHANGE, r"\bshrink\w*[ _-]+(?:\w+[ _-]+)?(?:embed\w*|embb\w+)(?:[ _-]+gra\w*)?|\bembed\w*[ _-]+(?:gra\w+[ _-]+)?shrink\w*|\balpha\b|α"),
    _parameter("checkpoint_interval", K.CHECKPOINT_INTERVAL_CHANGE, r"\b(?:sav(?:e|ing)|checkpoint(?:ing)?)[ _-](?:interval|frequency)\b|\bcheckpoint saving of\b|保存间隔|存档间隔", "save-interval", "SAVE_INTERVAL", unit="step"),
    _parameter("grad_clip", K.GRAD_CLIP_CHANGE, r"\b(?:grad(?:ient)?[ _-](?:norm[ _-])?clip\w*|clip[ _-](?:grad|norm)\w*|clipping)\b|梯度裁剪", "clip-grad", "clip-norm", "max-grad-norm", "gradient-clipping"),
    _parameter("weight_decay", K.WEIGHT_DECAY_CHANGE, r"\bweight[ _-]decay\b|权重衰减", "weight-decay", "wd"),
    _parameter("beta1", K.OPTIMIZER_BETAS_CHANGE, r"\b(?:adam[ _-])?beta_?1\b|β1", "adam-beta1", "beta1"),
    _parameter("beta2", K.OPTIMIZER_BETAS_CHANGE, r"\b(?:adam[ _-])?beta_?2\b|β2", "adam-beta2", "beta2"),
    _parameter("init_std", K.INIT_CHANGE, r"\binit(?:ialization)?[ _-](?:method[ _-])?std\b", "init-method-std", "init-std"),
    _parameter("seed", K.SEED_CHANGE, r"\bseed\b|种子", "seed"),
    _parameter("loss_scale", K.LOSS_SCALE_CHANGE, r"\b(?:initial )?loss[ _-]scal\w+\b|损失缩放", "loss-scale", "initial-loss-scale"),
    _parameter("z_loss", K.Z_LOSS_CHANGE, r"\bz[ _-]loss\b", "z-loss", "z-loss-weight"),
    _parameter("micro_batch_size", K.BATCH_SIZE_CHANGE, r"\b(?:micro[ _-]batch(?:[ _-]size)?|MBS)\b", "micro-batch-size", unit="sequences"),
    _parameter("batch_size", K.BATCH_SIZE_CHANGE, r"\b(?:global[ _-])?batch[ _-]?size\b|\bGBS\b|\bBSZ\b|批大小|批量", "global-batch-size", "batch-size", unit="sequences"),
    _parameter("nodes", K.TOPOLOGY_CHANGE, r"\b(?<!spare )nodes\b|节点数", "nodes", "nnodes", unit="nodes"),
    _parameter("learning_rate", K.LR_CHANGE, r"\b(?:max(?:imum)? |peak )?(?:lr|learning[ _-]rates?)\b|学习率", "lr", "learning-rate"),
)  # fmt: skip

_VALUE = rf"(?P<{{}}>{NUMBER})(?![\w%]|\.\d)"
_FROM_TO = re.compile(
    rf"(?:\bfrom\b|从|由|=)?\s*(?P<a>{NUMBER})(?:\s*(?:steps?|nodes?|samples?|iterations?|步))?\s*(?:\b(?:down |up )?to\b|→|->|=>|➔|(?:调整|降低?|减小|提升|增加|改|升)?(?:到|至|为|成))\s*(?P<b>{NUMBER})(?![\w%])",
    re.IGNORECASE,
)
_FROM_WARM_TO = re.compile(
    rf"(?:从|from)\s*(?P<a>{NUMBER})\s*warm-?up\s*(?P<n>{NUMBER})\s*(?:步|steps?)\s*(?:到|to)\s*(?P<b>{NUMBER})",
    re.IGNORECASE,
)
_TO = re.compile(
    rf"(?:\bto\b|=|→|->|\bof\b|(?:为|到|至|成))\s*(?P<b>{NUMBER})(?![\w%]*\d|%|\s*(?:hours?|days?|min))", re.IGNORECASE
)
_BEFORE = re.compile(
    rf"(?:\b(?:originally|previously|formerly|was|were|used to be|had been|instead of|before)\b|原来|原先|之前|原为|此前)\s*(?:is |was |是|为)?\s*(?P<a>{NUMBER})",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    rf"(?P<a>{NUMBER})\s*(?:steps?|步)?\s*(?:\binstead of\b|\brather than\b|而不是|[）)]?\s*[,，]\s*现在改成)\s*(?P<b>{NUMBER})",
    re.IGNORECASE,
)
_HALF = re.compile(r"\b(?:halv\w+|half(?:ed)?)\b|砍半|减半|对半", re.IGNORECASE)
_DOUBLE = re.compile(r"\bdoubl\w+\b|翻倍|加倍", re.IGNORECASE)
_PERCENT = re.compile(r"\bby\s+(?P<n>\d+(?:\.\d+)?)\s*%", re.IGNORECASE)
_DOWN = re.compile(r"\b(?:reduc|lower|decreas|cut|drop|shrink|less)\w*|降|减|缩小", re.IGNORECASE)
_UP = re.compile(r"\b(?:increas|rais|enlarg|bigger|longer|higher|more frequent)\w*|升|增|加大|调高", re.IGNORECASE)
_ACT = re.compile(
    r"\b(?:chang|reduc|lower|decreas|cut|drop|shrink|increas|rais|set|switch|adjust|restor|revert|halv|half|warm|mov|go(?:ing)? (?:back )?to|use|using|try\w*|doubl)\w*|→|->|=|改|调|降|减|升|增|设|砍|提|warmup|换",
    re.IGNORECASE,
)
_WITHIN = re.compile(
    rf"\b(?:within|over|for|by|in)\s+(?P<n>{NUMBER})\s*steps?\b|warm-?up\s*(?P<zh>{NUMBER})\s*(?:步|steps?)",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:suspect|think|attribut|might|maybe|perhaps|would|could|should we|suggest|recommend|if we)\w*|怀疑|推测|可能|讨论",
    re.IGNORECASE,
)


def of_option(name: str) -> Parameter | None:
    """The parameter that an option or environment variable of this name sets."""
    wanted = name.strip("-").replace("_", "-").lower()
    for parameter in PARAMETERS:
        if wanted in (option.replace("_", "-").lower() for option in parameter.options):
            return parameter
    return None


def _draft(parameter: Parameter, **values: object) -> Draft:
    return Draft(kind=parameter.kind, field=parameter.field, unit=parameter.unit, **values)  # type: ignore[arg-type]


def from_prose(clause: str, sentence: str) -> list[Draft]:
    """Changes of settings that a clause tells in words, with values before and after where they are stated.

    A clause that only guesses ("it might be the learning rate") tells none.
    """
    drafts: list[Draft] = []
    bare = re.sub(r"`[^`]*`", " ", clause)
    hidden: list[tuple[int, int]] = []
    for parameter in PARAMETERS:
        mention = parameter.words.search(bare)
        if not mention or any(a <= mention.start() < b for a, b in hidden):
            continue
        hidden.append(mention.span())
        if _ACT.search(bare) and (draft := _change(parameter, bare, mention, sentence)):
            drafts.append(draft)
    return drafts


def _change(parameter: Parameter, clause: str, mention: re.Match[str], sentence: str) -> Draft | None:
    behind = clause[mention.end() :]
    ramp = re.search(r"warm-?up\s*steps?\s+for|步数", clause[: mention.start()] + behind[:12], re.IGNORECASE)
    if ramp and (swap := _INSTEAD.search(clause)):
        return Draft(
            kind=parameter.kind,
            field=f"{parameter.field}_warmup",
            before=number(swap["a"]),
            after=number(swap["b"]),
            unit="step",
        )
    before = after = None
    detail: dict[str, str] = {}
    if warm := _FROM_WARM_TO.search(behind):
        before, after, detail["steps"] = number(warm["a"]), number(warm["b"]), f"{number(warm['n']):g}"
    elif pair := _FROM_TO.search(behind):
        before, after = number(pair["a"]), number(pair["b"])
    else:
        to = _TO.search(behind)
        after = number(to["b"]) if to else None
        was = _BEFORE.search(sentence)
        before = number(was["a"]) if was else None
    if after is None:
        relative = _relative(clause)
        if not relative:
            return None
        # A guess names a direction too; only the deed counts, and it has a clause of its own.
        if _LATER.search(clause):
            return None
        detail.update(relative)
    if within := _WITHIN.search(clause):
        detail.setdefault("steps", f"{number(within['n'] or within['zh']):g}")
    return _draft(parameter, before=before, after=after, detail=detail)


def _relative(clause: str) -> dict[str, str]:
    if percent := _PERCENT.search(clause):
        part = float(percent["n"]) / 100
        return {"factor": f"{1 - part if _DOWN.search(clause) else 1 + part:g}"}
    if _HALF.search(clause):
        return {"factor": "0.5"}
    if _DOUBLE.search(clause):
        return {"factor": "2"}
    if _DOWN.search(clause):
        return {"direction": "down"}
    return {"direction": "up"} if _UP.search(clause) else {}


def from_flag(flag: Flag, clause: str = "") -> list[Draft]:
    """Events that an option tells: a changed value, skipped batches, a new warm-up, a reset optimizer."""
    name = flag.name.lower().replace("_", "-")
    if "skip" in name and "range" in name:
        return [
            Draft(kind=K.SKIP_BATCHES, step=first, step_end=last, detail={"flag": str(flag)})
            for first, last in ranges(" ".join(flag.values))
        ]
    values = [value for value in (number(text) for text in flag.values) if value is not None]
    if name == "no-load-optim":
        return [Draft(kind=K.OPTIMIZER_RESET, detail={"flag": str(flag)})]
    if "warmup" in name and "after" in name and values:
        unit = "samples" if "samples" in name else "tokens" if "tokens" in name else "steps"
        return [Draft(kind=K.LR_REWARM, detail={"flag": str(flag), unit: f"{values[0]:.0f}"})]
    if name.endswith("-steps") and len(values) == 2:
        # An option that takes where a ramp starts and how long it is, named after what is ramped.
        for parameter in PARAMETERS:
            if parameter.words.search(name.replace("-", " ")):
                start, length = int(values[0]), int(values[1])
                detail = {"flag": str(flag), "steps": str(length)}
                return [_draft(parameter, step=start, step_end=start + length, detail={**detail, "direction": "up"})]
        return []
    parameter_of_name = of_option(name)
    if parameter_of_name is None or not values:
        return []
    return [_draft(parameter_of_name, after=values[0], detail={"flag": str(flag)})]


def effective_step(clause: str) -> int | None:
    """The step from which a change holds, where the clause names one ("from 26000 step")."""
    for mention in positions(clause):
        ahead = clause[: mention.start]
        if re.search(
            r"(?:\b(?:from|at|since|starting)\b|从|在)\s*(?:the\s+)?(?:(?:global[ _]?)?(?:step|iteration)\s*)?$",
            ahead,
            re.IGNORECASE,
        ):
            return mention.value
        if re.match(r"\s*(?:steps?)?\s*开始", clause[mention.end :]):
            return mention.value
    return None


def lengths(clause: str) -> dict[str, str]:
    """``steps`` when the clause says for how many of them something lasts."""
    counts = [mention for mention in steps(clause) if not mention.position]
    return {"steps": str(counts[0].value)} if counts else {}
