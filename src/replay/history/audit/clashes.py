"""Which of many steps and times cannot hold together, and which of them to doubt.

Only points near each other in the book are compared: if training could come from one to the next, and from that to the
one after it, it could come from the first to the last; so what clashes over many entries clashes between near ones.
That keeps the work in proportion to the entries.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence

NEAR = 24
"""How many of the points before it that training went on from a point is compared with."""
Clashes = Mapping[int, set[int]]


def near_pairs(starting: Sequence[bool]) -> list[tuple[int, int]]:
    """For each place the last ``NEAR`` places before it at which ``starting`` holds, as pairs (earlier, later)."""
    pairs = []
    recent: list[int] = []
    for place, starts in enumerate(starting):
        pairs += [(earlier, place) for earlier in recent]
        if starts:
            recent = [*recent[-NEAR + 1 :], place]
    return pairs


def clashes_of(pairs: Sequence[tuple[int, int]], clash: Callable[[int, int], bool]) -> dict[int, set[int]]:
    """The places that each place clashes with, both ways."""
    found: dict[int, set[int]] = {}
    for earlier, later in pairs:
        if clash(earlier, later):
            found.setdefault(earlier, set()).add(later)
            found.setdefault(later, set()).add(earlier)
    return found


def doubted(clashes: Clashes, choose: Callable[[Sequence[int], Collection[int]], int], most: int) -> set[int] | None:
    """The places whose removal leaves no clash: one after the other, that with the most clashes first.

    Of places that clash with each other equally often ``choose`` picks one, given those removed already.  None when
    more than ``most`` would have to go: then it cannot be told which are wrong.
    """
    left = {place: set(others) for place, others in clashes.items()}
    queue = [(-len(others), place) for place, others in left.items()]
    heapq.heapify(queue)
    wrong: set[int] = set()
    while queue:
        count, place = heapq.heappop(queue)
        others = left.get(place)
        if others is None or -count != len(others) or not others:
            continue
        if len(wrong) == most:
            return None
        equal = sorted(other for other in others if len(left[other]) == len(others))
        chosen = choose(sorted([place, *equal]), wrong) if equal else place
        wrong.add(chosen)
        for other in left.pop(chosen):
            left[other].discard(chosen)
            heapq.heappush(queue, (-len(left[other]), other))
        if chosen != place:
            heapq.heappush(queue, (-len(left[place]), place))
    return wrong


def alone(wrong: Collection[int], order: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """The wrong ones of ``order`` that stand alone, and the runs of neighbours that are wrong together.

    One slip puts one entry at odds with those around it.  Where several on end are, the speed is another there.
    """
    runs: list[list[int]] = []
    last = -2
    for place, number in enumerate(order):
        if number not in wrong:
            continue
        near = place - last == 1 or (place - last == 2 and bool(runs) and len(runs[-1]) > 2)
        if near:
            runs[-1].append(number)
        else:
            runs.append([number])
        last = place
    return [run[0] for run in runs if len(run) == 1], [run for run in runs if len(run) > 1]
