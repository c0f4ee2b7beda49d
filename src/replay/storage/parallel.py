"""Reading many sources at once, in the processes of any executor, with the same store as when they are read in turn.

Sources are handed out in batches.  A process writes the parts of its batch and makes them durable; only this one
writes the ledger, in the order of the sources, so that neither the number of processes nor their speed shows in the
bytes of the store.  All processes must see the same files: on a cluster, a shared file system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from replay.storage import reading
from replay.storage.candidates import Candidate, PassedOver
from replay.storage.ledger import Entry
from replay.storage.part_writer import PartWriter
from replay.storage.planning import Known, unchanged
from replay.storage.record_parts import RecordParts
from replay.storage.reports import SourceReport

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

BATCH_FILES = 64
BATCH_BYTES = 16 << 20
"""A batch ends with the file that reaches one of these: enough work to be worth its way to another process."""

WORTH_A_PROCESS = 64 << 20
"""Processes of our own are begun when there is as much text to read: beginning one takes about a second."""

_EVENT_FILES_ARE_FASTER = 8
_A_FILE_COSTS = 200_000


@dataclass(frozen=True, slots=True)
class Work:
    """One source to read: its place in the order, and what the store holds of it."""

    number: int
    found: Candidate | PassedOver
    known: Known

    @property
    def size(self) -> int:
        """Bytes on disk that are new or may have changed; 0 for what is not read."""
        if isinstance(self.found, PassedOver):
            return 0
        try:
            now = self.found.status()
        except OSError:
            return 0
        last = self.known.last
        if last is None:
            return max(now.size, 0)
        return 0 if unchanged(self.found, self.known, now) else max(now.size - last.end, 0)


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one source: the report, and the entries that make its parts count."""

    work: Work
    report: SourceReport
    entries: tuple[Entry, ...]


def worth_it(works: Sequence[Work]) -> bool:
    """Whether reading ``works`` takes long enough for further processes to pay."""
    cost = 0
    for work in works:
        size = work.size
        if size and isinstance(work.found, Candidate):
            cost += size // (_EVENT_FILES_ARE_FASTER if "tfevents" in work.found.path.name else 1) + _A_FILE_COSTS
        if cost >= WORTH_A_PROCESS:
            return True
    return False


def read_all(store: Path, works: Sequence[Work], executor: Executor) -> Iterator[Done]:
    """Read ``works`` in the processes of ``executor``; what became of each, in their order.

    Raises :class:`replay.storage.errors.StoreError` when the store cannot be written.
    """
    futures: list[Future[list[Done]]] = [
        executor.submit(read_batch, store.absolute(), batch) for batch in _batches(works)
    ]
    try:
        for future in futures:
            yield from future.result()
    finally:
        for future in futures:
            future.cancel()


def own_processes(workers: int) -> Executor:
    """Processes of our own.  They are begun afresh: forked ones would inherit Arrow's threads half-alive."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def _batches(works: Sequence[Work]) -> Iterator[list[Work]]:
    batch: list[Work] = []
    size = 0
    for work in works:
        batch.append(_anywhere(work))
        size += work.size
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _anywhere(work: Work) -> Work:
    if isinstance(work.found, PassedOver):
        return work
    return replace(work, found=replace(work.found, path=work.found.path.absolute()))


def read_batch(store: Path, works: Sequence[Work]) -> list[Done]:
    """Read ``works`` into parts of ``store``, durably; runs in another process.  Raises as :func:`read_all`."""
    with PartWriter(store) as writer:
        parts = RecordParts(writer)
        done = [_read(work, parts) for work in works]
        writer.settle()
    return done


def _read(work: Work, parts: RecordParts) -> Done:
    entries: list[Entry] = []
    report = read_one(work, parts, entries.append, lambda *_: None)
    return Done(work, report, tuple(entries))


def read_one(
    work: Work, parts: RecordParts, commit: Callable[[Entry], None], step: Callable[[int, int], None]
) -> SourceReport:
    """Read one source into ``parts``."""
    if isinstance(work.found, PassedOver):
        return reading.pass_over(work.found, work.known, parts, commit)
    return reading.read(work.found, work.known, parts, commit, step)
