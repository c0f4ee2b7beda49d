"""Faults planted in copies of logbooks, of the kinds that real logbooks have.

Each planter changes one thing in what a parser read, as a slip of the pen would, and says where.  It knows nothing of
how the audit works.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event, Records

BACK = (EventKind.RESTART, EventKind.ROLLBACK)


@dataclass(frozen=True)
class Plant:
    """One planted fault: in which incident of which logbook, what it was and what it became.

    ``copies`` are the tellings to audit: one, or the sound one and the faulty one of the same run.  ``traceless`` says
    why nobody could tell the fault from what else the logbook says; such faults are planted and counted all the same.
    """

    kind: str
    logbook: str
    incident: str
    was: str
    became: str
    copies: tuple[Records, ...]
    traceless: str = ""


Planter = Callable[[Records, random.Random], Iterator[Plant]]


def _slips(value: int) -> list[int]:
    """Numbers a person may write for ``value``: two digits exchanged, or one of the first three wrong."""
    text = str(value)
    found = {text[:i] + text[i + 1] + text[i] + text[i + 2 :] for i in range(len(text) - 1)}
    found |= {text[:i] + digit + text[i + 1 :] for i in range(min(3, len(text) - 1)) for digit in "0123456789"}
    return sorted({int(one) for one in found if not one.startswith("0")} - {value})


def _with(records: Records, old: Event, new: Event) -> Records:
    return replace(records, events=tuple(new if event is old else event for event in records.events))


def _one(
    kind: str, records: Records, old: Event, new: Event, was: object, became: object, traceless: str = ""
) -> Plant:
    assert old.incident is not None
    copies = (_with(records, old, new),)
    return Plant(kind, records.source, old.incident, str(was), str(became), copies, traceless)


def misdated(records: Records, rng: random.Random) -> Iterator[Plant]:
    """A digit of the date wrong, in the day or the month."""
    incidents = list(dict.fromkeys(event.incident for event in records.events if event.incident))
    for incident in incidents:
        found = re.search(r"/(\d{4}-\d\d-\d\d)(T\d\d:\d\d)?(-\d+)?$", incident)
        if found is None or any(one.incident == incident for one in records.findings):
            continue
        if found[3] or f"{incident}-2" in incidents:
            continue  # several incidents under one print would have to change together
        day = datetime.fromisoformat(found[1])
        digits = found[1].replace("-", "")
        options = []
        for place in range(4, 8):
            for digit in "0123456789":
                text = digits[:place] + digit + digits[place + 1 :]
                try:
                    other = datetime.strptime(text, "%Y%m%d")
                except ValueError:
                    continue
                if other != day:
                    options.append(other)
        other = rng.choice(options)
        renamed = incident.replace(found[1], f"{other:%Y-%m-%d}")
        times = [event.time for event in records.events if event.incident == incident and event.time is not None]
        printed = [time for time in times if time.second == 0] or times
        events = tuple(
            replace(
                event,
                incident=renamed,
                event=event.event.replace(incident, renamed),
                time=event.time + (other - day) if event.time is not None and event.time == printed[0] else event.time,
            )
            if event.incident == incident
            else event
            for event in records.events
        )
        why = _within_its_place(incidents, incident, other)
        yield Plant(
            "date", records.source, renamed, found[1], f"{other:%Y-%m-%d}", (replace(records, events=events),), why
        )


def _within_its_place(incidents: list[str], incident: str, other: datetime) -> str:
    """Why a date cannot be told to be wrong: it still lies between those of the entries around it."""
    place = incidents.index(incident)
    days = [found[1] if (found := re.search(r"/(\d{4}-\d\d-\d\d)", one)) else "" for one in incidents]
    before, after = days[max(place - 1, 0)], days[min(place + 1, len(days) - 1)]
    text = f"{other:%Y-%m-%d}"
    if (place == 0 or not before or before <= text) and (place == len(days) - 1 or not after or text <= after):
        return "the date lies between those of its neighbours"
    return ""


def wrong_restart(records: Records, rng: random.Random) -> Iterator[Plant]:
    """The step of a restart or rollback with a digit wrong or two exchanged."""
    known = {event.step for event in records.events}
    for event in records.events:
        if event.kind in BACK and event.step and event.step >= 1000 and "printed_step" not in event.detail:
            options = _slips(event.step)
            if options and event.step in known:
                step = rng.choice(options)
                # A slip by less than what lies between two entries cannot be told from the truth by anybody.
                near = abs(step - event.step) <= 0.08 * event.step
                why = "the step moves by less than lies between two entries" if near else ""
                yield _one("step of a restart", records, event, replace(event, step=step), event.step, step, why)


def rollback_too_late(records: Records, rng: random.Random) -> Iterator[Plant]:
    """A rollback to a checkpoint after the damage."""
    for event in records.events:
        seen = [
            one.step
            for one in records.events
            if one.incident == event.incident and one.role is Role.SYMPTOM and one.step is not None
        ]
        if event.kind is EventKind.ROLLBACK and event.step and seen and event.step < min(seen):
            step = min(seen) + 100 * rng.randint(1, 9)
            yield _one("rollback after the damage", records, event, replace(event, step=step), event.step, step)


def skip_elsewhere(records: Records, rng: random.Random) -> Iterator[Plant]:
    """Skipped batches that have nothing to do with what was seen, in words and option alike."""
    for event in records.events:
        if event.kind is not EventKind.SKIP_BATCHES or event.step is None or event.step_end is None:
            continue
        shift = rng.choice([-1, 1]) * rng.choice([3000, 4000, 5000])
        flag = event.detail.get("flag", "").replace(
            f"{event.step}-{event.step_end}", f"{event.step + shift}-{event.step_end + shift}"
        )
        new = replace(
            event, step=event.step + shift, step_end=event.step_end + shift, detail={**event.detail, "flag": flag}
        )
        yield _one("skip range", records, event, new, event.step, event.step + shift)


def flag_differs(records: Records, rng: random.Random) -> Iterator[Plant]:
    """An option with another number than the words."""
    for event in records.events:
        flag = event.detail.get("flag", "")
        numbers = re.findall(r"(?<=[ =-])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?", flag)
        told = event.after if event.after is not None else event.step_end
        if told is None or not numbers or any(one.incident == event.incident for one in records.findings):
            continue
        for number in numbers[-1:]:
            digit = next((one for one in number if one in "123456789"), None)
            if digit is None:
                continue
            other = number.replace(digit, rng.choice([one for one in "123456789" if one != digit]), 1)
            new = replace(
                event, detail={**event.detail, "flag": flag[::-1].replace(number[::-1], other[::-1], 1)[::-1]}
            )
            yield _one("option against words", records, event, new, flag, new.detail["flag"])


def wrong_table(records: Records, rng: random.Random) -> Iterator[Plant]:
    """A count or a percentage of a table with a digit wrong."""
    for event in records.events:
        if not {"count", "percent", "total"} <= set(event.detail) or any(
            one.incident == event.incident for one in records.findings
        ):
            continue
        name = rng.choice(["count", "percent"])
        text = event.detail[name]
        place = rng.choice([i for i, digit in enumerate(text) if digit != "."])
        digit = rng.choice([one for one in "123456789" if one != text[place]])
        new = replace(event, detail={**event.detail, name: text[:place] + digit + text[place + 1 :]})
        yield _one("table", records, event, new, text, new.detail[name])


def wrong_clock(records: Records, rng: random.Random) -> Iterator[Plant]:
    """A launch read on the wrong clock."""
    for event in records.events:
        if "run_name" in event.detail and event.time is not None and event.time.second:
            hours = rng.choice([-8, -1, 1, 8])
            new = replace(event, time=event.time + timedelta(hours=hours))
            yield _one("clock of a launch", records, event, new, event.time, new.time)


def exchanged(records: Records, rng: random.Random) -> Iterator[Plant]:
    """The values before and after exchanged."""
    for event in records.events:
        if event.before is None or event.after is None or event.before == event.after or event.kind in BACK:
            continue
        earlier = records.events[: records.events.index(event)]
        chained = any(one.field == event.field and one.after is not None for one in earlier)
        why = ""
        if event.field == "learning_rate" and not event.detail.get("flag"):
            why = "a schedule moves the learning rate as well, either way"
        elif event.role is not Role.SYMPTOM and not chained:
            why = "nothing else says which way the value went"
        new = replace(event, before=event.after, after=event.before)
        yield _one("before and after exchanged", records, event, new, event.before, event.after, why)


def recurred_before(records: Records, rng: random.Random) -> Iterator[Plant]:
    """An outcome before the step that training was put back to."""
    for event in records.events:
        back = [one.step for one in records.events if one.incident == event.incident and one.kind in BACK and one.step]
        if event.role is Role.OUTCOME and event.step and back and event.step > max(back):
            step = max(back) - 50 * rng.randint(1, 9)
            yield _one("outcome before the restart", records, event, replace(event, step=step), event.step, step)


def wrong_length(records: Records, rng: random.Random) -> Iterator[Plant]:
    """A stated number of steps that its range or its samples contradict."""
    for event in records.events:
        steps = event.detail.get("steps", "")
        known = (event.step_end is not None or "samples" in event.detail) and "approximate" not in event.detail
        if known and steps.isdecimal():
            other = str(int(steps) * rng.choice([2, 3, 10]))
            yield _one("length", records, event, replace(event, detail={**event.detail, "steps": other}), steps, other)


def told_otherwise(records: Records, rng: random.Random) -> Iterator[Plant]:
    """A second telling that differs in one thing: a step, a value or what was seen."""
    symptoms = [EventKind.CRASH, EventKind.HANG, EventKind.PLATEAU, EventKind.NAN_LOSS]
    causes = [EventKind.NODE_FAILURE, EventKind.SOFTWARE_BUG, EventKind.DATA_DEFECT]
    for event in records.events:
        same = [one for one in records.events if one.incident == event.incident]
        alone = sum(one.role is event.role for one in same) == 1
        if "approximate" in event.detail:
            continue
        if event.incident is None or any(one.incident == event.incident for one in records.findings):
            continue
        if event.step and event.kind in BACK and sum(one.kind in BACK for one in same) == 1:
            new = replace(event, step=event.step + 100)
        elif event.after and sum((one.kind, one.field) == (event.kind, event.field) for one in same) == 1:
            new = replace(event, after=event.after * 2)
        elif event.role is Role.SYMPTOM and alone:
            new = replace(event, kind=rng.choice([kind for kind in symptoms if kind is not event.kind]))
        elif event.role is Role.CAUSE and alone:
            new = replace(event, kind=rng.choice([kind for kind in causes if kind is not event.kind]))
        elif event.kind is EventKind.COMPLETED or (event.kind is EventKind.RECOVERED and alone):
            new = replace(event, kind=EventKind.ABANDONED)
        else:
            continue
        second = replace(_with(records, event, new), source=f"{records.source} (second telling)", findings=())
        became = new.step if new.step != event.step else new.kind if new.kind is not event.kind else f"{new.after:g}"
        copies = (records, second)
        yield Plant("two tellings", records.source, event.incident, str(event.kind), str(became), copies)


PLANTERS: dict[str, Planter] = {
    "date": misdated,
    "step of a restart": wrong_restart,
    "rollback after the damage": rollback_too_late,
    "skip range": skip_elsewhere,
    "option against words": flag_differs,
    "table": wrong_table,
    "clock of a launch": wrong_clock,
    "before and after exchanged": exchanged,
    "outcome before the restart": recurred_before,
    "length": wrong_length,
    "two tellings": told_otherwise,
}


def plant(logbooks: list[Records], count: int, seed: int) -> list[Plant]:
    """``count`` faults: one in each logbook at least, and the kinds in turn as far as there are places for them."""
    rng = random.Random(seed)
    places: dict[str, list[Plant]] = {}
    for kind, planter in PLANTERS.items():
        found = [one for records in logbooks for one in planter(records, rng)]
        rng.shuffle(found)
        places[kind] = found
    chosen: list[Plant] = []
    for records in logbooks:
        own = [one for kind in places for one in places[kind] if one.logbook == records.source]
        if own:  # nothing that could be mistaken stands in a timeline of lone facts
            chosen.append(rng.choice(own))
    while len(chosen) < count and any(places.values()):
        for kind in PLANTERS:
            rest = [one for one in places[kind] if one not in chosen]
            places[kind] = rest
            if rest and len(chosen) < count:
                chosen.append(rest.pop())
    return chosen
