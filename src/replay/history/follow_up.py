"""What came of what was done: did the trouble come back, and after how many steps.

For each incident in which something was done about something seen, :func:`follow_up` says whether it came back, by the
source's own word where there is one, else by the next incident of the run in which the same was seen.  That it stayed
away takes a source that says it was gone, and a stretch of the record after it, in steps: staying away is always "for
so long" (censored), never "for good".  Without such a stretch it has merely recovered; where nothing is said of the
outcome it is not known, however long the record is silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.storage.merge import in_one_line, reached, seen_again, went_back_to
from replay_parsers.kinds import EventKind as Kind

if TYPE_CHECKING:
    from replay.store import EventStore

CAME_BACK, STAYED_AWAY, RECOVERED, UNAFFECTED, ABANDONED, NOT_KNOWN = (
    "came back",
    "stayed away",
    "recovered",
    "unaffected",
    "given up",
    "not known",
)

Row = dict[str, Any]

_BAD = {str(kind) for kind in (Kind.RECURRED, Kind.DELAYED, Kind.WORSENED)}
_GOOD = {str(kind) for kind in (Kind.RECOVERED, Kind.RECOVERED_BY_ITSELF, Kind.COMPLETED)}

_COLUMNS = {
    "run": "str",
    "incident": "str",
    "saw": "object",
    "did": "object",
    "acted_at": "Int64",
    "outcome": "str",
    "recurred_after": "Int64",
    "followed_for": "Int64",
    "basis": "str",
}


def follow_up(store: EventStore, run: str | Iterable[str] | None = None) -> pd.DataFrame:
    """What came of each incident in which something was done about something, one row each.

    Columns: run, incident, saw and did (lists of kinds), acted_at (the step gone on from, else where it showed),
    outcome (came back; stayed away: it was gone, for the steps in ``followed_for``; recovered: it was gone, for how
    long is not told; unaffected; given up; not known), recurred_after (steps from acted_at to where it came back),
    followed_for (steps of the record after acted_at in which nothing more of it is noted), basis (stated, next
    incident, silence: nothing more is said of it).
    """
    events = store.events(run=run, derived=False)
    by_incident = {str(name): _rows(own) for name, own in events.groupby("incident", sort=False)}
    rows = []
    for name, incidents in _by_run(store.incidents(run=run)):
        told = _Told(incidents, by_incident, _rows(events[events["run"] == name]))
        rows += [
            _row(incident, by_incident[incident["incident"]], told)
            for incident in incidents
            if incident["did"] and (incident["saw"] or incident["then"]) and incident["incident"] in by_incident
        ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


class _Told:
    """What a run's record tells beside one incident: what was seen later, and how far the record goes on."""

    def __init__(
        self,
        incidents: list[dict[str, Any]],
        by_incident: dict[str, list[dict[str, Any]]],
        events: list[dict[str, Any]],
    ) -> None:
        self._incidents = incidents
        own = [by_incident[incident["incident"]] for incident in incidents if incident["incident"] in by_incident]
        self._in_line = in_one_line(own)
        self._dated = [
            (event["time"], max(step for step in (event["step"], event["step_end"]) if step is not None))
            for event in events
            if event["time"] is not None and (event["step"] is not None or event["step_end"] is not None)
        ]

    def seen_again(self, incident: dict[str, Any], events: list[dict[str, Any]], acted_at: int | None) -> int | None:
        """The step at which a later incident shows the same; None where there is none, or its step is not told."""
        if acted_at is None:
            return None
        known = reached(events) if self._in_line else None
        return seen_again(incident, acted_at, self._incidents, reached=known)

    def followed_to(self, incident: dict[str, Any]) -> int | None:
        """The last step that is noted after an incident.

        None where the record is in no order of time, or where the same was seen at a step or time that is not told.
        """
        time, saw = incident["time"], set(incident["saw"])
        if time is None or any(
            other is not incident
            and saw & set(other["saw"])
            and (other["time"] is None or (other["time"] > time and other["step"] is None))
            for other in self._incidents
        ):
            return None
        return max((int(step) for at, step in self._dated if at > time), default=None)


def _by_run(incidents: pd.DataFrame) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    for name, rows in incidents.groupby("run", sort=False):
        yield str(name), _rows(rows)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows in which what is missing is None, as storage has them."""
    numbers = ["step", "step_end", "recurred_after"]
    known = frame.assign(
        **{
            name: frame[name].astype(object).where(frame[name].notna(), None)
            for name in ("time", *numbers)
            if name in frame
        }
    )
    return cast("list[dict[str, Any]]", known.to_dict("records"))


def _row(incident: dict[str, Any], events: list[dict[str, Any]], told: _Told) -> dict[str, Any]:
    then = set(incident["then"])
    back, acted_at = went_back_to(events), _acting_step(incident, events)
    later = told.seen_again(incident, events, acted_at)
    followed = _followed(events, acted_at, told.followed_to(incident)) if later is None else None
    outcome = _outcome(then, later, followed)
    after, basis = None, "stated" if then - {str(Kind.NOT_STATED)} else "silence"
    if outcome == CAME_BACK:
        basis = "stated" if then & _BAD else "next incident"
        after = incident["recurred_after"]
        if after is None:
            stated = _step_of(events, _BAD)
            same = not then & _BAD or str(Kind.RECURRED) in then
            after = _came_back_after(acted_at, later if stated is None and same else stated)
        # Where training was not put back, the step of the outcome may be that of the symptom itself.
        if back is None and later is None:
            after = None
    return {
        "run": incident["run"],
        "incident": incident["incident"],
        "saw": incident["saw"],
        "did": incident["did"],
        "acted_at": acted_at,
        "outcome": outcome,
        "recurred_after": after,
        "followed_for": followed if outcome in (STAYED_AWAY, NOT_KNOWN) else None,
        "basis": basis,
    }


def _followed(events: list[dict[str, Any]], acted_at: int | None, last: int | None) -> int | None:
    """For how many steps nothing more was noted: up to where a source says that all was well, or the record ends."""
    known = [step for step in (_step_of(events, _GOOD), last) if step is not None]
    return max(known) - acted_at if acted_at is not None and known and max(known) > acted_at else None


def _came_back_after(acted_at: int | None, at: int | None) -> int | None:
    return at - acted_at if at is not None and acted_at is not None and at > acted_at else None


def _outcome(then: set[str], later: int | None, followed: int | None) -> str:
    if then & _BAD:
        return CAME_BACK
    if str(Kind.UNAFFECTED) in then:
        return UNAFFECTED
    if str(Kind.ABANDONED) in then:
        return ABANDONED
    if later is not None:
        return CAME_BACK
    if then & _GOOD:
        return RECOVERED if followed is None else STAYED_AWAY
    return NOT_KNOWN


def _acting_step(incident: dict[str, Any], events: list[dict[str, Any]]) -> int | None:
    """The step that training went on from, else the step at which the incident showed."""
    back = went_back_to(events)
    return incident["step"] if back is None else back


def _step_of(events: list[dict[str, Any]], kinds: set[str]) -> int | None:
    return next((event["step"] for event in events if event["kind"] in kinds and event["step"] is not None), None)
