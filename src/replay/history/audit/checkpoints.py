"""The checkpoints that training went on from: on one grid, and ever later ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from replay.history.audit.book import BACK, Entry, Notes, Telling, printed_step
from replay.history.audit.slips import nearest_slip, number_slips
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

_ENOUGH = 6
_FEW = 4
_FAR = 0.02
_ON_PURPOSE = re.compile(
    r"\b(?:corrupt\w*|damaged|missing|unreadable|broken|incomplete|deleted|on purpose|all the way|instead of|scratch"
    r"|older|earlier|roll\w* back|reverted|rewound|branch\w*|forked)\b|损坏|丢失|缺失|更早|回退|回滚|重新开始",
    re.IGNORECASE,
)


def check_grid(telling: Telling, notes: Notes, told: set[int], every: int) -> None:
    """Test that checkpoints lie on the grid ``every``; ``told`` holds the entries doubted already, and grows."""
    if every >= 10:
        _grid(telling, notes, told, every)


def check_sequence(telling: Telling, notes: Notes, told: set[int], every: int) -> None:
    """Test that the entries of one strand go on from ever later checkpoints."""
    backs = [one for one in went_back(telling) if one[0].number not in told]
    if len(backs) >= _FEW:
        notes.compared["steps in sequence"] += len(backs)
        _in_sequence(telling, backs, notes, told, every)


def went_back(telling: Telling) -> list[tuple[Entry, Event, int]]:
    """The restarts and rollbacks that name their step, with their entry."""
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


def tell_far_back(
    telling: Telling, entry: Entry, event: Event, steps: tuple[int, int], notes: Notes, told: set[int], every: int
) -> None:
    """The finding that a restart throws away much more than lies between two checkpoints, where nothing says why.

    ``steps`` are that which training was known to stand at before, and that which it went on from.
    """
    before, step = steps
    words = " ".join(one.text + one.detail.get("quote", "") for one in entry.events)
    if before - step <= max(500, _FAR * before) or _ON_PURPOSE.search(f"{entry.locator} {words}"):
        return
    told.add(entry.number)
    slip = nearest_slip(step, before, before * 1.5, every)
    notes.add(
        telling,
        entry,
        "restart_far_back",
        (f"printed: step {step}", f"before it: step {before}"),
        str(slip) if slip is not None else None,
        f"a {event.kind} that is no rollback goes on from the last checkpoint, and training had been further",
    )


def _grid(telling: Telling, notes: Notes, told: set[int], every: int) -> None:
    """Checkpoints off the grid on which all others lie."""
    backs = went_back(telling)
    notes.compared["steps on the grid of checkpoints"] += len(backs)
    on_grid = sum(one % every == 0 for _, _, one in backs)
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
                f"{on_grid} of {len(backs)} steps that training went on from are multiples of {every}",
            )


def _in_sequence(
    telling: Telling, backs: Sequence[tuple[Entry, Event, int]], notes: Notes, told: set[int], every: int
) -> None:
    """A restart's step out of line with those before and after, which agree with each other."""
    steps = [step for _, _, step in backs]
    rising = sum(one <= other for one, other in pairwise(steps))
    for place in range(1, len(backs) - 1):
        before, (entry, event, step), after = steps[place - 1], backs[place], steps[place + 1]
        # Of all steps but this one, most go up.
        others = rising - (before <= step) - (step <= after) + (before <= after)
        if others < 0.75 * (len(steps) - 2):
            continue
        margin = max(100.0, 0.01 * after)
        beyond = step > after + margin
        short = step < before - margin and event.kind is EventKind.RESTART
        if before > after or not (beyond or short) or entry.number in told:
            continue
        told.add(entry.number)
        slip = nearest_slip(step, before, after, every)
        notes.add(
            telling,
            entry,
            "step_order",
            (f"printed: step {step}", f"before and after it: {before} and {after}"),
            str(slip) if slip is not None else f"{before} to {after}",
            "training had been at the step before it and went on to the step after it",
        )
