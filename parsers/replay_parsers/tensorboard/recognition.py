"""Telling an event file by its content, in plain Python: no compiler is needed to say no."""

from __future__ import annotations

import re
from functools import cache

from replay_parsers.parser import Sample

HEADER_BYTES = 12
VERSION = b"brain.Event:"

_LOOK_AT_MOST = 4096
# Any 12 bytes whose length field is below 4 GiB, overlapping ones included: what a header can look like.
_PLAUSIBLE_HEADER = re.compile(rb"(?=([\s\S]{4}\0\0\0\0[\s\S]{4}))")


def recognise(sample: Sample) -> float:
    """How sure it is that ``sample`` begins an event file.

    1 when the first record's header checksum holds and the record tells its version; 0.9 when only the checksum
    holds; 0.8 or 0.6 when the beginning is damaged, but the version or a later header is there; 0 otherwise, as
    for an empty file, a Git LFS pointer, or one that holds zeros only.
    """
    head = sample.head
    versioned = VERSION in head[:96]
    if header_holds(head[:HEADER_BYTES]):
        return 1.0 if versioned else 0.9
    if versioned:
        return 0.8
    for looked_at, match in enumerate(_PLAUSIBLE_HEADER.finditer(head)):
        if looked_at >= _LOOK_AT_MOST:
            break
        if header_holds(match[1]):
            return 0.6
    return 0.0


def header_holds(header: bytes) -> bool:
    """Whether 12 bytes are a length (8 bytes, little-endian) followed by its masked CRC-32C."""
    if len(header) < HEADER_BYTES:
        return False
    checksum = 0xFFFFFFFF
    for byte in header[:8]:
        checksum = _table()[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    checksum ^= 0xFFFFFFFF
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(header[8:], "little")


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)
