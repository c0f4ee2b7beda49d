"""Settings: options against words, ranges of skipped batches against what was seen, values against their history."""

from __future__ import annotations

import re
from collections.abc import Iterable

from replay.audit.book import BACK, Entry, Notes, Telling, printed_step
from replay.audit.slips import ranges
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?<==)\d[\d_]*(?:\.\d+)?")
_RISES = frozenset({EventKind.LOSS_SPIKE, EventKind.LOSS_EXPLOSION, EventKind.GRAD_NORM_SPIKE, EventKind.DIVERGENCE})
_FALLS = frozenset({EventKind.LOSS_SCALE_DROP, EventKind.THROUGHPUT_DROP})
_NEAR = 200
_LOGGED = 1e-3
"""A value read off a log differs that much from the one set: 5.999E-05 for 6e-5."""


def check(telling: Telling, notes: Notes) -> None:
    """Test every option, skip range and changed value."""
    seen: list[int] = []
    for entry in telling.entries:
        seen += _seen_steps(entry)
        for event in entry.events:
            if event.kind is EventKind.SKIP_BATCHES:
                _skip(telling, entry, event, seen, notes)
            elif event.detail.get("flag"):
                _flag(telling, entry, event, notes)
            _direction(telling, entry, event, notes)
            _lengths(telling, entry, event, notes)
    _chains(telling, notes)


def _seen_steps(entry: Entry) -> list[int]:
    steps = [step for event in entry.symptoms for step in (event.step, event.step_end) if step is not None]
    return steps + [int(event.before) for event in entry.of_kind(*BACK) if event.before is not None]


def _skip(telling: Telling, entry: Entry, event: Event, seen: list[int], notes: Notes) -> None:
    if event.step is None or event.step_end is None:
        return
    first, last = event.step, event.step_end
    flagged = list(ranges(event.detail.get("flag", "")))
    back = [step for one in entry.of_kind(*BACK) if (step := printed_step(one)) is not None]
    if flagged:
        notes.compared["options against words"] += 1
        if (first, last) not in flagged:
            _flag_clash(telling, entry, (first, last), flagged, back, seen, notes)
    notes.compared["skipped ranges against what was seen"] += 1
    others = [
        (one.step, one.step_end)
        for one in entry.of_kind(EventKind.SKIP_BATCHES)
        if one is not event and one.step is not None and one.step_end is not None
    ]
    if back and last <= min(back):
        # An option repeats the ranges of earlier restarts; those do nothing, and are no fault beside one that does.
        if not any(other_last > min(back) for _, other_last in others):
            notes.add(
                telling,
                entry,
                "skip_range",
                (f"skipped: steps {first} to {last}", f"training goes on from step {min(back)}"),
                None,
                "a range that ends before the step that training goes on from skips nothing",
            )
    elif _seen_steps(entry) and not any(first - _NEAR <= step <= last + _NEAR for step in seen):
        notes.add(
            telling,
            entry,
            "skip_range",
            (f"skipped: steps {first} to {last}", f"last seen at step {seen[-1]}"),
            None,
            "the range covers no step at which anything was seen, here or before",
        )
    elif back and first > max(back) + _NEAR and not others:
        notes.add(
            telling,
            entry,
            "skip_range",
            (f"skipped: steps {first} to {last}", f"training goes on from step {max(back)}"),
            f"from step {max(back) + 1}",
            "the batches between the checkpoint and the range would be trained on again",
        )


def _flag_clash(
    telling: Telling,
    entry: Entry,
    prose: tuple[int, int],
    flagged: list[tuple[int, int]],
    back: list[int],
    seen: list[int],
    notes: Notes,
) -> None:
    def fits(one: tuple[int, int]) -> tuple[bool, bool]:
        return any(one[0] - 2 <= step <= one[0] for step in back), any(one[0] <= step <= one[1] for step in seen[-3:])

    flag = max(flagged, key=fits)
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
        if abs(samples[0] - steps[0] * batch) > 0.01 * samples[0]:
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
    """The value before a change must be one that the setting is known to have had."""
    known: dict[str, list[float]] = {}
    for entry in telling.entries:
        for event in entry.events:
            if event.field is None or event.role is not Role.INTERVENTION or event.kind in BACK:
                continue
            values = known.setdefault(event.field, [])
            lasting = event.step_end is None and not {"steps", "lasting", "model"} & set(event.detail)
            if lasting and event.before is not None and values:
                notes.compared["values"] += 1
                if not _among(event.before, values, _LOGGED):
                    notes.add(
                        telling,
                        entry,
                        "value_chain",
                        (f"before this change: {event.field} {event.before:g}", f"last set to: {values[-1]:g}"),
                        f"{values[-1]:g}",
                        "no earlier entry gives the setting that value",
                    )
            values += [value for value in (event.before, event.after) if value is not None]
