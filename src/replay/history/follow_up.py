"""What came of what was done: did the trouble come back, and after how many steps.

For each incident in which something was done about something seen, :func:`follow_up` says whether it came back, by the
source's own word where there is one, else by the next incident of the run in which the same was seen, and for how many
steps it is known to have stayed away otherwise: a run's record ends, so that staying away is always "for so long"
(censored), never "for good".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.storage.merge import seen_again, went_back_to
from replay_parsers.kinds import EventKind as Kind

if TYPE_CHECKING:
    from replay.store import EventStore

CAME_BACK, STAYED_AWAY, UNAFFECTED, ABANDONED, NOT_KNOWN = (
    "came back",
    "stayed away",
    "unaffected",
    "given up",
    "not known",
)

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
    outcome (came back, stayed away, unaffected, given up, not known), recurred_after (steps from acted_at to where it
    came back), followed_for (steps over which it is known to have stayed away), basis (stated, next incident,
    silence: nothing more is noted of it).
    """
    events = store.events(run=run, derived=False)
    by_incident = {name: _rows(own) for name, own in events.groupby("incident", sort=False)}
    ends = _last_steps(events)
    rows = [
        _row(incident, by_incident[incident["incident"]], others, ends.get(name))
        for name, others in _by_run(store.incidents(run=run))
        for incident in others
        if incident["did"] and (incident["saw"] or incident["then"]) and incident["incident"] in by_incident
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _by_run(incidents: pd.DataFrame) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    for name, rows in incidents.groupby("run", sort=False):
        yield str(name), _rows(rows)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows in which what is missing is None, as storage has them."""
    numbers = ["step", "recurred_after"]
    known = frame.assign(
        **{
            name: frame[name].astype(object).where(frame[name].notna(), None)
            for name in ("time", *numbers)
            if name in frame
        }
    )
    return cast("list[dict[str, Any]]", known.to_dict("records"))


def _last_steps(events: pd.DataFrame) -> dict[str, int]:
    """The last step that anything is noted of, by run."""
    last = events[["step", "step_end"]].max(axis=1).groupby(events["run"]).max().dropna()
    return {str(name): int(step) for name, step in last.items()}


def _row(
    incident: dict[str, Any], events: list[dict[str, Any]], others: list[dict[str, Any]], end: int | None
) -> dict[str, Any]:
    then = set(incident["then"])
    back, acted_at = went_back_to(events), _acting_step(incident, events)
    later = None if acted_at is None else seen_again(incident, acted_at, others)
    outcome = _outcome(incident, then, later, acted_at, end)
    after, followed, basis = None, None, "stated" if then - {str(Kind.NOT_STATED)} else "silence"
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
    elif outcome == STAYED_AWAY and acted_at is not None:
        seen_well = _step_of(events, _GOOD)
        # The end of the record says something only of a run whose incidents follow each other in time.
        known = [step for step in (seen_well, end if incident["time"] is not None else None) if step is not None]
        followed = max(known) - acted_at if known and max(known) >= acted_at else None
    return {
        "run": incident["run"],
        "incident": incident["incident"],
        "saw": incident["saw"],
        "did": incident["did"],
        "acted_at": acted_at,
        "outcome": outcome,
        "recurred_after": after,
        "followed_for": followed,
        "basis": basis,
    }


def _came_back_after(acted_at: int | None, at: int | None) -> int | None:
    return at - acted_at if at is not None and acted_at is not None and at > acted_at else None


def _outcome(incident: dict[str, Any], then: set[str], later: int | None, acted_at: int | None, end: int | None) -> str:
    if then & _BAD:
        return CAME_BACK
    if str(Kind.UNAFFECTED) in then:
        return UNAFFECTED
    if str(Kind.ABANDONED) in then:
        return ABANDONED
    if later is not None:
        return CAME_BACK
    if then & _GOOD:
        return STAYED_AWAY
    silent = incident["saw"] and incident["time"] is not None and acted_at is not None
    return STAYED_AWAY if silent and end is not None and acted_at is not None and end > acted_at else NOT_KNOWN


def _acting_step(incident: dict[str, Any], events: list[dict[str, Any]]) -> int | None:
    """The step that training went on from, else the step at which the incident showed."""
    back = went_back_to(events)
    return incident["step"] if back is None else back


def _step_of(events: list[dict[str, Any]], kinds: set[str]) -> int | None:
    return next((event["step"] for event in events if event["kind"] in kinds and event["step"] is not None), None)
