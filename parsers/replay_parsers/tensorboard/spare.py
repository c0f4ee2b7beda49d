"""Memory that the reading of one small file hands on to the next.

New memory costs as much as decoding into it, since the system clears it first; among thousands of small files that
would be most of the work.  Whoever gives memory back must not show it to anyone afterwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay_parsers.tensorboard.layout import PADDING

SPARE_BYTES = (1 << 20) + PADDING
"""The length of what is handed on."""

_MOST = 4

_spare: list[NDArray[np.uint8]] = []  # its append and pop are safe between threads


def borrow(count: int) -> NDArray[np.uint8]:
    """Memory of at least ``count`` bytes, with anything in it."""
    if count > SPARE_BYTES:
        return np.empty(count, np.uint8)
    try:
        return _spare.pop()
    except IndexError:
        return np.empty(SPARE_BYTES, np.uint8)


def is_handed_on(memory: NDArray[np.uint8]) -> bool:
    """Whether :func:`give_back` will keep it for others, so that nothing may show it then."""
    return len(memory) == SPARE_BYTES


def give_back(memory: NDArray[np.uint8]) -> None:
    """Let others have what :func:`borrow` gave."""
    if is_handed_on(memory) and len(_spare) < _MOST:
        _spare.append(memory)
