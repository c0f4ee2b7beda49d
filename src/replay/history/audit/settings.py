"""Settings: options against words, ranges of skipped batches against what was seen, values against their history."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from replay.history.audit import chains, changes
from replay.history.audit.book import BACK, Entry, Notes, Telling, printed_step
from replay.history.audit.slips import ranges
from replay.history.audit.values import among, numbers
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Event

_NEAR = 200
Range = tuple[int, int]


def check(telling: Telling, branches: Iterable[Telling], notes: Notes) -> None:
    """Test every option, skip range and changed value; ``branches`` are the courses of training in ``telling``."""
    for branch in branches:
        seen = Seen()
        skipped: set[Range] = set()
        for entry in branch.entries:
            seen.add(_seen_steps(entry))
            _skips(branch, entry, seen, skipped, notes)
        chains.check(branch, notes)
    for entry in telling.entries:
        _twice(telling, entry, notes)
        for event in entry.events:
            if event.kind is not EventKind.SKIP_BATCHES and event.detail.get("flag"):
                _flag(telling, entry, event, notes)
            changes.check(telling, entry, event, notes)


@dataclass(slots=True)
class Seen:
    """The steps at which anything was seen so far, as told and in the order of steps."""

    told: list[int] = field(default_factory=list)
    ordered: list[int] = field(default_factory=list)

    def add(self, steps: Iterable[int]) -> None:
        """Note further steps."""
        for step in steps:
            self.told.append(step)
            insort(self.ordered, step)

    def within(self, first: float, last: float) -> bool:
        """Whether anything was seen at a step in ``first``..``last``."""
        place = bisect_left(self.ordered, first)
        return place < len(self.ordered) and self.ordered[place] <= last


def _seen_steps(entry: Entry) -> list[int]:
    steps = [step for event in entry.symptoms for step in (event.step, event.step_end) if step is not None]
    return steps + [int(event.before) for event in entry.of_kind(*BACK) if event.before is not None]


def _skips(telling: Telling, entry: Entry, seen: Seen, before: set[Range], notes: Notes) -> None:
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
            _flag_clash(telling, entry, sorted(set(told)), sorted(flagged), back, seen.told[-3:], notes)
    for one in sorted(set(told) - before):
        _skip(telling, entry, one, back, seen, notes)
    before |= set(told)


def _skip(telling: Telling, entry: Entry, one: Range, back: list[int], seen: Seen, notes: Notes) -> None:
    """A range against the step that training goes on from, and against what was seen.

    It may begin well after that step: the batches before it are trained on again, as many do on purpose.
    """
    first, last = one
    skipped = f"skipped: steps {first} to {last}"
    if back and last <= min(back):
        reasons = "a range that ends before the step that training goes on from skips nothing"
        notes.add(telling, entry, "skip_range", (skipped, f"training goes on from step {back[0]}"), None, reasons)
        return
    own = _seen_steps(entry)
    if not own:
        return
    # What lies before the step that training goes on from is not met again.
    start = max(first - _NEAR, min(back, default=0) - _NEAR)
    if not seen.within(start, last + _NEAR):
        reasons = "the range leaves out every step at which anything was seen, here or before"
        notes.add(telling, entry, "skip_range", (skipped, f"last seen at step {own[-1]}"), None, reasons)


def _flag_clash(
    telling: Telling,
    entry: Entry,
    told: list[Range],
    flagged: list[Range],
    back: list[int],
    seen: Sequence[int],
    notes: Notes,
) -> None:
    def fits(one: Range) -> tuple[bool, bool]:
        return any(one[0] - 2 <= step <= one[0] for step in back), any(one[0] <= step <= one[1] for step in seen)

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


def _flag(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    """The numbers of an option against the words: the new value, or else all of them, must be told there."""
    flagged = numbers(event.detail["flag"])
    told: list[float] = [number for number in (event.step, event.step_end, event.before) if number is not None]
    for name in ("steps", "samples", "tokens", "factor"):
        told += numbers(event.detail.get(name, ""))
    if not flagged or event.role is not Role.INTERVENTION or (event.after is None and not told):
        return
    notes.compared["options against words"] += 1
    if event.after is not None and among(event.after, flagged):
        return
    if all(among(number, told) for number in flagged):
        return
    if event.after is None and any(among(number, told) for number in flagged):
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


def _twice(telling: Telling, entry: Entry, notes: Notes) -> None:
    """A change told twice in one entry, by an option and in words, with different values."""
    worded = {
        (event.kind, event.field): event
        for event in reversed(entry.events)
        if event.after is not None and not event.detail.get("flag")
    }
    for event in entry.events:
        other = worded.get((event.kind, event.field))
        if not event.detail.get("flag") or event.after is None or event.field is None or other is None:
            continue
        if other.after is not None and not among(other.after, [event.after]):
            notes.add(
                telling,
                entry,
                "flag_against_prose",
                (f"flag: {event.detail['flag']}", f"words: {event.field} {other.after:g}"),
                None,
                "the option and the words give different numbers",
            )
