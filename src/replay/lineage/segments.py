"""From the segments of a source to its stretches: which steps back are restarts, and which only look so.

A parser numbers the segments of a source by steps going back.  Ranks that print in turn lag behind each other, some
trainers count their steps anew in every epoch, and some tags are plotted against something that is no step at all:
none of these is a restart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replay import signals
from replay.lineage.stretches import Clock, Column, Stretch, cut_where_interrupted

_YEAR_1990 = 631_152_000_000_000
_YEAR_2200 = 7_258_118_400_000_000
# Ranks that print in turn lag by a report or two; a checkpoint is further back than that.
_LAG_REPORTS = 2
_MANY_STEPS_BACK = 4
_EPOCH_LENGTH_TOLERANCE = 0.02


def find_stretches(scalars: pd.DataFrame) -> list[Stretch]:
    """The stretches of every source, those of one source in order.

    ``scalars`` has the columns source, segment, tag, step, wall_time, value; the order of its rows within a source,
    segment and tag is that of the file.
    """
    if scalars.empty:
        return []
    table = _Rows(scalars)
    found = [stretch for source in range(len(table.sources)) for stretch in _of_source(table, source)]
    return cut_where_interrupted(found)


class _Rows:
    """Scalars as arrays sorted by (source, segment, tag), with the bounds of every such group."""

    def __init__(self, scalars: pd.DataFrame) -> None:
        source, source_names = pd.factorize(scalars["source"], sort=True)
        tag, tag_names = pd.factorize(scalars["tag"])
        segment = scalars["segment"].to_numpy(np.int64)
        order = np.lexsort((tag, segment, source))
        self.sources = [str(name) for name in source_names]
        self.tags = [str(name) for name in tag_names]
        self.step = scalars["step"].to_numpy(np.int64)[order]
        self.value = scalars["value"].to_numpy(np.float64)[order]
        self.time = microseconds(scalars["wall_time"])[order]
        source, segment, tag = source[order], segment[order], tag[order]
        changed = (np.diff(source) != 0) | (np.diff(segment) != 0) | (np.diff(tag) != 0)
        self.start = np.concatenate(([0], np.flatnonzero(changed) + 1))
        self.stop = np.append(self.start[1:], len(order))
        self.source_of, self.segment_of, self.tag_of = source[self.start], segment[self.start], tag[self.start]
        self.minimum = np.minimum.reduceat(self.step, self.start)
        self.maximum = np.maximum.reduceat(self.step, self.start)

    @cached_property
    def counts_steps(self) -> NDArray[np.bool_]:
        """Per tag: whether it is plotted against the step."""
        on_axis = np.array([signals.axis_of(tag) == signals.STEP_AXIS for tag in self.tags], dtype=bool)
        return on_axis if on_axis.any() else np.ones(len(self.tags), dtype=bool)

    @cached_property
    def signal(self) -> list[str | None]:
        """Per tag: what it measures."""
        return [signals.signal_of(tag) for tag in self.tags]


@dataclass
class _Part:
    """One or several segments of a source that belong together, as groups of :class:`_Rows` by tag."""

    segments: list[int]
    groups: dict[int, list[int]]

    def bounds(self, rows: _Rows) -> tuple[int, int]:
        members = [group for tag, groups in self.groups.items() if rows.counts_steps[tag] for group in groups]
        members = members or [group for groups in self.groups.values() for group in groups]
        return int(rows.minimum[members].min()), int(rows.maximum[members].max())

    def absorb(self, other: _Part) -> None:
        self.segments += other.segments
        for tag, groups in other.groups.items():
            self.groups.setdefault(tag, []).extend(groups)


def _of_source(rows: _Rows, source: int) -> list[Stretch]:
    """The stretches of one source: its segments, less the step backs that are no restarts."""
    parts: list[_Part] = []
    for group in np.flatnonzero(rows.source_of == source):
        segment, tag = int(rows.segment_of[group]), int(rows.tag_of[group])
        if not parts or parts[-1].segments[-1] != segment:
            parts.append(_Part([segment], {}))
        parts[-1].groups.setdefault(tag, []).append(int(group))
    lagging = _several_writers_a_step(rows, parts) if len(parts) > 1 else False
    kept: list[_Part] = []
    for part in parts:
        if kept and not _really_back(rows, kept[-1], part, lagging=lagging):
            kept[-1].absorb(part)
        else:
            kept.append(part)
    if _steps_are_counted_per_epoch(rows, kept):
        for part in kept[1:]:
            kept[0].absorb(part)
        del kept[1:]
    return [_stretch(rows, source, part) for part in kept]


def _really_back(rows: _Rows, before: _Part, after: _Part, *, lagging: bool) -> bool:
    """Whether the source as a whole went back between two parts, and not one odd tag or a rank that lags."""
    common = [tag for tag in before.groups.keys() & after.groups.keys() if rows.counts_steps[tag]]
    back = total = furthest = 0
    for tag in common:
        last = max(int(rows.maximum[group]) for group in before.groups[tag])
        first = min(int(rows.minimum[group]) for group in after.groups[tag])
        weight = sum(int(rows.stop[group] - rows.start[group]) for group in before.groups[tag] + after.groups[tag])
        total += weight
        if first <= last:
            back += weight
            furthest = max(furthest, last - first)
    if not total:
        return after.bounds(rows)[0] <= before.bounds(rows)[1]
    if back * 2 < total:
        return False
    return not (lagging and furthest <= _LAG_REPORTS * _interval(rows, before))


def _several_writers_a_step(rows: _Rows, parts: Sequence[_Part]) -> bool:
    """Whether ranks print in turn: most steps are told twice before any step back, or nothing but a step or two is
    told between one step back and the next."""
    main = _densest(rows, parts[0])
    told = [np.unique(_steps(rows, part, main), return_counts=True)[1] for part in parts]
    repeated = float(np.mean(np.concatenate(told) > 1))
    if repeated > 0.5:
        return True
    few = 2 if repeated < 0.2 else 6
    return len(parts) >= _MANY_STEPS_BACK and float(np.median([len(counts) for counts in told])) <= few


def _steps_are_counted_per_epoch(rows: _Rows, parts: Sequence[_Part]) -> bool:
    """Whether all parts cover the same steps, as epochs do, and the training went on from one to the next.

    A run that is begun anew several times covers the same steps too, but its loss begins anew as well.
    """
    if len(parts) < 2:
        return False
    bounds = [part.bounds(rows) for part in parts]
    (start, end), interval = bounds[0], _interval(rows, parts[0])
    slack = max(interval, int((end - start) * _EPOCH_LENGTH_TOLERANCE))
    if any(abs(first - start) > interval or last > end + slack for first, last in bounds):
        return False
    if any(abs(last - end) > slack for _, last in bounds[:-1]):
        return False
    epochs = [_ends(rows, part, "epoch") for part in parts]
    known = [pair for pair in epochs if pair is not None]
    if len(known) == len(parts):
        pairs = itertools.pairwise(known)
        return all(before[1] <= after[0] and before[0] < after[1] for before, after in pairs)
    if len(parts) < 3:
        return False
    losses = [pair for part in parts if (pair := _ends(rows, part, "loss")) is not None]
    if len(losses) < len(parts):
        return False
    begun_at = losses[0][0]
    return all(abs(after[0] - before[1]) < abs(after[0] - begun_at) for before, after in itertools.pairwise(losses))


def _ends(rows: _Rows, part: _Part, signal: str) -> tuple[float, float] | None:
    """The median of the first and of the last few values of a signal in a part; None when it has none."""
    tags = [tag for tag in part.groups if rows.signal[tag] == signal]
    if not tags:
        return None
    values = np.concatenate([rows.value[rows.start[g] : rows.stop[g]] for g in part.groups[min(tags)]])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    few = max(1, min(5, len(values) // 4))
    return float(np.median(values[:few])), float(np.median(values[-few:]))


def _steps(rows: _Rows, part: _Part, tag: int) -> NDArray[np.int64]:
    groups = part.groups.get(tag, [])
    return np.concatenate([rows.step[rows.start[g] : rows.stop[g]] for g in groups] or [np.empty(0, np.int64)])


def _interval(rows: _Rows, part: _Part) -> int:
    """The usual distance between two reports: the median over the tag with most rows; 1 when there is only one."""
    steps = np.unique(_steps(rows, part, _densest(rows, part)))
    return max(1, int(np.median(np.diff(steps)))) if len(steps) > 1 else 1


def _densest(rows: _Rows, part: _Part) -> int:
    """The tag with most rows, of those that are plotted against the step where there are any."""
    tags = [tag for tag in part.groups if rows.counts_steps[tag]] or list(part.groups)
    return max(tags, key=lambda tag: (sum(int(rows.stop[g] - rows.start[g]) for g in part.groups[tag]), -tag))


def _stretch(rows: _Rows, source: int, part: _Part) -> Stretch:
    first, last = part.bounds(rows)
    members = [group for groups in part.groups.values() for group in groups]
    times = np.concatenate([rows.time[rows.start[g] : rows.stop[g]] for g in members])
    # A clock that was not set writes 1970; such a time orders nothing.
    times = times[(times > _YEAR_1990) & (times < _YEAR_2200)]
    return Stretch(
        source=rows.sources[source],
        segments=tuple(part.segments),
        first=first,
        last=last,
        interval=_interval(rows, part),
        begin=int(times.min()) if len(times) else None,
        end=int(times.max()) if len(times) else None,
        clock=_clock(rows, part),
        losses=_comparable(rows, part),
    )


def _clock(rows: _Rows, part: _Part) -> Clock | None:
    """(step, time) of the densest tag, if its times are known and run forward."""
    groups = part.groups[_densest(rows, part)]
    steps = np.concatenate([rows.step[rows.start[g] : rows.stop[g]] for g in groups])
    times = np.concatenate([rows.time[rows.start[g] : rows.stop[g]] for g in groups])
    usable = bool((times > _YEAR_1990).all() and (np.diff(times) >= 0).all() and (np.diff(steps) >= 0).all())
    return (steps, times) if usable else None


def _comparable(rows: _Rows, part: _Part) -> dict[str, Column]:
    """The losses of a part by signal, or, in a source without any, every tag by its name."""
    tags = [tag for tag in part.groups if rows.counts_steps[tag]]
    named = {
        signal: tag
        for tag in sorted(tags, reverse=True)
        if (signal := rows.signal[tag]) is not None and (signal == "loss" or signal.startswith("loss/"))
    }
    if not named:
        named = {rows.tags[tag]: tag for tag in tags}
    result = {}
    for name, tag in named.items():
        values = np.concatenate([rows.value[rows.start[g] : rows.stop[g]] for g in part.groups[tag]])
        steps, index = np.unique(_steps(rows, part, tag), return_index=True)
        result[name] = (steps, values[index])
    return result


def microseconds(times: pd.Series) -> NDArray[np.int64]:
    """A column of times as microseconds since 1970, the smallest int64 where unknown."""
    if pd.api.types.is_integer_dtype(times.dtype):
        return times.to_numpy(np.int64)
    naive = times.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(naive.to_numpy("datetime64[us]")).view(np.int64)
