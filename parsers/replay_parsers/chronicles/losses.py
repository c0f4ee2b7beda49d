"""What was lost, and how long it lasted: hours and steps that sentences tell of what they tell otherwise."""

from __future__ import annotations

import re
from dataclasses import replace

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.mood import Told
from replay_parsers.chronicles.numbers import NUMBER, whole
from replay_parsers.chronicles.phrases import hours, positions
from replay_parsers.records import EventKind, Role

K = EventKind
_I = re.IGNORECASE

_LOST = re.compile(
    r"\b(?:los[et]|losing|cost us|wasted)\b[^;]{0,40}\b(?:hours?|h|hrs?|work|training|days?|min\w*)\b|"
    r"\b(?:los[et]|losing|wasted)\b[^;]{0,20}\d\s?h(?:\d|\b)|\b\d[\d.]{0,6}\s?(?:h|hours?|"
    r"min(?:utes?)?)\b[^;]{0,12}\b(?:lost|wasted|gone)\b|\(\s?[-–−~]\s?\d[\d.]{0,6}\s?(?:h|hours?|hrs?|min|m)\)|损失|浪费|"
    r"耽误",
    _I,
)
_LASTED = re.compile(
    r"\b(?:down(?:time)?|outage|offline|paused|stalled|stuck|hung|hang|for|took|lasted|after)\b|卡|停|持续|耗时|影响",
    _I,
)
_NOT_LOST = re.compile(r"\bat most\b|\bup to\b|\bwould\b|\bcan lose\b|\bno \w+ lost\b", _I)
_LOST_STEPS = re.compile(
    r"\b(?:los[et]|losing|wasted)\b.{0,20}?(?<![\w.])(?P<n>\d[\d,_]{0,12})\s?(?:steps|iterations|updates|its)\b"
    r"|\b(?:throw(?:n|ing)? away|threw away|discard(?:ed|ing)?|re-?(?:do|did|doing)|repeat(?:ed|ing)?|"
    r"re-?comput(?:ed?|ing)|re-?train(?:ed|ing)?|re-?running|sacrific(?:ed|ing)|cost us|costs?|cost)\b"
    r"\s(?:about |some |roughly |around |another |the last |only |~ ?)?(?<![\w.])(?P<away>\d[\d,_]{0,12})\s?(?:steps|"
    r"iterations|updates|its)\b"
    r"|(?<![\w.])(?P<redo>\d[\d,_]{0,12})\s?(?:steps|iterations|updates|its)\b(?: of (?:work|training|progress))? "
    r"(?:(?:had to be|were|are|was|have been|got) )?(?:redone|repeated|re-?computed|re-?run|re-?trained|lost|"
    r"thrown away|"
    r"discarded|wasted|gone)\b"
    r"|(?:损失|丢失|丢掉|丢|浪费|白跑)了?(?:约|大约)?\s?(?P<zh>\d{1,12})\s?步",
    _I,
)


def _with_duration(found: list[Draft], clause: str) -> list[Draft]:
    """How long a standstill, an outage or maintenance lasted, in ``detail.hours``."""
    lasted = hours(clause) if _LASTED.search(clause) else None
    if not found:
        return _added_later(clause, lasted)
    if lasted is None or found[0].role in (Role.INTERVENTION, Role.OUTCOME):
        return found
    return [replace(found[0], detail={**found[0].detail, "hours": f"{lasted:g}"}), *found[1:]]


def _added_later(clause: str, lasted: float | None) -> list[Draft]:
    """What a sentence of its own adds to the one before it: "Downtime 22 min", "Effective step 45,000"."""
    if lasted is not None and re.search(r"\bdown(?:time)?\b|\boutage\b|\bpaused\b|\blasted\b|停机|耗时", clause, _I):
        return [Draft(kind=K.GAP, detail={"hours": f"{lasted:g}"}, onset=True)]
    if re.fullmatch(
        r"\W*(?:effective|starting|as of|in effect)\b.{0,20}?\b(?:step|iteration)\s?[\d,_k]+\W*", clause, _I
    ):
        points = positions(clause)
        return [Draft(kind=K.GAP, step=points[0].value, onset=True)] if points else []
    if (at := re.fullmatch(rf"\W*(?P<n>{NUMBER})\s?步?(?:起|开始)?生效\W*", clause)) and (step := whole(at["n"])):
        return [Draft(kind=K.GAP, step=step, onset=True)]
    return []


def with_losses(found: list[Draft], part: Told, sentence: str) -> list[Draft]:
    """Attach "lost 18 h" to the first thing that the clause tells; alone it is a draft marked as an onset, which
    the entry attaches to what it tells otherwise."""
    clause = part.clause
    if not (part.done or part.seen) or _NOT_LOST.search(clause):
        return found
    lost_hours = hours(clause) if _LOST.search(clause) else None
    steps = _LOST_STEPS.search(clause) or (_LOST_STEPS.search(sentence) if lost_hours is not None else None)
    lost_steps = float(next(n for n in steps.groups() if n).replace(",", "").replace("_", "")) if steps else None
    if lost_hours is None and lost_steps is None:
        return _with_duration(found, clause)
    if not found:
        return [Draft(kind=K.GAP, lost_hours=lost_hours, lost_steps=lost_steps, onset=True)]
    return [replace(found[0], lost_hours=lost_hours, lost_steps=lost_steps), *found[1:]]
