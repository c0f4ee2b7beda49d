"""Where training goes on from: restarts, rollbacks and the batches it leaves out."""

from __future__ import annotations

import re

from replay_parsers.chronicles.changes import effective_step
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.phrases import NUMBER, positions, ranges, steps, whole
from replay_parsers.chronicles.words.term import any_of
from replay_parsers.records import EventKind

K = EventKind

_ROLLBACK = any_of(
    (
        r"\broll(?:ed|ing|s)?[ -]?back\b|\brollbacks?\b|\brewind\w*|\bre-?wound\b",
        r"\brevert(?:ed|ing)? to (?:the |an )?(?:last |earlier |previous |good )*(?:step|checkpoint|iteration|ckpt)",
        r"\bwent back to (?:the )?(?:step|checkpoint|iteration|ckpt)|\bgo(?:ing)? back to (?:step|checkpoint|iteration)",
        r"回滚|回退|退回",
    )
)
# "Restaring" and the like are common slips of the keyboard.
_RESTART = any_of(
    (
        r"\bre-?star\w{0,2}(?:ed|ing|s)?\b|\bresum(?:e|ed|es|ing|ption)\b|\bre-?launch\w*|\bre-?queued?\b",
        r"\bcontinu(?:e|ed|es|ing) (?:the )?(?:training )?from\b",
        r"\b(?:re-?)?load(?:ed|ing|s)? (?:the )?(?:\w+ ){0,3}from\b|\b(?:re-?)?load(?:ed|ing) (?:the )?(?:checkpoint|ckpt)\b",
        r"\bstart(?:ed|ing|s)? (?:the |a new )?(?:training )?(?:again )?from\b|\btrain(?:ed|ing)? (?:again )?from\b",
        r"\b(?:back up|up and running again|picked up) (?:at|from)\b",
        r"重启|重新加载|恢复(?!了)|加载..10..开始|开始(?:重新)?(?:训练|加载|恢复)|继续训练|重新开始|续训|重新拉起",
        r"开始.{0,8}训练$|从.{0,24}(?:开始|加载|训练)$|从..20..加载",
    )
)
_NOT_NOW = any_of(
    (
        r"\b(?:plan|planned|suggest\w*|would|could|can't|cannot|unable|not possible|if (?:you|we|it)|auto-?restarts|needs? to be)\b",
        r"\b(?:before|after|on every|each|at each|on each|since (?:the )?last) (?:the )?(?:re-?start|resume|resuming)\b|\bno restart\b",
        r"推测|应该|可能|打算|建议",
        r"\bchance to restart\b|\brestart logic\b|\brestarting early\b",
    )
)
_CHECKPOINT = re.compile(r"\b(?:global[_ ]?step|checkpoint[_ -]|ckpt[_ -]|step[_-])(?P<n>\d{1,12})\b", re.IGNORECASE)
_SKIP = re.compile(r"\b(?:skip(?:ped|ping|s)?|leav\w* out|omit\w*)\b|跳过|略过", re.IGNORECASE)
_SKIP_TILL = re.compile(rf"(?:un)?till?\s(?:step\s|iteration\s)?(?P<n>{NUMBER})|到\s?(?P<zh>{NUMBER})", re.IGNORECASE)
_COUNT = re.compile(
    rf"(?P<n>{NUMBER})\s?(?:data\s)?(?:batches|steps|iterations)\b|(?P<zh>{NUMBER})\s?个?\s?(?:batch|步)", re.IGNORECASE
)
_BY = re.compile(
    rf"\b(?:back|by|rewind\w*)\s(?:by\s|about\s|~\s?)?(?P<n>{NUMBER})\s?(?:steps|iterations|updates)\b", re.IGNORECASE
)


def target(clause: str) -> int | None:
    """The step that a clause says training goes on from."""
    if checkpoint := _CHECKPOINT.search(clause):
        return int(checkpoint["n"])
    if (step := effective_step(clause)) is not None:
        return step
    points = positions(clause)
    return points[0].value if points else None


def restarts(clause: str) -> list[Draft]:
    """Restarts and rollbacks that a clause tells, each with the step of the loaded checkpoint where stated."""
    if _NOT_NOW.search(clause):
        return []
    if back := _ROLLBACK.search(clause):
        return _rollback(clause, clause[back.start() :])
    if again := _RESTART.search(clause):
        behind = clause[again.start() :]
        step = target(behind)
        return [Draft(kind=K.RESTART, step=step if step is not None else target(clause))]
    return []


def _rollback(clause: str, behind: str) -> list[Draft]:
    by = _BY.search(behind)
    if by and not positions(behind):
        lost = whole(by["n"])
        return [Draft(kind=K.ROLLBACK, lost_steps=float(lost))] if lost else []
    points = positions(behind) or positions(clause)
    checkpoint = _CHECKPOINT.search(behind)
    step = int(checkpoint["n"]) if checkpoint else _to(behind, [point.value for point in points])
    if step is None:
        return []
    return [Draft(kind=K.ROLLBACK, step=step)]


def _to(behind: str, points: list[int]) -> int | None:
    """Of "rolled back from 4100 to 4000" the second, of "back to 4000" the only one."""
    to = re.search(
        rf"(?:\bto\b|至|到)\s?(?:the\s)?(?:last\s|checkpoint\s|step\s|iteration\s)*(?P<n>{NUMBER})",
        behind,
        re.IGNORECASE,
    )
    if to and (value := whole(to["n"])) is not None and (value in points or value >= 100 or value == 0):
        return value
    return points[0] if points else None


def skips(clause: str) -> list[Draft]:
    """Batches that a clause says are left out, in words (options are read elsewhere)."""
    prose = re.sub(r"`[^`]*`", " ", clause)
    skip = _SKIP.search(prose)
    if skip is None or re.search(r"\b(?:skip to|don't skip|without skipping|so skip)\b", prose, re.IGNORECASE):
        return []
    behind = prose[skip.start() :]
    if found := ranges(behind):
        return [Draft(kind=K.SKIP_BATCHES, step=first, step_end=last) for first, last in found]
    till = _SKIP_TILL.search(behind)
    last = whole(till["n"] or till["zh"]) if till else None
    first = next((mention.value for mention in positions(prose[: skip.start()])), None)
    if last is not None and first is not None and first < last:
        # "Rollback to 13250 and skip data till 14000": the first batch left out is the next one.
        return [Draft(kind=K.SKIP_BATCHES, step=first + 1, step_end=last)]
    count = _COUNT.search(behind)
    number_of = whole(count["n"] or count["zh"]) if count and not steps(behind[: count.start()]) else None
    return [Draft(kind=K.SKIP_BATCHES, detail={"batches": str(number_of)})] if number_of else []
