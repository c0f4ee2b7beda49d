"""Reading many sources into a store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from replay.storage import reading, sources
from replay.storage.commits import Commits, clear_leftovers, sound_snapshot
from replay.storage.layout import create
from replay.storage.ledger import Ledger, Snapshot
from replay.storage.lock import writing
from replay.storage.part_writer import PartWriter
from replay.storage.planning import Known
from replay.storage.record_parts import RecordParts
from replay.storage.reports import IngestReport, Progress, ProgressCallback


def ingest(
    store: Path,
    ledger: Ledger,
    found: Iterable[sources.Found],
    *,
    progress: ProgressCallback | None,
    derive: Callable[[Iterable[str]], None],
) -> IngestReport:
    """Read everything ``found`` into ``store``, which is made if need be.

    ``derive`` is called with the runs that were told of, to bring up to date what follows from their records.

    Raises :class:`replay.storage.errors.StoreError` when the store cannot be written.
    """
    create(store)
    report = IngestReport()
    everything = list(found)
    with writing(store) as lock:
        before = sound_snapshot(store, ledger)
        with PartWriter(store) as writer:
            parts, commits = RecordParts(writer), Commits(writer)
            for number, one in enumerate(everything, start=1):
                known = Known(
                    reading=before.readings.get(one.source),
                    last_sequence=before.last_sequence.get(one.source, -1),
                    last_generation=before.last_generation.get(one.source, -1),
                )
                if isinstance(one, sources.PassedOver):
                    report.sources.append(reading.pass_over(one, known, parts, commits.add))
                else:
                    step = _progress(one.source, number, len(everything), progress)
                    report.sources.append(reading.read(one, known, parts, commits.add, step))
            commits.flush()
        snapshot = ledger.snapshot()
        told = {one.source for one in report.sources}
        report.notes += shared_names(snapshot, told)
        derive(runs_of(snapshot, told))
        if lock.alone():
            clear_leftovers(store, ledger)
    return report


def _progress(source: str, number: int, count: int, callback: ProgressCallback | None) -> Callable[[int, int], None]:
    def step(bytes_read: int, size: int) -> None:
        if callback is not None:
            callback(Progress(source=source, number=number, sources=count, bytes_read=bytes_read, size=size))

    return step


def runs_of(snapshot: Snapshot, told: set[str]) -> list[str]:
    """The runs that the sources ``told`` tell of."""
    return sorted(
        {
            part.run
            for source in told & snapshot.readings.keys()
            for entry in snapshot.readings[source].entries
            for part in entry.parts
            if part.run is not None
        }
    )


def shared_names(snapshot: Snapshot, told: set[str]) -> list[str]:
    """A remark for each run whose name came from the places of files in several folders, one of them in ``told``."""
    folders: dict[str, set[str]] = defaultdict(set)
    concerned: set[str] = set()
    for source, one in snapshot.readings.items():
        last = one.last
        if last.read and last.named_by == "place":
            folders[last.run].add(last.folder)
            if source in told:
                concerned.add(last.run)
    return [
        f"run {run!r} now holds files of {len(folders[run])} folders ({', '.join(sorted(folders[run])[:3])}"
        f"{', ...' if len(folders[run]) > 3 else ''}): if these are different runs, ingest each with --run NAME"
        for run in sorted(concerned)
        if len(folders[run]) > 1
    ]
