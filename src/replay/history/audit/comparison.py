"""Two tellings of one run, in two languages or by two sources: what both tell must agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from replay.history.audit.book import Entry, Notes, Telling, printed_step
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event, TimePrecision

_VALUES = ("step_end", "before", "after", "lost_steps", "lost_hours")
_EXACT = (TimePrecision.SECOND, TimePrecision.MINUTE)
_TOLERANCE = 1e-6
_WELL = frozenset({EventKind.RECOVERED, EventKind.RECOVERED_BY_ITSELF, EventKind.COMPLETED})
_ILL = frozenset({EventKind.RECURRED, EventKind.WORSENED, EventKind.ABANDONED})


def check(tellings: Sequence[Telling], notes: Notes) -> None:
    """Compare every pair of tellings, incident by incident."""
    for one, other in combinations(tellings, 2):
        theirs = {entry.incident: entry for entry in other.entries}
        for entry in one.entries:
            if (match := theirs.get(entry.incident)) is not None:
                _compare(one, entry, other, match, notes)


def _compare(one: Telling, entry: Entry, other: Telling, match: Entry, notes: Notes) -> None:
    notes.compared["incidents told twice"] += 1
    for mine, their in _matched(entry, match):
        for name, ours, theirs in _differences(mine, their):
            approximate = {mine.detail.get("approximate", ""), their.detail.get("approximate", "")}
            if name in approximate:
                continue
            _tell(one, entry, other, notes, (f"{mine.kind} {name} {ours}", f"{their.kind} {name} {theirs}"))
    for role in (Role.SYMPTOM, Role.CAUSE):
        told, heard = _kinds(entry, role), _kinds(match, role)
        if told and heard and not set(told) & set(heard):
            _tell(one, entry, other, notes, (", ".join(told), ", ".join(heard)))
    ends = [{event.kind for event in each.outcomes} for each in (entry, match)]
    if (ends[0] and ends[1]) and any(ends[i] <= _WELL and ends[1 - i] <= _ILL for i in (0, 1)):
        _tell(one, entry, other, notes, (", ".join(sorted(ends[0])), ", ".join(sorted(ends[1]))))


def _tell(one: Telling, entry: Entry, other: Telling, notes: Notes, readings: tuple[str, str]) -> None:
    first, second = (_place(telling, (one, other)) for telling in (one, other))
    notes.add(
        one,
        entry,
        "sources_disagree",
        (f"{first}: {readings[0]}", f"{second}: {readings[1]}"),
        None,
        "both tell the same incident",
    )


def _place(telling: Telling, pair: tuple[Telling, Telling]) -> str:
    """The source's name, as short as tells the two apart."""
    names = [one.source.rsplit("/", 1)[-1] for one in pair]
    return telling.source.rsplit("/", 1)[-1] if names[0] != names[1] else telling.source


def _kinds(entry: Entry, role: Role) -> list[str]:
    return list(dict.fromkeys(str(event.kind) for event in entry.events if event.role is role))


def _matched(entry: Entry, match: Entry) -> Iterator[tuple[Event, Event]]:
    """Events of both tellings that are the same thing: those of one kind and field, where each tells one."""
    for key, mine in _by_kind(entry).items():
        their = _by_kind(match).get(key, [])
        if len(mine) == len(their) == 1:
            yield mine[0], their[0]


def _by_kind(entry: Entry) -> dict[tuple[EventKind, str | None], list[Event]]:
    groups: dict[tuple[EventKind, str | None], list[Event]] = {}
    for event in entry.events:
        # One telling may call a rollback what another calls a restart: both say where training went on from.
        kind = EventKind.RESTART if event.kind is EventKind.ROLLBACK else event.kind
        groups.setdefault((kind, event.field), []).append(event)
    return groups


def _differences(mine: Event, their: Event) -> Iterator[tuple[str, str, str]]:
    ours, theirs = printed_step(mine), printed_step(their)
    if ours is not None and theirs is not None and ours != theirs:
        yield "step", str(ours), str(theirs)
    for name in _VALUES:
        a, b = getattr(mine, name), getattr(their, name)
        if a is not None and b is not None and abs(a - b) > _TOLERANCE * max(abs(a), abs(b)):
            yield name, f"{a:g}", f"{b:g}"
    for name in ("run_name", "node"):
        a, b = mine.detail.get(name), their.detail.get(name)
        if a and b and a != b:
            yield name.replace("_", " "), a, b
    if (
        mine.time is not None
        and their.time is not None
        and mine.time_precision in _EXACT
        and their.time_precision in _EXACT
        and abs((mine.time - their.time).total_seconds()) > 120
    ):
        yield "time", f"{mine.time_utc:%Y-%m-%d %H:%M}", f"{their.time_utc:%Y-%m-%d %H:%M}"
