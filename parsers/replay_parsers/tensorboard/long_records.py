"""Records that need not fit into memory: verified, and searched for, while the window slides over them.

The functions move the cursor of a job together with the window that it points into.
"""

from __future__ import annotations

from replay_parsers.tensorboard.buffers import Job
from replay_parsers.tensorboard.entry_points import extend_checksum, find_record, mask_checksum
from replay_parsers.tensorboard.layout import CURSOR, FILLED, FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES
from replay_parsers.tensorboard.window import Window


def slide(window: Window, job: Job, keep_from: int, wanted: int = 0) -> bool:
    """Read on, keeping what lies from ``keep_from`` on, at which the cursor then stands; False at the end."""
    more = window.slide(keep_from, wanted)
    job[CURSOR] = window.begin
    job[FILLED] = window.filled
    return more


def go_back(window: Window, job: Job, offset: int) -> None:
    """Put the cursor at a place of the file that lies behind; nothing of it is in memory yet."""
    window.restart(offset)
    job[CURSOR] = job[FILLED] = window.begin


def stated_length(window: Window, job: Job) -> int:
    """The length that the header at the cursor states."""
    return int.from_bytes(window.bytes_between(job[CURSOR], job[CURSOR] + 8), "little")


def header_checksum_holds(window: Window, job: Job) -> bool:
    """Whether the checksum of the header at the cursor holds, whatever length it states."""
    stored = window.bytes_between(job[CURSOR] + 8, job[CURSOR] + HEADER_BYTES)
    return mask_checksum(extend_checksum(0, job[CURSOR], 8)) == int.from_bytes(stored, "little")


def passed_if_whole(window: Window, job: Job, size: int) -> bool | None:
    """Whether the payload's checksum of the record at the cursor holds; None where the file ends within it.

    Moves the cursor behind the record, or as far as the file goes.
    """
    left = size - FRAME_BYTES
    checksum = 0
    job[CURSOR] += HEADER_BYTES
    while left > 0:
        if job[CURSOR] == job[FILLED] and not slide(window, job, job[CURSOR]):
            break
        here = min(left, job[FILLED] - job[CURSOR])
        checksum = extend_checksum(checksum, job[CURSOR], here)
        job[CURSOR] += here
        left -= here
    while job[FILLED] - job[CURSOR] < FOOTER_BYTES and slide(window, job, job[CURSOR]):
        pass
    stored = window.bytes_between(job[CURSOR], min(job[FILLED], job[CURSOR] + FOOTER_BYTES))
    if left > 0 or len(stored) < FOOTER_BYTES:
        return None
    job[CURSOR] += FOOTER_BYTES
    return mask_checksum(checksum) == int.from_bytes(stored, "little")


def find_whole_record(window: Window, job: Job, search_from: int, end: int) -> int | None:
    """The offset of the first record from ``search_from`` on that is complete before ``end``; None without one.

    The cursor is anywhere afterwards.
    """
    go_back(window, job, search_from)
    while slide(window, job, job[CURSOR]):
        while found := find_record(job[CURSOR], job[FILLED], 0):
            job[CURSOR] = found
            offset, size = window.offset_of(found), stated_length(window, job) + FRAME_BYTES
            if offset + size > end:
                job[CURSOR] += 1
            elif passed_if_whole(window, job, size):
                return offset
            elif window.offset <= offset:
                job[CURSOR] = window.begin + offset + 1 - window.offset
            else:
                go_back(window, job, offset + 1)
        # The last bytes can be the beginning of a header.
        job[CURSOR] = max(job[CURSOR], job[FILLED] - HEADER_BYTES + 1)
    return None
