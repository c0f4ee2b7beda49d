"""Attempts: which stretch of training built on which, and what of each survived.

A run is a tree.  Every (re)start begins an attempt; an attempt that goes back to an earlier checkpoint leaves behind
what came after it.  TensorBoard throws that part away, here it is kept: it is the evidence.  Nothing is written into
scalars: attempts are computed from the files, their segments and the restarts that a logbook tells, so a file that
comes late renumbers nothing in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replay import signals
from replay.lineage.chain import Attempt, Piece, from_stretches
from replay.lineage.logbook import merge
from replay.lineage.segments import find_stretches
from replay.lineage.told import told_run
from replay.lineage.tree import kept_to, parents_of

__all__ = ["COLUMNS", "PIECES", "Piece", "assign", "attempts", "surviving"]

COLUMNS = {
    "run": "str",
    "attempt": "Int64",
    "parent": "Int64",
    "start_step": "Int64",
    "end_step": "Int64",
    "kept_to": "Int64",
    "lost_steps": "Int64",
    "start_time": "datetime64[us, UTC]",
    "end_time": "datetime64[us, UTC]",
    "end_cause": "str",
}
"""Columns of :func:`attempts` and their types."""
PIECES = "pieces"
"""A further column of :func:`attempts`: which rows belong to the attempt, a list of
:class:`Piece`.  :func:`assign` and :func:`surviving` need it, so that they also work on some tags or steps of a run."""

_LARGEST = np.iinfo(np.int64).max


def attempts(scalars: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """The attempts of one run, in order of time.

    ``scalars``: columns run, source, segment, tag, step, wall_time, value, every tag of the run.  ``events``: the
    run's events, columns as in the store's ``events`` table; either may be empty.  Returns :data:`COLUMNS` and
    :data:`PIECES`, one row an attempt: ``attempt`` from 0; ``parent`` the attempt whose checkpoint it loaded;
    ``start_step`` that checkpoint's step, so that start_step + 1 is the first step executed (where no event tells
    it: one reporting interval before the first step logged); ``kept_to`` the step up to which the last attempt's
    history contains it; ``lost_steps`` = end_step - kept_to; ``end_cause`` the kind of the cause, else of the
    symptom, that a logbook gives for the next restart.
    """
    chain = merge(from_stretches(find_stretches(scalars)), told_run(events))
    return _frame(_run_name(scalars, events), chain)


def assign(scalars: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """``scalars`` with a column ``attempt`` (Int64; null where a row belongs to none); all rows, in their order."""
    number = _attempt_of(scalars, attempts)
    return scalars.assign(attempt=pd.arrays.IntegerArray(number, number < 0))


def surviving(scalars: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """The rows that a restart did not throw away, as TensorBoard shows a run after its purge.

    An attempt removes from every earlier one the rows at and after the first step that it logs itself.  A tag that is
    plotted against something other than the step is cut at its own first value in the later attempt.  Where an
    attempt went back to an earlier branch of the tree, ``attempts`` follows the tree and this view does not.
    """
    if "attempt" not in scalars:
        scalars = assign(scalars, attempts)
    if scalars.empty:
        return scalars
    attempt = scalars["attempt"].fillna(-1).to_numpy(np.int64)
    step = scalars["step"].to_numpy(np.int64)
    firsts = {number: min((piece.first for piece in pieces), default=None) for number, pieces in _pieces(attempts)}
    keep = (attempt < 0) | (step < _later_first(firsts)[np.maximum(attempt, 0)])
    tags, names = pd.factorize(scalars["tag"])
    for code, name in enumerate(names):
        if signals.axis_of(str(name)) != signals.STEP_AXIS:
            rows = tags == code
            own = scalars.loc[rows].groupby("attempt")["step"].min()
            limits = _later_first({number: int(own[number]) if number in own.index else None for number in firsts})
            keep[rows] = (attempt[rows] < 0) | (step[rows] < limits[np.maximum(attempt[rows], 0)])
    kept: pd.DataFrame = scalars[keep]
    return kept


def _later_first(firsts: dict[int, int | None]) -> NDArray[np.int64]:
    """Per attempt, the least first step of those after it (:data:`_LARGEST` where there is none)."""
    by_attempt = np.full(max(firsts, default=0) + 2, _LARGEST, dtype=np.int64)
    for number, first in firsts.items():
        if first is not None:
            by_attempt[number] = first
    return np.asarray(np.minimum.accumulate(by_attempt[::-1])[::-1][1:])


def _attempt_of(scalars: pd.DataFrame, attempts: pd.DataFrame) -> NDArray[np.int64]:
    """Per row the attempt, -1 where there is none."""
    owners: dict[tuple[str, int], list[tuple[int, Piece]]] = {}
    for number, pieces in _pieces(attempts):
        for piece in pieces:
            owners.setdefault((piece.source, piece.segment), []).append((number, piece))
    codes, names = pd.factorize(scalars["source"])
    segment = scalars["segment"].to_numpy(np.int64)
    width = int(segment.max(initial=0)) + 1
    group, keys = pd.factorize(codes.astype(np.int64) * width + segment)
    owned = [owners.get((str(names[key // width]), int(key % width)), []) for key in keys.tolist()]
    sole = np.array([members[0][0] if len(members) == 1 else -1 for members in owned] or [-1], dtype=np.int64)
    result = sole[group] if len(group) else np.empty(0, dtype=np.int64)
    for index, members in enumerate(owned):
        if len(members) > 1:
            _by_step(scalars, attempts, group == index, members, result)
    return result


def _by_step(
    scalars: pd.DataFrame,
    attempts: pd.DataFrame,
    rows: NDArray[np.bool_],
    owners: Sequence[tuple[int, Piece]],
    result: NDArray[np.int64],
) -> None:
    """Divide the ``rows`` of a segment among the attempts that share it."""
    step = scalars["step"].to_numpy(np.int64)
    for number, piece in owners:
        inside = rows.copy()
        if piece.low is not None:
            inside &= step >= piece.low
        if piece.high is not None:
            inside &= step <= piece.high
        result[inside] = number
    # What is not plotted against the step goes by the clock, or, without one, to the last of them.
    tags = scalars["tag"][rows].unique()
    others = [tag for tag in tags if signals.axis_of(str(tag)) != signals.STEP_AXIS]
    if not others:
        return
    chosen = rows & scalars["tag"].isin(others).to_numpy(bool)
    begun = attempts.set_index("attempt")["start_time"]
    result[chosen] = owners[0][0] if scalars["wall_time"][chosen].notna().all() else owners[-1][0]
    for number, _ in owners[1:]:
        result[chosen & (scalars["wall_time"] >= begun[number]).to_numpy(bool)] = number


def _pieces(attempts: pd.DataFrame) -> Iterator[tuple[int, Sequence[Piece]]]:
    numbers = attempts["attempt"].to_numpy(np.int64).tolist()
    yield from zip(numbers, attempts[PIECES].tolist(), strict=True)


def _frame(run: str, chain: Sequence[Attempt]) -> pd.DataFrame:
    parents = parents_of(chain)
    kept = kept_to(chain, parents)
    rows = []
    for number, (attempt, parent, limit) in enumerate(zip(chain, parents, kept, strict=True)):
        lost = attempt.end - limit if attempt.end is not None and limit is not None else attempt.lost
        rows.append(
            {
                "run": run,
                "attempt": number,
                "parent": parent,
                "start_step": attempt.start,
                "end_step": attempt.end,
                "kept_to": limit,
                "lost_steps": None if lost is None else min(int(lost), _LARGEST),
                "start_time": attempt.begin_time,
                "end_time": attempt.end_time,
                "end_cause": attempt.cause,
                PIECES: attempt.pieces,
            }
        )
    frame = pd.DataFrame(rows, columns=[*COLUMNS, PIECES])
    # Nullable integers before anything else: a column of None and large steps must not pass through float64.
    for name, dtype in COLUMNS.items():
        values = [row[name] for row in rows]
        frame[name] = pd.Series(values, dtype=dtype, index=frame.index)
    return frame


def _run_name(scalars: pd.DataFrame, events: pd.DataFrame) -> str:
    for frame in (scalars, events):
        if len(frame) and "run" in frame:
            return str(frame["run"].iloc[0])
    return ""
