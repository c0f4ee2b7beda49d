"""Telling whether a file is still the one that was read, only longer.

A fingerprint is one digest for each block of the file's bytes as stored.  A file that only grew since need not be
read again from its beginning: its first and last known blocks are enough, unless it is another file by its inode.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

BLOCK_BYTES = 1 << 24


def block_digest(data: bytes) -> str:
    """What stands for one block."""
    return hashlib.sha256(data).hexdigest()[:32]


def fingerprint(path: Path, length: int, known: Sequence[str] = (), known_length: int = 0) -> tuple[str, ...]:
    """The digests of the first ``length`` bytes of ``path``.

    ``known`` are those of its first ``known_length`` bytes; of these whole blocks are taken over.
    """
    digests = list(known[: min(known_length, length) // BLOCK_BYTES])
    with path.open("rb") as stream:
        stream.seek(len(digests) * BLOCK_BYTES)
        left = length - len(digests) * BLOCK_BYTES
        while left > 0:
            data = stream.read(min(BLOCK_BYTES, left))
            if not data:
                break
            digests.append(block_digest(data))
            left -= len(data)
    return tuple(digests)


def begins_with(path: Path, digests: Sequence[str], length: int, *, thorough: bool) -> bool:
    """Whether the first ``length`` bytes of ``path`` are those with ``digests``.

    All blocks are compared when ``thorough``, else the first and the last.
    """
    if path.stat().st_size < length:
        return False
    numbers = range(len(digests)) if thorough else sorted({0, len(digests) - 1} if digests else set())
    with path.open("rb") as stream:
        for number in numbers:
            stream.seek(number * BLOCK_BYTES)
            data = stream.read(min(BLOCK_BYTES, length - number * BLOCK_BYTES))
            if block_digest(data) != digests[number]:
                return False
    return True


ANCHOR_BYTES = 64


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
        self._open_block = hashlib.sha256()
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
                    self._whole.append(self._open_block.hexdigest()[:32])
                    self._open_block = hashlib.sha256()
        return self._digests()

    def _digests(self) -> tuple[str, ...]:
        rest = (self._open_block.hexdigest()[:32],) if self._length % BLOCK_BYTES else ()
        return (*self._whole, *rest)
