"""The heaviest run of times that are in order, in n log n."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from replay.history.audit.book import Moment


def heaviest_in_order(moments: Sequence[Moment], weights: Sequence[int]) -> set[int]:
    """The places of the heaviest run of moments of which none is certainly before the one before it.

    A Fenwick tree over the ranks of the earliest times holds the heaviest run that ends at or before each; of equally
    heavy runs the one that ends first is kept.
    """
    if not moments:
        return set()
    ranks = sorted({moment.earliest for moment in moments})
    tree: list[tuple[int, int]] = [(0, 0)] * (len(ranks) + 1)
    total = list(weights)
    previous = [-1] * len(moments)
    for place, moment in enumerate(moments):
        best = (0, 0)
        rank = bisect_right(ranks, moment.latest)
        while rank:
            best = max(best, tree[rank])
            rank -= rank & -rank
        if best[0]:
            total[place] += best[0]
            previous[place] = -best[1] - 1
        here = (total[place], -place - 1)
        rank = bisect_left(ranks, moment.earliest) + 1
        while rank < len(tree):
            tree[rank] = max(tree[rank], here)
            rank += rank & -rank
    place = max(range(len(moments)), key=total.__getitem__)
    kept = set()
    while place >= 0:
        kept.add(place)
        place = previous[place]
    return kept
