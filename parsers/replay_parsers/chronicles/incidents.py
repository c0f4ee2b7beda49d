"""From dated entries to incidents and their events, by the conventions of ``logbooks/README.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from replay_parsers.chronicles import dates
from replay_parsers.chronicles.drafts import Draft, settle
from replay_parsers.chronicles.entries import Entry, Part
from replay_parsers.chronicles.logged import with_log_lines
from replay_parsers.records import (
    Event,
    EventKind,
    Evidence,
    RecordError,
    Role,
    TimePrecision,
    event_id,
    incident_id,
)

K = EventKind

DAMAGE = frozenset({K.LOSS_EXPLOSION, K.DIVERGENCE, K.NAN_LOSS, K.LOSS_SPIKE, K.LOSS_SCALE_DROP, K.LOSS_SCALE_FLOOR})
MOVES = frozenset({K.RESTART, K.ROLLBACK})
# What concerns machines and people rather than the model has a step only where the text gives it one.
_NOT_OF_THE_MODEL = frozenset(
    {K.NODE_REPLACEMENT, K.CHECKPOINT_INTERVAL_CHANGE, K.MONITORING_CHANGE, K.TOPOLOGY_CHANGE, K.CODE_FIX, K.WAIT,
     K.SKIP_BATCHES, K.ROLLBACK}
)  # fmt: skip
_HARDWARE = frozenset({K.NODE_FAILURE, K.GPU_FAILURE, K.NETWORK_FAILURE, K.STORAGE_FAILURE, K.MEMORY_ERROR})
_MISTAKE = frozenset({K.CONFIG_BUG, K.SOFTWARE_BUG, K.OPERATOR_ERROR})


_When = tuple[datetime | None, TimePrecision | None]


@dataclass(slots=True, kw_only=True)
class Incident:
    """One trouble or decision: its id, its entry, and its settled drafts."""

    name: str
    entry: Entry
    place: int
    drafts: list[Draft] = field(default_factory=list)

    def kinds(self) -> set[EventKind]:
        """The kinds of the drafts."""
        return {draft.kind for draft in self.drafts}

    def first(self, kinds: Iterable[EventKind]) -> Draft | None:
        """The first draft of one of ``kinds``."""
        wanted = set(kinds)
        return next((draft for draft in self.drafts if draft.kind in wanted), None)


def build(
    run: str,
    entries: Sequence[Entry],
    *,
    launcher: timedelta | None,
    samples_per_step: int | None = None,
    episodes: bool = False,
    settings: bool = False,
) -> list[Incident]:
    """The incidents of ``entries`` in order, numbered where several carry the same print.

    ``launcher`` is how far the clock of launch names is ahead of UTC; ``samples_per_step`` converts lengths in
    samples to steps; ``settings`` keeps account of options, so that one shown again with the value it has is no
    change, and one with another value has a value before.
    """
    numbers: Counter[str] = Counter()
    incidents: list[Incident] = []
    tried: set[int] = set()
    known: dict[str, float] = {}
    for place, entry in enumerate(entries):
        for group in _episodes(entry) if episodes else _groups(entry, launcher):
            numbers[entry.label] += 1
            name = incident_id(run, entry.label, numbers[entry.label])
            group = with_log_lines(_told_once(group, incidents), entry.logged)
            drafts = _finish(group, tried, samples_per_step)
            if settings:
                drafts = _changed(drafts, known)
            incidents.append(Incident(name=name, entry=entry, place=place, drafts=drafts))
            tried |= {draft.step for draft in drafts if draft.kind in MOVES and draft.step is not None}
    return incidents


def _groups(entry: Entry, launcher: timedelta | None) -> list[list[Draft]]:
    """The drafts of an entry, one list an incident: a further launch opens one, and so does a further cause that
    has nothing to do with the first."""
    told: list[list[Draft]] = []
    for number, part in enumerate(entry.parts):
        drafts = _with_launch(_exact(settle(_with_curve(part))), part, launcher)
        if part.launch is None and told:
            # What follows the last launch without one of its own belongs to it.
            told[-1] = _exact(settle([*told[-1], *drafts]))
            continue
        if number and part.launch and launcher is not None:
            # The heading's time is that of the first launch.
            at = part.launch.utc(launcher)
            drafts = [replace(draft, at=draft.at or at) for draft in drafts]
        told.append(drafts)
    groups = [group for drafts in told for group in _by_cause(drafts)]
    return [group for group in groups if group] or [[]]


def _episodes(entry: Entry) -> list[list[Draft]]:
    """The drafts of running prose, one list an incident: what was seen or found after something had been done, in a
    later sentence, opens the next one."""
    groups: list[list[Draft]] = []
    for draft in entry.drafts:
        if not groups or _opens_episode(draft, groups[-1]):
            groups.append([])
        groups[-1].append(draft)
    return [_exact(settle(group)) for group in groups]


def _opens_episode(draft: Draft, group: Sequence[Draft]) -> bool:
    """Whether ``draft`` begins something new after what ``group`` tells: another run, a trouble after something was
    done, something done after its outcome; within one sentence only after a start or with another run's name."""
    last = group[-1]
    troubled = draft.role in (Role.SYMPTOM, Role.CAUSE)
    done = [other for other in group if other.role not in (Role.SYMPTOM, Role.CAUSE)]
    runs = [other.detail["run_name"] for other in group if "run_name" in other.detail]
    if done and draft.detail.get("run_name") and runs and draft.detail["run_name"] != runs[-1]:
        return True
    if troubled and any(other.kind is K.START for other in group):
        return True
    if draft.quote == last.quote:
        return False
    if troubled and draft.line != last.line:
        return True  # running prose takes up one trouble a paragraph
    acted = next((place for place, other in enumerate(group) if other.role is Role.INTERVENTION), len(group))
    if draft.role is Role.INTERVENTION and any(other.role is Role.OUTCOME for other in group[acted:]):
        return True
    return troubled and bool(done)


def _told_once(drafts: list[Draft], incidents: list[Incident]) -> list[Draft]:
    """Leave out a restart that only repeats the rollback with which the incident before ended ("Restarted from
    6210" at the head of the next experiment)."""
    if not incidents or not drafts or incidents[-1].entry.printed is not None:
        return drafts
    last = next((draft for draft in reversed(incidents[-1].drafts) if draft.kind in MOVES), None)
    first = next((draft for draft in drafts if draft.kind in MOVES), None)
    if last is None or first is None or first.step is None or last.step != first.step or first.kind is K.ROLLBACK:
        return drafts
    return [draft for draft in drafts if draft is not first]


def _changed(drafts: list[Draft], known: dict[str, float]) -> list[Draft]:
    """Drafts of options compared with the settings ``known`` so far, which they bring up to date."""
    kept: list[Draft] = []
    kinds = {draft.kind for draft in drafts}
    # What is given up before anything came of it does not last.
    tried = K.ABANDONED in kinds and not kinds & DAMAGE
    lasting = dict(known)
    for draft in drafts:
        if draft.field is None or draft.after is None or draft.role is not Role.INTERVENTION:
            kept.append(draft)
            continue
        before = known.get(draft.field)
        known[draft.field] = draft.after
        if draft.before is None and draft.detail.get("flag"):
            if before == draft.after or (draft.onset and before is None):
                continue
            draft = replace(draft, before=before)
        kept.append(draft)
    if tried:
        known.clear()
        known.update(lasting)
    rate = next((draft for draft in kept if draft.field == "learning_rate"), None)
    # A rate set to zero takes its minimum along.
    return [draft for draft in kept if not (draft.field == "min_learning_rate" and rate and rate.after == draft.after)]


def _exact(drafts: list[Draft]) -> list[Draft]:
    """The text beats the heading: "node failure" above a sentence about an NVLink error is a network failure."""
    exact = [draft for draft in drafts if draft.kind in _HARDWARE and draft.kind is not K.NODE_FAILURE]
    told = any(not draft.heading and draft.kind is not K.STORAGE_FAILURE for draft in exact)
    drafts = [draft for draft in drafts if not (told and draft.kind is K.NODE_FAILURE and draft.heading)]
    # "It blew up" beside "the loss exploded at 33740" is the same thing, less exactly.
    exploded = any(draft.kind is K.LOSS_EXPLOSION for draft in drafts)
    return [draft for draft in drafts if not (exploded and draft.kind is K.DIVERGENCE and draft.step is None)]


def _with_curve(part: Part) -> list[Draft]:
    """A curve record named after a step says where the entry's symptom was seen, if the text does not."""
    drafts = list(part.drafts)
    if part.curve_step is None or any(draft.role is Role.SYMPTOM and draft.step is not None for draft in drafts):
        return drafts
    for index, draft in enumerate(drafts):
        if draft.role is Role.SYMPTOM:
            detail = {**draft.detail, "approximate": "step"}
            drafts[index] = replace(draft, step=part.curve_step, detail=detail)
            break
    return drafts


def _with_launch(drafts: list[Draft], part: Part, launcher: timedelta | None) -> list[Draft]:
    if any(draft.kind is K.START for draft in drafts):
        # A heading that says that training starts also says "start training": that is no restart.
        drafts = [draft for draft in drafts if draft.kind is not K.RESTART or draft.step is not None]
    if part.launch is None:
        return drafts
    at = part.launch.utc(launcher) if launcher is not None else None
    for index in reversed(range(len(drafts))):
        draft = drafts[index]
        if draft.kind in MOVES or draft.kind is K.START:
            detail = {**draft.detail, "run_name": part.launch.name}
            drafts[index] = replace(draft, at=at, detail=detail)
            return drafts
    return [*drafts, Draft(kind=K.RESTART, at=at, detail={"run_name": part.launch.name})]


def _family(kind: EventKind) -> str:
    if kind is K.STORAGE_FAILURE:
        return "storage"
    return "hardware" if kind in _HARDWARE else "mistake" if kind in _MISTAKE else "data"


def _by_cause(drafts: list[Draft]) -> list[list[Draft]]:
    """Split drafts whose causes have nothing to do with each other; what the heading names comes first.

    A draft belongs to the cause that its own sentence tells, else to the first; moves and launches to the first.
    """
    causes = [draft for draft in drafts if draft.role is Role.CAUSE and "certainty" not in draft.detail]
    causes.sort(key=lambda draft: draft.line if not draft.heading else 0)
    headed = [draft for draft in causes if draft.heading][:1]
    rest = [draft for draft in causes if not draft.heading]
    families = list(dict.fromkeys(_family(draft.kind) for draft in (*headed, *rest)))
    if len(families) < 2 or families == ["data"]:
        return [drafts]
    # By paragraph where each tells one cause, else by sentence.
    lines = {draft.line for draft in rest}
    by_line = len(lines) == len({_family(draft.kind) for draft in rest})
    of_place = {(draft.line if by_line else draft.quote): _family(draft.kind) for draft in rest}
    groups: dict[str, list[Draft]] = {family: [] for family in families}
    for draft in drafts:
        if draft.role is Role.CAUSE and "certainty" not in draft.detail:
            groups[_family(draft.kind)].append(draft)
        elif draft.kind in MOVES:
            groups[families[0]].append(draft)
        else:
            groups[of_place.get(draft.line if by_line else draft.quote, families[0])].append(draft)
    return list(groups.values())


def _finish(drafts: list[Draft], tried: set[int], samples_per_step: int | None) -> list[Draft]:
    """Decide between restart and rollback, and give steps to what holds from the loaded checkpoint on."""
    drafts = _saved_before(drafts)
    seen = [draft.step for draft in drafts if draft.role is Role.SYMPTOM and draft.step is not None]
    damaged = next((place for place, draft in enumerate(drafts) if draft.kind in DAMAGE), len(drafts))
    finished = [_as_move(draft, damaged < place, tried, max(seen, default=None)) for place, draft in enumerate(drafts)]
    moves = [draft for draft in finished if draft.kind in MOVES and draft.step is not None]
    step = moves[0].step if len({move.step for move in moves}) == 1 else None
    return [_with_length(_holding_from(draft, step), samples_per_step) for draft in finished]


def _saved_before(drafts: list[Draft]) -> list[Draft]:
    """A checkpoint said to be saved before a change is what the restart told above it loaded, if that has no step."""
    filled = list(drafts)
    for draft in drafts:
        if draft.kind is not K.CHECKPOINT_SAVE or not draft.quote:
            continue
        place = filled.index(draft)
        open_moves = [
            index
            for index in range(place)
            if filled[index].kind is K.RESTART and filled[index].step is None and filled[index].quote
        ]
        if open_moves and not filled[open_moves[-1]].detail.get("run_name"):
            index = open_moves[-1]
            filled[index] = replace(filled[index], step=draft.step)
            filled.remove(draft)
    return filled


def _as_move(draft: Draft, damage: bool, tried: set[int], reached: int | None) -> Draft:
    if draft.kind in MOVES and draft.step == 0:
        return replace(draft, kind=K.RESTART_FROM_SCRATCH, step=None)
    if draft.kind not in MOVES or draft.step is None:
        told = draft.detail.get("checkpoint") or draft.lost_steps
        return replace(draft, kind=K.RESTART) if draft.kind is K.ROLLBACK and not told else draft
    # A second start from the same checkpoint is another variant tried from there.
    back = draft.kind is K.ROLLBACK or damage or draft.step in tried
    if not back:
        return draft
    before = float(reached) if reached is not None and reached >= draft.step else draft.before
    unit = "step" if before is not None else draft.unit
    return replace(draft, kind=K.ROLLBACK, before=before, unit=unit)


def _holding_from(draft: Draft, step: int | None) -> Draft:
    if step is None or draft.step is not None or draft.role is not Role.INTERVENTION or draft.kind in _NOT_OF_THE_MODEL:
        return draft
    return replace(draft, step=step)


def _with_length(draft: Draft, samples_per_step: int | None) -> Draft:
    detail = dict(draft.detail)
    if draft.kind is K.LR_REWARM and draft.field is None:
        draft = replace(draft, field="learning_rate")
    if "samples" in detail and "steps" not in detail and samples_per_step and detail["samples"].isdigit():
        detail["steps"] = f"{int(detail['samples']) / samples_per_step:g}"
        draft = replace(draft, detail=detail)
    ramps = draft.kind in (K.LR_REWARM, K.DATA_MIX_RAMP) or (draft.field is not None and draft.before is not None)
    if ramps and draft.step is not None and draft.step_end is None and detail.get("steps", "").isdigit():
        return replace(draft, step_end=draft.step + int(detail["steps"]))
    return draft


# What is said of an event where the kind's name alone would not do, in our own words.
_WORDS = {
    K.RESTART: "training resumed",
    K.ROLLBACK: "training was put back",
    K.SKIP_BATCHES: "batches were left out",
    K.START: "training began",
}


def describe(draft: Draft) -> str:
    """One line that says what an event is, from its fields alone."""
    words = [_WORDS.get(draft.kind, str(draft.kind).replace("_", " "))]
    if draft.field:
        words.append(f"({draft.field.replace('_', ' ')})" if draft.field not in words[0].replace(" ", "_") else "")
    if draft.before is not None and draft.kind not in MOVES and draft.after is not None:
        words.append(f"from {draft.before:g} to {draft.after:g}")
    elif draft.after is not None:
        words.append(f"at {draft.after:g}" if draft.role is Role.SYMPTOM else f"to {draft.after:g}")
    if draft.unit and draft.after is not None:
        words.append(draft.unit)
    if factor := draft.detail.get("factor"):
        words.append(f"times {factor}")
    if node := draft.detail.get("node"):
        words.append(node)
    if draft.step is not None:
        about = "about " if draft.detail.get("approximate") == "step" else ""
        place = "from step" if draft.kind in MOVES else "steps" if draft.step_end else "at step"
        words.append(f"{place} {about}{draft.step}" + (f" to {draft.step_end}" if draft.step_end is not None else ""))
    if draft.lost_hours is not None:
        words.append(f"({draft.lost_hours:g} h lost)")
    if draft.detail.get("certainty") == "suspected":
        words.append("(suspected)")
    line = " ".join(word for word in words if word)
    return line[0].upper() + line[1:] + "."


def to_events(run: str, source: str, incidents: Sequence[Incident], clock: str | None) -> list[Event]:
    """The events of ``incidents``: ids, times in UTC by ``clock``, roles in the order seen, cause, done, then."""
    events: list[Event] = []
    entries = {incident.name: incident.entry for incident in incidents}
    for incident in incidents:
        numbers: Counter[EventKind] = Counter()
        for draft in sorted(incident.drafts, key=lambda draft: _ROLE_ORDER[draft.role]):
            name = event_id(incident.name, draft.kind, numbers[draft.kind] + 1)
            entry = entries.get(draft.detail.get("told_by", ""), incident.entry)
            try:
                events.append(_event(run, source, incident, draft, name, when(entry, clock)))
            except RecordError:
                continue  # a sentence that leaves out what its kind needs tells no event
            numbers[draft.kind] += 1
    return events


_ROLE_ORDER = {Role.SYMPTOM: 0, Role.CAUSE: 1, Role.INTERVENTION: 2, Role.OUTCOME: 3, Role.LIFECYCLE: 4}


def _event(run: str, source: str, incident: Incident, draft: Draft, name: str, told: _When) -> Event:
    time, precision = told
    if draft.at is not None:
        time, precision = draft.at, TimePrecision.SECOND
    locator = draft.detail.get("locator") or f"§ {incident.entry.heading}"
    detail = {key: value for key, value in draft.detail.items() if key not in ("locator", "evidence")}
    if draft.quote:
        detail.setdefault("quote", draft.quote)
    return Event(
        run=run,
        event=name,
        incident=incident.name,
        kind=draft.kind,
        role=draft.role,
        time=time,
        time_precision=precision if time is not None else None,
        step=draft.step,
        step_end=draft.step_end,
        field=draft.field,
        before=draft.before,
        after=draft.after,
        unit=draft.unit,
        detail=detail,
        lost_steps=draft.lost_steps,
        lost_hours=draft.lost_hours,
        text=describe(draft),
        source=source,
        locator=locator,
        evidence=Evidence(draft.detail.get("evidence", Evidence.STATED)),
    )


def when(entry: Entry, clock: str | None) -> _When:
    """An entry's time in UTC and how exactly it is known.

    A date without an hour is kept at 00:00 UTC, since a zone could change the date; without a known clock an
    hour is not trusted beyond its day.
    """
    local = entry.local
    if local is None:
        return None, None
    if entry.printed is None:
        return local.replace(tzinfo=UTC), TimePrecision.DAY
    precision = entry.printed.precision
    if precision in (TimePrecision.DAY, TimePrecision.MONTH):
        return local.replace(tzinfo=UTC), precision
    known = entry.printed.zone or clock
    if known is None:
        return local.replace(tzinfo=UTC), TimePrecision.DAY
    return local.replace(tzinfo=dates.zone(known)).astimezone(UTC), precision
