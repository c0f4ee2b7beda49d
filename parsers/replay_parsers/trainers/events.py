"""The events of one log: told once however many ranks print them, and named so that no two share an id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay_parsers.records import KINDS, Event, EventKind, Evidence, TimePrecision, event_id
from replay_parsers.trainers.columns import ScalarColumns
from replay_parsers.trainers.seen import Seen
from replay_parsers.trainers.timestamps import as_datetime

_REMEMBERED = 8
# Told of a step before it is reported; several may be.
_BETWEEN_REPORTS = (EventKind.OVERFLOW_SKIP, EventKind.LR_CHANGE)
_NEED_A_STEP = (EventKind.CHECKPOINT_SAVE, EventKind.CHECKPOINT_LOAD)


class EventLog:
    """Collects the events of one log, adding to what is remembered of the pieces before (``state``).

    An event at a known step is named after it; the second time that a run passes the step (after a restart), its
    events carry the number 2.  An event between two reports has no step of its own and is numbered through.
    """

    def __init__(self, run: str, source: str, columns: ScalarColumns, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self.run = run
        self.source = source
        self.columns = columns
        self.repeats = 0
        # How often training has begun or been resumed.
        self.restarts = int(state.get("restarts", 0))
        self._counts: dict[str, int] = dict(state.get("counts", {}))
        # Ids of the current step, so that a second rank's telling is not a second event.
        self._told: list[str] = list(state.get("told", []))
        # The last few overflows, each with the ranks that have told it.
        self._overflows: list[list[Any]] = [list(entry) for entry in state.get("overflows", [])]
        self._events: list[Event] = []

    def state(self) -> dict[str, Any]:
        return {
            "restarts": self.restarts,
            "counts": dict(self._counts),
            "told": list(self._told),
            "overflows": [[same, list(ranks)] for same, ranks in self._overflows],
        }

    def __len__(self) -> int:
        return len(self._events)

    def take(self) -> tuple[Event, ...]:
        """The events since the last call."""
        events, self._events = tuple(self._events), []
        return events

    def overflow_told_since_report(self) -> bool:
        """Whether an overflow line stands between the last report and here."""
        return any(same.startswith(EventKind.OVERFLOW_SKIP) for same, _ in self._overflows)

    def reported(self) -> None:
        """A step was reported: what was told before it is over."""
        self._overflows = []

    def add(
        self,
        kind: EventKind,
        line: int | str,
        text: str,
        *,
        step: int | None = None,
        step_end: int | None = None,
        time: int | None = None,
        field: str | None = None,
        before: float | None = None,
        after: float | None = None,
        unit: str | None = None,
        detail: Mapping[str, str] | None = None,
    ) -> None:
        """Add one event, unless it has just been told.

        ``line`` is its line, or its place in a document; ``time`` is in microseconds since 1970.
        """
        identity = self._identity(kind, step, step_end)
        if identity is None:
            self.repeats += 1
            return
        if kind in (EventKind.START, EventKind.RESTART):
            self.restarts += 1
            self._told = self._told[-1:]
        self._events.append(
            Event(
                run=self.run,
                event=identity,
                kind=kind,
                role=KINDS[kind].role,
                time=None if time is None else as_datetime(time),
                time_precision=None if time is None else TimePrecision.SECOND,
                step=step,
                step_end=step_end,
                field=field,
                before=before,
                after=after,
                unit=unit,
                detail=dict(detail or {}),
                text=text,
                source=self.source,
                locator=f"line {line}" if isinstance(line, int) else line,
                evidence=Evidence.LOGGED,
            )
        )

    def _identity(self, kind: EventKind, step: int | None, step_end: int | None) -> str | None:
        """The id of a new event; None when it is one that has just been told."""
        exact = step is not None and step_end in (None, step)
        by_step = event_id(self.run, kind, 1 + self.columns.times_reached(step or 0), step=step) if exact else ""
        told = self._just_told(by_step or f"{kind}@")
        if by_step and not told:
            return by_step
        # Outside a step, or again within one, only what may happen several times between two reports is new.
        if told and kind not in _BETWEEN_REPORTS and (exact or step is None):
            return None
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return event_id(self.run, kind, self._counts[kind])

    def _just_told(self, key: str) -> bool:
        if key in self._told:
            return True
        self._told = [*self._told[1 - _REMEMBERED :], key]
        return False

    def add_seen(self, seen: Seen, line: int, time: int | None = None, rank: str = "") -> None:
        """Add what a line says happened, at the step that it names or at the one where the log stands."""
        if seen.kind in _BETWEEN_REPORTS:
            self._add_between(seen, line, time, seen.rank or rank)
            return
        last = self.columns.last_step
        step = seen.step if seen.step is not None else last
        if step is None and seen.kind in _NEED_A_STEP and not seen.detail.get("checkpoint"):
            return
        told_before = len(self._events)
        self.add(
            seen.kind,
            line,
            seen.text,
            step=step,
            time=time,
            field=seen.field,
            before=seen.before,
            after=seen.after,
            detail=seen.detail,
        )
        if seen.kind is EventKind.CHECKPOINT_LOAD and step and len(self._events) > told_before:
            self.add(
                EventKind.RESTART,
                line,
                f"training resumes from the checkpoint of step {step}",
                step=step,
                time=time,
                before=None if last is None else float(last),
                unit=None if last is None else "step",
                detail=seen.detail,
            )

    def _add_between(self, seen: Seen, line: int, time: int | None, rank: str) -> None:
        """What a trainer tells of a step before reporting it: after the last report, and before the next is due."""
        for same, ranks in self._overflows:
            if same == f"{seen.kind} {seen.same}" and rank and rank not in ranks:
                ranks.append(rank)
                self.repeats += 1
                return
        told = [f"{seen.kind} {seen.same}", [rank] if rank else []]
        self._overflows = [*self._overflows[1 - _REMEMBERED :], told]
        last, interval = self.columns.last_step, self.columns.interval
        known = last is not None and interval is not None
        self.add(
            seen.kind,
            line,
            seen.text,
            step=last + 1 if known and last is not None else None,
            step_end=last + interval if known and last is not None and interval is not None else None,
            time=time,
            field=seen.field,
            before=seen.before,
            after=seen.after,
            detail=seen.detail,
        )
