"""Writing many files so that they become visible together with all of their content, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from replay.storage.errors import StoreError
from replay.storage.files import flush_file, flush_folder, new_temporary
from replay.storage.layout import digest

# Disks flush many files at once in the time of one, if they are asked at once.
_FLUSHES_AT_ONCE = 16


class PartWriter:
    """Writes parts into one store.

    Each is written to a temporary file in its own folder.  :meth:`settle` flushes all of them to disk, then gives
    them their names; it must be called before the ledger entry that names them is written.  As a context manager it
    removes what was not settled.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self._unsettled: dict[str, Path] = {}

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def write(self, folder: str, stem: str, data: bytes | memoryview) -> str:
        """Write one part into ``folder`` unless it is there already; return its path relative to the store.

        Raises :class:`StoreError` when it cannot be written.
        """
        path = f"{folder}/{stem}{digest(data)}.parquet"
        self.write_as(path, data)
        return path

    def write_as(self, path: str, data: bytes | memoryview) -> None:
        """Write ``data`` to ``path`` unless it holds just that.  Raises as :meth:`write`."""
        target = self.store / path
        if _holds(target, data):
            return
        try:
            temporary = new_temporary(target.parent)
            self.adopt(temporary, path)
            with temporary.open("wb") as stream:
                stream.write(data)
        except OSError as error:
            raise StoreError(f"{target}: cannot be written: {error.strerror or error}") from error

    def adopt(self, temporary: Path, path: str) -> None:
        """Take over the file ``temporary``, made by :func:`replay.storage.files.new_temporary`, as part ``path``."""
        former = self._unsettled.pop(path, None)
        if former is not None:
            former.unlink(missing_ok=True)
        self._unsettled[path] = temporary

    def forget(self, paths: Iterable[str]) -> None:
        """Remove those of ``paths`` that were written but have no name yet."""
        for path in paths:
            temporary = self._unsettled.pop(path, None)
            if temporary is not None:
                temporary.unlink(missing_ok=True)

    def settle(self) -> None:
        """Make all parts written so far durable, and give them their names.  Raises :class:`StoreError`."""
        if not self._unsettled:
            return
        targets = [self.store / path for path in self._unsettled]
        try:
            with ThreadPoolExecutor(_FLUSHES_AT_ONCE) as threads:
                list(threads.map(flush_file, self._unsettled.values()))
                for target, temporary in zip(targets, self._unsettled.values(), strict=True):
                    temporary.replace(target)
                list(threads.map(flush_folder, _folders(targets, self.store)))
        except OSError as error:
            raise StoreError(f"{self.store}: cannot be written: {error.strerror or error}") from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove what was written but has no name yet."""
        for temporary in self._unsettled.values():
            temporary.unlink(missing_ok=True)
        self._unsettled.clear()


def _folders(targets: Iterable[Path], store: Path) -> list[Path]:
    """The folders in which names have appeared: those of the files, and theirs, up to the store."""
    folders: set[Path] = set()
    for target in targets:
        for parent in target.parents:
            folders.add(parent)
            if parent == store:
                break
    return sorted(folders)


def _holds(path: Path, data: bytes | memoryview) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except (FileNotFoundError, NotADirectoryError):
        return False
