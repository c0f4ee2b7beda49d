"""How often training stops, why, for how long it runs in between, and what that costs: from the incidents of runs.

Every function takes a store and gives a DataFrame; ``run`` is a name, several, or None for all.  Counts are of what
sources tell one by one, where an entry may tell of several; where a source only gives a total over a time, that total
is used by :func:`mtbf_per_gpu` and shown by :func:`stated_totals`.  Nothing is ever filled in: a run of whose end
nothing is noted is censored where its record ends.

The functions live in :mod:`~replay.history.stops` (restarts and failures), :mod:`~replay.history.between` (the time
between them) and :mod:`~replay.history.stated` (what sources only count); this module gathers them.
"""

from replay.history.between import mean_time_between, median_time_between, stated_between, time_between
from replay.history.stated import descriptions, gpus_of, mtbf_per_gpu, stated_totals
from replay.history.stops import (
    HARDWARE,
    Runs,
    failures,
    first_number,
    numbers,
    restarts,
    restarts_by_cause,
    restarts_by_week,
    times_of,
)

__all__ = [
    "HARDWARE",
    "Runs",
    "descriptions",
    "failures",
    "first_number",
    "gpus_of",
    "mean_time_between",
    "median_time_between",
    "mtbf_per_gpu",
    "numbers",
    "restarts",
    "restarts_by_cause",
    "restarts_by_week",
    "stated_between",
    "stated_totals",
    "time_between",
    "times_of",
]
