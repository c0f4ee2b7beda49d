"""Reading the small files that people write: rules, scenarios, tables of signals."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from replay.errors import ReplayError

LARGEST_BYTES = 1_000_000
"""No file written by hand comes near; a log that was named by mistake is told before it is read."""


class UserFileError(ReplayError):
    """A file that is no small regular file or cannot be opened; ``reason`` says so without its name."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


def read_user_file(path: Path, limit: int = LARGEST_BYTES) -> bytes:
    """The bytes of a file; pipes and devices, which may never end, are refused unread, and so are large files.

    Raises :class:`UserFileError`.
    """
    try:
        # Opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise UserFileError(path, f"is {_kind(mode)}, not a regular file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UserFileError(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserFileError(path, f"cannot be read: {error}") from error
    if len(data) > limit:
        raise UserFileError(path, f"larger than {limit:,} bytes, which no file of this sort is; is it another file?")
    return data


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device"
