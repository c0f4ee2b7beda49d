"""Changes of settings: from prose ("reducing minimum lr from 8e-6 to 4e-6"), from options (``--min-lr 4e-6``) and
from edits of scripts (``s|--lr 3e-5|--lr 1e-5|``)."""

from __future__ import annotations

import re
from dataclasses import replace

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.parameters import PARAMETERS, Parameter, of_option
from replay_parsers.chronicles.phrases import NUMBER, Flag, flags, number, positions, ranges, steps
from replay_parsers.records import EventKind

K = EventKind
_I = re.IGNORECASE

_UNITS = r"(?:\s?(?:steps?|nodes?|gpus?|samples?|iterations?|步|个节点|卡))?"
_TO_WORD = (
    r"(?:\b(?:down |up |back )?to\b|→|->|=>|➔|⇒|"
    r"(?:调整|降低?|减小|提升|提高|增加|改|升|调|缩小|更改|变|减少)?(?:到|至|为|成))"
)
_FROM_TO = re.compile(rf"(?:\bfrom\b|从|由|=)?\s?(?P<a>{NUMBER}){_UNITS}\s?{_TO_WORD}\s?(?P<b>{NUMBER})(?![\w%])", _I)
_FROM_WARM_TO = re.compile(
    rf"(?:从|from)\s?(?P<a>{NUMBER})\s?warm-?up\s?(?P<n>{NUMBER})\s?(?:步|steps?)\s?(?:到|to)\s?(?P<b>{NUMBER})", _I
)
_TO = re.compile(
    rf"(?:\bto(?: be)?\b|=|→|->|\bof\b|\bevery\b|\bwith\b|(?:为|到|至|成|设为|是))\s?(?:about\s|~\s?)?"
    rf"(?P<b>{NUMBER})(?![\w%]*\d|%|\s?/\s?\d|\s?(?:hours?|days?|min|h\b|more\b))",
    _I,
)
_BEFORE = re.compile(
    r"(?:\b(?:originally|previously|formerly|was|were|used to be|had been|instead of|before|until now|rather than|default setting of|"
    rf"default of)\b|原来|原先|之前|原为|此前|原本)\s?(?:is\s|was\s|of\s|是|为|的)?[:：]?\s?`?(?P<a>{NUMBER})",
    _I,
)
_INSTEAD = re.compile(
    rf"(?P<a>{NUMBER})\s?(?:steps?|步)?\s?(?:\binstead of\b|\brather than\b|而不是|[）)]?\s?[,，]?\s?(?:现在)?改[成为])\s?(?P<b>{NUMBER})",
    _I,
)
_HALF = re.compile(r"\b(?:halv\w+|half(?:ed|ing)?)\b|砍半|减半|对半", _I)
_DOUBLE = re.compile(r"\bdoubl\w+\b|翻倍|加倍", _I)
_PERCENT = re.compile(r"(?:\bby\s|了\s?)(?P<n>\d{1,3}(?:\.\d{1,6})?)\s?%", _I)
_TIMES = re.compile(
    r"\bby (?:a )?factor (?:of )?(?P<n>\d{1,4}(?:\.\d{1,6})?)|\b(?P<x>\d{1,4}(?:\.\d{1,6})?)\s?x (?:lower|smaller|less|higher|larger)",
    _I,
)
_FRACTION = re.compile(r"\bto (?P<a>\d{1,2})\s?/\s?(?P<b>\d{1,2}) of (?P<of>[^,;.]{0,60})", _I)
_DOWN = re.compile(r"\b(?:reduc|lower|decreas|cut|drop|shrink|less|decay|dropp)\w*|降|减|缩小|调低", _I)
_UP = re.compile(r"\b(?:increas|rais|enlarg|bigger|longer|higher|more frequent|bump)\w*|升(?!级)|增|加大|调高|提高", _I)
_DEED = re.compile(
    r"\b(?:chang|reduc|lower|decreas|cut|dropp?|shr[iu]n|increas|rais|set|switch|adjust|restor|revert|halv|half|warm|mov|go(?:ing)? (?:back )?to|"
    r"use|using|us|try|tri|doubl|bump|tweak|let's|with|now|every|new|lower)\w*|→|->|⇒|=|改|调|降|减|升(?!级)|增|设|砍|提|warmup|换|翻",
    _I,
)
_WITHIN = re.compile(
    rf"\b(?:within|over|for|by|in)\s(?P<n>{NUMBER})\s?steps?\b|warm-?up\s?(?P<zh>{NUMBER})\s?(?:步|steps?)|(?P<zh2>{NUMBER})\s?步内",
    _I,
)
_MUSING = re.compile(
    r"\b(?:suspect|think|thought|attribut|might|maybe|perhaps|would|could|should|suggest|recommend|propos|discuss|if we|if you|consider|believe|"
    r"plan(?:ned|s)? to|wonder|feeling|notes?|need(?:s|ed)? to|not sure|try lower|future)\w*|怀疑|推测|可能|讨论|建议|打算",
    _I,
)
_DENIED = re.compile(r"\b(?:not|n't|no|without|never|unchanged|same)\b|没有|不变|未", _I)
_WARM_LENGTH = re.compile(r"warm-?up\s?steps?\sfor|步数", _I)
# perl -pi -e 's|old|new|flags' and sed -i 's/old/new/'
_SUBSTITUTION = re.compile(
    r"\bs(?P<mark>[|/#,!@])(?P<old>(?:\\.|(?!(?P=mark)).){0,300})(?P=mark)(?P<new>(?:\\.|(?!(?P=mark)).){0,300})(?P=mark)"
)


def from_prose(clause: str, sentence: str) -> list[Draft]:
    """Changes of settings that a clause tells in words, with values before and after where they are stated.

    A clause that only muses ("it might be the learning rate") tells none.
    """
    drafts: list[Draft] = []
    # Values are often in code spans ("`lr=1e-5`"); options there are read as options.
    bare = re.sub(r"`([^`]*)`", lambda span: " " if "--" in span[1] else f" {span[1]} ", clause)
    hidden: list[tuple[int, int]] = []
    for parameter in PARAMETERS:
        mention = next(
            (found for found in parameter.words.finditer(bare) if not any(a <= found.start() < b for a, b in hidden)),
            None,
        )
        if mention is None:
            continue
        hidden.append(mention.span())
        if _DEED.search(bare) and (draft := _change(parameter, bare, mention, sentence)):
            drafts.append(draft)
    return drafts


def _change(parameter: Parameter, clause: str, mention: re.Match[str], sentence: str) -> Draft | None:
    behind = clause[mention.end() :]
    ramp = _WARM_LENGTH.search(clause[: mention.start()] + " " + behind[:12])
    if ramp and (swap := _INSTEAD.search(sentence)):
        name = f"{parameter.field}_warmup"
        return Draft(kind=parameter.kind, field=name, before=number(swap["a"]), after=number(swap["b"]), unit="step")
    draft = _with_values(
        Draft(kind=parameter.kind, field=parameter.field, unit=parameter.unit), clause, behind, sentence
    )
    if draft is None or (_MUSING.search(clause) and (draft.before is None or draft.after is None)):
        return None
    if within := _WITHIN.search(clause):
        length = number(within["n"] or within["zh"] or within["zh2"])
        draft = replace(draft, detail={"steps": f"{length:g}", **draft.detail})
    return draft


def _with_values(draft: Draft, clause: str, behind: str, sentence: str) -> Draft | None:
    """``draft`` with what stands behind the name of the setting; None when nothing there is a change."""
    if warm := _FROM_WARM_TO.search(behind):
        length = {"steps": f"{number(warm['n']):g}"}
        return replace(draft, before=number(warm["a"]), after=number(warm["b"]), detail=length)
    if draft.kind is K.TOPOLOGY_CHANGE:
        return _topology(draft, clause)
    if pair := _FROM_TO.search(behind):
        return replace(draft, before=number(pair["a"]), after=number(pair["b"]))
    was = _BEFORE.search(sentence)
    before = number(was["a"]) if was else None
    if fraction := _FRACTION.search(behind):
        part = f"{int(fraction['a'])}/{int(fraction['b'])}" if int(fraction["b"]) else ""
        return (
            replace(draft, before=before, detail={"factor": part, "relative_to": fraction["of"].strip()})
            if part
            else None
        )
    to = _TO.search(behind)
    if to:
        return replace(draft, before=before, after=number(to["b"]))
    relative = _relative(clause)
    return replace(draft, before=before, detail=relative) if relative else None


def _topology(draft: Draft, clause: str) -> Draft | None:
    """A number of machines is a change only with a word for it: "switched from 48 to 24 nodes", "to 128 nodes"."""
    if not re.search(
        r"\b(?:switch\w*|mov\w*|scal\w*|chang\w*|went|go|grow\w*|shr[iu]nk\w*|expand\w*|reduc\w*)\b|扩|缩|换成|改为|切换",
        clause,
        _I,
    ):
        return None
    if pair := _FROM_TO.search(clause):
        return replace(draft, before=number(pair["a"]), after=number(pair["b"]))
    to = re.search(
        rf"(?:\bto|到|至|为|成)\s?(?P<b>{NUMBER})\s?(?:\w+\s)?(?:nodes|gpus|cards|节点|卡|个节点)", clause, _I
    )
    return replace(draft, after=number(to["b"])) if to else None


def _relative(clause: str) -> dict[str, str]:
    if _DENIED.search(clause):
        return {}
    down = _DOWN.search(clause) is not None
    if percent := _PERCENT.search(clause):
        part = float(percent["n"]) / 100
        return {"factor": f"{1 - part if down else 1 + part:g}"}
    if (times := _TIMES.search(clause)) and float(times["n"] or times["x"]):
        factor = float(times["n"] or times["x"])
        return {"factor": f"{1 / factor if down else factor:g}"}
    if _HALF.search(clause):
        return {"factor": "0.5"}
    if _DOUBLE.search(clause):
        return {"factor": "2"}
    if down:
        return {"direction": "down"}
    return {"direction": "up"} if _UP.search(clause) else {}


def from_flag(flag: Flag) -> list[Draft]:
    """Events that an option tells: a changed value, skipped batches, a new warm-up, a reset optimizer."""
    name = flag.name.lower().replace("_", "-")
    detail = {"flag": str(flag)}
    if "skip" in name and "range" in name:
        return [
            Draft(kind=K.SKIP_BATCHES, step=first, step_end=last, detail=detail)
            for first, last in ranges(" ".join(flag.values))
        ]
    if name == "no-load-optim":
        return [Draft(kind=K.OPTIMIZER_RESET, detail=detail)]
    if name in ("embed-layernorm", "embedding-layernorm"):
        return [Draft(kind=K.ARCHITECTURE_CHANGE, detail=detail)]
    values = [value for value in (number(text) for text in flag.values) if value is not None]
    if "warmup" in name and "after" in name and values:
        unit = "samples" if "samples" in name else "tokens" if "tokens" in name else "steps"
        return [Draft(kind=K.LR_REWARM, detail={**detail, unit: f"{values[0]:.0f}"})]
    if name.endswith("-steps") and len(values) == 2 and not flag.assigned:
        return _ramp(name, int(values[0]), int(values[1]), detail)
    parameter = of_option(name)
    if parameter is None or not values:
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
    """Changes that an edit of a script makes (``perl -pi -e 's|--lr 3e-5|--lr 1e-5|'``, sed's likewise).

    An option that both sides set has a value before and after; one that only the new side sets, after.

    >>> [(d.field, d.before, d.after) for d in from_substitution("perl -pi -e 's|--lr 3e-5|--lr 1e-5|' *slurm")]
    [('learning_rate', 3e-05, 1e-05)]
    """
    drafts: list[Draft] = []
    for found in _SUBSTITUTION.finditer(line):
        old = {flag.name: flag for flag in flags(found["old"].replace("\\", " "))}
        new = re.sub(r"\\n|\\", " ", found["new"])
        for flag in flags(new):
            before = old.get(flag.name)
            if before is not None and before.values == flag.values:
                continue
            for draft in from_flag(flag):
                value = number(before.values[0]) if before and before.values else None
                drafts.append(replace(draft, before=value))
    return drafts


def pointed_at(line: str) -> int | None:
    """The step that an edit of a checkpoint pointer chooses (``s|\\d+|6210|' latest*``)."""
    found = _SUBSTITUTION.search(line)
    if (
        found
        and "latest" in line[found.end() :]
        and re.fullmatch(r"\\d\+|\d+|\.\*", found["old"])
        and found["new"].isdigit()
    ):
        return int(found["new"][:18])
    return None


def effective_step(clause: str) -> int | None:
    """The step from which a change holds, where the clause names one ("from 26000 step")."""
    for mention in positions(clause):
        ahead = clause[: mention.start]
        named = r"(?:the\s)?(?:(?:global[ _]?)?(?:step|iteration)\s?)?$"
        if re.search(rf"(?:\b(?:from|at|since|starting|after)\b|从|在)\s?{named}", ahead, _I):
            return mention.value
        if re.match(r"\s?(?:steps?)?\s?开始", clause[mention.end :]) or re.search(r"^\W*$", ahead):
            return mention.value
    return None


def lengths(clause: str) -> dict[str, str]:
    """``steps`` when the clause says for how many of them something lasts."""
    counts = [mention for mention in steps(clause) if not mention.position]
    return {"steps": str(counts[0].value)} if counts else {}
