"""Where training goes on from: restarts, rollbacks and the batches it leaves out."""

from __future__ import annotations

import re

from replay_parsers.chronicles.changes import effective_step
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.phrases import positions, ranges
from replay_parsers.records import EventKind

K = EventKind

_ROLLBACK = re.compile(
    r"\broll(?:ed|ing|s)?[ -]?back\b|\brollback\b|\brewind\w*|\bre-?wound\b|\brevert(?:ed|ing)? to (?:the )?(?:last |earlier )?(?:step|checkpoint|iteration)|回滚|回退",
    re.IGNORECASE,
)
# "Restaring" and the like are common slips of the keyboard.
_RESTART = re.compile(
    r"\bre-?star\w{0,2}(?:ed|ing|s)?\b|\bresum(?:e|ed|es|ing)\b|\bre-?launch\w*|\bcontinu(?:e|ed|ing)\s+(?:the )?(?:training )?from\b|\b(?:re-?)?load(?:ed|ing|s)?\s+(?:the\s+)?(?:\w+\s+){0,3}from\b|\bstart(?:ed|ing|s)?\s+(?:the\s+|a\s+new\s+)?(?:training\s+)?(?:again\s+)?from\b|\btrain(?:ed|ing)? (?:again )?from\b|重启|重新加载|恢复(?!了)|加载开始|开始(?:重新)?(?:训练|加载|恢复)|加载$|继续训练|重新开始|续训",
    re.IGNORECASE,
)
_NO_RESTART = re.compile(
    r"\b(?:plan|planned|suggest\w*|would|could|can't|cannot|if you|if we|unable|not possible|before restart|after restart|on every restart|each restart|auto-?restarts?)\b|\bno restart\b",
    re.IGNORECASE,
)
_CHECKPOINT = re.compile(r"\bglobal[_ ]?step[_ ]?(?P<n>\d+)\b", re.IGNORECASE)
_SKIP = re.compile(r"\bskip(?:ped|ping|s)?\b|跳过", re.IGNORECASE)
_TILL = re.compile(
    r"\bskip\w*\s+(?:the\s+)?(?:data|batches|iterations)?\s*(?:un)?till?\s+(?P<n>\d[\d_,]*k?)", re.IGNORECASE
)


def _target(clause: str) -> int | None:
    """The step that a clause says training goes on from."""
    if (step := effective_step(clause)) is not None:
        return step
    if checkpoint := _CHECKPOINT.search(clause):
        return int(checkpoint["n"])
    points = positions(clause)
    return points[0].value if points else None


def restarts(clause: str) -> list[Draft]:
    """Restarts and rollbacks that a clause tells, each with the step of the loaded checkpoint where stated."""
    if _NO_RESTART.search(clause):
        return []
    if _ROLLBACK.search(clause):
        step = _target(clause)
        return [Draft(kind=K.ROLLBACK, step=step)] if step is not None else []
    if _RESTART.search(clause):
        return [Draft(kind=K.RESTART, step=_target(clause))]
    return []


def skips(clause: str) -> list[Draft]:
    """Ranges of batches that a clause says are left out, in words (options are read elsewhere)."""
    prose = re.sub(r"`[^`]*`", " ", clause)
    if not _SKIP.search(prose):
        return []
    behind = prose[_SKIP.search(prose).start() :]  # type: ignore[union-attr]
    found = [Draft(kind=K.SKIP_BATCHES, step=first, step_end=last) for first, last in ranges(behind)]
    return found
