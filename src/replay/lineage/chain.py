"""From stretches to attempts: several tellings of one stretch become one attempt, and attempts get their order."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from replay.lineage.stretches import Stretch
from replay.lineage.told import ToldRestart


class Piece(NamedTuple):
    """Rows of one segment of one source that belong to an attempt: those with ``low`` <= step <= ``high`` (None: no
    bound).  ``first`` is the first step logged among them."""

    source: str
    segment: int
    low: int | None
    high: int | None
    first: int


@dataclass
class Attempt:
    """``first``, ``last``: steps logged (None without scalars); ``start``: the loaded checkpoint's step."""

    pieces: list[Piece] = field(default_factory=list)
    first: int | None = None
    last: int | None = None
    interval: int = 1
    start: int | None = None
    end: int | None = None
    begin_time: pd.Timestamp | None = None
    end_time: pd.Timestamp | None = None
    told: ToldRestart | None = None
    cause: str | None = None
    lost: float | None = None


class Member(NamedTuple):
    """One telling of an attempt: a stretch, as far as ``low`` <= step <= ``high``."""

    stretch: Stretch
    low: int | None
    high: int | None


def from_stretches(stretches: Sequence[Stretch]) -> list[Attempt]:
    """One attempt for every stretch, where several tell the same one for all of them, in order of time."""
    groups: list[list[Member]] = []
    by_source: dict[str, int] = {}
    for stretch in stretches:
        by_source[stretch.source] = by_source.get(stretch.source, 0) + 1
    # The source that saw most restarts first: one that saw fewer is then divided among its attempts.
    wide_first = sorted(
        stretches,
        key=lambda s: (-by_source[s.source], s.begin is None, -(s.last - s.first), _natural(s.source), s.segments),
    )
    for stretch in wide_first:
        matching = [
            group
            for group in groups
            if all(member.source != stretch.source for member, _, _ in group)
            and any(stretch.tells_the_same_as(member) for member, _, _ in group)
        ]
        if not matching:
            groups.append([Member(stretch, stretch.low, stretch.high)])
            continue
        matching.sort(key=lambda group: (group[0][0].begin or 0, min(member.first for member, _, _ in group)))
        bounds = [min(member.first for member, _, _ in group) for group in matching[1:]]
        lows = [stretch.low, *bounds]
        highs = [*(bound - 1 for bound in bounds), stretch.high]
        for group, low, high in zip(matching, lows, highs, strict=True):
            group.append(Member(stretch, low, high))
    return [_attempt(group) for group in _in_order(groups)]


def _attempt(group: list[Member]) -> Attempt:
    pieces: list[Piece] = []
    firsts, lasts = [], []
    for stretch, low, high in group:
        first = stretch.first if low is None else max(stretch.first, low)
        last = stretch.last if high is None else min(stretch.last, high)
        if first > last:
            continue
        firsts.append(first)
        lasts.append(last)
        pieces += [Piece(stretch.source, segment, low, high, first) for segment in stretch.segments]
    begins = [stretch.begin for stretch, _, _ in group if stretch.begin is not None]
    ends = [stretch.end for stretch, _, _ in group if stretch.end is not None]
    interval = min(stretch.interval for stretch, _, _ in group)
    first = min(firsts)
    return Attempt(
        pieces=pieces,
        first=first,
        last=max(lasts),
        interval=interval,
        start=max(0, first - interval) if first >= 0 else first,
        end=max(lasts),
        begin_time=pd.Timestamp(min(begins), unit="us", tz="UTC") if begins else None,
        end_time=pd.Timestamp(max(ends), unit="us", tz="UTC") if ends else None,
    )


def _in_order(
    groups: list[list[Member]],
) -> list[list[Member]]:
    """By time, where the clock is known; always in the order within each source; else by the first step."""
    first = [min(stretch.first for stretch, _, _ in group) for group in groups]
    time = [min((s.begin for s, _, _ in group if s.begin is not None), default=None) for group in groups]
    timed = sorted((when, step) for when, step in zip(time, first, strict=True) if when is not None)
    # A group without a clock comes after the timed ones that begin at or before its first step.
    keys = [
        (
            when if when is not None else max((w for w, step in timed if step <= first[i]), default=-1),
            when is None,
            first[i],
        )
        for i, when in enumerate(time)
    ]
    after: dict[int, set[int]] = {index: set() for index in range(len(groups))}
    waiting = [0] * len(groups)
    for earlier, later in _source_order(groups):
        if later not in after[earlier]:
            after[earlier].add(later)
            waiting[later] += 1
    ready = [(keys[i], i) for i in range(len(groups)) if not waiting[i]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(index)
        for later in after[index]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (keys[later], later))
    # Two sources that contradict each other leave a rest: the clock decides.
    order += sorted(set(range(len(groups))) - set(order), key=lambda i: (keys[i], i))
    return [groups[index] for index in order]


def _source_order(groups: Sequence[Sequence[Member]]) -> Iterable[tuple[int, int]]:
    """Pairs (earlier, later) of groups, from the order of segments and cuts within each source."""
    places: dict[str, list[tuple[int, int, int]]] = {}
    for index, group in enumerate(groups):
        for stretch, low, _ in group:
            places.setdefault(stretch.source, []).append(
                (stretch.segments[0], low if low is not None else -(2**63), index)
            )
    for entries in places.values():
        entries.sort()
        for (_, _, earlier), (_, _, later) in itertools.pairwise(entries):
            if earlier != later:
                yield earlier, later


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """`part-9` before `part-10`."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]{1,18})", name))
