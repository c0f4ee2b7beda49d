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
_BACK = [str(Kind.ROLLBACK), str(Kind.RESTART)]

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
    incidents = store.incidents(run=run)
    events = store.events(run=run, derived=False)
    by_incident = dict(iter(events.groupby("incident", sort=False)))
    ends = _last_steps(events)
    rows = [
        _row(incident, by_incident[incident["incident"]], others, ends.get(name))
        for name, others in _by_run(incidents)
        for incident in others
        if incident["did"] and (incident["saw"] or incident["then"]) and incident["incident"] in by_incident
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _by_run(incidents: pd.DataFrame) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    for name, rows in incidents.groupby("run", sort=False):
        yield str(name), cast("list[dict[str, Any]]", rows.to_dict("records"))


def _last_steps(events: pd.DataFrame) -> dict[str, int]:
    """The last step that anything is noted of, by run."""
    last = events[["step", "step_end"]].max(axis=1).groupby(events["run"]).max().dropna()
    return {str(name): int(step) for name, step in last.items()}


def _row(
    incident: dict[str, Any], events: pd.DataFrame, others: list[dict[str, Any]], end: int | None
) -> dict[str, Any]:
    then = set(incident["then"])
    back, acted_at = went_back_to(events), acting_step(incident, events)
    later = _next_like(incident, acted_at, others)
    outcome = _outcome(incident, then, later, acted_at, end)
    at, followed, basis = None, None, "stated" if then - {str(Kind.NOT_STATED)} else "silence"
    if outcome == CAME_BACK:
        at, basis = (_step_of(events, _BAD), "stated") if then & _BAD else (later, "next incident")
        if at is None and str(Kind.RECURRED) in then:
            at = later
    elif outcome == STAYED_AWAY and acted_at is not None:
        seen_well = _step_of(events, _GOOD)
        # The end of the record says something only of a run whose incidents follow each other in time.
        known = [step for step in (seen_well, end if not pd.isna(incident["time"]) else None) if step is not None]
        followed = max(known) - acted_at if known and max(known) >= acted_at else None
    after = at - acted_at if at is not None and acted_at is not None else None
    # Where training was not put back, the step of the outcome may be that of the symptom itself.
    if after is not None and (after <= 0 or (back is None and later is None)):
        after = None
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
    silent = incident["saw"] and not pd.isna(incident["time"]) and acted_at is not None
    return STAYED_AWAY if silent and end is not None and acted_at is not None and end > acted_at else NOT_KNOWN


def acting_step(incident: dict[str, Any], events: pd.DataFrame) -> int | None:
    """The step that training went on from, else the step at which the incident showed."""
    back = went_back_to(events)
    if back is not None:
        return back
    return None if pd.isna(incident["step"]) else int(incident["step"])


def went_back_to(events: pd.DataFrame) -> int | None:
    """The step that training went on from, None where none is told."""
    steps = events.loc[events["kind"].isin(_BACK), "step"].dropna()
    return int(steps.iloc[-1]) if len(steps) else None


def _step_of(events: pd.DataFrame, kinds: set[str]) -> int | None:
    steps = events.loc[events["kind"].isin(kinds), "step"].dropna()
    return int(steps.iloc[0]) if len(steps) else None


def _next_like(incident: dict[str, Any], acted_at: int | None, others: list[dict[str, Any]]) -> int | None:
    """Where the same was next seen in the run; only where both have a time, so that one is known to be later."""
    if pd.isna(incident["time"]) or acted_at is None:
        return None
    steps = [
        int(other["step"])
        for other in others
        if not pd.isna(other["time"])
        and not pd.isna(other["step"])
        and other["time"] > incident["time"]
        and other["step"] > max(acted_at, 0 if pd.isna(incident["step"]) else incident["step"])
        and set(other["saw"]) & set(incident["saw"])
    ]
    return min(steps, default=None)
