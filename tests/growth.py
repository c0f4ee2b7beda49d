"""Whether work grows in proportion to its size, judged so that neither a slow nor a busy machine changes the answer.

A limit in seconds fails where the machine is slow, or stands still for a while.  So the processor's time is counted,
of a size and of an eighth of it: in proportion they differ by 8, with the square by 64.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

TIMES = 8
MOST = 24
"""Between 8 and 64: what a cache that is too small, or a busy neighbour, adds is less; the square is more."""

NO_MATTER_SECONDS = 0.1
TRIES = 5


def grows_with_its_size(prepare: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether the work that ``prepare`` makes for ``size`` takes no more than in proportion, or next to no time.

    Only the work counts, not its preparation.  Work that grows with the square fails at every try, other work only
    where each is disturbed.
    """
    for number in range(TRIES):
        # Another size each time: the answer to the last try may be remembered somewhere.
        whole = size - number * size // 50
        taken = _seconds(prepare(whole))
        if taken < NO_MATTER_SECONDS or taken < MOST * _seconds(prepare(whole // TIMES)):
            return True
    return False


def _seconds(work: Callable[[], object]) -> float:
    """The processor's time for ``work``, without what the collector does for other tests' objects."""
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        work()
        return time.process_time() - begun
    finally:
        gc.enable()
