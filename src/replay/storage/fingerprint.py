"""Telling whether a file is still the one that was read, only longer.

A fingerprint is one digest for each block of the file's bytes as stored.  A file that only grew since need not be
read again from its beginning: its first and last known blocks are enough, unless it is another file by its inode.
A digest is made to notice another file, not to withstand one that was forged: a checksum of the block, which is nearly
free, and a cryptographic one of its beginning, where files differ.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = 1 << 24
BEGINNING_BYTES = 1 << 16
ANCHOR_BYTES = 64

# Pieces that stay in the processor's cache between reading and summing.
_PIECE_BYTES = 1 << 18


class Block:
    """The digest of one block, from its bytes in order."""

    def __init__(self) -> None:
        self._beginning = hashlib.sha256()
        self._checksum = 0
        self.length = 0

    def update(self, data: bytes | memoryview) -> None:
        """Add further bytes."""
        if self.length < BEGINNING_BYTES:
            self._beginning.update(data[: BEGINNING_BYTES - self.length])
        self._checksum = zlib.crc32(data, self._checksum)
        self.length += len(data)

    def digest(self) -> str:
        """What stands for the bytes so far."""
        return f"{self._beginning.hexdigest()[:24]}{self._checksum:08x}"


def _digest_of(stream: BinaryIO, length: int) -> str | None:
    """The digest of the next ``length`` bytes, or as many as there are; None when there is none."""
    block, buffer, left = Block(), memoryview(bytearray(min(_PIECE_BYTES, length))), length
    while left > 0 and (count := stream.readinto(buffer[: min(left, len(buffer))])):  # type: ignore[attr-defined]
        block.update(buffer[:count])
        left -= count
    return None if left == length else block.digest()


def fingerprint(path: Path, length: int, known: Sequence[str] = (), known_length: int = 0) -> tuple[str, ...]:
    """The digests of the first ``length`` bytes of ``path``.

    ``known`` are those of its first ``known_length`` bytes; of these whole blocks are taken over.
    """
    digests = list(known[: min(known_length, length) // BLOCK_BYTES])
    with path.open("rb", buffering=0) as stream:
        for start in range(len(digests) * BLOCK_BYTES, length, BLOCK_BYTES):
            stream.seek(start)
            digest = _digest_of(stream, min(BLOCK_BYTES, length - start))
            if digest is None:
                break
            digests.append(digest)
    return tuple(digests)


class WholeBlocks:
    """The digests of a file's whole blocks, taken while it is read in order from its beginning.

    What is read elsewhere is passed over, so that digests end where the reading left a gap.
    """

    def __init__(self) -> None:
        self.digests: list[str] = []
        self._block = Block()

    def watch(self, start: int, data: memoryview) -> None:
        """See the bytes at ``start`` of the file."""
        position = len(self.digests) * BLOCK_BYTES + self._block.length
        data = data[position - start :] if start <= position else data[:0]
        while len(data):
            room = BLOCK_BYTES - self._block.length
            self._block.update(data[:room])
            if self._block.length == BLOCK_BYTES:
                self.digests.append(self._block.digest())
                self._block = Block()
            data = data[room:]


def begins_with(path: Path, digests: Sequence[str], length: int, *, thorough: bool) -> bool:
    """Whether the first ``length`` bytes of ``path`` are those with ``digests``.

    All blocks are compared when ``thorough``, else the first and the last.
    """
    if path.stat().st_size < length:
        return False
    numbers = range(len(digests)) if thorough else sorted({0, len(digests) - 1} if digests else set())
    with path.open("rb", buffering=0) as stream:
        for number in numbers:
            start = number * BLOCK_BYTES
            stream.seek(start)
            if _digest_of(stream, min(BLOCK_BYTES, length - start)) != digests[number]:
                return False
    return True


class Growing:
    """The fingerprint of a file that is followed: what was digested once is not read again.

    That it is still the same file is told by its inode and by the last bytes that were digested.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._file: tuple[int, int] | None = None
        self._length = 0
        self._whole: list[str] = []
        self._open_block = Block()
        self._anchor = b""

    def continues(self, path: Path, digests: Sequence[str], length: int) -> bool:
        """Whether ``path`` goes on from the ``length`` bytes with ``digests`` that were digested here."""
        if self._file is None or length != self._length or tuple(digests) != self._digests():
            return False
        now = path.stat()
        if (now.st_dev, now.st_ino) != self._file or now.st_size < length:
            return False
        with path.open("rb") as stream:
            stream.seek(length - len(self._anchor))
            return stream.read(len(self._anchor)) == self._anchor

    def digest(self, path: Path, length: int, known: Sequence[str], known_length: int) -> tuple[str, ...]:
        """As :func:`fingerprint`, with only those bytes read that were not digested here before."""
        with path.open("rb") as stream:
            now = os.fstat(stream.fileno())
            continues = self._length == known_length and self._digests() == tuple(known) and length >= known_length
            if self._file != (now.st_dev, now.st_ino) or not continues:
                self._begin()
                self._file = now.st_dev, now.st_ino
            stream.seek(self._length)
            while self._length < length:
                room = BLOCK_BYTES - self._length % BLOCK_BYTES
                data = stream.read(min(room, length - self._length, 1 << 20))
                if not data:
                    break
                self._open_block.update(data)
                self._length += len(data)
                self._anchor = (self._anchor + data)[-ANCHOR_BYTES:]
                if self._length % BLOCK_BYTES == 0:
                    self._whole.append(self._open_block.digest())
                    self._open_block = Block()
        return self._digests()

    def _digests(self) -> tuple[str, ...]:
        rest = (self._open_block.digest(),) if self._length % BLOCK_BYTES else ()
        return (*self._whole, *rest)
