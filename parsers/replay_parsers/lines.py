"""The shared line reader: a text log of any size, encoding and state of repair, as numbered lines.

Logs are read in blocks of bounded size, so that a 10 GB file takes no more memory than a small one.  What
terminals, schedulers and crashes leave in logs is undone here, once, for every dialect: byte order marks and
UTF-16, ANSI colours, progress bars that overwrite themselves with carriage returns, Windows line ends, NUL
bytes of a crashed file system, bytes that are not UTF-8, and lines without end.

A line that lacks its end of line is handed out too, marked as such: the writer may be half way through it.
Whether it counts is for the dialect to say, which knows what a finished record looks like.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from replay_parsers.files import open_bytes
from replay_parsers.records import Problem, ProblemKind

BLOCK_BYTES = 4 << 20
"""A block holds about as many bytes; one block becomes one piece of records."""

LONGEST_LINE = 1 << 20
"""So many bytes of one line are kept; summaries of several hundred kilobytes do occur."""

_TOO_LONG = f"the line is longer than {LONGEST_LINE:,} bytes; its beginning is kept, the rest passed over"

# Colours and cursor movements, and window titles.  The classes do not overlap: no input makes them backtrack.
_TERMINAL_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

# Ranks as launchers print them: torchrun `[default7]:`, torchtitan `[rank0]:`, srun --label `511: `,
# mpirun `[1,0]<stdout>:`.
_RANK = re.compile(
    r"\s{0,8}(?:"
    r"\[(?:default|rank|Rank |GPU)?(\d{1,6})\]:"
    r"|\[\d{1,4},(\d{1,6})\]<std(?:out|err)>:"
    r"|(\d{1,6}):(?= )"
    r")"
)

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Line(NamedTuple):
    """One line of a log.

    ``number`` counts from 1, by line feeds, as an editor does: what carriage returns overwrote is several lines
    of one number.  ``offset`` and ``end`` (after the end of line) are bytes of the decompressed file.
    ``terminated`` is false for the last line of a file that does not end in an end of line.
    """

    number: int
    offset: int
    end: int
    text: str
    terminated: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """Adjacent lines, the byte offset up to which the file has been read, and the ``state`` to go on from there.

    An unterminated last line lies before ``end``.  A reader that does not want it yet goes on from its
    ``offset`` instead, with the same ``state``.  ``last`` marks the block at the end of the file; it may be empty.
    ``raw`` holds the bytes of a block that was asked for uncut, ``number`` its first line's; :func:`cut` cuts it.
    """

    lines: list[Line]
    end: int
    state: dict[str, Any]
    last: bool = False
    problems: tuple[Problem, ...] = ()
    lost_bytes: int = 0
    raw: bytes = b""
    number: int = 0


def _as_latin1(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are not UTF-8 stay readable as Latin-1, which is what they mostly are."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("replay-latin-1", _as_latin1)


def without_terminal_codes(text: str) -> str:
    """``text`` without colours, cursor movements and NUL characters."""
    if "\x1b" in text:
        text = _TERMINAL_CODES.sub("", text)
    return text.replace("\0", "") if "\0" in text else text


def split_rank(text: str) -> tuple[str, str]:
    """Part a line into the rank that a launcher printed before it ("" for none) and the rest.

    >>> split_rank("[default7]: iteration 5/ 10 |")
    ('7', ' iteration 5/ 10 |')
    """
    if ":" not in text[:24]:
        return "", text
    match = _RANK.match(text)
    if match is None:
        return "", text
    return match[match.lastindex or 0], text[match.end() :]


def read_blocks(
    path: Path, source: str, start: int = 0, state: Mapping[str, Any] | None = None, *, uncut: bool = False
) -> Iterator[Block]:
    """Read ``path`` from byte ``start`` as blocks of lines.

    ``state`` is the state of the block that ended there.  At least one block comes, even of an empty file.
    A gzip stream that breaks off, or is damaged, gives what could be decompressed and a problem.  With ``uncut``,
    blocks of plain whole lines come as bytes, for those who can read them faster than line by line.

    Raises :class:`OSError` when the file cannot be opened or read.
    """
    with open_bytes(path) as stream:
        yield from _Splitter(source, dict(state or {}), start, uncut).blocks(stream)


def part_of(block: Block, begin: int, end: int, number: int) -> Block:
    """Of a block that came uncut, the lines from byte ``begin`` of it to ``end``, the first of them ``number``."""
    return replace(
        block,
        end=block.end - len(block.raw) + end,
        problems=(),
        lost_bytes=0,
        raw=block.raw[begin:end],
        number=number,
    )


def cut(block: Block, source: str) -> Block:
    """The lines of a block that came uncut."""
    splitter = _Splitter(source, {"newlines": block.number - 1, "encoding": "utf-8"}, 0, False)
    lines, _ = splitter.cut(block.raw, block.end - len(block.raw))
    problems, lost = (*block.problems, *splitter.problems), block.lost_bytes + splitter.lost_bytes
    return replace(block, lines=lines, raw=b"", problems=problems, lost_bytes=lost)


class _Splitter:
    """Cuts a byte stream into lines, remembering what crosses from one block to the next."""

    def __init__(self, source: str, state: dict[str, Any], start: int, uncut: bool) -> None:
        self.source = source
        self.start = start
        self.uncut = uncut
        self.newlines = int(state.get("newlines", 0))
        self.encoding: str | None = state.get("encoding")
        # Set while the rest of a line that is too long is being passed over.
        self.passing_over = bool(state.get("passing_over", False))
        # How much of it, and from which byte on, no problem has told yet: that is known where the line ends.
        self.passed_over = int(state.get("passed_over", 0))
        self.passed_from = int(state.get("passed_from", start))
        self.lost_bytes = 0
        self.problems: list[Problem] = []

    def state(self) -> dict[str, Any]:
        state = {"newlines": self.newlines, "encoding": self.encoding, "passing_over": self.passing_over}
        if self.passing_over:
            state |= {"passed_over": self.passed_over, "passed_from": self.passed_from}
        return state

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        self._go_to(stream)
        buffer = b""
        offset = self.start
        zeros_from: int | None = None
        for piece in self._pieces(stream):
            if self.encoding is None and offset == 0:
                piece, offset = self._take_mark(piece)
            if self.uncut and self.encoding == "utf-8" and not self.passing_over and b"\n" in piece:
                # Joined once: what the next block begins with has not been copied to here first.
                end = piece.rfind(b"\n") + 1
                whole = b"".join((buffer, memoryview(piece)[:end]))
                buffer = piece[end:]
                offset += len(whole)
                number = self.newlines + 1
                self.newlines += int(np.count_nonzero(np.frombuffer(whole, np.uint8) == ord("\n")))
                zeros_from = None
                yield replace(self._block([], offset), raw=whole, number=number)
            else:
                buffer += piece
            lines, used = self.cut(buffer, offset)
            buffer = buffer[used:]
            offset += used
            if used:
                zeros_from = None
                yield self._block(lines, offset)
            if buffer and not buffer.strip(b"\0"):
                # Room set aside by a file system: the writer may yet fill it, so it is not the reader's to consume.
                zeros_from = offset if zeros_from is None else zeros_from
                offset += len(buffer)
                buffer = b""
        # The last block always comes: it says how far the file was read and what went wrong at its end.
        lines = []
        if self.passing_over:
            self._pass_over(len(buffer))
            self._tell_passed_over()
        elif buffer:
            self._unterminated(buffer, offset, lines)
        elif zeros_from is not None:
            lines.append(Line(self.newlines + 1, zeros_from, offset, "", terminated=False))
        yield self._block(lines, offset + len(buffer), last=True)

    def _block(self, lines: list[Line], end: int, *, last: bool = False) -> Block:
        block = Block(lines, end, self.state(), last, tuple(self.problems), self.lost_bytes)
        self.problems = []
        self.lost_bytes = 0
        return block

    def _go_to(self, stream: BinaryIO) -> None:
        if self.start and stream.seekable():
            stream.seek(self.start)
        elif self.start:
            left = self.start
            while left and (passed := stream.read(min(left, BLOCK_BYTES))):
                left -= len(passed)

    def _pieces(self, stream: BinaryIO) -> Iterator[bytes]:
        """Read about a block at a time; a broken gzip stream ends early, with a problem."""
        position = self.start
        while True:
            parts: list[bytes] = []
            size = 0
            broken = False
            while size < BLOCK_BYTES:
                try:
                    # read1 hands out what there is before a break, where read would lose it.
                    part = stream.read1(BLOCK_BYTES - size) if hasattr(stream, "read1") else stream.read(4096)
                except EOFError:
                    self._problem(ProblemKind.TRUNCATED, "the gzip stream breaks off", position + size)
                    part, broken = b"", True
                except (gzip.BadGzipFile, zlib.error) as error:
                    self._problem(ProblemKind.CORRUPT, f"the gzip stream is damaged ({error})", position + size)
                    part, broken = b"", True
                if not part:
                    broken = True
                    break
                parts.append(part)
                size += len(part)
            if size:
                position += size
                yield b"".join(parts)
            if broken:
                return

    def _problem(self, kind: ProblemKind, message: str, offset: int, **lost: int) -> None:
        line = self.newlines + 1 if lost else None
        self.problems.append(Problem(source=self.source, kind=kind, message=message, line=line, offset=offset, **lost))

    def _take_mark(self, buffer: bytes) -> tuple[bytes, int]:
        for mark, encoding in _BYTE_ORDER_MARKS:
            if buffer.startswith(mark):
                self.encoding = encoding
                return buffer[len(mark) :], len(mark)
        self.encoding = "utf-8"
        return buffer, 0

    def cut(self, buffer: bytes, offset: int) -> tuple[list[Line], int]:
        """The lines that are whole in ``buffer``, and how many of its bytes they are."""
        lines: list[Line] = []
        used = 0
        if self.encoding is not None and self.encoding.startswith("utf-16"):
            units = np.frombuffer(buffer, "<u2" if self.encoding == "utf-16-le" else ">u2", len(buffer) // 2)
            for feed in np.flatnonzero(units == ord("\n")):
                end = 2 * int(feed) + 2
                narrow = buffer[used : end - 2].decode(self.encoding, "replace").encode("utf-8", "replace")
                self._whole(narrow, offset + used, end - used, lines)
                used = end
        elif (last := buffer.rfind(b"\n")) >= 0:
            for raw in buffer[:last].split(b"\n"):
                self._whole(raw, offset + used, len(raw) + 1, lines)
                used += len(raw) + 1
        if len(buffer) - used > LONGEST_LINE:
            used += self._cut_overlong(buffer[used:], offset + used, lines)
        return lines, used

    def _whole(self, raw: bytes, offset: int, size: int, lines: list[Line]) -> None:
        """Add one terminated line, or what carriage returns made of it; ``size`` includes the end of line."""
        if self.passing_over:
            self._pass_over(size)
            self._tell_passed_over()
            self.passing_over = False
        elif shown := raw.rstrip(b"\r"):
            self._overwritten(shown, offset, offset + size, lines)
        self.newlines += 1

    def _overwritten(self, raw: bytes, offset: int, end: int, lines: list[Line]) -> None:
        """Add what a terminal showed one after the other on a line: mostly one thing."""
        if b"\r" not in raw:
            self._add(raw, offset, end, lines)
            return
        parts = raw.split(b"\r")
        for part in parts[:-1]:
            if part:
                self._add(part, offset, offset + len(part) + 1, lines)
            offset += len(part) + 1
        if parts[-1]:
            self._add(parts[-1], offset, end, lines)

    def _unterminated(self, raw: bytes, offset: int, lines: list[Line]) -> None:
        """Add what stands after the last end of line; what a carriage return closed is whole."""
        if self.encoding is not None and self.encoding.startswith("utf-16"):
            text = raw.decode(self.encoding, "ignore")
            lines.append(Line(self.newlines + 1, offset, offset + len(raw), text, terminated=False))
            return
        closed = raw.rfind(b"\r") + 1
        if closed:
            self._overwritten(raw[: closed - 1], offset, offset + closed, lines)
        if raw[closed:]:
            self._add(raw[closed:], offset + closed, offset + len(raw), lines, terminated=False)

    def _cut_overlong(self, rest: bytes, offset: int, lines: list[Line]) -> int:
        """Deal with a line that does not end within :data:`LONGEST_LINE`; returns the bytes used up.

        A progress bar is one such line, and each of its states a short one.  Of any other the beginning is kept.
        """
        if self.passing_over:
            self._pass_over(len(rest))
            return len(rest)
        zeros = len(rest) - len(rest.lstrip(b"\0"))
        if zeros:
            return zeros if zeros < len(rest) else 0
        # A carriage return at the very end may be half of a Windows line end.
        shown = rest.rfind(b"\r", 0, len(rest) - 1)
        if shown >= 0:
            self._overwritten(rest[:shown], offset, offset + shown + 1, lines)
            return shown + 1
        self._add(rest[:LONGEST_LINE], offset, offset + len(rest), lines)
        self.passing_over = True
        self.passed_from = offset + LONGEST_LINE
        self._pass_over(len(rest) - LONGEST_LINE)
        return len(rest)

    def _pass_over(self, size: int) -> None:
        self.lost_bytes += size
        self.passed_over += size

    def _tell_passed_over(self) -> None:
        """Tell what of a line has been passed over; what is yet to come of it is another's to tell."""
        if self.passed_over:
            self._problem(ProblemKind.NOT_UNDERSTOOD, _TOO_LONG, self.passed_from, lost_bytes=self.passed_over)
        self.passed_from += self.passed_over
        self.passed_over = 0

    def _add(self, raw: bytes, offset: int, end: int, lines: list[Line], *, terminated: bool = True) -> None:
        if raw.startswith(b"\0"):
            # A crashed file system leaves zeros where the writer has gone on: the line begins after them.
            raw = raw.lstrip(b"\0")
        if len(raw) > LONGEST_LINE:
            lost = len(raw) - LONGEST_LINE
            self.lost_bytes += lost
            self._problem(ProblemKind.NOT_UNDERSTOOD, _TOO_LONG, offset + LONGEST_LINE, lost_bytes=lost)
            raw = raw[:LONGEST_LINE]
        text = without_terminal_codes(raw.decode("utf-8", "replay-latin-1"))
        lines.append(Line(self.newlines + 1, offset, end, text, terminated))
