"""Events found in scalars: what happened to a run that no log line and no logbook tells.

Every event says how it was found and is of evidence `derived`, so that it can give way to a twin that was logged or
stated.  What healthy runs do is no event: warm-up and decay of the learning rate, a loss scale that grows and backs
off, single skipped updates, a report that is late.
"""

from __future__ import annotations

import pandas as pd

from replay.derive import batches, gaps, learning_rate, loss_scale, losses, restarts
from replay.derive.reading import Reading
from replay_parsers.records import Event

__all__ = ["events"]

_FINDERS = (restarts, gaps, learning_rate, loss_scale, batches, losses)


def events(run: str, scalars: pd.DataFrame, attempts: pd.DataFrame) -> list[Event]:
    """The events that the scalars of one run show, in order of attempts' steps.

    ``scalars``: every tag of the run, with columns source, segment, tag, step, wall_time, value, attempt and signal
    (the last two as :func:`replay.lineage.assign` and :func:`replay.signals.signal_of` give them).  ``attempts`` as
    :func:`replay.lineage.attempts` gives them.  Kinds: restart, rollback, gap, lr_change, lr_rewarm,
    loss_scale_drop, loss_scale_floor, overflow_skip, batch_size_change, skip_batches, nan_loss.  Two findings of
    one kind at one step are one event, the first that is found.  Pure: the same input gives the same output.
    """
    if scalars.empty:
        return []
    reading = Reading.of(run, scalars, attempts)
    found: dict[str, Event] = {}
    for finder in _FINDERS:
        for event in finder.find(reading):
            found.setdefault(event.event, event)
    return sorted(found.values(), key=lambda event: (event.step or 0, str(event.kind)))
