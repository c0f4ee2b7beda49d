"""Streams of random numbers: each draw is a function of a seed, of what it is for, and of a number, and of no state.

The generators are Philox (Salmon et al. 2011), which is keyed rather than wound forward: any batch can be made at any
time, in any process, in any order, and there is nothing of a generator for a checkpoint to keep.
"""

from __future__ import annotations

import enum

import numpy as np


class Purpose(enum.IntEnum):
    """What a stream of random numbers is for; streams of different purposes never meet."""

    TRAINING = 0
    HELD_OUT = 1
    DEFECT = 2
    SECOND_SOURCE = 3
    INITIAL_WEIGHTS = 4
    TEXT = 5
    PERTURBATION = 6
    BIT_FLIP = 7


def generator(seed: int, purpose: Purpose, index: int = 0) -> np.random.Generator:
    """The random generator of one purpose and index (0 .. 2^56 - 1) under a seed."""
    key = np.array([seed, (int(purpose) << 56) | index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))
