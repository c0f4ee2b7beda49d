"""Protocol-buffer messages in plain Python, for the few that tell of the run rather than of a step.

Contents are views of the message, since a text can be as long as a record may be.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from replay_parsers.tensorboard.layout import BYTES, FIXED32, FIXED64, GROUP, GROUP_END, VARINT


class MalformedMessageError(ValueError):
    """The bytes are no protocol-buffer message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its number, its wire type, and its content: a number, or the bytes."""

    number: int
    kind: int
    value: int
    content: memoryview

    @property
    def double(self) -> float:
        """The content of a fixed 64-bit field as a double."""
        return float(struct.unpack("<d", self.content)[0])

    @property
    def text(self) -> str:
        """The content as text; bytes that are not UTF-8 become the replacement character."""
        return as_text(self.content)


def as_text(content: bytes | memoryview) -> str:
    """UTF-8 as text; bytes that are none become the replacement character."""
    return str(content, "utf-8", errors="replace")


def fields(message: bytes | memoryview) -> Iterator[Field]:
    """The fields of ``message`` in order, groups left out.  Raises :class:`MalformedMessageError`."""
    message = memoryview(message)
    position, depth = 0, 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise MalformedMessageError("field number 0")
        value, content = 0, message[:0]
        if kind == VARINT:
            value, position = _varint(message, position)
        elif kind in (FIXED64, FIXED32, BYTES):
            length = {FIXED64: 8, FIXED32: 4}.get(kind, 0)
            if kind == BYTES:
                length, position = _varint(message, position)
            if length > len(message) - position:
                raise MalformedMessageError("a field reaches past the end")
            content = message[position : position + length]
            position += length
        elif kind == GROUP:
            depth += 1
        elif kind == GROUP_END and depth > 0:
            depth -= 1
            continue
        else:
            raise MalformedMessageError(f"wire type {kind}")
        if depth == 0:
            yield Field(number, kind, value, content)


def of_number(message: bytes | memoryview, number: int) -> Iterator[memoryview]:
    """The contents of the length-delimited fields ``number``.  Raises :class:`MalformedMessageError`."""
    return (field.content for field in fields(message) if field.number == number and field.kind == BYTES)


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise MalformedMessageError("a varint has no end")


def signed(value: int) -> int:
    """A varint as the int64 it stands for."""
    return value - (1 << 64) if value >> 63 else value
