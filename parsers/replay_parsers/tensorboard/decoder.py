"""From framed records to rows: the entry points that Python calls.

An event file is a sequence of records (TensorFlow's TFRecord format, record_writer.h): the payload's length, the
length's masked CRC-32C, the payload, and the payload's masked CRC-32C.  Both checksums of every record are
verified before a byte of it is believed.
"""

from __future__ import annotations

from replay_parsers.tensorboard.compilation import Entry, inlined
from replay_parsers.tensorboard.crc32c import extend, masked, masked_checksum
from replay_parsers.tensorboard.events import read_event
from replay_parsers.tensorboard.layout import (
    BAD_HEADER,
    BAD_PAYLOAD,
    CURSOR,
    FILLED,
    FRAME_BYTES,
    GOING_ON,
    HEADER_BYTES,
    LONGEST_MESSAGE,
    NEED_INPUT,
    PIECE_FULL,
    ROW_LIMIT,
    ROWS,
    VALUES_DONE,
)
from replay_parsers.tensorboard.memory import load_i64, load_u32, store_i64
from replay_parsers.tensorboard.tags import hash_tags


@inlined
def header_holds(position: int) -> bool:
    """Whether the 12 bytes at ``position`` are a length that a message can have and its checksum."""
    length = load_i64(position)
    return 0 <= length <= LONGEST_MESSAGE and masked_checksum(position, 8) == load_u32(position + 8)


@inlined
def payload_holds(position: int, length: int) -> bool:
    """Whether the checksum of the payload of ``length`` bytes of the record at ``position`` holds."""
    payload = position + HEADER_BYTES
    return masked_checksum(payload, length) == load_u32(payload + length)


def _decode(job: int) -> int:
    """Decode records from CURSOR on; returns why it stopped, with CURSOR at the first record not decoded."""
    hash_tags(job)
    position = load_i64(job + CURSOR)
    filled = load_i64(job + FILLED)
    status = GOING_ON
    while status == GOING_ON:
        if load_i64(job + ROWS) >= load_i64(job + ROW_LIMIT) and load_i64(job + VALUES_DONE) == 0:
            return PIECE_FULL
        if filled - position < HEADER_BYTES:
            return NEED_INPUT
        if not header_holds(position):
            return BAD_HEADER
        length = load_i64(position)
        if length > filled - position - FRAME_BYTES:
            return NEED_INPUT
        # An event that is taken up again has been verified.
        if load_i64(job + VALUES_DONE) == 0 and not payload_holds(position, length):
            return BAD_PAYLOAD
        payload = position + HEADER_BYTES
        status = read_event(job, payload, payload + length)
        if status == GOING_ON:
            position += length + FRAME_BYTES
            store_i64(job + CURSOR, position)
    return status


def _find_record(begin: int, filled: int, whole: int) -> int:
    """The address of the first record from ``begin`` on whose header checksum holds, 0 if there is none.

    With ``whole``, its payload must be there and its checksum hold as well.
    """
    position = begin
    while position + HEADER_BYTES <= filled:
        if header_holds(position):
            if whole == 0:
                return position
            length = load_i64(position)
            if length <= filled - position - FRAME_BYTES and payload_holds(position, length):
                return position
        position += 1
    return 0


def _extend_checksum(checksum: int, begin: int, length: int) -> int:
    """Extend an unmasked checksum over ``length`` bytes at ``begin``."""
    return extend(checksum, begin, length)


def _mask_checksum(checksum: int) -> int:
    """The form in which a checksum is stored."""
    return masked(checksum)


decode = Entry(_decode, "int64(int64)")
find_record = Entry(_find_record, "int64(int64, int64, int64)")
extend_checksum = Entry(_extend_checksum, "int64(int64, int64, int64)")
mask_checksum = Entry(_mask_checksum, "int64(int64)")
