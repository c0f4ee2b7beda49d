"""Who is writing: so that only a process that writes alone clears away what others might still need.

Writers are correct without any lock.  It only tells leftovers of a killed ingest from the unfinished parts of one
that is running.  Where the system has no such locks, leftovers stay until it has; they do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from replay.storage.errors import StoreError
from replay.storage.layout import LOCK_FILE

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class WriterLock:
    """Held, shared with others, for as long as this process writes into the store."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def alone(self) -> bool:
        """Whether no other process writes; if so, none can begin before the lock is given back."""
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # A lock that could not be made exclusive is lost, not kept: without it others would take what this
            # process goes on to write for leftovers.
            with suppress(OSError):
                fcntl.flock(self._stream, fcntl.LOCK_SH)
            return False
        return True

    def wait_until_alone(self) -> bool:
        """Wait for the other writers to end; False where the system has no locks."""
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX)
        except OSError:
            return False
        return True


@contextmanager
def writing(folder: Path) -> Iterator[WriterLock]:
    """Tell others that this process writes into the store in ``folder``.

    Raises :class:`StoreError` when the folder cannot be written.
    """
    try:
        stream = (folder / LOCK_FILE).open("ab")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error.strerror or error}") from error
    with stream:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: leftovers then stay
                fcntl.flock(stream, fcntl.LOCK_SH)
        yield WriterLock(stream)
