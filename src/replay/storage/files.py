"""Writing files so that a kill at any moment leaves either the old file, or the new one, or a temporary."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TEMPORARY_END = ".tmp"


def is_temporary(name: str) -> bool:
    """Whether ``name`` is that of an unfinished file."""
    return name.startswith(".") and name.endswith(_TEMPORARY_END)


@contextmanager
def temporary_beside(folder: Path) -> Iterator[Path]:
    """The path of a new temporary file in ``folder``, which is made if need be; removed at the end if still there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{os.getpid()}-{secrets.token_hex(8)}{_TEMPORARY_END}"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Make ``path`` hold ``data``, durably, or leave it as it was."""
    write_renamed(path, data)
    flush_folder(path.parent)


def write_renamed(path: Path, data: bytes) -> None:
    """Write ``data`` under a temporary name in the same folder, flush it to disk, then rename it to ``path``.

    The new name is durable only after :func:`flush_folder`.
    """
    with temporary_beside(path.parent) as temporary:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)


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
