"""In which order the lines of a block of JSON name their values.

Arrow tells the keys of a block in the order in which they first come in it.  Where a line has another, and what it
says is to come out as it would line by line, that must be found without reading every line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORD = 8
_MASKS = np.array([(1 << (_WORD * length)) - 1 for length in range(_WORD + 1)], "<u8")
"""Of a word, its first so many bytes."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LONGEST_KEY = 200


@dataclass(frozen=True)
class KeyOrder:
    """The keys of each line of a block, in its order.

    ``changes`` are the lines, counted from 0, that have other keys than the line before, or the same in another order.
    ``numbers`` stand for the keys of all lines, ``starts`` say where those of each line begin among them; after them
    comes the number of all.
    """

    changes: NDArray[np.int64]
    numbers: NDArray[np.uint64]
    starts: NDArray[np.int64]

    def of(self, line: int) -> bytes:
        """What stands for the keys of a line, in their order."""
        return self.numbers[self.starts[line] : self.starts[line + 1]].tobytes()


def key_order(raw: bytes, lines: int) -> KeyOrder | None:
    """The order of the keys in a block of ``lines`` whole lines of JSON objects, without texts among their values.

    So all quotation marks are those of keys.  None where keys are too long or too intricate to tell, or a line has
    none.
    """
    data = np.frombuffer(raw, np.uint8)
    if (data == ord("\\")).any() and b'\\"' in raw:
        return None
    quotes = np.flatnonzero(data == ord('"'))
    begins = quotes[::2] + 1
    if len(quotes) % 2 or not len(begins):
        return None
    lengths = quotes[1::2] - begins
    if int(lengths.max()) > _LONGEST_KEY:
        return None
    starts = np.concatenate(([0], np.searchsorted(begins, np.flatnonzero(data == ord("\n")))))
    counts = np.diff(starts)
    if len(counts) != lines or counts.min() == 0:
        return None
    numbers = _numbered(raw, begins, lengths)
    if (counts == counts[0]).all():
        table = numbers.reshape(lines, -1)
        different = (table[1:] != table[:-1]).any(axis=1)
    else:
        # Each key beside that in its place on the line before, if that has as many.
        before = np.maximum(np.arange(len(numbers)) - np.repeat(counts, counts), 0)
        different = np.logical_or.reduceat(numbers != numbers[before], starts[:-1])[1:] | (np.diff(counts) != 0)
    return KeyOrder(np.flatnonzero(different) + 1, numbers, starts)


def _numbered(raw: bytes, begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number for each key, the same for the same text, and for another the same only by a rare chance."""
    # Words of the text at any byte; what lies behind its end is masked.
    padded = raw + bytes(_WORD)
    words: NDArray[np.uint64] = np.ndarray((len(raw),), "<u8", padded, strides=(1,))
    numbers: NDArray[np.uint64] = (words[begins] & _MASKS[np.minimum(lengths, _WORD)]) * _MIX + lengths.astype(
        np.uint64
    )
    for at in range(_WORD, int(lengths.max()), _WORD):
        longer = np.flatnonzero(lengths > at)
        more = words[begins[longer] + at] & _MASKS[np.minimum(lengths[longer] - at, _WORD)]
        numbers[longer] = (numbers[longer] ^ more) * _MIX
    return numbers
