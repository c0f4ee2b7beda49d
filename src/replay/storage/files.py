"""Writing files so that a kill at any moment leaves either the old file, or the new one, or a temporary."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

_TEMPORARY_END = ".tmp"


def is_temporary(name: str) -> bool:
    """Whether ``name`` is that of an unfinished file."""
    return name.startswith(".") and name.endswith(_TEMPORARY_END)


def new_temporary(folder: Path) -> Path:
    """The path of a new temporary file in ``folder``, which is made if need be.  Raises :class:`OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f".{os.getpid()}-{secrets.token_hex(8)}{_TEMPORARY_END}"


def remove_temporary(path: Path) -> None:
    """Delete an unfinished file, or a folder of copies, if it is still there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Make ``path`` hold ``data``, durably, or leave it as it was.  Raises :class:`OSError`."""
    temporary = new_temporary(path.parent)
    try:
        temporary.write_bytes(data)
        flush_file(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def flush_file(path: Path) -> None:
    """Make the content of ``path`` durable.  Raises :class:`OSError`."""
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def flush_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable, where the system can (Windows cannot open folders)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        # Some network file systems refuse to flush folders; the rename itself stays atomic there.
        return
    finally:
        os.close(descriptor)
