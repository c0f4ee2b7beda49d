"""Reading many sources into a store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replay.storage.candidates import Found, is_remote
from replay.storage.commits import Commits, clear_leftovers, sound_snapshot
from replay.storage.layout import create
from replay.storage.ledger import Ledger, Snapshot
from replay.storage.lock import writing
from replay.storage.parallel import Work, own_processes, read_all, read_one, worth_it
from replay.storage.part_writer import PartWriter
from replay.storage.planning import Known
from replay.storage.record_parts import RecordParts
from replay.storage.reports import IngestReport, Progress, ProgressCallback, SourceReport

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from replay.storage.follow import Followed


def ingest(
    store: Path,
    ledger: Ledger,
    found: Iterable[Found],
    *,
    progress: ProgressCallback | None,
    executor: Executor | None = None,
    workers: int = 1,
    followed: Mapping[str, Followed] | None = None,
) -> IngestReport:
    """Read everything ``found`` into ``store``, which is made if need be.

    It is read by ``executor``, else by this process, with up to ``workers`` processes where that pays; a follower,
    which remembers what it has ``followed``, reads by itself.

    Raises :class:`replay.storage.errors.StoreError` when the store cannot be written.
    """
    create(store)
    report = IngestReport()
    with writing(store) as lock:
        found = list(found)
        whole = ledger.snapshot()
        before = sound_snapshot(store, ledger, {one.source for one in found})
        works = [Work(number, one, _known(whole, before, one, followed)) for number, one in enumerate(found, start=1)]
        with PartWriter(store) as writer:
            commits = Commits(writer)
            if executor is not None:
                report.sources = _by(executor, store, works, commits, progress)
            elif workers > 1 and len(works) > 1 and worth_it(works):
                with own_processes(workers) as own:
                    report.sources = _by(own, store, works, commits, progress)
            else:
                parts = RecordParts(writer)
                for work in works:
                    step = _progress(work.found.source, work.number, len(works), progress)
                    report.sources.append(read_one(work, parts, commits.add, step))
            commits.flush()
        report.notes += shared_names(ledger.snapshot(), {one.source for one in report.sources})
        if lock.alone():
            clear_leftovers(store, ledger)
    return report


def _known(whole: Snapshot, before: Snapshot, one: Found, followed: Mapping[str, Followed] | None) -> Known:
    reading = before.readings.get(one.source)
    if reading is not None and reading.last.read and reading.entries[0].start > 0:
        reading = None  # its beginning is missing
    stored = whole.readings.get(one.source)
    return Known(
        # Every copy of a remote file is another file.
        growing=None if followed is None or is_remote(one) else followed[one.source].growing,
        reading=reading,
        lost=stored.last if stored is not None and stored.last.read and reading is None else None,
        last_sequence=whole.last_sequence.get(one.source, -1),
        last_generation=before.last_generation.get(one.source, -1),
    )


def _by(
    executor: Executor, store: Path, works: Sequence[Work], commits: Commits, progress: ProgressCallback | None
) -> list[SourceReport]:
    reports = []
    for done in read_all(store, works, executor):
        for entry in done.entries:
            commits.add(entry)
        reports.append(done.report)
        size = done.report.coverage.bytes_read
        _progress(done.report.source, done.work.number, len(works), progress)(size, size)
    return reports


def _progress(source: str, number: int, count: int, callback: ProgressCallback | None) -> Callable[[int, int], None]:
    def step(bytes_read: int, size: int) -> None:
        if callback is not None:
            callback(Progress(source=source, number=number, sources=count, bytes_read=bytes_read, size=size))

    return step


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
