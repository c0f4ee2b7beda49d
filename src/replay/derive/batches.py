"""Batch sizes that change, and data that were passed over."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from replay.derive.reading import Reading, Signal, number
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

# A size that holds for fewer reports is a last batch of an epoch, or one of many.
_LEAST_REPORTS = 3
_LEAST_HOLDING = 0.8
_RAMP_CHANGES = 3


def find(reading: Reading) -> Iterator[Event]:
    """`batch_size_change` and `skip_batches` events."""
    for signal in reading.signals.get("batch_size", {}).values():
        yield from _sizes(reading, signal)
    for attempt, samples in reading.signals.get("samples", {}).items():
        size = reading.signal("batch_size", attempt)
        if size is not None:
            yield from _passed_over(reading, samples, size)
            before = reading.signal("samples", attempt - 1)
            if before is not None:
                yield from _moved_on(reading, before, samples, size)


def _sizes(reading: Reading, signal: Signal) -> Iterator[Event]:
    """Changes from one lasting size to another; several in a row and in one direction are one ramp."""
    value = signal.value
    if len(value) < 2 * _LEAST_REPORTS or not np.isfinite(value).all():
        return
    differences = np.diff(value)
    changed = np.flatnonzero(differences) + 1
    ramp = bool((differences >= 0).all() or (differences <= 0).all())
    if len(changed) > (1 - _LEAST_HOLDING) * len(value) and not ramp:
        return
    bounds = [0, *changed.tolist(), len(value)]
    least = 1 if ramp else _LEAST_REPORTS
    lasting = [start for start, stop in itertools.pairwise(bounds) if stop - start >= least]
    levels = [(start, float(value[start])) for start in lasting]
    changes = [(start, before, after) for (_, before), (start, after) in itertools.pairwise(levels) if before != after]
    while changes:
        upward = changes[0][2] > changes[0][1]
        length = len(list(itertools.takewhile(lambda change: (change[2] > change[1]) == upward, changes)))  # noqa: B023
        group, changes = changes[:length], changes[length:]
        if length >= _RAMP_CHANGES:
            yield _size_change(reading, signal, group)
        else:
            for change in group:
                yield _size_change(reading, signal, [change])


def _size_change(reading: Reading, signal: Signal, group: list[tuple[int, float, float]]) -> Event:
    first, last = group[0][0], group[-1][0]
    before, after = group[0][1], group[-1][2]
    step, step_end = int(signal.step[first]), int(signal.step[last])
    ramp = len(group) > 1
    how = f"in {len(group)} steps, a ramp, by step {step_end}" if ramp else f"at step {step}"
    return reading.event(
        EventKind.BATCH_SIZE_CHANGE,
        step=step,
        step_end=step_end,
        field="batch_size",
        before=before,
        after=after,
        unit="sequences",
        detail={"ramp": str(len(group))} if ramp else {},
        text=f"the batch grows from {number(before)} to {number(after)} sequences {how}"
        if after > before
        else f"the batch shrinks from {number(before)} to {number(after)} sequences {how}",
        source=signal.source,
        locator=signal.place(step, step_end),
        time=signal.time_at(first),
    )


def _passed_over(reading: Reading, samples: Signal, size: Signal) -> Iterator[Event]:
    """More samples between two reports than the steps between them can have used."""
    steps, used = np.diff(samples.step), np.diff(samples.value)
    at = np.interp(samples.step.astype(np.float64), size.step.astype(np.float64), size.value)
    batch = np.maximum(at[:-1], at[1:])
    excess = used - steps * batch
    with np.errstate(invalid="ignore"):
        jumps = np.flatnonzero((excess > 0.5 * batch) & (used > 1.5 * steps * batch))
    # A counter that disagrees throughout counts something else.
    if len(jumps) > max(5, 0.01 * len(steps)):
        return
    for index in jumps.tolist():
        batches = round(float(excess[index] / batch[index]))
        step, step_end = int(samples.step[index]) + 1, int(samples.step[index + 1])
        yield _skip(reading, samples, index + 1, step, step_end, batches, float(excess[index]), "between two reports")


def _moved_on(reading: Reading, before: Signal, samples: Signal, size: Signal) -> Iterator[Event]:
    """An attempt whose data position is ahead of that of the one before at the same steps."""
    common, mine, theirs = np.intersect1d(samples.step, before.step, assume_unique=True, return_indices=True)
    if not len(common):
        return
    ahead = float(np.median(samples.value[mine] - before.value[theirs]))
    batch = float(np.median(size.value))
    if batch > 0 and ahead > 0.5 * batch:
        step = int(samples.step[0])
        said = f"at the same steps of attempt {before.attempt}"
        yield _skip(reading, samples, 0, step, step, round(ahead / batch), ahead, said)


def _skip(
    reading: Reading, samples: Signal, row: int, step: int, step_end: int, batches: int, count: float, said: str
) -> Event:
    return reading.event(
        EventKind.SKIP_BATCHES,
        step=step,
        step_end=step_end,
        detail={"batches": str(batches), "samples": number(count)},
        text=f"{number(count)} samples, {batches} batches, more than the steps used, {said}: they were passed over",
        source=samples.source,
        locator=samples.place(step, step_end),
        time=samples.time_at(row),
    )
