"""The table of tags, shared by Python and the compiled decoder.

Compiled code finds a tag by its bytes: it first tries the tag that followed the previous one last time, which
trainers that log the same tags every step make right nearly always, and else looks into a hash table with linear
probing.  Python sees a tag only when it is new.
"""

from __future__ import annotations

from replay_parsers.tensorboard.compilation import compiled, inlined
from replay_parsers.tensorboard.layout import (
    COUNTS,
    FORM,
    FORM_CODES,
    FORM_UNKNOWN,
    LAST_SEGMENT,
    LAST_STEP,
    MOST_NAME_BYTES,
    MOST_TAGS,
    NAME,
    NAME_HASH,
    NAME_LENGTH,
    NAMES,
    NAMES_CAPACITY,
    NAMES_USED,
    NEXT,
    NOTED,
    PIECE_CODE,
    PREVIOUS,
    SLOT_MASK,
    SLOTS,
    TAG_BYTES,
    TAG_CAPACITY,
    TAG_COUNT,
    TAGS,
    TAGS_HASHED,
)
from replay_parsers.tensorboard.memory import load_i64, store_i64

NO_ROOM = 0
"""What :func:`find` returns for a new tag that the table has no room for."""

REFUSED = -1
"""What it returns for a new tag that is one too many."""

_MULTIPLIER = 0x5851F42D4C957F2D  # Knuth's MMIX multiplier: odd, its bits well mixed


@inlined
def last_bytes(position: int, length: int) -> int:
    """The ``length`` (1 to 7) bytes at ``position`` as a number; loads 8, which the input's padding allows."""
    return load_i64(position) & (1 << 8 * length) - 1


@compiled
def name_hash(position: int, length: int) -> int:
    """A hash of the bytes of a tag."""
    value = length
    while length >= 8:
        value = (value ^ load_i64(position)) * _MULTIPLIER
        value ^= value >> 32
        position += 8
        length -= 8
    if length > 0:
        value = (value ^ last_bytes(position, length)) * _MULTIPLIER
        value ^= value >> 32
    return value


@inlined
def same_name(entry: int, names: int, position: int, length: int) -> bool:
    """Whether the tag of ``entry`` is the ``length`` bytes at ``position``."""
    if load_i64(entry + NAME_LENGTH) != length:
        return False
    name = names + load_i64(entry + NAME)
    while length >= 8:
        if load_i64(name) != load_i64(position):
            return False
        name += 8
        position += 8
        length -= 8
    return length == 0 or load_i64(name) == last_bytes(position, length)


@inlined
def find(job: int, position: int, length: int) -> int:
    """The address of the entry of the tag at ``position``, made if it is new.

    :data:`NO_ROOM` if it cannot be, :data:`REFUSED` if it must not be.
    """
    names = load_i64(job + NAMES)
    previous = load_i64(job + PREVIOUS)
    if previous != 0:
        entry = load_i64(previous + NEXT)
        if entry != 0 and same_name(entry, names, position, length):
            store_i64(job + PREVIOUS, entry)
            return entry
    entry = look_up(job, names, position, length)
    if entry > NO_ROOM:
        if previous != 0:
            store_i64(previous + NEXT, entry)
        store_i64(job + PREVIOUS, entry)
    return entry


@compiled
def look_up(job: int, names: int, position: int, length: int) -> int:
    """As :func:`find`, by the hash table."""
    hashed = name_hash(position, length)
    slots = load_i64(job + SLOTS)
    mask = load_i64(job + SLOT_MASK)
    tags = load_i64(job + TAGS)
    slot = hashed & mask
    number = load_i64(slots + 8 * slot)
    while number != 0:
        entry = tags + (number - 1) * TAG_BYTES
        if load_i64(entry + NAME_HASH) == hashed and same_name(entry, names, position, length):
            return entry
        slot = slot + 1 & mask
        number = load_i64(slots + 8 * slot)
    count = load_i64(job + TAG_COUNT)
    used = load_i64(job + NAMES_USED)
    padded = length + 7 & -8
    if count >= load_i64(job + MOST_TAGS) or used + padded > load_i64(job + MOST_NAME_BYTES):
        return REFUSED
    if count >= load_i64(job + TAG_CAPACITY) or used + padded > load_i64(job + NAMES_CAPACITY):
        return NO_ROOM
    for offset in range(0, length & -8, 8):
        store_i64(names + used + offset, load_i64(position + offset))
    if length & 7:
        store_i64(names + used + (length & -8), last_bytes(position + (length & -8), length & 7))
    entry = tags + count * TAG_BYTES
    store_i64(entry + NAME, used)
    store_i64(entry + NAME_LENGTH, length)
    store_i64(entry + NAME_HASH, hashed)
    store_i64(entry + NEXT, 0)
    store_i64(entry + LAST_STEP, 0)
    store_i64(entry + LAST_SEGMENT, -1)
    store_i64(entry + FORM, FORM_UNKNOWN)
    store_i64(entry + PIECE_CODE, -1)
    store_i64(entry + NOTED, 0)
    for form in range(FORM_CODES):
        store_i64(entry + COUNTS + 8 * form, 0)
    store_i64(slots + 8 * slot, count + 1)
    store_i64(job + NAMES_USED, used + padded)
    store_i64(job + TAG_COUNT, count + 1)
    store_i64(job + TAGS_HASHED, count + 1)
    return entry


@compiled
def hash_tags(job: int) -> None:
    """Enter the tags that Python put into the table, or moved, into the hash table."""
    names = load_i64(job + NAMES)
    slots = load_i64(job + SLOTS)
    mask = load_i64(job + SLOT_MASK)
    for number in range(load_i64(job + TAGS_HASHED), load_i64(job + TAG_COUNT)):
        entry = load_i64(job + TAGS) + number * TAG_BYTES
        hashed = name_hash(names + load_i64(entry + NAME), load_i64(entry + NAME_LENGTH))
        store_i64(entry + NAME_HASH, hashed)
        slot = hashed & mask
        while load_i64(slots + 8 * slot) != 0:
            slot = slot + 1 & mask
        store_i64(slots + 8 * slot, number + 1)
    store_i64(job + TAGS_HASHED, load_i64(job + TAG_COUNT))


@compiled
def equals(position: int, length: int, word: int, size: int) -> bool:
    """Whether the ``length`` bytes at ``position`` are the ``size`` (1 to 7) bytes of ``word``."""
    return length == size and last_bytes(position, size) == word
