"""Committing ledger entries, and clearing away what no entry names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay.storage.files import is_temporary
from replay.storage.layout import DERIVED_EVENTS, SOURCE_TABLES, digest
from replay.storage.ledger import FOLDER, Entry, Ledger, Snapshot, as_table
from replay.storage.part_writer import PartWriter
from replay.storage.parts import serialise

BATCH_ENTRIES = 64
BATCH_BYTES = 256 << 20
"""So many entries, or bytes read, are committed at once: one small file a source would make a large ledger slow."""


class Commits:
    """Collects finished entries and commits them in batches, each as one file of the ledger.

    Batches end at fixed counts, so that an ingest that was killed and begun again ends in the same files.
    """

    def __init__(self, writer: PartWriter) -> None:
        self._writer = writer
        self._pending: list[Entry] = []
        self._bytes = 0

    def add(self, entry: Entry) -> None:
        """Take one entry.  Raises :class:`replay.storage.errors.StoreError` when it cannot be written."""
        self._pending.append(entry)
        self._bytes += entry.end - entry.start
        if len(self._pending) >= BATCH_ENTRIES or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Commit what is pending: first everything it names is made durable, then the entries themselves."""
        if not self._pending:
            return
        self._writer.settle()
        write_entries(self._writer, self._pending)
        self._pending, self._bytes = [], 0


def write_entries(writer: PartWriter, entries: Iterable[Entry]) -> str:
    """Write ``entries`` as one ledger file, durably; return its path relative to the store."""
    data = serialise(as_table(list(entries)))
    path = f"{FOLDER}/{digest(data)}.parquet"
    writer.write_as(path, data)
    writer.settle()
    return path


def sound_snapshot(store: Path, ledger: Ledger) -> Snapshot:
    """The state of the store, without entries that name a part which is not there.

    Whatever was deleted by hand is thus read again.
    """
    return Snapshot(entry for _, entry in ledger.entries() if all((store / part.path).exists() for part in entry.parts))


def clear_leftovers(store: Path, ledger: Ledger) -> None:
    """Delete unfinished files, parts that no valid entry names, and ledger files without a valid entry.

    Only a process that writes alone may do so: the parts of an ingest that is still running have no entry yet.
    """
    snapshot = ledger.snapshot()
    valid = {
        name for name, entry in ledger.entries() if any(entry is one for one in snapshot.readings[entry.source].entries)
    }
    for name in ledger.names() - valid:
        (store / FOLDER / name).unlink(missing_ok=True)
    kept = snapshot.part_paths()
    for table in SOURCE_TABLES:
        for path in sorted((store / table).rglob("*.parquet")):
            if path.name != DERIVED_EVENTS and path.relative_to(store).as_posix() not in kept:
                path.unlink(missing_ok=True)
    for path in sorted(store.rglob(".*")):
        if is_temporary(path.name):
            path.unlink(missing_ok=True)
    for table in SOURCE_TABLES:
        for folder in sorted((store / table).glob("*=*")):
            _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # not empty: the usual case
