"""Committing ledger entries, and clearing away what no entry names."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from replay.storage.files import is_temporary, remove_temporary
from replay.storage.layout import SOURCE_TABLES, digest
from replay.storage.ledger import FOLDER, Entry, Ledger, Reading, Snapshot, as_table
from replay.storage.part_writer import PartWriter
from replay.storage.parts import fault, serialise

BATCH_ENTRIES = 64
BATCH_BYTES = 256 << 20
"""So many entries, or bytes read, are committed at once: one small file a source would make a large ledger slow."""

# As replay.storage.record_parts.stem writes it.
_PART_NAME = re.compile(r"([0-9a-f]{16})-g(\d+)-(\d+)-(\d+)-")


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


def sound_snapshot(store: Path, ledger: Ledger, sources: Container[str]) -> Snapshot:
    """The state of the store, of ``sources`` without the entries that name a part which is missing or damaged.

    Whatever was deleted by hand, or damaged, is thus read again.
    """
    return Snapshot(
        entry
        for _, entry in ledger.entries()
        if entry.source not in sources or all(fault(store / part.path) is None for part in entry.parts)
    )


def without_unsound_parts(
    store: Path, snapshot: Snapshot, runs: Container[str] | None = None, known: Mapping[str, str] = MappingProxyType({})
) -> Snapshot:
    """``snapshot`` without the parts that are missing or damaged, which its ``damaged`` names.

    Only parts of ``runs`` (None: all) are looked at.  Of large parts no more than the footer is; those of them that
    are known to be damaged are given by ``known``, path and what is wrong.
    """
    damaged = dict(snapshot.damaged)
    lost = []
    entries = []
    for reading in snapshot.readings.values():
        for entry in reading.entries:
            looked_at = [part for part in entry.parts if runs is None or part.run in runs]
            faults = {part.path: known.get(str(store / part.path)) or fault(store / part.path) for part in looked_at}
            damaged |= {str(store / path): said for path, said in faults.items() if said is not None}
            lost += [(entry, part) for part in looked_at if faults[part.path] is not None]
            sound = tuple(part for part in entry.parts if faults.get(part.path) is None)
            entries.append(entry if sound == entry.parts else replace(entry, parts=sound))
    return Snapshot(entries, damaged, lost)


def clear_leftovers(store: Path, ledger: Ledger) -> None:
    """Delete unfinished files, parts that others have taken the place of, and ledger files without a valid entry.

    Only a process that writes alone may do so: the parts of an ingest that is still running have no entry yet.
    A part that no entry names may also be one whose entry was lost.  It goes only when the ledger tells of the same
    bytes of its source; while a file of the ledger cannot be read, nothing goes.
    """
    snapshot = ledger.snapshot()
    for path in sorted(store.rglob(".*")):
        if is_temporary(path.name):
            remove_temporary(path)
    if snapshot.damaged:
        return
    valid = {
        name for name, entry in ledger.entries() if any(entry is one for one in snapshot.readings[entry.source].entries)
    }
    for name in ledger.names() - valid:
        (store / FOLDER / name).unlink(missing_ok=True)
    kept = snapshot.part_paths()
    by_source = {digest(source): reading for source, reading in snapshot.readings.items()}
    for table in SOURCE_TABLES:
        for path in sorted((store / table).rglob("*.parquet")):
            if path.relative_to(store).as_posix() not in kept and _superseded(path.name, by_source):
                path.unlink(missing_ok=True)
    for table in SOURCE_TABLES:
        for folder in sorted((store / table).glob("*=*")):
            _remove_if_empty(folder)


def _superseded(name: str, by_source: Mapping[str, Reading]) -> bool:
    """Whether what the part called ``name`` holds is told by valid entries, or no longer counts."""
    whose = _PART_NAME.match(name)
    reading = by_source.get(whose[1]) if whose else None
    if whose is None or reading is None:
        return False
    generation, start, end = (int(number) for number in whose.groups()[1:])
    first = reading.entries[0]
    if generation < first.generation and first.replaces_former:
        return True
    same = [entry for entry in reading.entries if entry.generation == generation]
    if start == end:
        return any(entry.start <= start <= entry.end for entry in same)
    return any(start < entry.end and entry.start < end for entry in same)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # not empty: the usual case
