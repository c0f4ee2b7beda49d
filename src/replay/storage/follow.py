"""Following files that are still being written: whatever is new in them, again and again.

What a file holds is looked at only when its inode, size or time of change is another, and reading goes on at the end
of the last complete record, so that a record is read again only when it was not complete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from replay.storage.fingerprint import Growing
from replay.storage.reports import IngestReport, SourceReport
from replay.storage.sources import Found, PassedOver

TIDY_AFTER = 256
"""So many readings of grown files leave as many small parts, which are then merged."""

_TIDY_SHARE = 0.05

Stamp = tuple[object, ...]


@dataclass(slots=True)
class Followed:
    """What a follower remembers of one source: how it looked last, what was said of it, and its fingerprint."""

    stamp: Stamp | None = None
    report: SourceReport | None = None
    growing: Growing = field(default_factory=Growing)

    def looked_at(self, stamp: Stamp) -> None:
        """Remember how it looked before it was read; what could not be read is tried again in any case."""
        self.stamp = None if self.report is not None and self.report.status == "failed" else stamp


Memory = dict[str, Followed]


def follow(
    look: Callable[[], Iterable[Found]],
    read: Callable[[Sequence[Found], Memory], IngestReport],
    tidy: Callable[[set[str]], None],
    *,
    interval: float,
    idle: float | None,
    stop: threading.Event,
    memory: Memory | None = None,
) -> Iterator[IngestReport]:
    """A report whenever something was new, until ``stop`` is set, or nothing was new for ``idle`` seconds.

    ``look`` finds the sources, ``read`` reads what is new of some, ``tidy`` merges the parts of some; ``memory`` is
    that of an earlier follower, to go on from.
    """
    memory = {} if memory is None else memory
    grown: list[str] = []
    last_news = time.monotonic()
    tidy_from = last_news
    while True:
        stamped = [(one, _stamp(one)) for one in look()]
        changed = [(one, stamp) for one, stamp in stamped if _remembered(memory, one).stamp != stamp]
        if changed:
            report = _news(read([one for one, _ in changed], memory), memory)
            for one, stamp in changed:
                memory[one.source].looked_at(stamp)
            if report.sources:
                last_news = time.monotonic()
                grown += [one.source for one in report.sources if one.status == "extended"]
                yield report
        now = time.monotonic()
        if len(grown) >= TIDY_AFTER and now >= tidy_from:
            tidy(set(grown))
            grown = []
            tidy_from = time.monotonic() + (time.monotonic() - now) / _TIDY_SHARE
        if stop.is_set() or (idle is not None and now - last_news >= idle) or stop.wait(interval):
            return


def _remembered(memory: Memory, one: Found) -> Followed:
    return memory.setdefault(one.source, Followed())


def _stamp(one: Found) -> Stamp:
    """What tells whether a source has changed; taken before it is read, so that what comes meanwhile is seen next."""
    if isinstance(one, PassedOver):
        return (one.reason,)
    try:
        now = one.path.stat()
    except OSError as error:
        return (error.errno,)
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _news(report: IngestReport, memory: Memory) -> IngestReport:
    """Those sources of ``report`` that were read, or of which it says something else than the one before."""
    news = []
    for one in report.sources:
        known = memory[one.source]
        if one.status in ("ingested", "extended", "replaced") or (one.status != "unchanged" and one != known.report):
            news.append(one)
        known.report = one
    return replace(report, sources=news)
