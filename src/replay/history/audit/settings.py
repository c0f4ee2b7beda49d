"""Settings: options against words, ranges of skipped batches against what was seen, values against their history."""

from __future__ import annotations

import re
from collections.abc import Iterable

from replay.history.audit.book import BACK, Entry, Notes, Telling, printed_step
from replay.history.audit.slips import ranges
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?<==)\d[\d_]*(?:\.\d+)?")
_RISES = frozenset({EventKind.LOSS_SPIKE, EventKind.LOSS_EXPLOSION, EventKind.GRAD_NORM_SPIKE, EventKind.DIVERGENCE})
_FALLS = frozenset({EventKind.LOSS_SCALE_DROP, EventKind.THROUGHPUT_DROP})
_NEAR = 200
_STEPS = re.compile(r"(\d+) (?:steps|步)")
_SCHEDULED = ("learning_rate", "batch_size")
"""What a schedule changes by itself."""
Range = tuple[int, int]
_LOGGED = 1e-3
"""A value read off a log differs that much from the one set: 5.999E-05 for 6e-5."""


def check(telling: Telling, notes: Notes) -> None:
    """Test every option, skip range and changed value."""
    seen: list[int] = []
    skipped: set[Range] = set()
    for entry in telling.entries:
        seen += _seen_steps(entry)
        _skips(telling, entry, seen, skipped, notes)
        for event in entry.events:
            if event.kind is not EventKind.SKIP_BATCHES and event.detail.get("flag"):
                _flag(telling, entry, event, notes)
            _words_and_flag(telling, entry, event, notes)
            _direction(telling, entry, event, notes)
            _lengths(telling, entry, event, notes)
    _chains(telling, notes)


def _seen_steps(entry: Entry) -> list[int]:
    steps = [step for event in entry.symptoms for step in (event.step, event.step_end) if step is not None]
    return steps + [int(event.before) for event in entry.of_kind(*BACK) if event.before is not None]


def _skips(telling: Telling, entry: Entry, seen: list[int], before: set[Range], notes: Notes) -> None:
    """The ranges of batches that an entry skips; ``before`` are those of earlier entries, and grows.

    An option often repeats the ranges of earlier restarts: they do nothing any more, and are no fault beside a new one.
    """
    told = {
        (event.step, event.step_end): event.detail.get("flag", "")
        for event in entry.of_kind(EventKind.SKIP_BATCHES)
        if event.step is not None and event.step_end is not None
    }
    flagged = {one for flag in told.values() for one in ranges(flag)}
    back = [step for one in entry.of_kind(*BACK) if (step := printed_step(one)) is not None]
    notes.compared["skipped ranges against what was seen"] += len(told)
    if flagged:
        notes.compared["options against words"] += 1
        if set(told) != flagged:
            _flag_clash(telling, entry, sorted(set(told)), sorted(flagged), back, seen, notes)
    for one in sorted(set(told) - before):
        _skip(telling, entry, one, back, seen, notes)
    before |= set(told)


def _skip(telling: Telling, entry: Entry, one: Range, back: list[int], seen: list[int], notes: Notes) -> None:
    first, last = one
    skipped = f"skipped: steps {first} to {last}"
    goes_on = f"training goes on from step {back[0]}" if back else ""
    if back and last <= min(back):
        reasons = "a range that ends before the step that training goes on from skips nothing"
        notes.add(telling, entry, "skip_range", (skipped, goes_on), None, reasons)
    elif back and first > max(back) + _NEAR:
        reasons = "the batches between the checkpoint and the range would be trained on again"
        notes.add(telling, entry, "skip_range", (skipped, goes_on), f"from step {max(back) + 1}", reasons)
    elif _seen_steps(entry) and not any(first - _NEAR <= step <= last + _NEAR for step in seen):
        reasons = "the range covers no step at which anything was seen, here or before"
        notes.add(telling, entry, "skip_range", (skipped, f"last seen at step {seen[-1]}"), None, reasons)


def _flag_clash(
    telling: Telling,
    entry: Entry,
    told: list[Range],
    flagged: list[Range],
    back: list[int],
    seen: list[int],
    notes: Notes,
) -> None:
    def fits(one: Range) -> tuple[bool, bool]:
        return any(one[0] - 2 <= step <= one[0] for step in back), any(one[0] <= step <= one[1] for step in seen[-3:])

    flag = max((one for one in flagged if one not in told), key=fits, default=flagged[-1])
    prose = max((one for one in told if one not in flagged), key=fits, default=told[-1])
    likely = prose if fits(prose) > fits(flag) else flag if fits(flag) > fits(prose) else None
    notes.add(
        telling,
        entry,
        "flag_against_prose",
        (f"flag: steps {flag[0]} to {flag[1]}", f"prose: steps {prose[0]} to {prose[1]}"),
        None if likely is None else f"steps {likely[0]} to {likely[1]}",
        "the two name different steps"
        + (f"; only the likely one begins where training goes on, at step {back[0]}" if likely and back else ""),
    )


def _numbers(text: str) -> list[float]:
    found = []
    for match in _NUMBER.finditer(text):
        try:
            found.append(float(match[0].replace("_", "")))
        except ValueError:
            continue
    return found


def _flag(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    """The numbers of an option against the words: the new value, or else all of them, must be told there."""
    flagged = _numbers(event.detail["flag"])
    told: list[float] = [number for number in (event.step, event.step_end, event.before) if number is not None]
    for name in ("steps", "samples", "tokens", "factor"):
        told += _numbers(event.detail.get(name, ""))
    if not flagged or event.role is not Role.INTERVENTION or (event.after is None and not told):
        return
    notes.compared["options against words"] += 1
    if event.after is not None and _among(event.after, flagged):
        return
    if all(_among(number, told) for number in flagged):
        return
    if event.after is None and any(_among(number, told) for number in flagged):
        return
    words = f"{event.after:g}" if event.after is not None else ", ".join(f"{number:g}" for number in told)
    notes.add(
        telling,
        entry,
        "flag_against_prose",
        (f"flag: {event.detail['flag']}", f"words: {event.field or event.kind} {words}"),
        None,
        "the option and the words give different numbers",
    )


def _words_and_flag(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    """A change told twice in one entry, by an option and in words, with different values."""
    if not event.detail.get("flag") or event.after is None or event.field is None:
        return
    for other in entry.events:
        twin = (other.kind, other.field) == (event.kind, event.field) and other is not event
        if twin and not other.detail.get("flag") and other.after is not None and not _among(other.after, [event.after]):
            notes.add(
                telling,
                entry,
                "flag_against_prose",
                (f"flag: {event.detail['flag']}", f"words: {event.field} {other.after:g}"),
                None,
                "the option and the words give different numbers",
            )


def _among(number: float, others: Iterable[float], tolerance: float = 1e-6) -> bool:
    return any(abs(number - other) <= tolerance * max(abs(number), abs(other)) for other in others)


def _direction(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    if event.before is None or event.after is None or event.kind in BACK:
        return
    rising = event.after > event.before
    said = event.detail.get("direction")
    expected = (
        True
        if event.kind in _RISES and event.field in ("loss", "grad_norm")
        else False
        if event.kind in _FALLS
        else {"up": True, "down": False}.get(said or "")
    )
    notes.compared["values"] += 1
    factor = event.detail.get("factor", "")
    if expected is not None and (rising is not expected or event.before == event.after):
        notes.add(
            telling,
            entry,
            "direction",
            (f"values: {event.before:g} to {event.after:g}", f"words: {said or str(event.kind).replace('_', ' ')}"),
            f"{event.after:g} to {event.before:g}",
            "the values go the other way than the words say; they may be exchanged",
        )
    elif factor and _numbers(factor) and not _among(event.before * _numbers(factor)[0], [event.after]):
        notes.add(
            telling,
            entry,
            "direction",
            (f"values: {event.before:g} to {event.after:g}", f"words: times {factor}"),
            f"{event.before * _numbers(factor)[0]:g}",
            "the new value is not the old one times the factor",
        )


def _lengths(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    """Steps, samples and the range of steps of one change must agree by the batch size."""
    steps, samples = _numbers(event.detail.get("steps", "")), _numbers(event.detail.get("samples", ""))
    approximate = "step" in event.detail.get("approximate", "")
    if len(steps) != 1 or approximate:
        return
    if event.step is not None and event.step_end is not None:
        notes.compared["lengths"] += 1
        length = event.step_end - event.step
        if abs(length - steps[0]) > 1 + 0.01 * steps[0]:
            notes.add(
                telling,
                entry,
                "length",
                (f"steps {event.step} to {event.step_end}: {length}", f"stated: {steps[0]:g} steps"),
                None,
                "the range and the stated number of steps differ",
            )
    batch = _batch(telling, event.step)
    if len(samples) == 1 and batch:
        notes.compared["lengths"] += 1
        told = [float(number) for number in _STEPS.findall(event.detail.get("quote", ""))]
        if told and steps[0] % 1 and not any(abs(samples[0] - number * batch) <= 0.01 * samples[0] for number in told):
            notes.add(
                telling,
                entry,
                "length",
                (f"samples: {samples[0]:g}, {steps[0]:.1f} steps of {batch}", f"words: {told[-1]:g} steps"),
                f"{told[-1] * batch:g} samples",
                "samples are steps times the batch size",
            )
        elif abs(samples[0] - steps[0] * batch) > 0.01 * samples[0]:
            notes.add(
                telling,
                entry,
                "length",
                (f"samples: {samples[0]:g}", f"{steps[0]:g} steps of {batch} samples: {steps[0] * batch:g}"),
                None,
                "samples are steps times the batch size",
            )


def _batch(telling: Telling, step: int | None) -> int | None:
    stages = telling.run.batch_schedule
    if not stages or (len(stages) > 1 and step is None):
        return None
    began = [stage for stage in stages if step is None or stage.from_step <= step]
    return began[-1].samples if began else None


def _chains(telling: Telling, notes: Notes) -> None:
    """The value before a change must be the one that the setting was last given.

    What was given up again may count or not: a later entry goes on from it, or from what was before.
    """
    known: dict[str, list[tuple[float, bool]]] = {}
    doubted: dict[str, list[float]] = {}
    for entry in telling.entries:
        given_up = any(event.kind is EventKind.ABANDONED for event in entry.outcomes)
        for event in entry.events:
            if event.field in (None, *_SCHEDULED) or event.role is not Role.INTERVENTION or event.kind in BACK:
                continue
            values = known.setdefault(str(event.field), [])
            lasting = event.step_end is None and not {"steps", "lasting", "model"} & set(event.detail)
            kept = [value for value, dropped in values if not dropped]
            possible = [value for value, _ in values[-1:]] + kept[-1:] + doubted.pop(str(event.field), [])
            if lasting and event.before is not None and values:
                notes.compared["values"] += 1
                if not _among(event.before, possible, _LOGGED):
                    # Told once: what comes next may go on from either end of the doubtful change.
                    doubted[str(event.field)] = [event.before]
                    notes.add(
                        telling,
                        entry,
                        "value_chain",
                        (f"before this change: {event.field} {event.before:g}", f"last set to: {values[-1][0]:g}"),
                        f"{values[-1][0]:g}",
                        "no earlier entry left the setting at that value",
                    )
            if event.after is not None:
                values.append((event.after, given_up))
