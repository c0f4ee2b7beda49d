"""Protocol-buffer wire format: keys, varints and the skipping of unknown fields, over raw addresses.

A position of 0 stands for malformed input.  As in protobuf itself, a known field of another wire type counts as
unknown, and unknown fields, groups included, are skipped.
"""

from __future__ import annotations

from replay_parsers.tensorboard.compilation import compiled, inlined
from replay_parsers.tensorboard.memory import load_u8

MALFORMED_POSITION = 0

_LONGEST_VARINT_BITS = 70
_LARGEST_KEY = 0xFFFFFFFF


@inlined
def varint(position: int, end: int) -> tuple[int, int]:
    """The varint at ``position``, as int64, and the position after it."""
    if position < end:
        byte = load_u8(position)
        if byte < 0x80:
            return byte, position + 1
    return long_varint(position, end)


@compiled
def long_varint(position: int, end: int) -> tuple[int, int]:
    """As :func:`varint`, of any length."""
    value = 0
    shift = 0
    while position < end and shift < _LONGEST_VARINT_BITS:
        byte = load_u8(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, 0


@inlined
def extent(position: int, end: int) -> tuple[int, int]:
    """Begin and end of the length-delimited field whose length stands at ``position``; (0, 0) if malformed."""
    length, position = varint(position, end)
    if position == 0 or length < 0 or length > end - position:
        return 0, 0
    return position, position + length


@compiled
def skip_plain(kind: int, position: int, end: int) -> int:
    """The position after a field of wire type ``kind`` other than a group, whose key has been read."""
    if kind == 0:
        _, position = varint(position, end)
        return position
    if kind == 2:
        _, position = extent(position, end)
        return position
    if kind == 1:
        position += 8
    elif kind == 5:
        position += 4
    else:
        return 0
    return position if position <= end else 0


@compiled
def skip(key: int, position: int, end: int) -> int:
    """The position after the field with ``key``, whose key has been read."""
    if key < 8 or key > _LARGEST_KEY:
        return 0
    kind = key & 7
    if kind != 3:
        return skip_plain(kind, position, end)
    depth = 1
    while depth > 0:
        key, position = varint(position, end)
        if position == 0 or key < 8 or key > _LARGEST_KEY:
            return 0
        kind = key & 7
        if kind == 3:
            depth += 1
        elif kind == 4:
            depth -= 1
        else:
            position = skip_plain(kind, position, end)
            if position == 0:
                return 0
    return position
