"""A walk through a markdown logbook: headings, paragraphs, bullets, quotes, tables and code, with line numbers.

Logbooks are written by hand, exported by note-taking tools and read while they are being written, so the walk
takes what comes: any line ending, a byte-order mark, encodings other than UTF-8, code fences that are never
closed, files that end in the middle of a character.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from replay_parsers.chronicles.encoding import MOST_BYTES, Fault, decode

FENCE = re.compile(r"^\s{0,3}(```+|~~~+)\s*([\w+-]*)[^`]*$")
ATX_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
SETEXT_UNDERLINE = re.compile(r"^\s{0,3}(=+|-{3,})\s*$")
BULLET = re.compile(r"^(\s*)(?:[-*+•·]|\d{1,3}[.)、])\s+(.*)$")
QUOTE = re.compile(r"^\s{0,3}>\s?(.*)$")
TABLE_ROW = re.compile(r"^\s*\|.*\|\s*$")
IMAGE = re.compile(
    r"!\[[^\]]{0,300}\]\([^()\s]{0,600}(?:\([^()]{0,100}\)[^()\s]{0,200})?(?:\s[^)]{0,200})?\)|<img\b[^>]{0,600}>",
    re.IGNORECASE,
)
LINK = re.compile(r"\[([^\]]{0,300})\]\([^()\s]{0,2500}(?:\([^()]{0,200}\)[^()\s]{0,200})?(?:\s[^)]{0,200})?\)")
AUTOLINK = re.compile(r"<https?://[^>\s]*>|https?://[^\s)\]>，。；）]+")
HTML_TAG = re.compile(r"</?[A-Za-z][^<>]{0,400}>")
ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|>~])")
EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.{1,400}?)(?<=\S)\1")
TABLE_RULE = re.compile(r"^\s*\|(?:\s*:?-+:?\s*\|)+\s*$")
# A line that begins with a date or an hour begins an entry, whether or not a blank line stands before it.
DATED_LINE = re.compile(
    r"^\s{0,3}[\[(*_]{0,3}(?:20\d\d\s?[-./年]\s?\d{1,2}\b|\d{1,2}[./-]\d{1,2}[./-]20\d\d\b|"
    r"\d{1,2}\s?月\s?\d{1,2}\s?[日号]|\d{1,2}[:：]\d\d\b|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?\s\d{1,2}\b)",
    re.IGNORECASE,
)
# A trainer's record, also where it is pasted without a fence around it.
LOG_LINE = re.compile(r"^\s{0,8}(?:\[[^\]]{1,40}\]\s*)?iteration\s{1,12}\d{1,12}/\s{0,12}\d{1,12}\s\|")
LABELLED_LINE = re.compile(
    r"^\s*[*_]{0,2}(?:[A-Z][A-Za-z]{1,15}(?: [a-z]{1,12}){0,2}|[\u4e00-\u9fff]{2,6})[:：][*_]{0,2}\s"
)
_SHORT_LINE = 60
LINE_END = re.compile(r"\r\n|\n|\r")


class BlockKind(StrEnum):
    """What a block is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    BULLET = "bullet"
    QUOTE = "quote"
    TABLE = "table"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a section, or a heading below an entry's own, which belongs to the entry.

    ``text`` is without markup but with the backticks of code spans; ``line`` counts from 1; ``indent`` is the number of
    columns before a bullet; ``raw`` holds a code block's lines as they are, and of a table's row the names of its
    columns.
    """

    kind: BlockKind
    text: str
    line: int
    indent: int = 0
    raw: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Section:
    """A heading and what stands below it, up to the next heading.  What precedes the first has level 0."""

    heading: str
    level: int
    line: int
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The sections of a logbook in their order, with counts of what was left out on purpose (images, links)."""

    sections: tuple[Section, ...]
    faults: tuple[Fault, ...]
    images: int
    links: int
    size: int

    @property
    def title(self) -> str:
        """The first heading of the highest level, empty when there is none."""
        headed = [section for section in self.sections if section.level]
        if not headed:
            return ""
        top = min(section.level for section in headed)
        return next(section.heading for section in headed if section.level == top)


def plain(text: str) -> str:
    """``text`` without images, link targets, tags, emphasis and escapes; code spans keep their backticks.

    >>> plain(r"**seen** at [the board](http://x) \\[MASK\\]")
    'seen at the board [MASK]'
    """
    pieces = re.split(r"(`+[^`]*`+)", text)
    for index in range(0, len(pieces), 2):
        piece = IMAGE.sub("", pieces[index])
        piece = AUTOLINK.sub("", LINK.sub(r"\1", piece))
        piece = HTML_TAG.sub("", piece)
        piece = EMPHASIS.sub(r"\2", piece)
        pieces[index] = ESCAPE.sub(r"\1", piece)
    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f]", "", re.sub(r"[ \t\u00a0\u3000\ufeff\ufffc]+", " ", "".join(pieces))
    ).strip()


def _joined(lines: Sequence[str]) -> str:
    """Lines of a paragraph as one text: a short line that is followed by a new beginning stands for itself."""
    text = lines[0]
    for previous, line in pairwise(lines):
        short = len(previous) < _SHORT_LINE and not re.search(
            r"[,，、:：(（-]\s*$|\b(?:and|the|a|to|of|or|in)\s*$", previous
        )
        anew = LABELLED_LINE.match(line) or (short and re.match(r"\s*[*_]{0,2}[A-Z`\u4e00-\u9fff]", line))
        text += ("\n" if anew else " ") + line
    return text


class _Walk:
    """The state of one pass over the lines: the open section and the block that lines are added to."""

    def __init__(self) -> None:
        self.sections = [Section(heading="", level=0, line=1)]
        self.faults: list[Fault] = []
        self.images = 0
        self.links = 0
        self._kind: BlockKind | None = None
        self._lines: list[str] = []
        self._start = 0
        self._indent = 0
        self._head: tuple[str, ...] = ()

    def flush(self) -> None:
        if self._kind is not None and self._lines:
            text = plain(_joined(self._lines))
            if text:
                head = self._head if self._kind is BlockKind.TABLE else ()
                block = Block(kind=self._kind, text=text, line=self._start, indent=self._indent, raw=head)
                self.sections[-1].blocks.append(block)
        self._kind, self._lines = None, []

    def begin(self, kind: BlockKind, text: str, line: int, indent: int = 0) -> None:
        self.flush()
        if kind is not BlockKind.TABLE:
            self._head = ()
        self._kind, self._lines, self._start, self._indent = kind, [text], line, indent

    def add(self, kind: BlockKind, text: str, line: int) -> None:
        # A line without a mark of its own carries on the paragraph or bullet above it.
        carries_on = self._kind == kind or (kind is BlockKind.PARAGRAPH and self._kind is BlockKind.BULLET)
        if carries_on and kind is not BlockKind.TABLE:
            self._lines.append(text)
        else:
            self.begin(kind, text, line)

    def open_section(self, heading: str, level: int, line: int) -> None:
        self.flush()
        self.sections.append(Section(heading=plain(heading), level=level, line=line))

    def code(self, lines: list[str], line: int) -> None:
        self.flush()
        block = Block(kind=BlockKind.CODE, text="\n".join(lines), line=line, raw=tuple(lines))
        self.sections[-1].blocks.append(block)

    def paragraph_so_far(self) -> str | None:
        return self._lines[0] if self._kind is BlockKind.PARAGRAPH and len(self._lines) == 1 else None

    def drop_table_head(self) -> None:
        """What stands above a table's rule names its columns."""
        if self._kind is BlockKind.TABLE:
            self._head = tuple(plain(cell) for cell in self._lines[-1].strip().strip("|").split("|"))
            self._kind, self._lines = None, []

    def drop_paragraph(self) -> None:
        self._kind, self._lines = None, []


class _Fences:
    """Where code blocks end.  The lines that could close or break off one are found once for the whole text."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._end = len(lines)
        self._closing: dict[str, list[int]] = {}
        self._headings: list[int] = []
        for index, line in enumerate(lines):
            mark = line.strip()
            if mark[:3] in ("```", "~~~") and not mark.strip(mark[0]):
                # A longer row of marks also closes what a shorter one opened.
                for length in range(3, min(len(mark), _LONGEST_MARK) + 1):
                    self._closing.setdefault(mark[0] * length, []).append(index)
            elif re.match(r"#{2,6}\s+\S", line):
                self._headings.append(index)

    def end(self, start: int, mark: str) -> tuple[int, bool]:
        """The index of the line that closes a fence opened at ``start``, and whether there is one.

        A fence that nothing closes ends before the next heading below the title's level: one forgotten mark must
        not swallow the rest of a logbook, and `# comments` in shell code look like titles.
        """
        closing = self._closing.get(mark[:_LONGEST_MARK], [])
        if (place := bisect_right(closing, start)) < len(closing):
            return closing[place], True
        place = bisect_right(self._headings, start)
        return (self._headings[place] if place < len(self._headings) else self._end), False


_LONGEST_MARK = 12
_LONGEST_LINE = 8_000


def walk(data: bytes) -> Document:
    """Read ``data`` as a markdown logbook.  Never raises for what is in it."""
    text, faults = decode(data[:MOST_BYTES])
    if len(data) > MOST_BYTES:
        lost = len(data) - MOST_BYTES
        faults.append(
            Fault(message="only the first 64 MiB were read; split the file", offset=MOST_BYTES, lost_bytes=lost)
        )
    lines = LINE_END.split(text)
    state = _Walk()
    state.faults.extend(faults)
    fences = _Fences(lines)
    index = 0
    while index < len(lines):
        line, number = lines[index], index + 1
        if len(line) > _LONGEST_LINE:
            state.faults.append(
                Fault(message=f"a line of {len(line):,} characters is no prose; its end was left out", line=number)
            )
            line = line[:_LONGEST_LINE]
        state.images += len(IMAGE.findall(line))
        state.links += len(LINK.findall(IMAGE.sub("", line)))
        if fence := FENCE.match(line):
            end, closed = fences.end(index, fence[1])
            if not closed:
                state.faults.append(
                    Fault(message="a code block is opened and never closed; read up to the next heading", line=number)
                )
            state.code(lines[index + 1 : end], number + 1)
            index = end + 1 if closed else end
            continue
        _read_line(state, line, number)
        index += 1
    state.flush()
    return Document(
        sections=tuple(state.sections),
        faults=tuple(state.faults),
        images=state.images,
        links=state.links,
        size=len(data),
    )


def _read_line(state: _Walk, line: str, number: int) -> None:
    if not line.strip():
        state.flush()
    elif heading := ATX_HEADING.match(line):
        state.open_section(heading[2], len(heading[1]), number)
    elif (underline := SETEXT_UNDERLINE.match(line)) and (above := state.paragraph_so_far()):
        state.drop_paragraph()
        state.open_section(above, 1 if underline[1][0] == "=" else 2, number - 1)
    elif underline:
        state.flush()
    elif bullet := BULLET.match(line):
        state.begin(BlockKind.BULLET, bullet[2], number, len(bullet[1].expandtabs(4)))
    elif quote := QUOTE.match(line):
        state.add(BlockKind.QUOTE, quote[1], number)
    elif TABLE_RULE.match(line):
        state.drop_table_head()
    elif LOG_LINE.match(line):
        state.code([line], number)
    elif DATED_LINE.match(line):
        state.begin(BlockKind.PARAGRAPH, line.strip(), number)
    elif TABLE_ROW.match(line):
        state.add(BlockKind.TABLE, line.strip(), number)
    else:
        state.add(BlockKind.PARAGRAPH, line.strip(), number)
