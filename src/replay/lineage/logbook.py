"""What a logbook adds to the attempts found in scalars: restarts that left no trace there, and exact checkpoints."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd

from replay.lineage.chain import Attempt
from replay.lineage.told import ToldRun


def merge(logged: list[Attempt], told: ToldRun) -> list[Attempt]:
    """Attempts from scalars and from told restarts as one chain, in order."""
    if not told.restarts and told.start is None:
        chain = logged
    elif not logged:
        chain = _told_chain(told)
    else:
        chain = _joined(logged, _told_chain(told))
    if chain and told.ended:
        last = chain[-1]
        last.cause = "end"
        last.end_time = last.end_time or told.end_time
        if last.end is None or (told.end_step is not None and told.end_step > last.end):
            last.end = told.end_step
    for before, after in itertools.pairwise(chain):
        if after.told is not None:
            before.cause = after.told.cause
            before.lost = after.told.lost
            reached = after.told.reached
            # A step before its own checkpoint was reached by another attempt, whatever the order of the telling.
            possible = reached is not None and (before.start is None or reached >= before.start)
            if possible and (before.end is None or (reached or 0) > before.end):
                before.end = reached
    return chain


def _told_chain(told: ToldRun) -> list[Attempt]:
    """The attempts that a logbook tells, without any scalars."""
    first = Attempt(told=None, start=told.start.step if told.start else None)
    first.begin_time = told.start.time if told.start else None
    chain = [first]
    for restart in told.restarts:
        chain.append(Attempt(told=restart, start=restart.step, begin_time=restart.time))
    return chain


def _joined(logged: list[Attempt], told: list[Attempt]) -> list[Attempt]:
    """Put the scalars' attempts into the logbook's, or between them."""
    chain: list[Attempt] = []
    waiting = 0
    for attempt in logged:
        index = _begins_with(attempt, told, waiting)
        if index is None and chain and chain[-1].told is not None and _is_within(attempt, chain[-1], told[waiting:]):
            _fuse(chain[-1], attempt)
            continue
        if index is None:
            index = _excerpt_of(attempt, told, waiting)
        if index is None:
            chain.append(attempt)
            continue
        for unseen in told[waiting:index]:
            _insert(chain, unseen)
        chain.append(told[index])
        _fuse(chain[-1], attempt)
        waiting = index + 1
    for unseen in told[waiting:]:
        _insert(chain, unseen)
    return chain


def _begins_with(attempt: Attempt, told: list[Attempt], waiting: int) -> int | None:
    """The told attempt whose checkpoint is the one from which the logged attempt begins."""
    for index in range(waiting, len(told)):
        start = told[index].start
        if attempt.start is None:
            continue
        if start is None:
            # What came before the first restart that is told: its start is not, so the next one's bounds it.
            following = told[1].start if index == 0 and len(told) > 1 else None
            if following is not None and attempt.start < following and _times_fit(attempt, told[index]):
                return index
            continue
        if abs(attempt.start - start) <= 2 * attempt.interval and _times_fit(attempt, told[index]):
            return index
    return None


def _excerpt_of(attempt: Attempt, told: list[Attempt], waiting: int) -> int | None:
    """The last told attempt within which a logged one can lie, as an excerpt of its log."""
    found = None
    for index in range(waiting, len(told)):
        if _is_within(attempt, told[index], told[index + 1 :]) and _times_fit(attempt, told[index]):
            found = index
    return found


def _is_within(attempt: Attempt, told: Attempt, later: Sequence[Attempt]) -> bool:
    """Whether logged steps lie after the told checkpoint, before the told end, and overlap nothing already there."""
    if attempt.first is None or attempt.last is None:
        return False
    if told.start is not None and attempt.first <= told.start:
        return False
    if told.last is not None and attempt.first <= told.last:
        return False
    reached = later[0].told.reached if later and later[0].told is not None else None
    if reached is None and later:
        reached = later[0].start
    return reached is None or attempt.last <= reached or (told.start is None and told.last is None and not later)


def _times_fit(attempt: Attempt, told: Attempt) -> bool:
    """Logbooks are written within a day of what they tell, in clocks up to a day apart."""
    if attempt.begin_time is None or told.begin_time is None:
        return True
    return attempt.begin_time > told.begin_time - pd.Timedelta(days=2)


def _fuse(told: Attempt, logged: Attempt) -> None:
    """Give a told attempt the rows of a logged one; what was logged is surer than what was told, but for the start."""
    told.pieces += logged.pieces
    told.interval = logged.interval
    if told.first is None:
        told.first = logged.first
        # A checkpoint that lies after the first step logged cannot be the one loaded.
        if told.start is None or (logged.first is not None and told.start >= logged.first):
            told.start = logged.start
        told.begin_time = logged.begin_time if logged.begin_time is not None else told.begin_time
    if logged.last is not None:
        told.last = logged.last if told.last is None else max(told.last, logged.last)
        told.end = logged.last if told.end is None else max(told.end, logged.last)
    told.end_time = logged.end_time if logged.end_time is not None else told.end_time


def _insert(chain: list[Attempt], unseen: Attempt) -> None:
    """Add a told restart that no step back shows: it divides the attempt before it, if that one logged past it."""
    previous = chain[-1] if chain else None
    step = unseen.start
    if (
        previous is None
        or step is None
        or previous.first is None
        or previous.last is None
        or not previous.first <= step < previous.last
    ):
        chain.append(unseen)
        return
    unseen.first = step + 1
    unseen.last = unseen.end = previous.last
    unseen.interval, unseen.end_time = previous.interval, previous.end_time
    for piece in previous.pieces:
        if piece.high is None or piece.high > step:
            low = step + 1 if piece.low is None else max(step + 1, piece.low)
            unseen.pieces.append(piece._replace(low=low, first=max(piece.first, step + 1)))
    previous.pieces = [
        piece._replace(high=step if piece.high is None else min(piece.high, step))
        for piece in previous.pieces
        if piece.first <= step
    ]
    previous.last = previous.end = step
    previous.end_time = None
    chain.append(unseen)
