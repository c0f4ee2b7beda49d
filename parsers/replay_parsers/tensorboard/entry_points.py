"""What Python calls of the compiled decoder, which is imported, and compiled, only where no machine code is kept."""

from __future__ import annotations

from replay_parsers.machine_code import EntryPoints

DECODER = EntryPoints(
    "decoder",
    "replay_parsers.tensorboard.decoder",
    {"decode": 1, "find_record": 3, "extend_checksum": 3, "mask_checksum": 1},
)


def decode(job: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._decode`."""
    return DECODER.function("decode")(job)


def find_record(begin: int, filled: int, whole: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._find_record`."""
    return DECODER.function("find_record")(begin, filled, whole)


def extend_checksum(checksum: int, begin: int, length: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._extend_checksum`."""
    return DECODER.function("extend_checksum")(checksum, begin, length)


def mask_checksum(checksum: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._mask_checksum`."""
    return DECODER.function("mask_checksum")(checksum)
