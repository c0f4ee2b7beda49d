"""Changed values and their words: which way they went, by how much, and over how many steps."""

from __future__ import annotations

import re

from replay.history.audit.book import BACK, Entry, Notes, Telling
from replay.history.audit.values import among, numbers
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

_RISES = frozenset({EventKind.LOSS_SPIKE, EventKind.LOSS_EXPLOSION, EventKind.GRAD_NORM_SPIKE, EventKind.DIVERGENCE})
_FALLS = frozenset({EventKind.LOSS_SCALE_DROP, EventKind.THROUGHPUT_DROP})
_STEPS = re.compile(r"(\d+) (?:steps|步)")
_VALUE = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
_UP = (
    r"(?<![\w-])(?:spik(?:ed|es)|jump(?:ed|s)|rose|rises|risen|exploded|climb(?:ed|s)|shot up|blew up|went up"
    r"|increas(?:e|ed|es|ing)|rais(?:e|ed|es|ing)|bump(?:ed|s|ing)?|doubl(?:ed|es|ing)|grew|grown)(?![\w-])"
    r"|飙升|突增|上升|升高|暴涨|提高|增大|升|增"
)
_DOWN = (
    r"(?<![\w-])(?:reduc(?:e|ed|es|ing)|lower(?:ed|s|ing)|lower(?= the)|decreas(?:e|ed|es|ing)|cut(?:ting)? (?:the|it)"
    r"|dropp(?:ed|ing)|drops|fell|fallen|halv(?:ed|es|ing)|tighten(?:ed|s|ing))(?![\w-])"
    r"|降低|下降|减小|减少|调低|降"
)
_MOVED = re.compile(
    rf"(?:(?P<up>{_UP})|(?P<down>{_DOWN}))[^\d.;。；]{{0,40}}?(?P<before>{_VALUE})\s?"
    rf"(?:to|->|→|=>|到|至|为)\s?(?P<after>{_VALUE})(?!\s?(?:steps?|iter|步))"
    rf"|(?:从|由|自)\s?(?P<was>{_VALUE})\s?(?:(?P<rose>{_UP})|(?P<fell>{_DOWN}))[到至为]?\s?(?P<now>{_VALUE})(?!\s?步)",
    re.IGNORECASE,
)


def check(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    """Test one event's values and lengths against its words."""
    _direction(telling, entry, event, notes)
    _lengths(telling, entry, event, notes)


def _moves(event: Event) -> list[tuple[float, float, bool, str]]:
    """The moves from one value to another that the event's own sentence names: values, whether up, and the verb."""
    found = []
    for one in _MOVED.finditer(event.detail.get("quote", "")):
        before, after = (float((one[a] or one[b]).replace(",", "")) for a, b in (("before", "was"), ("after", "now")))
        up, down = one["up"] or one["rose"], one["down"] or one["fell"]
        found.append((before, after, bool(up), (up or down or "").lower()))
    return found


def _direction(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    if event.kind in BACK:
        return
    moves = _moves(event)
    if event.before is None and event.after is None and event.kind in _RISES:
        # A rise whose words give falling values is kept only as it is quoted.
        for before, after, up, verb in moves[:1]:
            _tell(telling, entry, (before, after), up or None, verb, notes)
    if event.before is None or event.after is None:
        return
    said = event.detail.get("direction")
    verb = said or str(event.kind).replace("_", " ")
    expected = (
        True
        if event.kind in _RISES and event.field in ("loss", "grad_norm")
        else False
        if event.kind in _FALLS
        else {"up": True, "down": False}.get(said or "")
    )
    for before, after, up, named in moves:
        if expected is None and among(before, [event.before]) and among(after, [event.after]):
            expected, verb = up, named
    if _tell(telling, entry, (event.before, event.after), expected, verb, notes):
        return
    factor = numbers(event.detail.get("factor", ""))
    if factor and not among(event.before * factor[0], [event.after]):
        notes.add(
            telling,
            entry,
            "direction",
            (f"values: {event.before:g} to {event.after:g}", f"words: times {event.detail['factor']}"),
            f"{event.before * factor[0]:g}",
            "the new value is not the old one times the factor",
        )


def _tell(
    telling: Telling, entry: Entry, values: tuple[float, float], expected: bool | None, words: str, notes: Notes
) -> bool:
    """The finding that values go another way than the words, if they do."""
    before, after = values
    notes.compared["values"] += 1
    if expected is None or ((after > before) is expected and before != after):
        return False
    notes.add(
        telling,
        entry,
        "direction",
        (f"values: {before:g} to {after:g}", f"words: {words}"),
        f"{after:g} to {before:g}",
        "the values go the other way than the words say; they may be exchanged",
    )
    return True


def _lengths(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    """Steps, samples and the range of steps of one change must agree by the batch size."""
    steps, samples = numbers(event.detail.get("steps", "")), numbers(event.detail.get("samples", ""))
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
