"""What a clause tells as done or seen, and what it only plans, asks, advises, refuses, supposes or tells of others.

A logbook holds more than deeds: "should we roll back?", "to do: lower the rate", "no restart was needed", "if it comes
back, skip the batches".  Such words are no events.  Everything here works on the clauses of one sentence and keeps of
each the part that is told as a fact: once for what was done, which every plan and refusal takes away, and once for
what was seen, which "it would have diverged" takes away but "no restart was needed" does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from replay_parsers.chronicles.others import is_of_others, without_comparison
from replay_parsers.chronicles.prefaces import behind_colon, confirms, deed_behind, follows_plan, of_plan, without_talk
from replay_parsers.chronicles.words.term import any_of

_I = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Told:
    """Of one clause: ``done`` is the part that can tell a deed, ``seen`` the part that can tell a symptom or a cause,
    ``came`` the part that can tell what came of it.  Empty where the clause tells none."""

    clause: str
    done: str
    seen: str
    came: str = ""


# A verb that says that something was done; what follows "we should" or "to" has none.
_FINITE = (
    r"(?:\w{2,}(?<!ne)(?<!e)ed|went|took|put|cut|set|got|was|were|did|had|came|ran|left|kept|made|began|gave|lost|"
    r"rewound|chose|died|broke|fell|rose|hung|froze|is now|are now)"
)
_PAST = re.compile(rf"\b{_FINITE}\b|了|已|最终|于是", _I)
_OWN_PAST = re.compile(
    r"^\W*(?:(?:and|so|then|but|yet|instead|finally|eventually|afterwards|later|in the end|ultimately)\W+){0,3}"
    r"(?:(?:we|i|they|he|she|it|(?:the|our|this|that) \w+(?: \w+)?|[A-Z]\w+)\s+)?"
    rf"(?:\w+ly\s+|just\s+|then\s+|have\s+|has\s+)?{_FINITE}\b"
    r"|^\W*(?:we|i)(?:'re| are| am|'m)\b|了|已|最终|于是|实际",
    _I,
)
# What stands at the head of a whole sentence that is no report.
_LABEL = re.compile(
    r"^\s*\[\s?\]\s|^\W*(?:to[- ]?dos?|action items?|plans?(?: for [\w ]{1,30})?|proposals?|propose|ideas?|"
    r"suggestions?|"
    r"suggest(?! that the)|recommendations?|"
    r"advice|options?(?: \w)?|next steps?|follow-?ups?|lessons?(?: learned)?|open questions?|wish ?list|future work|"
    r"draft|not yet|tbd|计划|待办|建议|下一步|想法|提议|教训|改进措施|后续(?:计划|工作)?)\s?(?:[:：\]]|\s[-–—]\s)",
    _I,
)
_AHEAD = re.compile(
    r"^\W*(?:next (?:time|week|month|run|restart)|(?:in|for) (?:the )?future|tomorrow|tonight|from next|"
    r"下次|今后|以后(?=[要，,])|明天|下周)",
    _I,
)
_AHEAD_HEADING = re.compile(
    r"^\W*(?:\d{1,2}[.)]?\s)?(?:to[- ]?dos?|action items?|(?:our |the )?plans?(?: for .{1,30})?|proposals?|ideas?|"
    r"suggestions?|recommendations?|next steps?|follow-?ups?|lessons?(?: learned)?|open questions?|wish ?list|"
    r"future(?: work)?|things to (?:try|do)|what(?:'s| is)? next|prevention|"
    r"(?:后续|下一步)?(?:计划|待办|建议|改进|想法)(?:事项|措施|工作)?|下一步|后续(?:工作|事项)?|待办事项|经验教训)\W*$",
    _I,
)
_ASKS = re.compile(
    r"^\W*(?:(?:so|but|and|or|hmm?|well|ok(?:ay)?)\W+)?(?:should|shall|can|could|would|will|do|does|did|is|are|was|"
    r"were|"
    r"have|has|must|may|any(?:one|body)?|what|why|how|who|which|when|where|whether|maybe|perhaps|"
    r"thoughts on|worth|shouldn't|couldn't|what if)\b",
    _I,
)
# Questions that take what was seen for granted.
_ASKS_WHY = re.compile(r"^\W*(?:(?:so|but|and)\W+)?(?:why|how come|what caused|为什么|为何)", _I)
_CONDITION = re.compile(
    r"^\W*(?:(?:and|but|so|then|also|only|except)\W+){0,2}(?:if|in case|suppose|supposing|assuming|"
    r"provided (?:that)?|had (?:we|it|the|i|they|this)\b|were (?:we|it|this)\b|"
    r"should (?:the|it|this|that|any|another|loss|these|things)\b|"
    r"(?:as soon as|once|when(?:ever)?|(?:the )?next time|every time)\b(?=[^.;]{0,80}\b(?:again|next|ever|"
    r"returns?|comes? back|recurs?|happens|persists?)\b))",
    _I,
)
_IF_WITHIN = re.compile(
    r"(?<!see )(?<!check )(?<!checked )(?<!checking )(?<!test )(?<!as )(?<!even )(?<!wonder )(?<!wondering )"
    r"(?<!unclear )(?<!sure )(?<!know )(?<!asked )(?<!determine )(?<!verify )(?<!what )(?<!testing )"
    r"\b(?:if|in case|unless|whenever|should (?:it|this|that|the \w+|they))\b(?! (?:anything|any|possible|not all)\b)",
    _I,
)
_CONDITION_ZH = re.compile(r"如果|(?<![一般])若(?!干)|假如|假设|万一|要是|一旦")
# What may be or is meant to be: from here to the end of the clause nothing was done.
_MEANT_ANYWHERE = (
    r"\b(?:would|could|might|may(?! \d)|ought to)\b",
    r"\b(?:is|are|am|was|were|'re|'m) (?:now )?(?:going|about|ready|due|scheduled|meant|supposed|planning|considering|"
    r"discussing|debating|hoping|thinking|tempted|inclined|prepared) ?(?:to|about|of)?\b",
    r"\b(?:plan(?:s|ned|ning)?|intend\w*|want(?:s|ed)?|wish\w*|hop(?:e|es|ed|ing)|aim(?:s|ed|ing)?|need(?:s|ed)?|"
    r"meant|prepar(?:e|es|ed|ing)|prefer(?:s|red)?|like(?:d)?|tempted|inclined|expect(?:s|ed)?) to\b"
    r"(?! (?:be|stay|remain)\b)",
    r"\b(?:plan|idea|goal|aim|proposal|intention|suggestion|wish|hope) (?:is|was|would be)\b|"
    r"\bplan(?:s|ned|ning)? (?:for|on|a|an)\b|\bwant(?:s|ed)? (?:a|an|the)\b",
    r"\b(?:suggest(?:s|ed|ing)?|propos(?:e|es|ed|ing)|recommend(?:s|ed|ing)?|advis(?:e|es|ed|ing)|"
    r"advocat(?:e|es|ed|ing)|consider(?:s|ed|ing)?|discuss(?:es|ed|ing)?|debat(?:e|es|ed|ing)|"
    r"contemplat(?:e|es|ed|ing)|ponder(?:s|ed|ing)?|wonder(?:s|ed|ing)?|"
    r"ask(?:s|ed|ing)? (?:for|to|if|whether)|argu(?:e|es|ed|ing) (?:for|that)|vot(?:e|es|ed|ing) (?:for|to)|"
    r"th(?:ink|inks|inking|ought) (?:about|of)|talk(?:s|ed|ing)? about|toy(?:ed|ing)? with|"
    r"look(?:ed|ing)? into|weigh(?:ed|ing)?|in fav(?:ou)?r of|opt(?:ion|ions) (?:is|are|was|were|to|of))\b",
    r"\b(?:maybe|perhaps|possibly|rather than|better to|best to|worth (?:trying|a try|a shot|considering)|"
    r"would rather|had better|todo|tbd|what if|in principle|hypothetically)\b",
    r"\b(?:tomorrow|tonight|next (?:week|month|time|restart|monday|tuesday|wednesday|thursday|friday))\b(?=\W*$)",
    r"(?<![按原照有])计划(?![内外]|有变|变了)|打算|(?<![模虚])拟(?=[将把对在于从重回跳降调])|准备(?=[将把对在从重回跳降调换改用])|"
    r"(?<![按据照的])建议|希望|提议|是否|要不要|能不能|该不该|会不会",
    r"考虑(?!到)|应该|应当|最好|(?<!不)需要(?=[将把对在从重回跳降调换改])|"
    r"想要?(?=[将把回重跳降调换改])|可以考虑|预计|今后|明[天日]|后天|下周|下个?月|"
    r"讨论(?!后|之后|决定|结果|过后|并)|可能(?=[会要需])",
)
_MEANT = any_of((r"\b(?:should|shall|must)\b", r"(?:\bwill|'ll)\b(?! now)", r"\blet(?:'s| us)\b", *_MEANT_ANYWHERE))
# In a book that announces each step before it reports it, "will" and "let's" are what is being done.
_MEANT_WHERE_ANNOUNCED = any_of(_MEANT_ANYWHERE)
# A plan that goes on in the next clause: "we plan to go back to 5000, skip 100 batches and halve the rate".
_GOES_ON = re.compile(
    r"\b(?:to|on|of|about|for|of|if|whether|will|shall|should|suggest\w*|propos\w+|recommend\w*|consider\w*|let's|"
    r"would rather)\W*$|'ll$|计划|打算|拟|准备|建议|希望|提议|是否|要不要|能不能|该不该",
    _I,
)


# What stands behind a deed and says that it was none: "a restart was considered", "rollback: not needed".
_ONLY_NAMED = any_of(
    (
        r"\b(?:was|were|is|are|been|being|got|gets)\s(?:\w{1,12}\s){0,2}?(?:consider|discuss|propos|suggest|reject|"
        r"plann|"
        r"recommend|debat|postpon|deferr|declin|cancell?|avoid|weigh|dismiss|veto|contemplat)\w*",
        r"\b(?:was|were|is|are|been)\s(?:\w{1,12}\s)?(?:ruled out|unnecessary|out of the question|off the table|"
        r"on the table|under discussion|pending|an option|turned down|not (?:\w{1,12}\s)?(?:needed|necessary|required|"
        r"done|performed|carried out|taken|attempted|made|possible|triggered|worth))",
        r"\b(?:not|n't|never|isn't|wasn't)\s(?:needed|necessary|required|done yet|yet done|happen)\b|"
        r"\b(?:rejected|decided against|turned it down|vetoed|postponed|shelved)\W*$",
        r"(?:没有|未|不)(?:必要|执行|实施|采用|采纳)|被否决|被拒绝|待定|取消了?$|搁置",
    )
)
# What was not done, to the end of the clause.
_REFUSED = any_of(
    (
        r"\b(?:did|do|does|have|has|had|was|were|is|are|ca|wo|could|would|should|must)n['’]?t\b",
        r"\bnot\b(?! (?:only|until|just)\b)|\bcannot\b|\bnever\b|\bneither\b|\bnor\b|\bnone\b|\bnobody\b|\bno one\b|"
        r"(?<![-\w])no\b(?!-)(?! (?:longer|wonder|doubt|later than)\b)(?!\.? ?\d)",
        r"\bwithout (?=(?:\w+ing|an?|any)\b)",
        r"\b(?:decid|vot|argu|advis|warn)\w* (?:strongly )?against\b|\b(?:refus|declin)\w* to\b|\brefrain\w* from\b|"
        r"\b(?:avoid|forgo|prevent)(?:s|ed|ing)?\b|\b(?:fail|unable|forgot) to\b|\bheld off\b|"
        r"\b(?:kept|left|leave|keep) (?:it|them|everything|things|the \w+(?: \w+)?) "
        r"(?:as|un\w+|alone|at|running)\b|\b(?:un(?:changed|touched))\b",
        r"没有|没(?=[再将把重回跳降改动调换])|(?<![从尚])未(?![来知])|尚未|并未|无需|无须|不用|不必|不需要|不要|暂不|不再|不做|"
        r"不(?=[改重回跳降调换动])|别(?=[重回跳降改动调换])|未曾|避免|拒绝|放弃(?=[回重跳])|没能",
    )
)
# What was not seen.  The name of the trouble may stand on either side of what says that there was none.
_TROUBLE_ZH = (
    r"(?:loss|spike|nan|oom|尖峰|故障|异常|问题|重启|掉线|掉卡|宕机|崩溃|报错|中断|发散|爆炸|溢出|超时|波动|节点|机器|坏卡|卡住|卡死|"
    r"抖动|突刺|飙升|挂)"
)
_ABSENT = re.compile(
    r"(?:没有?|未|无|不再|并未|零)(?:再|见|出现|发生|观察到|看到|遇到|见到|发现|任何|新的|其他|明显|过|的|有|次|\s){0,4}"
    rf"[^，。；,;]{{0,6}}?{_TROUBLE_ZH}[^，。；,;]*",
    _I,
)
_NONE_OF = re.compile(
    r"\b(?:no|without|neither|nor|zero)\b(?: \w{1,12}){0,3}? (?:crash\w*|hangs?|spikes?|failures?|faults?|errors?|"
    r"nans?|ooms?|"
    r"outages?|incidents?|divergences?|instabilit\w+|overflows?)\b",
    _I,
)
_NOT_SEEN = re.compile(
    r"\b(?:(?:would|could|might|should)(?: not|n't)? (?:also |probably |surely |then )?have\b|"
    r"(?:could|might|may)(?: not)? (?:also |again |then )?(?:explode|spike|diverge|crash|blow|hang|fail)).*",
    _I,
)


def announces_plans(heading: str) -> bool:
    """Whether what stands below a heading or a line such as "Next steps:" is still to be done."""
    return _AHEAD_HEADING.match(heading) is not None


def told(
    pieces: Sequence[str],
    sentence: str,
    *,
    heading: bool = False,
    announced: bool = False,
    planned: bool = False,
    own: str = "",
) -> list[Told]:
    """What each of the clauses ``pieces`` of ``sentence`` tells as done and as seen.

    ``planned`` says that the sentence stands among plans; ``announced`` is for books in which "will" and "let's" say
    what is done; ``own`` is the book's title, which tells its own models from those of others, empty when it is not
    known.  Of a ``heading`` only questions and labels are taken for no report: "Lower the learning rate" names what
    was done.

    >>> [part.done for part in told(["We lowered LR to 1e-4", "did not restart"], "...")]
    ['We lowered LR to 1e-4', 'did']
    """
    planned = (
        planned
        or _LABEL.match(sentence) is not None
        or (_AHEAD.match(sentence) is not None and not _PAST.search(sentence))
    )
    question = re.search(r"[?？]\W*$|吗\W*$", sentence) is not None
    asked = question and (_ASKS.match(sentence) is not None or len(pieces) == 1)
    parts: list[Told] = []
    governed, supposed = False, False
    carried_out = follows_plan(sentence)
    for place, piece in enumerate(pieces):
        clause = without_comparison(piece)
        if carried_out:
            clause = of_plan(clause)
        supposed = supposed or _CONDITION.match(clause) is not None
        if supposed:
            # What hangs on an "if" ends where the next thing is announced: "had we clipped, it would run: NaN at 900".
            parts.append(_supposed(piece, clause))
            continue
        if is_of_others(clause, own):
            parts.append(Told(piece, "", ""))
            continue
        if place + 1 < len(pieces) and confirms(pieces[place + 1]):
            parts.append(Told(piece, _carried_out(clause), _seen(clause)))
            continue
        if asked or (question and piece is pieces[-1]):
            seen = _seen(clause) if heading or _ASKS_WHY.match(sentence) or not asked else ""
            parts.append(Told(piece, "", seen))
            continue
        if planned:
            # "Set", "put" and "cut" stand among plans as what is to be done.
            past = _OWN_PAST.match(clause) and not re.match(r"\W*(?:set|put|cut)\b", clause, _I)
            kept = clause if past else ""
            parts.append(Told(piece, kept, _seen(clause), kept))
            continue
        if governed and not _OWN_PAST.search(clause) and not _after_semicolon(piece, sentence):
            parts.append(Told(piece, "", _seen(clause)))
            continue
        if heading:
            parts.append(Told(piece, clause, _seen(clause), clause))
            continue
        done, governed = _done(clause, _MEANT_WHERE_ANNOUNCED if announced else _MEANT)
        cut = _CONDITION_ZH.search(done)
        within = _IF_WITHIN.search(done)
        if cut is not None:
            done, supposed = done[: cut.start()], True
            parts.append(Told(piece, done, _seen(clause[: cut.start()]), done))
        elif within is not None:
            head = done[: within.start()]
            kept = head if _PAST.search(head) else ""
            parts.append(Told(piece, kept, _seen(clause if within[0].lower() == "unless" else kept), kept))
        else:
            parts.append(Told(piece, done, _seen(clause), clause))
    return parts


def _after_semicolon(piece: str, sentence: str) -> bool:
    return sentence[: max(sentence.find(piece), 0)].rstrip().endswith((";", "；"))


def _supposed(piece: str, clause: str) -> Told:
    _, colon, rest = clause.partition(": ")
    return Told(piece, rest, _seen(rest), rest) if colon else Told(piece, "", "")


def _done(clause: str, meant_by: re.Pattern[str]) -> tuple[str, bool]:
    """The part of a clause that tells what was done, and whether what it plans goes on in the next clause."""
    clause = without_talk(clause)
    if (
        (behind := behind_colon(clause, _OWN_PAST)) is not None
        and (head := clause.removesuffix(behind))
        and (meant_by.search(head) or _REFUSED.search(head))
    ):
        clause = behind
    if _ONLY_NAMED.search(clause):
        return "", False
    done, governs = clause, False
    if meant := meant_by.search(done):
        # "Rolling back would cost hours": without a verb that says so, what stands before was not done either.
        head = done[: meant.start()]
        done, governs = (head if _PAST.search(head) else ""), _GOES_ON.search(meant[0]) is not None
    if refused := _REFUSED.search(done):
        done = f"{done[: refused.start()]} {deed_behind(done, refused.start())}".rstrip()
    return done, governs


def _carried_out(clause: str) -> str:
    """What a clause planned, once the next one says that it was done."""
    meant = _MEANT.search(clause)
    planned = clause[meant.end() :] if meant else _LABEL.sub("", clause)
    refused = _REFUSED.search(clause)
    return "" if refused else planned


def _seen(clause: str) -> str:
    return _NOT_SEEN.sub("", _NONE_OF.sub("", _ABSENT.sub("", clause)))
