"""The ledger: what was read of every source, which parts hold it, and from where reading goes on.

An entry is written last, when all parts of one reading are on disk: it is what makes them count.  Parts that no
valid entry names are leftovers of a killed ingest, and invisible.  Entries are never changed; what a source
says is resolved from all of its entries, so that any number of writers may add theirs.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from replay.storage.errors import DamagedPartError, PartVanishedError, StoreError
from replay.storage.layout import digest
from replay_parsers.records import Coverage

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "ledger"

LOGGER = logging.getLogger("replay.store")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet file of a table: ``path`` relative to the store, ``run`` of its rows where it holds one run only.

    ``first_step`` and ``last_step`` bound the steps of scalars, None for other tables.
    """

    table: str
    path: str
    run: str | None = None
    rows: int = 0
    first_step: int | None = None
    last_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One reading of the bytes ``start``..``end`` (decompressed, end exclusive) of one source.

    ``generation`` counts the files that bore the source's name: a file begun again is a new one.  When
    ``replaces_former``, the earlier generations no longer count (an edited document, a run renamed by the user).
    ``sequence`` orders the entries of a source.  ``size``, ``mtime_ns`` and ``inode`` are those of the file when
    it was read; ``fingerprint`` digests its first ``fingerprinted`` bytes as stored (compressed if it is).
    ``segment_base`` is the number of the generation's first segment, ``segments`` the next free one.
    ``state`` is the parser's, as JSON.  ``run`` is the name the ingest gave, ``named_by`` how it came by it.
    """

    source: str
    status: str
    reason: str = ""
    format: str = ""
    confidence: float = 0.0
    run: str = ""
    named_by: str = ""
    folder: str = ""
    generation: int = 0
    start: int = 0
    end: int = 0
    sequence: int = 0
    replaces_former: bool = False
    size: int = 0
    mtime_ns: int = 0
    inode: int = 0
    fingerprinted: int = 0
    fingerprint: tuple[str, ...] = ()
    segment_base: int = 0
    segments: int = 0
    state: str = "{}"
    parts: tuple[Part, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def read(self) -> bool:
        """Whether the source was read, rather than skipped or found unreadable."""
        return self.status == "ingested"


class Ranged(Protocol):
    """What :func:`chain` orders: a byte range and a place in the order of writing."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def sequence(self) -> int: ...


Range = TypeVar("Range", bound=Ranged)


def chain(ranges: Iterable[Range], key: Callable[[Range], Any] = repr) -> list[Range]:
    """The adjacent ranges from 0 that reach furthest, so that no byte is told twice.

    Writers that began together, or a retry after the file grew, leave ranges that overlap.  Wherever several
    begin, the one is taken from which most of the source can be reached; of those the longest; of equal ones the
    latest, then the least by ``key``.  Empty ranges say only that there was nothing more to read: the latest one
    at the end is kept when it is newer than what it follows.
    """
    starting: dict[int, list[Range]] = defaultdict(list)
    reach: dict[int, int] = {}
    for one in sorted(ranges, key=lambda item: -item.start):
        starting[one.start].append(one)
        if one.end > one.start:
            reach[one.start] = max(reach.get(one.start, one.end), reach.get(one.end, one.end))

    def preference(item: Range) -> Any:
        return -reach.get(item.end, item.end), -item.end, -item.sequence, key(item)

    taken: list[Range] = []
    position = 0
    while longer := [item for item in starting[position] if item.end > position]:
        taken.append(min(longer, key=preference))
        position = taken[-1].end
    empty = [item for item in starting[position] if item.end == position]
    if empty:
        last = min(empty, key=preference)
        if not taken or last.sequence > taken[-1].sequence:
            taken.append(last)
    return taken


@dataclass(frozen=True, slots=True)
class Reading:
    """All that counts of one source: its valid entries, oldest generation first, never empty."""

    entries: tuple[Entry, ...]

    @property
    def last(self) -> Entry:
        """The entry at which a further reading begins."""
        return self.entries[-1]

    @property
    def generations(self) -> list[tuple[Entry, ...]]:
        """The entries of each generation, oldest first."""
        by_generation: dict[int, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            by_generation[entry.generation].append(entry)
        return [tuple(entries) for entries in by_generation.values()]

    @property
    def coverage(self) -> Coverage:
        """What became of the whole source."""
        return total_coverage(entry.coverage for entry in self.entries)


def resolve(entries: Sequence[Entry]) -> Reading:
    """What counts of one source, from all of its entries (at least one).

    A source that was never read is represented by the latest note on why.
    """
    done: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.read:
            done[entry.generation].append(entry)
    kept: list[Entry] = []
    for generation in sorted(done, reverse=True):
        links = chain(done[generation])
        kept = [*links, *kept]
        if links and links[0].replaces_former:
            break
    if kept:
        return Reading(tuple(kept))
    notes = [entry for entry in entries if not entry.read]
    return Reading((max(notes or entries, key=lambda entry: (entry.sequence, repr(entry))),))


def total_coverage(coverages: Iterable[Coverage]) -> Coverage:
    """The sum; of the examples the first five."""
    parts = list(coverages)
    other: dict[str, int] = {}
    for part in parts:
        for name, count in part.other.items():
            other[name] = other.get(name, 0) + count
    return Coverage(
        bytes_read=sum(part.bytes_read for part in parts),
        records=sum(part.records for part in parts),
        not_understood=sum(part.not_understood for part in parts),
        lost_bytes=sum(part.lost_bytes for part in parts),
        lost_records=sum(part.lost_records for part in parts),
        examples=tuple(example for part in parts for example in part.examples)[:5],
        other=dict(sorted(other.items())),
    )


class Snapshot:
    """The state of a store at one moment: ``readings`` by source, in the order of their names.

    ``damaged`` says of each file that could not be taken into account, by its path, what is wrong with it; ``lost`` are
    those of them that are parts, with their entries.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        damaged: Mapping[str, str] | None = None,
        lost: Iterable[tuple[Entry, Part]] = (),
    ) -> None:
        self.damaged: Mapping[str, str] = dict(damaged or {})
        self.lost = tuple(lost)
        by_source: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            by_source[entry.source].append(entry)
        self.readings: Mapping[str, Reading] = {source: resolve(by_source[source]) for source in sorted(by_source)}
        self.last_sequence = {source: max(one.sequence for one in many) for source, many in by_source.items()}
        self.last_generation = {source: max(one.generation for one in many) for source, many in by_source.items()}

    def parts(self, table: str, run: str | None = None) -> list[tuple[Entry, Part]]:
        """The valid parts of ``table`` (of ``run`` only, if given), by source and in the source's order."""
        among = self._parts if run is None else self._parts_by_run.get(run, ())
        return [(entry, part) for entry, part in among if part.table == table]

    def has_parts(self, run: str, table: str | None = None) -> bool:
        """Whether any valid part (of ``table``, if given) tells of ``run``."""
        return any(table is None or part.table == table for _, part in self._parts_by_run.get(run, ()))

    @cached_property
    def _parts(self) -> list[tuple[Entry, Part]]:
        return [(entry, part) for one in self.readings.values() for entry in one.entries for part in entry.parts]

    @cached_property
    def _parts_by_run(self) -> dict[str, list[tuple[Entry, Part]]]:
        by_run: dict[str, list[tuple[Entry, Part]]] = defaultdict(list)
        for entry, part in self._parts:
            if part.run:
                by_run[part.run].append((entry, part))
        return by_run

    def runs(self) -> list[str]:
        """The names of all runs that some part tells of."""
        return sorted(self._parts_by_run)

    def sources(self, run: str) -> list[str]:
        """The sources that tell of ``run``, by name, those whose parts are lost included."""
        lost = [(entry, part) for entry, part in self.lost if part.run == run]
        return sorted({entry.source for entry, _ in [*self._parts_by_run.get(run, ()), *lost]})

    def basis(self, run: str) -> str:
        """A digest of all parts that tell of ``run``: when it is the same, so is all that follows from them."""
        return digest("\n".join(part.path for _, part in self._parts_by_run.get(run, ())))

    def part_paths(self) -> set[str]:
        """The paths of all valid parts."""
        return {part.path for _, part in self._parts}


class Ledger:
    """The ``ledger/`` folder of one store; entries read once are remembered, since their files never change."""

    def __init__(self, folder: Path) -> None:
        self.store = folder
        self.damaged: dict[str, str] = {}
        self._files: dict[str, list[Entry]] = {}
        self._snapshot: tuple[frozenset[str], Snapshot] | None = None

    def names(self) -> frozenset[str]:
        """The names of the ledger's files."""
        try:
            return frozenset(path.name for path in (self.store / FOLDER).iterdir() if path.suffix == ".parquet")
        except FileNotFoundError:
            return frozenset()

    def entries(self) -> list[tuple[str, Entry]]:
        """Every entry with the name of the file it stands in, valid or not.

        Files that are damaged are left out, and named in ``damaged``.
        """
        for _attempt in range(10):
            names = self.names()
            damaged = {}
            try:
                for name in sorted(names - self._files.keys()):
                    path = self.store / FOLDER / name
                    try:
                        self._files[name] = read_entries(path)
                    except DamagedPartError as error:
                        damaged[str(path)] = str(error)
            except PartVanishedError:
                continue  # merged by another process since the folder was listed
            for place, message in damaged.items():
                if place not in self.damaged:
                    LOGGER.warning("%s", message)
            self.damaged = damaged
            return [(name, entry) for name in sorted(names) for entry in self._files.get(name, ())]
        folder = self.store / FOLDER
        raise PartVanishedError(folder, f"{folder}: keeps changing while it is read; try again")

    def snapshot(self) -> Snapshot:
        """The state of the store now."""
        names = self.names()
        if self._snapshot is None or self._snapshot[0] != names:
            entries = self.entries()
            self._snapshot = (
                frozenset(name for name, _ in entries) or names,
                Snapshot((entry for _, entry in entries), self.damaged),
            )
        return self._snapshot[1]


def read_entries(path: Path) -> list[Entry]:
    """The entries of one ledger file.  Raises as :func:`replay.storage.parts.faults_told`."""
    from replay.storage.parts import read_table

    rows = read_table(path).to_pylist()
    names = [one.name for one in fields(Entry)]
    entries = []
    for row in rows:
        try:
            values = {name: row[name] for name in names if name not in ("parts", "coverage", "fingerprint")}
            coverage = Coverage(
                **{one.name: row[one.name] for one in fields(Coverage) if one.name not in ("examples", "other")},
                examples=tuple(row["examples"]),
                other=dict(row["other"]),
            )
            parts = tuple(Part(**part) for part in row["parts"])
        except (KeyError, TypeError) as error:
            raise StoreError(f"{path}: not a ledger of this version of replay ({error})") from error
        entries.append(Entry(**values, fingerprint=tuple(row["fingerprint"]), parts=parts, coverage=coverage))
    return entries


def as_table(entries: Sequence[Entry]) -> pa.Table:
    """The entries as the rows of a ledger file."""
    from replay.storage import arrays
    from replay.storage.schema import LEDGER

    rows = []
    for entry in entries:
        row = {one.name: getattr(entry, one.name) for one in fields(Entry) if one.name not in ("parts", "coverage")}
        row |= {one.name: getattr(entry.coverage, one.name) for one in fields(Coverage)}
        row["other"] = sorted(entry.coverage.other.items())
        row["parts"] = [{one.name: getattr(part, one.name) for one in fields(Part)} for part in entry.parts]
        rows.append(row)
    return arrays.table(rows, LEDGER)


def state_as_json(state: Mapping[str, Any]) -> str:
    """A parser's state as JSON, with numpy's numbers as plain ones.

    Raises :class:`TypeError` when it holds anything that is not plain data.
    """

    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        raise TypeError(f"a parser's state must be plain data, not {type(value).__name__}")

    return json.dumps(state, sort_keys=True, ensure_ascii=True, default=plain)
