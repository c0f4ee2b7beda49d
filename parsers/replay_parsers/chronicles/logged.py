"""What log lines pasted into an entry show of what its sentences tell: the step and size of a spike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.records import EventKind, Evidence
from replay_parsers.trainers.megatron import LoggedRecord

K = EventKind

_QUIET = 1.05
_SPIKE = 1.25
_KINDS = {K.LOSS_SPIKE: "loss", K.LOSS_EXPLOSION: "loss", K.GRAD_NORM_SPIKE: "grad_norm"}
_FIELDS = {"loss": ("lm loss", "lm_loss", "loss"), "grad_norm": ("grad norm", "grad_norm")}


@dataclass(frozen=True, slots=True)
class Spike:
    """A rise in a stretch of records: the value ``before`` it began after step ``onset``, and its first peak."""

    onset: int
    step: int
    before: float
    after: float


def spike(points: Sequence[tuple[int, float]]) -> Spike | None:
    """The first rise by a quarter and more over the value at the beginning, up to where it first falls again.

    >>> spike([(10, 2.0), (11, 2.05), (12, 5.0), (13, 3.0)])
    Spike(onset=11, step=12, before=2.05, after=5.0)
    """
    if len(points) < 2:
        return None
    base = points[0][1]
    above = next((place for place, (_, value) in enumerate(points) if base > 0 and value > _SPIKE * base), None)
    if not above:
        return None
    quiet = max((place for place in range(above) if points[place][1] <= _QUIET * base), default=0)
    peak = above
    while peak + 1 < len(points) and points[peak + 1][1] > points[peak][1]:
        peak += 1
    return Spike(points[quiet][0], points[peak][0], points[quiet][1], points[peak][1])


def _points(records: Sequence[LoggedRecord], names: Sequence[str]) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for record in records:
        value = next((record.fields[name] for name in names if name in record.fields), None)
        if value is None or (found and record.step < found[-1][0]):
            continue
        found.append((record.step, value))
    return found


def with_log_lines(drafts: Sequence[Draft], records: Sequence[LoggedRecord]) -> list[Draft]:
    """``drafts`` with the values that ``records`` show, and a ``nan_loss`` where a record lacks the loss that the
    ones before it have (Megatron prints no loss that is not a number)."""
    filled = list(drafts)
    if not records:
        return filled
    for kind, field in _KINDS.items():
        place = next((index for index, draft in enumerate(filled) if draft.kind is kind), None)
        shown = spike(_points(records, _FIELDS[field])) if place is not None else None
        if place is None or shown is None:
            continue
        draft = filled[place]
        # A program's line beats a person's round figure; the sentence is kept as the quotation.
        detail = {**draft.detail, "onset": str(shown.onset), "evidence": Evidence.LOGGED.value}
        filled[place] = replace(
            draft, step=shown.step, before=shown.before, after=shown.after, field=field, detail=detail, onset=False
        )
    if (step := _lost_its_loss(records)) is not None and all(draft.kind is not K.NAN_LOSS for draft in filled):
        detail = {"evidence": Evidence.LOGGED.value}
        filled.append(Draft(kind=K.NAN_LOSS, step=step, line=records[-1].line, detail=detail))
    return filled


def _lost_its_loss(records: Sequence[LoggedRecord]) -> int | None:
    had = False
    for record in records:
        has = any(name in record.fields for name in _FIELDS["loss"])
        if had and not has and len(record.fields) > 3:
            return record.step
        had = had or has
    return None
