"""The stretch of a file that is in memory, sliding forward over plain, gzip'd and piped files alike."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import Any, BinaryIO

import numpy as np

from replay_parsers.tensorboard import spare
from replay_parsers.tensorboard.buffers import address_of
from replay_parsers.tensorboard.layout import PADDING

READ_BYTES = 1 << 20
"""Bytes read at a time: they stay in the processor's cache until they are decoded."""


class Window:
    """Bytes ``begin``..``filled`` (addresses) of a file, ``offset`` being the file offset of ``begin``.

    ``failure`` tells why reading stopped before the end of the file, "" if it did not: a gzip stream that is cut
    off or damaged, a disk that fails.  What came before is kept.
    """

    def __init__(self, stream: BinaryIO, start: int, expected: int) -> None:
        """Open the window at ``start``; ``expected`` is how many bytes follow, as far as is known."""
        self._stream = stream
        self._pieces = isinstance(stream, gzip.GzipFile)
        self._memory = np.zeros(0, np.uint8)
        self._address = 0
        self.failure = ""
        self.cut_off = False
        self.offset = start
        self._count = 0
        self._at_end = False
        self._reserve(max(4096, min(READ_BYTES, expected + 1)))
        self._go_to(start)

    @property
    def begin(self) -> int:
        """Address of the first byte in memory."""
        return self._address

    @property
    def filled(self) -> int:
        """Address just past the last byte in memory."""
        return self._address + self._count

    @property
    def end_offset(self) -> int:
        """File offset just past the last byte in memory."""
        return self.offset + self._count

    @property
    def seekable(self) -> bool:
        """Whether an earlier place can be read again."""
        return self._stream.seekable()

    def offset_of(self, address: int) -> int:
        """The file offset of a byte in memory."""
        return self.offset + address - self._address

    def bytes_between(self, begin: int, end: int) -> bytes:
        """The bytes between two addresses."""
        return self._memory[begin - self._address : end - self._address].tobytes()

    def view_between(self, begin: int, end: int) -> memoryview:
        """The same without a copy; it holds until the window moves."""
        return self._memory.data[begin - self._address : end - self._address]

    def _reserve(self, capacity: int) -> None:
        memory = spare.borrow(capacity + PADDING)
        memory[: self._count] = self._memory[: self._count]
        spare.give_back(self._memory)
        self._memory = memory
        self._address = address_of(memory)

    def close(self) -> None:
        """Hand the memory on, once nothing in it is needed any more."""
        spare.give_back(self._memory)

    def _go_to(self, offset: int) -> None:
        if offset == 0:
            return
        passed = 0
        try:
            if self._stream.seekable():
                passed = self._stream.seek(offset)
                if not self._pieces:  # a plain file can be sought past its end, a compressed one cannot
                    passed = min(passed, os.fstat(self._stream.fileno()).st_size)
            else:
                while passed < offset and (piece := self._stream.read(min(offset - passed, READ_BYTES))):
                    passed += len(piece)
        except (EOFError, zlib.error, OSError) as error:
            self._fail(error)
            return
        if passed < offset:
            self._at_end = True
            self.failure = (
                f"the file has only {passed} bytes, fewer than the {offset} that were read before: "
                "it was replaced or cut, and is to be read from its beginning"
            )

    def restart(self, offset: int) -> None:
        """Read again from ``offset``, which lies behind; only where :attr:`seekable`."""
        self.offset = offset
        self._count = 0
        self._at_end = False
        self._go_to(offset)

    def slide(self, keep_from: int, wanted: int = 0) -> bool:
        """Forget what lies before the address ``keep_from`` and read on; False when there is nothing more.

        ``wanted`` bytes from there on are to have room.  Addresses change.
        """
        kept = self.filled - keep_from
        memory = self._memory
        if keep_from > self._address:
            self.offset += keep_from - self._address
            position = keep_from - self._address
            memory[:kept] = memory[position : position + kept]
            self._count = kept
        room = len(memory) - PADDING
        if max(wanted, kept + 1) > room:
            self._reserve(max(wanted, min(2 * room, READ_BYTES + kept)))
        got = self._read()
        self._count += got
        return got > 0

    def _read(self) -> int:
        if self._at_end:
            return 0
        room = min(READ_BYTES, len(self._memory) - PADDING - self._count)
        target = self._memory.data[self._count : self._count + room]
        got = 0
        try:
            while got < room:
                count = self._read_some(target[got:])
                if not count:
                    self._at_end = True
                    break
                got += count
        except (EOFError, zlib.error, OSError) as error:
            self._fail(error)
        return got

    def _read_some(self, target: memoryview) -> int:
        stream: Any = self._stream
        if not self._pieces:
            return int(stream.readinto(target))
        # Decompressed bytes that come together with an error would be lost by a longer read.
        data = stream.read1(len(target))
        target[: len(data)] = data
        return len(data)

    def _fail(self, error: Exception) -> None:
        self._at_end = True
        self.cut_off = isinstance(error, EOFError)
        if self.cut_off:
            self.failure = "the gzip stream is cut off; what came before was kept"
        elif isinstance(error, (zlib.error, gzip.BadGzipFile)):
            self.failure = f"the gzip stream is damaged ({error}); what came before was kept"
        else:
            self.failure = f"the file cannot be read further ({error}); what came before was kept"
