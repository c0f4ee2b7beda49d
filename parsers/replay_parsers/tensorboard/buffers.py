"""The memory that Python lends to the decoder: a job's fields, columns of rows, and the table of tags."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay_parsers.records import Scalars
from replay_parsers.tensorboard import layout, spare
from replay_parsers.tensorboard.layout import (
    COUNTS,
    FORM,
    LAST_SEGMENT,
    LAST_STEP,
    NAME,
    NAME_LENGTH,
    NOTED,
    PIECE_CODE,
)

ROWS_A_PIECE = 1_000_000
"""Rows after which a piece is given out: 32 MB of columns, about what a processor's cache holds."""

_COLUMNS: dict[int, np.dtype[Any]] = {  # the widest first, so that each begins at a multiple of its width
    layout.STEP_COLUMN: np.dtype(np.int64),
    layout.TIME_COLUMN: np.dtype(np.int64),
    layout.VALUE_COLUMN: np.dtype(np.float64),
    layout.TAG_COLUMN: np.dtype(np.int32),
    layout.SEGMENT_COLUMN: np.dtype(np.int32),
}
_ROW_BYTES = sum(kind.itemsize for kind in _COLUMNS.values())
_SPARE_ROWS = 1024  # so that few pieces end within an event

MOST_TAGS = 100_000
"""Different tags that are read of one file.  Each costs about a kilobyte until the file is stored."""
MOST_NAME_BYTES = 16 << 20
"""Bytes of their names together."""

_FEWEST_TAGS = 64
_NAME_BYTES_A_TAG = 64
_TAG_FIELDS = layout.TAG_BYTES // 8


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's first byte; the array must outlive its use."""
    address: int = array.__array_interface__["data"][0]  # several times as fast as array.ctypes.data
    return address


class Job:
    """The fields of a job by their offsets in :mod:`~replay_parsers.tensorboard.layout`."""

    def __init__(self) -> None:
        self._fields = np.zeros(layout.JOB_BYTES // 8, np.int64)
        self.address = address_of(self._fields)

    def __getitem__(self, offset: int) -> int:
        return int(self._fields[offset >> 3])

    def __setitem__(self, offset: int, value: int) -> None:
        self._fields[offset >> 3] = value


class _Lent:
    """Memory that arrays of a piece show: once the last of them is gone, so is this, and the memory is free again."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__


class Columns:
    """Room for the rows of a piece; it grows, and the filled part is given out as :class:`Scalars`."""

    def __init__(self, job: Job, rows: int) -> None:
        self._job = job
        self._lent: weakref.ref[_Lent] | None = None
        self._allocate(min(rows, ROWS_A_PIECE) + _SPARE_ROWS)

    def _allocate(self, capacity: int) -> None:
        # Memory that is not written to costs nothing, so a generous estimate does no harm.
        self._capacity = capacity
        self._memory = spare.borrow(capacity * _ROW_BYTES)
        job, address = self._job, address_of(self._memory)
        for field, kind in _COLUMNS.items():
            job[field] = address
            address += capacity * kind.itemsize
        job[layout.ROW_CAPACITY] = capacity
        job[layout.ROW_LIMIT] = ROWS_A_PIECE

    def _arrays(self, memory: NDArray[np.uint8]) -> list[NDArray[Any]]:
        """The columns in the order of :data:`_COLUMNS`, with all their room."""
        arrays, begin = [], 0
        for kind in _COLUMNS.values():
            end = begin + self._capacity * kind.itemsize
            arrays.append(memory[begin:end].view(kind))
            begin = end
        return arrays

    def grow(self) -> bool:
        """Double the room, keeping the rows; False, and no more room, where there is all that a piece may have."""
        memory, room, enough = self._memory, self._capacity, ROWS_A_PIECE + _SPARE_ROWS
        if room >= enough:
            return False
        before = self._arrays(memory)
        self._allocate(min(2 * room + _SPARE_ROWS, enough))
        for old, new in zip(before, self._arrays(self._memory), strict=True):
            new[: len(old)] = old
        spare.give_back(memory)
        return True

    def take(self, tags: tuple[str, ...]) -> Scalars:
        """The rows written so far, which become the caller's."""
        rows = self._job[layout.ROWS]
        if 4 * rows <= self._capacity or spare.is_handed_on(self._memory):
            columns = [column[:rows].copy() for column in self._arrays(self._memory)]
        else:
            lent = _Lent(self._memory)
            self._lent = weakref.ref(lent)
            columns = [column[:rows] for column in self._arrays(np.asarray(lent))]
        step, wall_time, value, tag, segment = columns
        return Scalars(tags=tags, tag=tag, segment=segment, step=step, wall_time=wall_time, value=value)

    def begin_piece(self) -> None:
        """Make room for further rows: where those of the last piece were if nobody holds these any more.

        New memory costs as much as decoding into it, since the system clears it first.
        """
        self._job[layout.ROWS] = 0
        if self._capacity < ROWS_A_PIECE + _SPARE_ROWS or (self._lent is not None and self._lent() is not None):
            self.close()
            self._allocate(ROWS_A_PIECE + _SPARE_ROWS)

    def close(self) -> None:
        """Hand the memory on, once everything was taken."""
        spare.give_back(self._memory)


class TagTable:
    """The tags seen so far, with what the decoder must know of each.

    ``names`` are the tags as text, ``plugins`` the names of plugins that have no FORM_ code of their own, by the
    number of the tag.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.names: list[str] = []
        self._raw_names: list[bytes] = []
        self.plugins: dict[int, str] = {}
        self._entries = np.zeros((0, _TAG_FIELDS), np.int64)
        self._name_bytes = np.zeros(0, np.uint8)
        job[layout.MOST_TAGS] = MOST_TAGS
        job[layout.MOST_NAME_BYTES] = MOST_NAME_BYTES
        self.make_room(_FEWEST_TAGS, _FEWEST_TAGS * _NAME_BYTES_A_TAG)

    def __len__(self) -> int:
        return self._job[layout.TAG_COUNT]

    def make_room(self, tags: int, name_bytes: int) -> None:
        """Move the table to where it has room for that many tags and bytes of their names."""
        job = self._job
        slots = 1 << (4 * tags).bit_length()
        names_begin = slots + tags * _TAG_FIELDS
        memory = np.zeros(names_begin + name_bytes // 8 + 2, np.int64)
        entries, names = memory[slots:names_begin].reshape(tags, _TAG_FIELDS), memory[names_begin:].view(np.uint8)
        if len(self._entries):
            entries[: len(self._entries)] = self._entries
            entries[:, layout.NEXT >> 3] = 0  # addresses of entries, which have moved
            names[: len(self._name_bytes)] = self._name_bytes
        self._entries, self._name_bytes = entries, names
        address = address_of(memory)
        job[layout.SLOTS] = address
        job[layout.SLOT_MASK] = slots - 1
        job[layout.TAGS] = address + 8 * slots
        job[layout.TAG_CAPACITY] = tags
        job[layout.NAMES] = address + 8 * names_begin
        job[layout.NAMES_CAPACITY] = name_bytes
        job[layout.TAGS_HASHED] = 0
        job[layout.PREVIOUS] = 0

    def grow(self, longest_name: int) -> None:
        """Make more room, enough for one more tag of ``longest_name`` bytes, if there may be one."""
        job = self._job
        tags, name_bytes = job[layout.TAG_CAPACITY], job[layout.NAMES_CAPACITY]
        # A table that was restored can have more room than a new one may get.
        self.make_room(
            max(tags, min(2 * tags, MOST_TAGS)),
            max(name_bytes, min(2 * name_bytes + longest_name + 8, MOST_NAME_BYTES)),
        )

    def column(self, field: int) -> NDArray[np.int64]:
        """One field of all tags, as a view: what is written to it, the decoder reads."""
        return self._entries[: len(self), field >> 3]

    def counts(self) -> NDArray[np.int64]:
        """How many values of each tag were no scalars, by FORM_ code, as a view of shape [tags, forms]."""
        return self._entries[: len(self), COUNTS >> 3 : (COUNTS >> 3) + layout.FORM_CODES]

    def read_names(self) -> None:
        """Bring ``names`` up to date."""
        known = len(self.names)
        if known == len(self):
            return
        places = self._entries[known : len(self), NAME >> 3 : (NAME_LENGTH >> 3) + 1].tolist()
        first = places[0][0]
        new = self._name_bytes[first : self._job[layout.NAMES_USED]].tobytes()
        for begin, length in places:
            name = new[begin - first : begin - first + length]
            self._raw_names.append(name)
            # A tag that is not UTF-8 shows its odd bytes as \xff, and stays apart from any other.
            self.names.append(name.decode("utf-8", errors="backslashreplace"))

    def take_piece(self) -> tuple[str, ...]:
        """The tags that have rows in this piece, in the order of their codes; the next piece counts anew."""
        self.read_names()
        codes = self.column(PIECE_CODE)
        # Those that have none come first, with the code -1.
        ordered = np.argsort(codes)[len(codes) - self._job[layout.PIECE_TAGS] :].tolist()
        codes[:] = -1
        self._job[layout.PIECE_TAGS] = 0
        return tuple(map(self.names.__getitem__, ordered))

    def take_counts(self) -> dict[str, int]:
        """Values that were no scalars since the last call, as "histogram: weights" and how many."""
        counts = self.counts()
        taken: dict[str, int] = {}
        if not counts.any():
            return taken
        self.read_names()
        for number, form in np.argwhere(counts):
            kind = layout.FORM_NAMES.get(int(form)) or self.plugins.get(int(number), "unnamed plugin")
            name = f"{kind}: {self.names[number]}"
            taken[name] = taken.get(name, 0) + int(counts[number, form])
        counts[:] = 0
        return taken

    def state(self) -> dict[str, Any]:
        """The table as plain data."""
        self.read_names()
        return {
            # Bytes that are not UTF-8 are kept in hexadecimal, since text could not hold them.
            "tags": [_as_plain_data(name) for name in self._raw_names],
            "forms": self.column(FORM).tolist(),
            "last_steps": self.column(LAST_STEP).tolist(),
            "last_segments": self.column(LAST_SEGMENT).tolist(),
            "noted": np.flatnonzero(self.column(NOTED)).tolist(),
            "plugins": {str(number): name for number, name in self.plugins.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Fill the empty table from what :meth:`state` gave."""
        names = [bytes.fromhex(name["hex"]) if isinstance(name, dict) else name.encode() for name in state["tags"]]
        padded = [name + bytes(-len(name) % 8) for name in names]
        joined = b"".join(padded)
        count = len(names)
        self.make_room(max(_FEWEST_TAGS, 2 * count), max(_FEWEST_TAGS * _NAME_BYTES_A_TAG, 2 * len(joined)))
        self._name_bytes[: len(joined)] = np.frombuffer(joined, np.uint8)
        self._job[layout.TAG_COUNT] = count
        self._job[layout.NAMES_USED] = len(joined)
        lengths = np.array([len(name) for name in padded], np.int64)
        self.column(NAME)[:] = np.cumsum(lengths) - lengths
        self.column(NAME_LENGTH)[:] = [len(name) for name in names]
        self.column(FORM)[:] = state["forms"]
        self.column(LAST_STEP)[:] = state["last_steps"]
        self.column(LAST_SEGMENT)[:] = state["last_segments"]
        self.column(PIECE_CODE)[:] = -1
        self.column(NOTED)[state["noted"]] = 1
        self.plugins = {int(number): str(name) for number, name in state["plugins"].items()}


def _as_plain_data(name: bytes) -> str | dict[str, str]:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return {"hex": name.hex()}
