"""Learning rates that people, or a restart, changed: within an attempt and from one attempt to the next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from replay.derive.reading import Reading, Signal, number
from replay.derive.schedule import LEAST_CHANGE, jumps, quantum
from replay_parsers.kinds import EventKind
from replay_parsers.records import Event

_FIELD = "learning_rate"
# A rate is compared with that of the attempt before at this many reports.
_COMPARED = 3
_NEAR_REPORTS = 10


def find(reading: Reading) -> Iterator[Event]:
    """`lr_change` and `lr_rewarm` events."""
    rates = reading.signals.get(_FIELD, {})
    for attempt, signal in rates.items():
        usable = np.isfinite(signal.value) & (signal.value >= 0)
        step, rate = signal.step[usable], signal.value[usable]
        rows = np.flatnonzero(usable)
        for jump in jumps(step, rate):
            before, after = float(rate[jump.index - 1]), float(rate[jump.index])
            row = int(rows[jump.index])
            if jump.end is not None:
                yield _rewarm(reading, signal, row, int(step[jump.end]), before, float(rate[jump.end]))
            else:
                said = f"between steps {step[jump.index - 1]} and {step[jump.index]}, which no schedule explains"
                yield _change(reading, signal, row, before, after, said)
        earlier = rates.get(attempt - 1)
        if earlier is not None:
            yield from _from_attempt_before(reading, earlier, signal)


def _from_attempt_before(reading: Reading, earlier: Signal, signal: Signal) -> Iterator[Event]:
    """The rate of an attempt against that of the one before at the same steps."""
    expected = _expected(earlier, signal)
    if expected is None:
        return
    rate = signal.value[: len(expected)]
    unit = np.maximum(quantum(rate), quantum(expected))
    differs = np.abs(rate - expected) > np.maximum(LEAST_CHANGE * np.maximum(rate, expected), 2.5 * unit)
    if not differs.all():
        return
    climb = np.flatnonzero(np.diff(signal.value) <= 0)
    top = int(climb[0]) if len(climb) else len(signal) - 1
    if rate[0] < expected[0] / 2 and top >= _COMPARED and signal.value[top] >= 3 * rate[0]:
        yield _rewarm(reading, signal, 0, int(signal.step[top]), float(expected[0]), float(signal.value[top]))
    elif rate[0] > 0 and expected[0] > 0:
        said = f"at step {signal.step[0]}, against attempt {earlier.attempt} at the same steps"
        yield _change(reading, signal, 0, float(expected[0]), float(rate[0]), said)


def _expected(earlier: Signal, signal: Signal) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """What the attempt before would have had at the first reports of this one; None where that is not known."""
    if len(signal) < _COMPARED or len(earlier) < _COMPARED:
        return None
    wanted = signal.step[:_COMPARED].astype(np.float64)
    first, last = float(earlier.step[0]), float(earlier.step[-1])
    interval = max(1.0, float(np.median(np.diff(earlier.step))))
    if wanted[0] < first or wanted[-1] > last + _NEAR_REPORTS * interval:
        return None
    known = np.interp(wanted, earlier.step.astype(np.float64), earlier.value)
    beyond = wanted > last
    slope = (earlier.value[-1] - earlier.value[-_COMPARED]) / float(earlier.step[-1] - earlier.step[-_COMPARED])
    known[beyond] = np.maximum(0.0, earlier.value[-1] + slope * (wanted[beyond] - last))
    return known


def _change(reading: Reading, signal: Signal, row: int, before: float, after: float, said: str) -> Event:
    step = int(signal.step[row])
    return reading.event(
        EventKind.LR_CHANGE,
        step=step,
        field=_FIELD,
        before=before,
        after=after,
        detail={"factor": number(after / before)},
        text=f"the learning rate goes from {number(before)} to {number(after)} {said}",
        source=signal.source,
        locator=signal.place(int(signal.step[max(0, row - 1)]), step),
        time=signal.time_at(row),
    )


def _rewarm(reading: Reading, signal: Signal, row: int, end: int, before: float, peak: float) -> Event:
    step = int(signal.step[row])
    return reading.event(
        EventKind.LR_REWARM,
        step=step,
        step_end=end,
        field=_FIELD,
        before=before,
        after=peak,
        detail={"steps": str(end - step)},
        text=(
            f"the learning rate falls from {number(before)} to {number(float(signal.value[row]))} and climbs again "
            f"to {number(peak)} by step {end}"
        ),
        source=signal.source,
        locator=signal.place(step, end),
        time=signal.time_at(row),
    )
