"""Telling whether a file is still the one that was read, only longer.

A fingerprint is one digest for each block of the file's bytes as stored.  A file that only grew since need not be
read again from its beginning: its first and last known blocks are enough, unless it is another file by its inode.
"""

from __future__ import annotations

import hashlib
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
