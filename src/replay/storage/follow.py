"""Following files that are still being written: whatever is new in them, again and again.

What a file holds is looked at only when its inode, size or time of change is another, and reading goes on at the end
of the last complete record, so that a record is read again only when it was not complete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from replay.storage.candidates import Found, PassedOver
from replay.storage.fingerprint import Growing
from replay.storage.reports import IngestReport, SourceReport

TIDY_AFTER = 256
"""So many readings of grown files leave as many small parts, which are then merged."""

TIDY_SHARE = 0.05
"""Merging takes at most this share of a follower's time: after it, there is none for as long as makes up for it."""

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
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[IngestReport]:
    """A report whenever something was new, until ``stop`` is set, or nothing was new for ``idle`` seconds.

    ``look`` finds the sources, ``read`` reads what is new of some, ``tidy`` merges the parts of some; ``memory`` is
    that of an earlier follower, to go on from.  ``clock`` tells the seconds.
    """
    memory = {} if memory is None else memory
    grown: list[str] = []
    quiet_since = tidy_from = clock()
    while True:
        # What comes after this look began is only seen by the next one.
        seen_until = clock()
        report = _whats_new(look(), read, memory)
        if report is not None:
            grown += [one.source for one in report.sources if one.status == "extended"]
            yield report
        begun = clock()
        if len(grown) >= TIDY_AFTER and begun >= tidy_from:
            tidy(set(grown))
            grown = []
            ended = clock()
            tidy_from = ended + (ended - begun) / TIDY_SHARE
        if report is not None:
            # Nobody looked while the report was dealt with, so that was no time in which nothing was new.
            quiet_since = seen_until = clock()
        if stop.is_set() or (idle is not None and seen_until - quiet_since >= idle) or stop.wait(interval):
            return


def _whats_new(
    found: Iterable[Found], read: Callable[[Sequence[Found], Memory], IngestReport], memory: Memory
) -> IngestReport | None:
    """Read what has changed since ``memory`` was told of it; None when there is nothing to say of it."""
    stamped = [(one, _stamp(one)) for one in found]
    changed = [(one, stamp) for one, stamp in stamped if _remembered(memory, one).stamp != stamp]
    if not changed:
        return None
    report = _news(read([one for one, _ in changed], memory), memory)
    for one, stamp in changed:
        memory[one.source].looked_at(stamp)
    return report if report.sources else None


def _remembered(memory: Memory, one: Found) -> Followed:
    return memory.setdefault(one.source, Followed())


def _stamp(one: Found) -> Stamp:
    """What tells whether a source has changed; taken before it is read, so that what comes meanwhile is seen next."""
    if isinstance(one, PassedOver):
        return (one.reason,)
    try:
        now = one.status()
    except OSError as error:
        return (error.errno,)
    return now if now.told else (object(),)


def _news(report: IngestReport, memory: Memory) -> IngestReport:
    """Those sources of ``report`` that were read, or of which it says something else than the one before."""
    news = []
    for one in report.sources:
        known = memory[one.source]
        if one.status in ("ingested", "extended", "replaced") or (one.status != "unchanged" and one != known.report):
            news.append(one)
        known.report = one
    return replace(report, sources=news)
