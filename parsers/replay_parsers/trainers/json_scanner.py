"""Lines of JSON that differ in their numbers alone, read by compiled code.

Most lines of a log have the same keys in the same order.  Cut at its numbers, one of them gives texts that the others
have as well, byte by byte; what stands between these texts are the numbers.  No other knowledge of JSON is needed, so
little code, and nothing is looked at twice.  Whatever is different, be it a space, ends the scan at that line.
"""

from __future__ import annotations

from replay_parsers.tensorboard.compilation import Entry, inlined
from replay_parsers.tensorboard.memory import load_i64, load_u8, store_f64, store_i64
from replay_parsers.trainers.json_layout import END, NUMBERS, POSITION, TEXTS, VALUES
from replay_parsers.trainers.json_numbers import read_value


@inlined
def _is_text(position: int, end: int, text: int, length: int) -> bool:
    """Whether the ``length`` bytes at ``position`` and at ``text`` are the same; behind ``text`` 8 more can be read."""
    if length > end - position:
        return False
    while length >= 8:
        if load_i64(position) != load_i64(text):
            return False
        position += 8
        text += 8
        length -= 8
    if length == 0:
        return True
    if end - position >= 8:
        return (load_i64(position) ^ load_i64(text)) << (64 - 8 * length) == 0
    while length > 0 and load_u8(position) == load_u8(text):
        position += 1
        text += 1
        length -= 1
    return length == 0


def _scan(job: int) -> int:
    """Read lines from POSITION on into VALUES; returns how many, with POSITION at the first that is not alike."""
    line = load_i64(job + POSITION)
    end = load_i64(job + END)
    numbers = load_i64(job + NUMBERS)
    texts = load_i64(job + TEXTS)
    values = load_i64(job + VALUES)
    lines = 0
    while line < end:
        position = line
        text = texts
        length = load_i64(text)
        left = numbers
        while position != 0:
            if not _is_text(position, end, text + 8, length):
                position = 0
                break
            position += length
            if left == 0:
                break
            text += 8 + length
            length = load_i64(text)
            value, position = read_value(position)
            store_f64(values, value)
            values += 8
            left -= 1
        if position == 0:
            break
        line = position
        lines += 1
    store_i64(job + POSITION, line)
    return lines


scan = Entry(_scan, "int64(int64)", "the reader of JSON lines")
