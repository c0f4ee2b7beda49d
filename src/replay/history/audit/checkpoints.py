"""The checkpoints that training went on from: on one grid, and ever later ones."""

from __future__ import annotations

from itertools import pairwise

from replay.history.audit.book import BACK, Entry, Notes, Telling, printed_step
from replay.history.audit.slips import nearest_slip, number_slips
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

_ENOUGH = 6
_FEW = 4


def check(telling: Telling, notes: Notes, told: set[int]) -> None:
    """Test the steps of all checkpoints; ``told`` holds the entries whose step is doubted already, and grows."""
    _grid(telling, notes, told)
    _in_sequence(telling, notes, told)


def went_back(telling: Telling) -> list[tuple[Entry, Event, int]]:
    return [
        (entry, event, step)
        for entry in telling.entries
        for event in entry.of_kind(*BACK)
        if (step := printed_step(event)) is not None and step > 0
    ]


def common_step(telling: Telling) -> int:
    """The number of which nearly all checkpoints' steps are multiples: the interval of saving, or a part of it."""
    steps = [step for _, _, step in went_back(telling)]
    for every in (1000, 500, 250, 200, 100, 50, 10):
        if len(steps) >= _ENOUGH and sum(step % every == 0 for step in steps) >= 0.85 * len(steps):
            return every
    return 1


def _grid(telling: Telling, notes: Notes, told: set[int]) -> None:
    """Checkpoints off the grid on which all others lie."""
    every = common_step(telling)
    if every < 10:
        return
    backs = went_back(telling)
    notes.compared["steps on the grid of checkpoints"] += len(backs)
    for entry, _, step in backs:
        if step % every and entry.number not in told:
            told.add(entry.number)
            near = [one for one in number_slips(step) if one % every == 0 and abs(one - step) < step / 5]
            notes.add(
                telling,
                entry,
                "checkpoint_grid",
                (f"printed: step {step}", f"the other checkpoints: multiples of {every}"),
                str(near[0]) if len(near) == 1 else None,
                f"{sum(one % every == 0 for _, _, one in backs)} of {len(backs)} steps that training went on from are "
                f"multiples of {every}",
            )


def _in_sequence(telling: Telling, notes: Notes, told: set[int]) -> None:
    """A restart's step out of line with those before and after, which agree with each other."""
    for entries in telling.by_source().values():
        numbers = {entry.number for entry in entries}
        backs = [one for one in went_back(telling) if one[0].number in numbers - told]
        if len(backs) < _FEW:
            continue
        notes.compared["steps in sequence"] += len(backs)
        for place in range(1, len(backs) - 1):
            before, (entry, event, step), after = backs[place - 1 : place + 2]
            others = [one[2] for one in (*backs[:place], *backs[place + 1 :])]
            if sum(one <= other for one, other in pairwise(others)) < 0.75 * (len(others) - 1):
                continue
            margin = max(100.0, 0.01 * after[2])
            beyond = step > after[2] + margin
            short = step < before[2] - margin and event.kind is EventKind.RESTART
            if before[2] > after[2] or not (beyond or short) or entry.number in told:
                continue
            told.add(entry.number)
            slip = nearest_slip(step, before[2], after[2], common_step(telling))
            notes.add(
                telling,
                entry,
                "step_order",
                (f"printed: step {step}", f"before and after it: {before[2]} and {after[2]}"),
                str(slip) if slip is not None else f"{before[2]} to {after[2]}",
                "training had been at the step before it and went on to the step after it",
            )
