"""A tiny writer of event files for the tests: pure Python, apart from the code it tests.

It builds each message field by field, so that tests can write what no library would: fields out of order, unknown
ones, damage at a known byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

VERSION = b"brain.Event:2"

# DataType of types.proto, by numpy-like names.
DTYPES = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8,
    "int64": 9, "bool": 10, "qint8": 11, "quint8": 12, "qint32": 13, "bfloat16": 14, "qint16": 15, "quint16": 16,
    "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23, "float8_e5m2": 24,
    "float8_e4m3fn": 25, "float8_e4m3fnuz": 26, "float8_e4m3b11fnuz": 27, "float8_e5m2fnuz": 28, "int4": 29,
    "uint4": 30, "int2": 31, "uint2": 32, "float4_e2m1fn": 33,
}  # fmt: skip

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data: bytes) -> int:
    """CRC-32C, one byte at a time."""
    state = 0xFFFFFFFF
    for byte in data:
        state = _TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    return state ^ 0xFFFFFFFF


def masked(checksum: int) -> int:
    """A checksum as it is stored."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(payload: bytes) -> bytes:
    """A framed record."""
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked(crc32c(length))) + payload + struct.pack("<I", masked(crc32c(payload)))


def varint(number: int) -> bytes:
    """A varint; negative numbers take ten bytes."""
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number_field(field: int, number: int) -> bytes:
    """A varint field."""
    return varint(field << 3) + varint(number)


def bytes_field(field: int, content: bytes | str) -> bytes:
    """A length-delimited field."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def double_field(field: int, number: float) -> bytes:
    """A 64-bit field."""
    return varint(field << 3 | 1) + struct.pack("<d", number)


def event(*parts: bytes, step: int | None = None, wall_time: float | None = None) -> bytes:
    """An Event message of a time, a step and further fields."""
    head = b"" if wall_time is None else double_field(1, wall_time)
    return head + (b"" if step is None else number_field(2, step)) + b"".join(parts)


def summary(*values: bytes) -> bytes:
    """The summary field of an Event."""
    return bytes_field(5, b"".join(bytes_field(1, value) for value in values))


def metadata(plugin: str = "", content: bytes = b"", data_class: int = 0) -> bytes:
    """The metadata field of a Value."""
    inner = (bytes_field(1, plugin) if plugin else b"") + (bytes_field(2, content) if content else b"")
    whole = bytes_field(1, inner) if inner else b""
    return bytes_field(9, whole + (number_field(4, data_class) if data_class else b""))


def simple(tag: str | bytes, number: float) -> bytes:
    """A Value with ``simple_value``."""
    return bytes_field(1, tag) + b"\x15" + struct.pack("<f", number)


def shape_field(*sizes: int) -> bytes:
    """The shape field of a TensorProto."""
    return bytes_field(2, b"".join(bytes_field(2, number_field(1, size)) for size in sizes))


def tensor(tag: str | bytes, dtype: str, *fields: bytes, shape: Iterable[int] | None = (), more: bytes = b"") -> bytes:
    """A Value with a tensor: its type, its shape (None: left out), the fields with its numbers; ``more`` follows."""
    body = number_field(1, DTYPES[dtype]) + (b"" if shape is None else shape_field(*shape)) + b"".join(fields)
    return bytes_field(1, tag) + bytes_field(8, body) + more


def text(tag: str, *strings: str, first: bool = True) -> bytes:
    """A Value of the text plugin."""
    strings_field = b"".join(bytes_field(8, string) for string in strings)
    return tensor(tag, "string", strings_field, shape=(len(strings),), more=metadata("text") if first else b"")


def histogram(tag: str) -> bytes:
    """A Value with a (small) histogram."""
    return bytes_field(1, tag) + bytes_field(5, double_field(1, 0.0) + double_field(2, 1.0) + double_field(3, 3.0))


def image(tag: str) -> bytes:
    """A Value with an image of no content."""
    return bytes_field(1, tag) + bytes_field(4, number_field(1, 1) + number_field(2, 1))


def audio(tag: str) -> bytes:
    """A Value with a sound of no content."""
    return bytes_field(1, tag) + bytes_field(6, number_field(2, 1))


def session_log(status: int, checkpoint: str = "", message: str = "") -> bytes:
    """The session_log field of an Event: 1 starts, 2 stops, 3 saves a checkpoint."""
    log = number_field(1, status) + (bytes_field(2, checkpoint) if checkpoint else b"")
    return bytes_field(7, log + (bytes_field(3, message) if message else b""))


def version(wall_time: float = 1.6e9) -> bytes:
    """The record that begins an event file."""
    return record(event(bytes_field(3, VERSION), wall_time=wall_time))


def scalar_record(tag: str | bytes, step: int, number: float, wall_time: float = 1.6e9) -> bytes:
    """A record with one ``simple_value``, as torch writes it."""
    return record(event(summary(simple(tag, number)), step=step, wall_time=wall_time))


def scalar_file(tag: str | bytes, numbers: Iterable[float], first_step: int = 0) -> bytes:
    """A whole event file of one tag."""
    rows = (scalar_record(tag, first_step + k, number, 1.6e9 + k) for k, number in enumerate(numbers))
    return version() + b"".join(rows)
