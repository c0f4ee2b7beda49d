"""What options and edits of scripts change: ``--min-lr 4e-6``, ``SAVE_INTERVAL=300``, ``s|--lr 4e-5|--lr 2e-5|``."""

from __future__ import annotations

import re
from dataclasses import replace

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.numbers import number, ranges
from replay_parsers.chronicles.parameters import PARAMETERS, of_option
from replay_parsers.chronicles.phrases import Flag, flags
from replay_parsers.records import EventKind

K = EventKind

# perl -pi -e 's|old|new|flags' and sed -i 's/old/new/'
_SUBSTITUTION = re.compile(
    r"\bs(?P<mark>[|/#,!@])(?P<old>(?:\\.|(?!(?P=mark)).){0,300})(?P=mark)(?P<new>(?:\\.|"
    r"(?!(?P=mark)).){0,300})(?P=mark)"
)
# Options that switch something on and take no value.
_SWITCHES = {
    "no-load-optim": K.OPTIMIZER_RESET,
    "embed-layernorm": K.ARCHITECTURE_CHANGE,
    "embedding-layernorm": K.ARCHITECTURE_CHANGE,
    "qk-layernorm": K.QK_NORM,
    "qk-norm": K.QK_NORM,
}


def from_flag(flag: Flag) -> list[Draft]:
    """Events that an option tells: a changed value, skipped batches, a new warm-up, a reset optimizer."""
    name = flag.name.lower().replace("_", "-")
    detail = {"flag": str(flag)}
    if name in _SWITCHES:
        return [Draft(kind=_SWITCHES[name], detail=detail)]
    if "skip" in name and "range" in name:
        found = ranges(" ".join(flag.values))
        return [Draft(kind=K.SKIP_BATCHES, step=first, step_end=last, detail=detail) for first, last in found]
    values = [value for value in (number(text) for text in flag.values) if value is not None]
    if not values:
        return []
    if "warmup" in name and "after" in name:
        unit = "samples" if "samples" in name else "tokens" if "tokens" in name else "steps"
        return [Draft(kind=K.LR_REWARM, detail={**detail, unit: f"{values[0]:.0f}"})]
    if "rampup" in name and "batch" in name:
        return [
            Draft(
                kind=K.BATCH_SIZE_CHANGE, field="batch_size_ramp_start", after=values[0], unit="sample", detail=detail
            )
        ]
    if name.endswith("-steps") and len(values) == 2 and not flag.assigned:
        return _ramp(name, int(values[0]), int(values[1]), detail)
    parameter = of_option(name)
    if parameter is None:
        return []
    return [Draft(kind=parameter.kind, field=parameter.field, after=values[0], unit=parameter.unit, detail=detail)]


def _ramp(name: str, start: int, length: int, detail: dict[str, str]) -> list[Draft]:
    """An option that takes where a ramp starts and how long it is, named after what is ramped."""
    for parameter in PARAMETERS:
        if parameter.words.search(name.replace("-", " ")) and length >= 0:
            told = {**detail, "steps": str(length), "direction": "up"}
            return [Draft(kind=parameter.kind, field=parameter.field, step=start, step_end=start + length, detail=told)]
    return []


def from_substitution(line: str) -> list[Draft]:
    """Changes that an edit of a script makes (``perl -pi -e 's|--lr 4e-5|--lr 2e-5|'``, sed's likewise).

    An option that both sides set has a value before and after; one that only the new side sets, after.

    >>> [(d.field, d.before, d.after) for d in from_substitution("perl -pi -e 's|--lr 4e-5|--lr 2e-5|' *slurm")]
    [('learning_rate', 4e-05, 2e-05)]
    """
    drafts: list[Draft] = []
    for found in _SUBSTITUTION.finditer(line):
        old = {flag.name: flag for flag in flags(found["old"].replace("\\", " "))}
        for flag in flags(re.sub(r"\\n|\\", " ", found["new"])):
            before = old.get(flag.name)
            if before is not None and before.values == flag.values:
                continue
            value = number(before.values[0]) if before and before.values else None
            drafts.extend(replace(draft, before=value) for draft in from_flag(flag))
    return drafts


def pointed_at(line: str) -> int | None:
    """The step that an edit of a checkpoint pointer chooses (``s|\\d+|6210|' latest*``)."""
    found = _SUBSTITUTION.search(line)
    if found is None or "latest" not in line[found.end() :] or not found["new"].isdigit():
        return None
    return int(found["new"][:18]) if re.fullmatch(r"\\d\+|\d+|\.\*", found["old"]) else None
