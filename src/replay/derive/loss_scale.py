"""Loss scales that fall further than healthy training lets them, and updates skipped in a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from replay import rules
from replay.derive.reading import Reading, Signal, number, runs_of
from replay.measurements import stale
from replay.rules.model import Flag
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

_RULE = "loss-scale-collapse"
# Two skipped updates in a row are one overflow and its hysteresis; a healthy run has many such pairs.
_LEAST_SKIPPED = 3
_LEAST_SHARE = 0.3
_TOLERATED_REPORTS = 1
# The search for a scale at the start takes up to 32 halvings.
_SEARCH_STEPS, _SEARCH_SKIPS = 100, 40


def find(reading: Reading) -> Iterator[Event]:
    """`loss_scale_drop`, `loss_scale_floor` and `overflow_skip` events."""
    yield from _falls(reading)
    yield from _distinct(_all_skips(reading))


def _all_skips(reading: Reading) -> Iterator[Event]:
    for name in ("skipped_batches", "skipped_batches_total"):
        for signal in reading.signals.get(name, {}).values():
            counts = signal.value if name == "skipped_batches" else np.diff(signal.value, prepend=signal.value[:1])
            yield from _skips(reading, signal, counts, "counted as skipped")
    # Without loss scaling a norm that repeats is a coincidence, or clipped.
    for attempt, norm in reading.signals.get("grad_norm", {}).items():
        if reading.signal("loss_scale", attempt) is not None:
            said = "skipped: the gradient norm repeats to the last digit, so no new one was computed"
            yield from _skips(reading, norm, stale(norm.value).astype(np.float64), said)


def _falls(reading: Reading) -> Iterator[Event]:
    """What the built-in rule finds, by the same conditions."""
    series = rules.from_scalars(reading.scalars[reading.scalars["signal"] == "loss_scale"])
    if "loss_scale" not in series:
        return
    [rule] = [rule for rule in rules.load() if rule.name == _RULE]
    for condition in rule.conditions:
        alone = dataclasses.replace(rule, when=condition)
        found = rules.evaluate([alone], series)
        for flag in (*found.flags, *found.recurrences):
            yield _fall(reading, flag)


def _fall(reading: Reading, flag: Flag) -> Event:
    signal = reading.signals["loss_scale"][flag.attempt]
    inside = (signal.step >= flag.step) & (signal.step <= flag.step_end)
    lowest = float(np.min(signal.value[inside & (signal.value > 0)]))
    row = int(np.flatnonzero(signal.step == flag.step)[0])
    floor = flag.detector == "floor"
    before = _level_before(signal, row) if floor else flag.baseline
    # A rule can only say so after three halvings; the fall began with the first.
    while not floor and row and signal.value[row - 1] < 0.75 * before:
        row -= 1
    step = int(signal.step[row])
    usual = f"{number(before / lowest)} times below its usual {number(before)}"
    reached = f"its lowest value, from {number(before)}" if floor else usual
    return reading.event(
        EventKind.LOSS_SCALE_FLOOR if floor else EventKind.LOSS_SCALE_DROP,
        step=step,
        step_end=flag.step_end,
        field="loss_scale",
        before=before,
        after=lowest,
        text=f"the loss scale falls to {number(lowest)}, {reached}",
        source=signal.source,
        locator=signal.place(step, flag.step_end),
        time=signal.time_at(row),
    )


def _level_before(signal: Signal, row: int) -> float:
    """The usual scale over the hundred reports before a row."""
    before = signal.value[max(0, row - 100) : row]
    return float(np.median(before)) if len(before) else float(signal.value[row])


def _skips(reading: Reading, signal: Signal, counts: NDArray[np.float64], said: str) -> Iterator[Event]:
    """Stretches in which updates were skipped one after the other."""
    skipped = np.nan_to_num(counts) > 0
    for first, last in _joined(runs_of(skipped)):
        total = int(np.nansum(np.maximum(counts[first : last + 1], 0)))
        step, step_end = int(signal.step[first]), int(signal.step[last])
        before = int(signal.step[first - 1]) if first else step - 1
        searching = step <= _SEARCH_STEPS and total < _SEARCH_SKIPS
        if total < _LEAST_SKIPPED or total < _LEAST_SHARE * (step_end - before) or searching:
            continue
        yield reading.event(
            EventKind.OVERFLOW_SKIP,
            step=step,
            step_end=step_end,
            detail={"batches": str(total)},
            text=f"{total} updates from step {step} to step {step_end} are {said}",
            source=signal.source,
            locator=signal.place(step, step_end),
            time=signal.time_at(first),
        )


def _distinct(skips: Iterator[Event]) -> Iterator[Event]:
    """What a counter and a stale norm both tell is one event, the counter's."""
    told: list[tuple[int, int]] = []
    for skip in skips:
        first, last = skip.step or 0, skip.step_end or skip.step or 0
        if not any(first <= end and start <= last for start, end in told):
            told.append((first, last))
            yield skip


def _joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches that a report or so parts are one."""
    joined: list[tuple[int, int]] = []
    for first, last in stretches:
        if joined and first - joined[-1][1] <= _TOLERATED_REPORTS + 1:
            joined[-1] = joined[-1][0], last
        else:
            joined.append((first, last))
    return joined
