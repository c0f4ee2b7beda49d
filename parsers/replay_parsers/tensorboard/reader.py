"""Reading an event file as a stream of records, from any byte at which an earlier reading ended.

:class:`Reading` drives the compiled decoder and does what is rare: new tags, texts, damage, the end of the file.
What the end of a file looks like decides between a state and an error: a record that is not yet complete waits,
and the next reading begins with it; a complete one whose checksum does not hold is damage
(see :mod:`~replay_parsers.tensorboard.damage`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from replay_parsers.files import open_bytes
from replay_parsers.parser import Request
from replay_parsers.records import Coverage, Event, ProblemKind, Records, Run
from replay_parsers.tensorboard import buffers, layout
from replay_parsers.tensorboard.buffers import Columns, Job, TagTable
from replay_parsers.tensorboard.damage import Ledger, Resynchronisation, cut_off_message, zeros_message
from replay_parsers.tensorboard.entry_points import decode, find_record
from replay_parsers.tensorboard.layout import (
    BAD_HEADER,
    BAD_PAYLOAD,
    COLUMNS_FULL,
    CURSOR,
    FILLED,
    FRAME_BYTES,
    HEADER_BYTES,
    LAST_SEGMENT,
    LAST_STEP,
    MALFORMED,
    NEED_INPUT,
    NOTE_LEFT,
    PIECE_FULL,
    REFUSED_VALUES,
    TAGS_FULL,
    VALUE_AT,
    VALUES_DONE,
)
from replay_parsers.tensorboard.long_records import (
    find_whole_record,
    go_back,
    header_checksum_holds,
    passed_if_whole,
    slide,
    stated_length,
)
from replay_parsers.tensorboard.messages import MalformedMessageError
from replay_parsers.tensorboard.metadata import RunMetadata, plugin_name
from replay_parsers.tensorboard.sessions import Sessions
from replay_parsers.tensorboard.window import READ_BYTES, Window

FORMAT = "tensorboard"

LONGEST_RECORD = 128 << 20
"""Bytes of the longest record that is decoded; longer ones (graphs, mostly) are verified and passed over."""

_USUAL_ROW_BYTES = 32


def read(request: Request) -> Iterator[Records]:
    """Read ``request.path`` from ``request.start`` on; at least one :class:`Records`, adjacent ranges in order.

    Raises :class:`OSError` when the file cannot be opened.
    """
    with open_bytes(request.path, request.watch) as stream:
        reading = Reading(request, stream)
        try:
            yield from reading.pieces()
        finally:
            reading.close()


def _bytes_ahead(stream: BinaryIO, start: int) -> int:
    """How many bytes a regular file has after ``start``; a guess for what cannot be told."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, AttributeError):
        return READ_BYTES
    return max(0, status.st_size - start) if stat.S_ISREG(status.st_mode) else READ_BYTES


class Reading:
    """One reading of one file."""

    def __init__(self, request: Request, stream: BinaryIO) -> None:
        state = request.state
        self._request = request
        self._job = Job()
        ahead = _bytes_ahead(stream, request.start)
        self._columns = Columns(self._job, ahead // _USUAL_ROW_BYTES)
        self._tags = TagTable(self._job)
        within = state.get("within_event", {"bytes": 0, "values": 0})
        self._job[VALUES_DONE] = int(within["values"])
        # Where the value stands that is to be read next, while a piece ends within an event.
        self._value_at = request.start
        self._window = Window(stream, request.start - int(within["bytes"]), ahead)
        self._job[CURSOR] = self._job[FILLED] = self._window.begin
        self._ledger = Ledger(request.source)
        self._metadata = RunMetadata(state.get("metadata", {}))
        self._sessions = Sessions(request.run, request.source, state.get("sessions", {}))
        self._events: list[Event] = []
        self._not_understood = 0
        self._longer_records = 0
        self._first_refused = (0, "")
        self._start = request.start
        # The end of the bytes that earlier readings have told as lost, when none of them found an end of the damage.
        self._damaged_to = int(state.get("damaged_to", 0))
        if "tags" in state:
            self._tags.restore(state)
            self._job[layout.SEGMENT] = int(state["segment"])

    def close(self) -> None:
        """Hand the memory on to the next reading."""
        self._columns.close()
        self._window.close()

    # -- the loop ------------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[Records]:
        """The records, piece by piece."""
        going_on = self._resume_after_damage() if self._damaged_to else self._more_input()
        while going_on:
            status = decode(self._job.address)
            if status == NEED_INPUT:
                going_on = self._more_input()
            elif status == PIECE_FULL:
                yield self._piece()
                self._columns.begin_piece()
            elif status == COLUMNS_FULL:
                if not self._columns.grow():
                    self._value_at = self._window.offset_of(self._job[VALUE_AT])
                    yield self._piece()
                    self._columns.begin_piece()
            elif status == TAGS_FULL:
                self._tags.grow(self._record_length())
            elif status == NOTE_LEFT:
                self._read_note()
            elif status == MALFORMED:
                self._pass_malformed()
            elif status in (BAD_HEADER, BAD_PAYLOAD):
                going_on = self._resynchronise(status)
        if self._window.failure:
            self._tell_failure()
        yield self._piece()

    def _piece(self) -> Records:
        scalars = self._columns.take(self._tags.take_piece())
        record, values_done = self._window.offset_of(self._job[CURSOR]), self._job[VALUES_DONE]
        # A file that was cut meanwhile can end before what was read of it.
        end = max(self._start, self._value_at if values_done else record)
        start, self._start = self._start, end
        self._tell_refused()
        problems, lost_bytes, lost_records = self._ledger.take()
        events, self._events = tuple(self._events), []
        metadata = self._metadata.take()
        not_understood, self._not_understood = self._not_understood, 0
        request = self._request
        return Records(
            source=request.source,
            format=FORMAT,
            start=start,
            end=end,
            run=Run(run=request.run, sources=(request.source,), metadata=metadata) if metadata else None,
            events=events,
            scalars=scalars,
            problems=problems,
            coverage=Coverage(
                bytes_read=end - start,
                records=len(scalars) + len(events),
                not_understood=not_understood,
                lost_bytes=lost_bytes,
                lost_records=lost_records,
                examples=tuple(str(problem) for problem in problems if problem.kind is ProblemKind.INVALID)[:5],
                other=self._take_other(),
            ),
            state={
                **self._tags.state(),
                "segment": self._job[layout.SEGMENT],
                "metadata": self._metadata.state(),
                "sessions": self._sessions.state(),
                "damaged_to": self._damaged_to,
                **({"within_event": {"bytes": end - record, "values": values_done}} if values_done else {}),
            },
        )

    def _take_other(self) -> dict[str, int]:
        other = self._tags.take_counts()
        fields = {"graph": layout.GRAPHS, "log message": layout.LOG_MESSAGES, "run metadata": layout.RUN_METADATA}
        for name, field in fields.items():
            if self._job[field]:
                other[name] = self._job[field]
                self._job[field] = 0
        if self._longer_records:
            other[f"record over {LONGEST_RECORD >> 20} MiB"] = self._longer_records
            self._longer_records = 0
        return other

    def _tell_refused(self) -> None:
        """Tell how many values this piece lacks because their tags are too many."""
        count, self._job[REFUSED_VALUES] = self._job[REFUSED_VALUES], 0
        if not count:
            return
        offset, name = self._first_refused
        self._not_understood += count
        self._ledger.add(
            ProblemKind.NOT_UNDERSTOOD,
            offset,
            f"{count} value{'' if count == 1 else 's'} from here on left out: of one file {buffers.MOST_TAGS} "
            f"different tags are read, of {buffers.MOST_NAME_BYTES} bytes together, and {name!r} is one more; "
            "use the same tags at every step, or write the parts of the run to files of their own",
        )

    # -- input ---------------------------------------------------------------------------------------------------

    def _slide(self, keep_from: int, wanted: int = 0) -> bool:
        """Read on, keeping what lies from ``keep_from`` on, at which the cursor then stands."""
        return slide(self._window, self._job, keep_from, wanted)

    def _more_input(self) -> bool:
        """Make the next record complete; False at the end of the file."""
        wanted = self._record_length() + FRAME_BYTES if self._job[FILLED] - self._job[CURSOR] >= HEADER_BYTES else 0
        if wanted > LONGEST_RECORD and self._window.seekable:
            return self._pass_over(wanted)
        # Memory grows with what is there, not with what a header promises.
        have = self._job[FILLED] - self._job[CURSOR]
        if self._slide(self._job[CURSOR], min(wanted, max(2 * have, READ_BYTES))):
            return True
        return self._end_of_file(wanted)

    def _record_length(self) -> int:
        """The length that the header at the cursor states."""
        return stated_length(self._window, self._job)

    def _end_of_file(self, wanted: int) -> bool:
        """Judge the bytes that are left at the end; True when the reading goes on after all."""
        cursor, filled = self._job[CURSOR], self._job[FILLED]
        left, offset = filled - cursor, self._window.offset_of(cursor)
        if left == 0:
            return False
        if wanted:
            # A record that was cut off for good may be followed by those of a writer that appended to the file.
            found = find_record(cursor + 1, filled, 1)
            if found:
                self._give_up_unfinished(offset, wanted, self._window.offset_of(found))
                self._job[CURSOR], self._job[VALUES_DONE] = found, 0
                return True
        only_zeros = not self._window.bytes_between(cursor, filled).strip(b"\0")
        message = zeros_message(left) if only_zeros else cut_off_message(left, wanted)
        self._ledger.add(ProblemKind.TRUNCATED, offset, message)
        return False

    def _give_up_unfinished(self, record: int, size: int, found: int) -> None:
        message = f"a record of {size} bytes was never finished, and others follow it at byte {found}"
        self._ledger.add(ProblemKind.CORRUPT, record, message, found - record, 1)

    def _pass_over(self, size: int) -> bool:
        """Go on after a record that is too long to decode, or after damage to it; True unless the file ends first."""
        record = self._window.offset_of(self._job[CURSOR])
        holds = passed_if_whole(self._window, self._job, size)
        if holds:
            self._longer_records += 1
            self._not_understood += 1
            self._ledger.add(
                ProblemKind.NOT_UNDERSTOOD,
                record,
                f"a record of {size} bytes, more than the {LONGEST_RECORD} that are decoded; its checksums hold",
            )
            return True
        end = self._window.end_offset
        go_back(self._window, self._job, record)
        if holds is not None:
            self._slide(self._job[CURSOR], READ_BYTES)
            return self._resynchronise(BAD_PAYLOAD, size)
        found = find_whole_record(self._window, self._job, record + 1, end)
        go_back(self._window, self._job, record if found is None else found)
        if found is None:
            self._ledger.add(ProblemKind.TRUNCATED, record, cut_off_message(end - record, size))
            return False
        self._give_up_unfinished(record, size, found)
        return True

    # -- damage --------------------------------------------------------------------------------------------------

    def _resynchronise(self, status: int, size: int | None = None) -> bool:
        """Find the next record after damage at the cursor; False when the file ends first."""
        cursor = self._job[CURSOR]
        damage = Resynchronisation(begin=self._window.offset_of(cursor))
        if status == BAD_PAYLOAD:
            damage.record = size or self._record_length() + FRAME_BYTES
        elif header_checksum_holds(self._window, self._job):
            damage.impossible = self._record_length()
        return self._search(damage, cursor + 1)

    def _resume_after_damage(self) -> bool:
        damage = Resynchronisation(begin=self._window.offset, record=0, told_to=self._damaged_to)
        self._damaged_to = 0
        return self._search(damage, self._job[CURSOR])

    def _search(self, damage: Resynchronisation, search_from: int) -> bool:
        window, job = self._window, self._job
        looked_to = job[CURSOR]
        job[VALUES_DONE] = 0
        while True:
            found = find_record(search_from, job[FILLED], 0)
            stop = found or job[FILLED]
            damage.look_at(window.bytes_between(looked_to, stop), window.offset_of(looked_to))
            if found:
                job[CURSOR] = found
                damage.end_at_record(self._ledger, window.offset_of(found))
                return True
            # The last bytes can be the beginning of a header.
            seen_to = window.end_offset
            if not self._slide(max(search_from, job[FILLED] - HEADER_BYTES + 1)):
                break
            search_from = window.begin
            looked_to = window.begin + seen_to - window.offset
        resume_at, self._damaged_to = damage.end_at_end_of_file(self._ledger, window.end_offset)
        job[CURSOR] = window.begin + resume_at - window.offset
        return False

    def _tell_failure(self) -> None:
        window = self._window
        kind = ProblemKind.TRUNCATED if window.cut_off else ProblemKind.UNREADABLE
        self._ledger.add(kind, window.end_offset, window.failure)

    # -- what the decoder leaves to Python -----------------------------------------------------------------------

    def _pass_malformed(self) -> None:
        """Go on after a record whose checksums hold but whose payload is no Event message."""
        offset = self._window.offset_of(self._job[CURSOR])
        kept = self._job[VALUES_DONE]
        self._tell_malformed(offset, kept)
        self._job[VALUES_DONE] = 0
        self._job[CURSOR] += self._record_length() + FRAME_BYTES

    def _tell_malformed(self, offset: int, kept: int) -> None:
        self._not_understood += 1
        before = f"; kept the {kept} values before the fault" if kept else ""
        message = f"the checksums of this record hold, but its content is no Event message{before}"
        self._ledger.add(ProblemKind.INVALID, offset, message)

    def _read_note(self) -> None:
        job = self._job
        content = self._window.view_between(job[layout.NOTE_BEGIN], job[layout.NOTE_END])
        offset = self._window.offset_of(job[CURSOR])
        note, tag = job[layout.NOTE], job[layout.NOTE_TAG]
        try:
            if note == layout.NOTE_SESSION:
                event = self._sessions.read(content, offset, self._reached())
                if event is not None:
                    self._events.append(event)
                return
            if note == layout.NOTE_REFUSED:
                self._first_refused = offset, str(content, "utf-8", errors="backslashreplace")
                return
            self._tags.read_names()
            if note == layout.NOTE_PLUGIN:
                self._tags.plugins[tag] = plugin_name(content) or "unnamed plugin"
            elif note == layout.NOTE_TEXT:
                self._metadata.add_text(self._tags.names[tag], content)
            elif note == layout.NOTE_HPARAMS:
                self._metadata.add_hparams(content)
        except MalformedMessageError:
            self._tell_malformed(offset, job[VALUES_DONE] - 1)

    def _reached(self) -> int | None:
        """The highest step of the present segment; None before the first scalar."""
        steps = self._tags.column(LAST_STEP)[self._tags.column(LAST_SEGMENT) == self._job[layout.SEGMENT]]
        return int(np.max(steps)) if len(steps) else None
