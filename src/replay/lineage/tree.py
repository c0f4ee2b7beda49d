"""The tree of attempts: which checkpoint each one loaded, and how much of each is part of the last one's history."""

from __future__ import annotations

from collections.abc import Sequence

from replay.lineage.chain import Attempt


def parents_of(chain: Sequence[Attempt]) -> list[int | None]:
    """Which attempt's checkpoint each attempt loaded.

    The latest one that had begun before that step and reached it; where none is known to have reached it, as when a
    file is missing, the latest that had begun before it.
    """
    parents: list[int | None] = []
    for index, attempt in enumerate(chain):
        if index == 0:
            parents.append(None)
            continue
        start = attempt.start
        begun = [i for i in range(index) if start is None or (s := chain[i].start) is None or s <= start]
        reached = [i for i in begun if start is None or (e := chain[i].end) is None or e + chain[i].interval >= start]
        parents.append(reached[-1] if reached else begun[-1] if begun else None)
    return parents


def kept_to(chain: Sequence[Attempt], parents: Sequence[int | None]) -> list[int | None]:
    """Up to which step each attempt is part of the last one's history: its own start where it is not."""
    kept = [attempt.start for attempt in chain]
    if not chain:
        return kept
    index: int | None = len(chain) - 1
    limit = chain[-1].end
    while index is not None:
        end = chain[index].end
        kept[index] = limit if end is None else end if limit is None else min(end, limit)
        limit = chain[index].start
        index = parents[index]
    return kept
