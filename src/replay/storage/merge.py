"""The same thing told by several sources, told once; and the events of an incident as one row.

Sources that tell the same event give it the same id.  The best telling is kept whole, never mixed with another,
so that its source and locator stand for everything in the row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Evidence

Row = dict[str, Any]
"""An event as a row of the events table: ``run``, the columns of the record, and ``format`` of its source."""

TIMELINE = "timeline"

# Which telling of one event is kept: a curated timeline first, then what a person wrote, who knew the whole story,
# then what a program wrote.  This is no order of trust.
_TELLING = (
    Evidence.STATED,
    Evidence.LOGGED,
    Evidence.FIGURE,
    Evidence.SECOND_HAND,
    Evidence.DERIVED,
    Evidence.PROXY,
)
_TELLING_RANK = {str(evidence): rank for rank, evidence in enumerate(_TELLING)}
_TRUST_RANK = {str(evidence): rank for rank, evidence in enumerate(Evidence)}

_STORY = {
    role: place
    for place, role in enumerate((Role.SYMPTOM, Role.CAUSE, Role.INTERVENTION, Role.LIFECYCLE, Role.OUTCOME))
}

_BACK_TO = (EventKind.ROLLBACK, EventKind.RESTART)


def telling_rank(row: Row) -> tuple[Any, ...]:
    """The order of preference among tellings of one event, the best first."""
    return row["format"] != TIMELINE, _TELLING_RANK[row["evidence"]], row["source"], row["locator"]


def merged(rows: Iterable[Row]) -> list[Row]:
    """One row for each event of each run: the best telling, without derived events that another tells."""
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = (row["run"], row["event"])
        if key not in best or telling_rank(row) < telling_rank(best[key]):
            best[key] = row
    return without_twins(list(best.values()))


def without_twins(rows: Sequence[Row]) -> list[Row]:
    """``rows`` without the derived events that someone logged or stated: the same kind at the same steps."""
    told: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row["evidence"] != Evidence.DERIVED and row["step"] is not None:
            told[row["run"], row["kind"]].append(_steps(row))
    covered = {key: _Ranges(ranges) for key, ranges in told.items()}

    def has_twin(row: Row) -> bool:
        if row["evidence"] != Evidence.DERIVED or row["step"] is None:
            return False
        ranges = covered.get((row["run"], row["kind"]))
        return ranges is not None and ranges.touch(*_steps(row))

    return [row for row in rows if not has_twin(row)]


class _Ranges:
    """Inclusive ranges of steps, asked whether any of them touches another: a log can tell 100,000 events."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(ranges)
        self._firsts = [first for first, _ in ordered]
        self._reached = list(accumulate((last for _, last in ordered), max))

    def touch(self, first: int, last: int) -> bool:
        begun = bisect_right(self._firsts, last)
        return begun > 0 and self._reached[begun - 1] >= first


def _steps(row: Row) -> tuple[int, int]:
    return row["step"], row["step"] if row["step_end"] is None else row["step_end"]


def chronological(row: Row) -> tuple[Any, ...]:
    """The order in which events are returned: by run, then time, then step; unknown times and steps last."""
    time, step = row["time"], row["step"]
    return (
        row["run"],
        time is None,
        time.timestamp() if time is not None else 0.0,
        step is None,
        step or 0,
        row["event"],
        *telling_rank(row),
    )


def incidents(rows: Iterable[Row], *, apart: bool) -> list[Row]:
    """One row for each incident, from events in chronological order.

    With ``apart`` each source's telling is a row of its own.  Columns: run, incident, time, step, saw, cause, did,
    then (kinds, each once, in order), recurred_after, lost_steps, lost_hours, text, source, evidence.
    """
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["incident"] is not None:
            groups[(row["run"], row["incident"], *((row["source"],) if apart else ()))].append(row)
    found = [_incident(events) for events in groups.values()]
    _add_recurrences(found, list(groups.values()))
    return sorted(found, key=lambda row: (row["run"], row["time"] is None, row["time"], row["incident"], row["source"]))


def _incident(events: Sequence[Row]) -> Row:
    # An outcome may be told weeks later: it dates an incident only where there is nothing else to tell of.
    told = [row for row in events if row["role"] != Role.OUTCOME] or events
    times = [row["time"] for row in told if row["time"] is not None]
    return {
        "run": events[0]["run"],
        "incident": events[0]["incident"],
        "time": min(times, default=None),
        "step": _seen_at(events),
        "saw": _kinds(events, Role.SYMPTOM),
        "cause": _kinds(events, Role.CAUSE),
        "did": _kinds(events, Role.INTERVENTION),
        "then": _kinds(events, Role.OUTCOME),
        "recurred_after": None,
        "lost_steps": _lost(events, "lost_steps"),
        "lost_hours": _lost(events, "lost_hours"),
        "text": _told(events),
        "source": "; ".join(dict.fromkeys(row["source"] for row in events if row["source"])),
        "evidence": min((row["evidence"] for row in events), key=_TRUST_RANK.__getitem__),
    }


def _told(events: Sequence[Row]) -> str:
    """The texts of an incident as one: what was seen, what was found, what was done, what came of it."""
    texts = dict.fromkeys(row["text"] for row in sorted(events, key=lambda row: _STORY[row["role"]]) if row["text"])
    return " ".join(text if text.endswith((".", "!", "?", "。")) else f"{text};" for text in texts).removesuffix(";")


def _seen_at(events: Sequence[Row]) -> int | None:
    """The step at which the incident showed: that of its first symptom, else the one reached when it was noticed."""
    symptoms = [row["step"] for row in events if row["role"] == Role.SYMPTOM]
    reached = [row["before"] for row in events if row["kind"] in _BACK_TO]
    others = [row["step"] for row in events if row["role"] != Role.OUTCOME]
    return next((int(step) for step in (*symptoms, *reached, *others) if step is not None), None)


def _kinds(events: Sequence[Row], role: Role) -> list[str]:
    return list(dict.fromkeys(row["kind"] for row in events if row["role"] == role))


def _lost(events: Sequence[Row], column: str) -> float | None:
    """What was lost, as stated.

    Each rollback loses its own; other events that state a loss mostly repeat the same one, so that the largest
    is taken where no rollback states any.
    """
    by_rollbacks = [row[column] for row in events if row["kind"] == EventKind.ROLLBACK and row[column] is not None]
    if by_rollbacks:
        return float(sum(by_rollbacks))
    return max((float(row[column]) for row in events if row[column] is not None), default=None)


def _add_recurrences(found: Sequence[Row], groups: Sequence[Sequence[Row]]) -> None:
    """Fill in ``recurred_after``: steps from the checkpoint an incident went back to, to where it came back.

    That is where a source says so; where it says only that it did, the next incident of the run in which the same
    was seen.
    """
    by_run: dict[str, list[tuple[Row, Sequence[Row]]]] = defaultdict(list)
    for incident, events in zip(found, groups, strict=True):
        by_run[incident["run"]].append((incident, events))
    for own in by_run.values():
        others = [incident for incident, _ in own]
        in_line = in_one_line(events for _, events in own)
        for incident, events in own:
            back_to = went_back_to(events)
            recurrences = [row for row in events if row["kind"] == EventKind.RECURRED]
            if back_to is None or not recurrences:
                continue
            at = next((row["step"] for row in recurrences if row["step"] is not None), None)
            if at is None:
                at = seen_again(incident, back_to, others, reached=reached(events) if in_line else None)
            if at is not None and at >= back_to:
                incident["recurred_after"] = at - back_to


def went_back_to(events: Iterable[Mapping[str, Any]]) -> int | None:
    """The step that training went on from after an incident: of its last rollback, else of its last restart.

    A restart from scratch is one from step 0.
    """
    told = list(events)
    steps = {row["kind"]: row["step"] for row in told if row["kind"] in _BACK_TO and row["step"] is not None}
    anew = 0 if any(row["kind"] == EventKind.RESTART_FROM_SCRATCH for row in told) else None
    return next((steps[kind] for kind in _BACK_TO if kind in steps), anew)


def reached(events: Iterable[Mapping[str, Any]]) -> int | None:
    """The furthest step at which the symptoms of an incident are known to have shown; None where no step is told."""
    return max(
        (int(row["step"]) for row in events if row["role"] == Role.SYMPTOM and row["step"] is not None), default=None
    )


def in_one_line(groups: Iterable[Iterable[Mapping[str, Any]]]) -> bool:
    """Whether the undated incidents of a run follow each other as their steps do, as far as can be told.

    They do not where several went back to one checkpoint, or to the start: experiments that branch off there are in no
    order.
    """
    starts: list[int] = []
    for events in groups:
        own = list(events)
        dated = any(row["time"] is not None for row in own if row["role"] != Role.OUTCOME)
        if not dated and any(row["role"] == Role.INTERVENTION for row in own):
            back = went_back_to(own)
            starts += [] if back is None else [back]
    return len(starts) == len(set(starts)) and 0 not in starts


def seen_again(
    incident: Mapping[str, Any], went_on_from: int, others: Iterable[Mapping[str, Any]], *, reached: int | None = None
) -> int | None:
    """The first step beyond ``went_on_from`` at which a later incident of the run shares a symptom with this one.

    Of incidents with a time it is known which is the later one.  Of two without, it is only where the run goes on in
    one line (:func:`in_one_line`); then ``reached`` is the step up to which this incident had shown, and the later one
    shows beyond it.
    """
    seen, time = set(incident["saw"]), incident["time"]

    def later(other: Mapping[str, Any]) -> bool:
        if time is not None:
            return other["time"] is not None and bool(other["time"] > time)
        return other["time"] is None and reached is not None and bool(other["step"] > reached)

    steps = [
        int(other["step"])
        for other in others
        if other["step"] is not None and other["step"] > went_on_from and seen & set(other["saw"]) and later(other)
    ]
    return min(steps, default=None)
