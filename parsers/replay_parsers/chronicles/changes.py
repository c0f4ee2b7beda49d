"""Changes of settings that prose tells: "reducing the minimum lr from 9e-6 to 3e-6", "we half the learning rate"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.factors import DENIED, DOWN, relative
from replay_parsers.chronicles.numbers import NUMBER, number
from replay_parsers.chronicles.parameters import PARAMETERS, Parameter
from replay_parsers.records import EventKind

K = EventKind
_I = re.IGNORECASE

_UNITS = r"(?:\s?(?:steps?|nodes?|gpus?|samples?|iterations?|步|个节点|卡))?"
_NAME = r"(?:[A-Za-z_]{1,24}=)?"
_TO_WORD = (
    r"(?:\b(?:down |up |back )?to\b|→|->|=>|➔|⇒|"
    r"(?:调整|降低?|减小|提升|提高|增加|增大|加大|扩大|放大|扩|缩|缩短|延长|收紧|收窄|放宽|放松|改|升|调|涨|跳|加|减|飙升|上升|"
    r"上涨|下调|上调|调低|调高|缩小|更改|修改|变|减少|换|切换|翻倍)?(?:到|至|为|成))"
)
FROM_TO = re.compile(
    rf"(?:\bfrom\b|从|由|=)?\s?{_NAME}(?<![A-Za-z\d.])(?P<a>{NUMBER}){_UNITS}\s?{_TO_WORD}\s?{_NAME}(?P<b>"
    rf"{NUMBER})(?![\w%])",
    _I,
)
_TO_FROM = re.compile(
    rf"\bto\b\s{{0,2}}{_NAME}(?P<b>{NUMBER}){_UNITS}\s{{0,3}}from\s{{1,3}}{_NAME}(?P<a>{NUMBER})(?![\w%]|"
    rf"\s?(?:steps?|iterations?))",
    _I,
)
_FROM_WARM_TO = re.compile(
    rf"(?:从|from)\s?(?P<a>{NUMBER})\s?warm-?up\s?(?P<n>{NUMBER})\s?(?:步|steps?)\s?(?:到|to)\s?(?P<b>{NUMBER})", _I
)
_SHOULD = re.compile(
    rf"\b(?:was|were|remained|stayed|is)\s{{1,3}}(?P<a>{NUMBER})\b.{{0,40}}\bshould (?:have (?:been|"
    rf"become)|be)\s{{1,3}}(?P<b>{NUMBER})(?![\w%])",
    _I,
)
_FIRST_THEN = re.compile(
    rf".{{0,15}}?\bfirst\b.{{0,6}}\bto\s(?P<a>{NUMBER})\W.{{0,14}}\bthen\b.{{0,6}}\bto\s(?P<b>{NUMBER})(?!["
    rf"\w%])",
    _I,
)
_TO = re.compile(
    r"(?:\bto(?: be)?\b|=|→|->|(?<!factor )\bof\b|\bevery\b|\bwith\b(?: an?| the)?(?: (?:coefficient|"
    r"weight|factor|value)(?: of)?)?|(?:为|到|至|成|设为|是))\s{0,3}(?:about\s|~\s?)?"
    rf"(?P<b>{NUMBER})(?![\w%]*\d|%|\s?/\s?\d|\s?(?:hours?|days?|min|h\b|more\b))",
    _I,
)
_NEXT_TO_NAME = re.compile(rf"^\W{{0,4}}(?:at\s(?=\d{{1,2}}(?![\d,k])))?(?P<b>{NUMBER})(?![\w%.]*\w)")
_BEFORE = re.compile(
    r"(?:\b(?:originally|previously|formerly|was|were|used to be|had been|instead of|before|until now|"
    r"rather than|default setting of|"
    rf"default of)\b|原来|原先|之前|原为|此前|原本)\s?(?:is\s|was\s|of\s|是|为|的)?[:：]?\s{{0,2}}(?P<a>{NUMBER})"
    # "1.5e-4 (2e-4 before)"
    rf"|[(（]\s?(?P<b>{NUMBER}) (?:before|previously|until then|earlier)\b",
    _I,
)
_INSTEAD = re.compile(
    rf"(?P<a>{NUMBER})\s?(?:steps?|步)?\s?(?:\binstead of\b|\brather than\b|而不是|"
    rf"[）)]?\s?[,，]?\s?(?:现在)?改[成为])\s?(?P<b>{NUMBER})",
    _I,
)
# "LR now 0.8e-4 instead of 1e-4"
_NOW_INSTEAD = re.compile(
    rf"^\W{{0,3}}(?:\b(?:is|now|to|of|at|was|set)\b\s?){{0,3}}=?\s?(?P<b>{NUMBER})\s?"
    rf"(?:steps?\s)?(?:instead of|rather than)\s(?:the |every )?"
    rf"(?P<a>{NUMBER})(?![\w%])",
    _I,
)
_FRACTION = re.compile(r"\bto (?P<a>\d{1,2})\s?/\s?(?P<b>\d{1,2}) of (?P<of>[^,;.]{0,60})", _I)
_STRICT_DEED = (
    r"chang(?:e|ed|ing|es)|reduc(?:e|ed|ing)|lower(?:ed|ing)?|decreas(?:e|ed|ing)|cut(?:ting)?|"
    r"drop(?:ped|ping|s)?|enabl(?:e|ed|ing)|shrink|shrank|shrunk|"
    r"shrinking|increas(?:e|ed|ing)|rais(?:e|ed|ing)|set|setting|switch(?:ed|ing)?|adjust(?:ed|ing)?|"
    r"restor(?:e|ed|ing)|"
    r"revert(?:ed|ing)?|halv(?:e|ed|ing)|half(?:ed|ing)?|mov(?:ed|ing)|doubl(?:e|ed|ing)|bump(?:ed|ing)?|"
    r"tweak(?:ed|ing)?|scal(?:ed|ing)|updated?|decay(?:ed|ing)|clip(?:ped)?(?= (?:the )?(?:grad|norm))|"
    r"tighten(?:ed|ing)?|loosen(?:ed|ing)?|relax(?:ed|ing)?|shorten(?:ed|ing)?|lengthen(?:ed|ing)?|"
    r"rais(?:es)|lowers|cuts|bumps|sets|"
    r"(?:is|are) (?:now )?(?:down|up|back) (?:to|at)|trim(?:med|ming)?|"
    r"turn(?:ed|ing) on|went|going back|remained|finished|full throttle|new(?= seed)"
)
_DEED_SIGN = r"→|->|⇒|=>|改|调|降|减|升(?!级)|增|设|砍|提|换|翻|收紧|放宽|放松|缩|延长"
_CAREFUL_DEED = re.compile(rf"\b(?:{_STRICT_DEED})\b|{_DEED_SIGN}", _I)
_DEED = re.compile(
    rf"\b(?:{_STRICT_DEED}|use|using|used|try|trying|tried|let's|with|now|every|new|"
    rf"go(?:ing)? (?:back )?to|warm(?:ed|ing)?[- ]?up|x\s?\d?\.\d+)\b|×|{_DEED_SIGN}|=|warmup",
    _I,
)
_WITHIN = re.compile(
    rf"\b(?:within|over|for|by|in)\s(?P<n>{NUMBER})\s?steps?\b|warm-?up\s?(?P<zh>{NUMBER})\s?(?:步|steps?)|"
    rf"(?P<zh2>{NUMBER})\s?步内",
    _I,
)
_MUSING = re.compile(
    r"\b(?:suspect|think|thought|attribut|might|maybe|perhaps|would|could|should|suggest(?!ion)|"
    r"recommend|propos|if we|if you|consider|believe|"
    r"plan(?:ned|s)? to|wonder|feeling|notes?:|need(?:s|ed)? to|not sure|future|tried to|trying to|"
    r"want to|once)\w*|怀疑|推测|可能|讨论|建议|打算",
    _I,
)
_WARM_LENGTH = re.compile(r"warm-?up\s?steps?\sfor|步数", _I)
# "new seed 7", "added z-loss 1e-4": the value stands beside the name.
_BESIDE = re.compile(
    r"\b(?:new|add(?:ed|ing)?|enabl(?:ed|ing)|turn(?:ed|ing) on|"
    r"introduc(?:ed|ing)|us(?:e|ed|ing)|set|tr(?:y|ied|ying))\b|加入?|使用|设置",
    _I,
)
_AGAIN_WITH = re.compile(
    r"\b(?:re-?start|resum|re-?launch|fork|branch|this time)\w*\b[^;]{0,80}\b(?:with|and|,) (?:an? |the )?$", _I
)
_SAME_BUT = re.compile(r"^\W*(?:same|identical|repeat|as (?:before|above)|like)\b.{0,60}\b(?:but|except|with)\b", _I)
_CONTEXT = re.compile(r"\bat\s{0,2}$", _I)
_PRONOUN = re.compile(rf"\b(?:it|this|that|them)\s(?:down |up |back )?to\s(?P<b>{NUMBER})(?![\w%])", _I)


def from_prose(clause: str, sentence: str, *, careful: bool = False) -> list[Draft]:
    """Changes of settings that a clause tells in words, with values before and after where they are stated.

    A clause that only muses ("it might be the learning rate") tells none.  ``careful`` asks for a verb that says
    that something was changed, where otherwise "with", "now" or "=" will do.
    """
    drafts: list[Draft] = []
    # Values are often in code spans ("`lr=1e-5`"); options there are read as options.
    bare = re.sub(r"`([^`]*)`", lambda span: " " if "--" in span[1] else f" {span[1]} ", clause)
    told = (_CAREFUL_DEED if careful else _DEED).search(bare) or (
        not careful and (FROM_TO.search(bare) or (_GOES_ON.match(bare) and _DEED.search(sentence)))
    )
    if not told and not _SAME_BUT.search(sentence):
        return drafts
    mentions: list[tuple[Parameter, re.Match[str]]] = []
    for parameter in PARAMETERS:
        spans = [mention.span() for _, mention in mentions]
        found = (found for found in parameter.words.finditer(bare) if not any(a <= found.start() < b for a, b in spans))
        if (mention := next(found, None)) is not None:
            mentions.append((parameter, mention))
    for parameter, mention in mentions:
        if _CONTEXT.search(bare[: mention.start()]) or (mention[0].isupper() and bare[mention.end() :].startswith("=")):
            continue  # recalled rather than changed ("at GBS=784"), or an assignment, which is read as an option
        drafts.extend(_changes(parameter, bare, mention, sentence, _Window.of(bare, mention, [m for _, m in mentions])))
    if not drafts and (pronoun := _PRONOUN.search(bare)):
        return _of_pronoun(pronoun, bare, sentence)
    return drafts


# "Lowered lr to 2e-5, wd to 0.03": the verb stands before the first.
_GOES_ON = re.compile(r"^\W*(?:and )?(?:the )?[A-Za-z\d_-]{2,20}(?: [A-Za-z-]{2,12})? (?:to|from) \d", _I)


def _names_another(sentence: str, field: str | None) -> bool:
    """Whether a sentence names another setting too, whose value before may be the one that it states."""
    return any(parameter.field != field and parameter.words.search(sentence) for parameter in PARAMETERS)


def mends(sentence: str) -> bool:
    """Whether a sentence says what a value was and what it should have been: no plan, though it says "should"."""
    return _SHOULD.search(sentence.replace("`", "")) is not None


def _of_pronoun(pronoun: re.Match[str], clause: str, sentence: str) -> list[Draft]:
    """ "It was set to 40, then we reduced it to 8": the setting named last before the clause."""
    ahead = sentence[: max(sentence.find(clause[:20]), 0)]
    named = [(found.end(), parameter) for parameter in PARAMETERS for found in parameter.words.finditer(ahead)]
    if not named or _MUSING.search(clause):
        return []
    end, parameter = max(named, key=lambda pair: pair[0])
    was = re.search(NUMBER, ahead[end:])
    before = number(was[0]) if was else None
    return [_draft(parameter, before=before, after=number(pronoun["b"]))]


def _draft(parameter: Parameter, before: float | None, after: float | None) -> Draft:
    return Draft(kind=parameter.kind, field=parameter.field, unit=parameter.unit, before=before, after=after)


@dataclass(frozen=True, slots=True)
class _Window:
    """What of a clause can tell of one of its settings: from behind the setting named before it up to the next one;
    ``alone`` where no other is named."""

    start: int
    end: int
    alone: bool

    @classmethod
    def of(cls, clause: str, mention: re.Match[str], mentions: Sequence[re.Match[str]]) -> _Window:
        """The window of ``mention`` among the ``mentions`` of all settings in ``clause``."""
        ends = [other.end() for other in mentions if other.end() <= mention.start()]
        starts = [other.start() for other in mentions if other.start() >= mention.end()]
        end = min(starts, default=len(clause))
        if not re.search(r"\d", clause[mention.end() : end]):
            end = len(clause)  # "LR and weight decay were both halved": nothing is told of the first by itself
        return cls(max(ends, default=0), end, len(mentions) == 1)


def _changes(parameter: Parameter, clause: str, mention: re.Match[str], sentence: str, window: _Window) -> list[Draft]:
    behind = clause[mention.end() : window.end]
    ramp = _WARM_LENGTH.search(clause[: mention.start()] + " " + behind[:12])
    if ramp and (swap := _INSTEAD.search(sentence)):
        name = f"{parameter.field}_warmup"
        return [Draft(kind=parameter.kind, field=name, before=number(swap["a"]), after=number(swap["b"]), unit="step")]
    twice = (_FIRST_THEN.match(sentence[named.end() :]) for named in parameter.words.finditer(sentence))
    if pair := next((found for found in twice if found), None):
        first, second = number(pair["a"]), number(pair["b"])
        return [_draft(parameter, None, first), _draft(parameter, first, second)]
    draft = _with_values(_draft(parameter, None, None), clause, mention, sentence, window)
    if draft is None or (_MUSING.search(clause) and (draft.before is None or draft.after is None)):
        return []
    if re.search(r"\d\s?[kKmMbB]?\s?tokens?\b", clause) and draft.unit == "sample":
        draft = replace(draft, unit="token")
    if within := _WITHIN.search(clause):
        length = number(within["n"] or within["zh"] or within["zh2"])
        draft = replace(draft, detail={"steps": f"{length:g}", **draft.detail})
    return [draft]


def _with_values(draft: Draft, clause: str, mention: re.Match[str], sentence: str, window: _Window) -> Draft | None:
    """``draft`` with what stands behind the name of the setting; None when nothing there is a change."""
    behind, own = clause[mention.end() : window.end], clause[window.start : window.end]
    if warm := _FROM_WARM_TO.search(behind):
        length = {"steps": f"{number(warm['n']):g}"}
        return replace(draft, before=number(warm["a"]), after=number(warm["b"]), detail=length)
    if draft.kind is K.TOPOLOGY_CHANGE:
        return _topology(draft, clause)
    if now := _NOW_INSTEAD.search(behind):
        return replace(draft, before=number(now["a"]), after=number(now["b"]))
    # "from MBS=2 to MBS=4": the name stands within the pair.
    near = clause[max(mention.start() - 8, window.start) : window.end]
    for pattern, text in (
        (_TO_FROM, behind),
        (FROM_TO, behind),
        (FROM_TO, near),
        (_SHOULD, sentence.replace("`", "")),
    ):
        if pair := pattern.search(text):
            return replace(draft, before=number(pair["a"]), after=number(pair["b"]))
    # "lr 2e-4 (was 3e-4), weight decay 0.05 (was 0.1)": the value behind the name, else one anywhere.
    was = _BEFORE.search(behind) or (_BEFORE.search(sentence.replace("`", "")) if window.alone else None)
    if was and not was.re.search(behind) and _names_another(sentence, draft.field):
        was = None
    before = number(was["a"] or was["b"]) if was else None
    if fraction := _FRACTION.search(behind):
        part = f"{int(fraction['a'])}/{int(fraction['b'])}"
        return replace(
            draft,
            detail={
                "direction": "down" if DOWN.search(own) else "up",
                "value": f"{part} of {fraction['of'].strip()}",
            },
        )
    to = _TO.search(behind) or (
        _NEXT_TO_NAME.search(behind)
        if _BESIDE.search(clause)
        or _AGAIN_WITH.search(clause[: mention.start()])
        or _SAME_BUT.search(sentence)
        or _BEFORE.search(behind)
        else None
    )
    if to and not (draft.kind is K.SEED_CHANGE and DENIED.search(clause)):
        return replace(draft, before=before, after=number(to["b"]))
    change = relative(own) or (relative(clause) if window.start == 0 else {})
    return replace(draft, before=before, detail=change) if change and draft.kind is not K.SEED_CHANGE else None


def _topology(draft: Draft, clause: str) -> Draft | None:
    """A number of machines is a change only with a word for it: "scaled from 12 to 16 nodes", "to 64 nodes"."""
    moved = (
        r"\b(?:switch\w*|mov\w*|scal\w*|chang\w*|went|grow\w*|shr[iu]nk\w*|expand\w*|reduc\w*|increas\w*)\b|"
        r"扩|缩|增|减|换成|改为|切换"
    )
    if not re.search(moved, clause, _I):
        return None
    if pair := FROM_TO.search(clause):
        return replace(draft, before=number(pair["a"]), after=number(pair["b"]))
    to = re.search(
        rf"(?:\bto|到|至|为|成)\s?(?P<b>{NUMBER})\s?(?:\w+\s)?(?:nodes|gpus|cards|节点|卡|个节点)", clause, _I
    )
    return replace(draft, after=number(to["b"])) if to else None
