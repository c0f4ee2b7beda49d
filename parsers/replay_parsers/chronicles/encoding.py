"""The bytes of a logbook as text, whatever wrote them."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from replay_parsers.files import open_bytes

MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something in the file that had to be mended to read on."""

    message: str
    line: int | None = None
    offset: int | None = None
    lost_bytes: int = 0


def read_document(path: Path) -> bytes:
    """The bytes of a logbook, decompressed; of one beyond 64 MiB the beginning, since no person wrote it.

    Raises :class:`OSError` when the file cannot be opened.
    """
    data = b""
    with open_bytes(path) as stream:
        try:
            while len(data) <= MOST_BYTES and (piece := stream.read(1 << 20)):
                data += piece
        except EOFError:
            return data
    return data


def _in_pairs(data: bytes) -> bool:
    """Whether bytes beyond ASCII stand side by side, as Chinese does; Western letters with accents stand alone."""
    high = [byte >= 0x80 for byte in data[:100_000]]
    beside = sum(
        one and (before or after) for before, one, after in zip([False, *high], high, [*high[1:], False], strict=False)
    )
    return beside * 10 >= sum(high) * 9 and any(high)


def decode(data: bytes) -> tuple[str, list[Fault]]:
    """Text of a file in an encoding that it may not declare.

    Byte-order marks decide; else UTF-8, where an incomplete character at the very end is a file still being
    written; else GB18030 when that reads as Chinese; else Windows-1252, with what even that lacks replaced.
    """
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return data[len(mark) :].decode(name, errors="replace").replace("\0", ""), []
    try:
        return data.decode("utf-8").replace("\0", ""), []
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(data) - error.start < 4:
            fault = Fault(
                message="the file ends within a character; it may still be being written",
                offset=error.start,
                lost_bytes=len(data) - error.start,
            )
            return data[: error.start].decode("utf-8").replace("\0", ""), [fault]
        offset = error.start
    try:
        chinese = data.decode("gb18030")
    except UnicodeDecodeError:
        chinese = ""
    if chinese and _in_pairs(data):
        return chinese.replace("\0", ""), [Fault(message="not UTF-8; read as GB18030", offset=offset)]
    try:
        western, name = data.decode("cp1252"), "Windows-1252"
    except UnicodeDecodeError:
        western, name = data.decode("utf-8", errors="replace"), "UTF-8 with bytes replaced"
    return western.replace("\0", ""), [Fault(message=f"not UTF-8; read as {name}", offset=offset)]
