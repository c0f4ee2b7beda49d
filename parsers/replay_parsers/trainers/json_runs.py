"""Runs of records with the same keys, all numbers, taken in at once where that gives what one by one would."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from replay_parsers.trainers.axes import Axis, clock_of_columns, step_and_epoch_keys
from replay_parsers.trainers.huggingface_meaning import tells_a_run_mean
from replay_parsers.trainers.losses import training_loss
from replay_parsers.trainers.reading import Book

SHORTEST_RUNS = 64
"""On average so many records in a row must have the same keys."""

Column = NDArray[np.float64]
Table = NDArray[np.float64]
"""Numbers of shape [records, keys]."""


@dataclass(frozen=True)
class Run:
    """Adjacent records of the same keys: values of shape [records, tags], times in microseconds since 1970."""

    tags: tuple[str, ...]
    loss: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.int64] | None


def run_of(names: tuple[str, ...], table: Table) -> Run | None:
    """The records whose numbers are given; None when they must be looked at one by one."""
    place = Axis({}).place(dict(zip(names, table[0].tolist(), strict=True)))
    clock = clock_of_columns(names, table.T)
    if place is None or place.axis != "step" or clock is False or tells_a_run_mean(names):
        return None
    at = names.index(place.keys[0])
    steps = _as_steps(table[:, at])
    left_out = (at,) if clock is None else (at, clock[0])
    kept = [column for column in range(len(names)) if column not in left_out]
    tags = tuple(names[column] for column in kept)
    loss = training_loss(dict.fromkeys(tags, 0.0))
    if steps is None or loss is None:
        return None
    values = np.ascontiguousarray(table[:, kept])
    # What may be a nan loss is looked at one by one.
    if not (np.isfinite(values).all() and values[:, tags.index(loss)].all()):
        return None
    times = None if clock is None else (table[:, clock[0]] * clock[1]).astype(np.int64)
    return Run(tags, loss, steps, values, times)


def _as_steps(values: Column) -> NDArray[np.int64] | None:
    if not (np.abs(values) <= 2**53).all():
        return None
    steps = values.astype(np.int64)
    return steps if (steps == values).all() else None


def epochs_of(names: tuple[str, ...], table: Table) -> tuple[Column, Column] | None:
    """The epochs and steps of the records that name a whole epoch; None when they name no step."""
    steps, epochs = step_and_epoch_keys(names)
    if not steps:
        return None
    if not epochs:
        return np.empty(0), np.empty(0)
    epoch = table[:, names.index(epochs[0])]
    whole = epoch == np.floor(epoch)
    return epoch[whole], table[:, names.index(steps[0])][whole]


def add_runs(runs: list[Run], epochs: tuple[Column, Column], axis: Axis, book: Book) -> bool:
    """Add adjacent runs, whose ``epochs`` are given with their steps; false, with nothing done, when it is not plain
    that each record counts as it stands."""
    # After a restart every step is told anew, which each record would notice.
    book.repeats.told(int(runs[0].steps[0]), "", book.events.restarts)
    if not book.scalars.has_room_for({tag for run in runs for tag in run.tags}) or not _are_first_tellings(runs, book):
        return False
    if not axis.skim(*epochs, sum(len(run.steps) for run in runs)):
        return False
    for run in runs:
        book.events.reported()
        if run.times is not None:
            losses = run.values[:, run.tags.index(run.loss)]
            book.repeats.remember(run.loss, run.steps, run.times, losses)
        # A step back begins a segment; what lies between two is added at once.
        bounds = [0, *(np.flatnonzero(np.diff(run.steps) < 0) + 1).tolist(), len(run.steps)]
        for first, end in pairwise(bounds):
            times = None if run.times is None else run.times[first:end]
            book.scalars.add_many(run.steps[first:end], run.tags, run.values[first:end], times)
    return True


def _are_first_tellings(runs: list[Run], book: Book) -> bool:
    """Whether no record can be another rank's: those with a time must go on from what was told before."""
    last: dict[str, int | None] = {}
    for run in runs:
        if run.times is None:
            continue
        before = last[run.loss] if run.loss in last else book.repeats.highest(run.loss)
        if (before is not None and run.steps[0] <= before) or not (np.diff(run.steps) > 0).all():
            return False
        last[run.loss] = int(run.steps[-1])
    return True
