"""Writing the files that people name: pages, reports.

A file is renamed into place, so that it is there whole or not at all. A rename takes the place of whatever bears the
name, though, a device as well as a file; so it is done over nothing and over regular files only.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from replay.errors import ReplayError


class TargetFileError(ReplayError):
    """A file that cannot be written; ``reason`` says why without its name."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: cannot be written: {reason}")
        self.reason = reason


def prepare_target(path: Path) -> None:
    """Make the folder of a file that is yet to be written, and refuse what is known already not to take it.

    Raises :class:`TargetFileError`.
    """
    try:
        if _is_stream(path):
            written = path
        else:
            written = _behind_links(path).parent
            written.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetFileError(path, error.strerror or str(error)) from error
    if not os.access(written, os.W_OK):
        raise TargetFileError(path, f"no permission to write into {written}")


def write_target(path: Path, data: bytes) -> None:
    """Make a file hold ``data``, on the disk, or leave it as it was; its folder is made if need be.

    A pipe or a device that takes text, such as a terminal, is written into as it stands. A link stays a link: the file
    that it leads to is written. Folders, disks and sockets are refused.

    Raises :class:`TargetFileError`.
    """
    prepare_target(path)
    try:
        if _is_stream(path):
            with path.open("wb") as stream:
                stream.write(data)
        else:
            _replace(_behind_links(path), data)
    except OSError as error:
        raise TargetFileError(path, error.strerror or str(error)) from error


def _is_stream(path: Path) -> bool:
    """Whether what bears the name is no file but takes text all the same.  Raises :class:`TargetFileError`."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISREG(mode):
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return True
    kind = "a folder" if stat.S_ISDIR(mode) else "a disk" if stat.S_ISBLK(mode) else "a socket"
    raise TargetFileError(path, f"it is {kind}; name a file")


def _behind_links(path: Path) -> Path:
    """The file that a link leads to, be it there or not; any other path as it is."""
    return path.resolve() if path.is_symlink() else path


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{os.getpid()}-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
