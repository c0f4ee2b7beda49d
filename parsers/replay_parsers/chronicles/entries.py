"""Dated entries of a logbook: what stands under each, sentence by sentence, and what was not understood."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from replay_parsers.chronicles import dates
from replay_parsers.chronicles.clauses import sentences
from replay_parsers.chronicles.clock import EVENT_FILE, LAUNCH, Launch, epochs, launches
from replay_parsers.chronicles.dates import PrintedTime
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.markdown import BlockKind, Document, Section
from replay_parsers.chronicles.reading import read_sentence
from replay_parsers.records import EventKind

# A record of curves that is named after the step at which something was seen.
_CURVES = re.compile(
    r"\b(?:tensorboard|tb|wandb)\b[^:：]{0,20}[:：]\s*(?P<name>[\w.]+(?:-[\w.]+)*?)-(?P<step>\d{3,})(?![\w.:-])",
    re.IGNORECASE,
)
_CHECKPOINT_NAME = re.compile(r"^\W*global[_ ]?step(?P<step>\d+)\w*\W*$", re.IGNORECASE)
_BY_THE_WAY = re.compile(r"^\W*(?:PS|P\.S\.|note|NB)\b", re.IGNORECASE)
_LABEL = re.compile(r"^\W*(?:config(?:uration)? file|配置文件)\W*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What belongs to one launch within an entry: drafts, the launch itself, the step in a curve record's name."""

    drafts: tuple[Draft, ...] = ()
    launch: Launch | None = None
    curve_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One dated entry: its heading as printed, the time in it, and its parts in the order told.

    ``likely`` is the time that it probably means, without zone, where the print cannot be right.
    """

    heading: str
    line: int
    printed: PrintedTime
    parts: tuple[Part, ...]
    began: tuple[datetime, ...] = ()
    likely: datetime | None = None

    @property
    def local(self) -> datetime | None:
        """The entry's time without zone: the likely one where there is one, else as printed."""
        return self.likely or self.printed.local

    @property
    def drafts(self) -> list[Draft]:
        """The drafts of all parts."""
        return [draft for part in self.parts for draft in part.drafts]

    @property
    def launches(self) -> list[Launch]:
        """The launches of all parts."""
        return [part.launch for part in self.parts if part.launch]


@dataclass(slots=True)
class Tally:
    """How many sentences were understood, and what the others were."""

    understood: int = 0
    left: list[str] = field(default_factory=list)
    other: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, number: int = 1) -> None:
        """Note something that was recognised but is no event."""
        if number:
            self.other[name] = self.other.get(name, 0) + number

    def sentence(self, text: str, understood: bool) -> None:
        """Note one sentence."""
        if understood:
            self.understood += 1
        else:
            self.left.append(text if len(text) <= 160 else text[:157] + "...")


@dataclass(slots=True)
class _Entry:
    """An entry while its blocks are read."""

    parts: list[Part] = field(default_factory=lambda: [Part()])
    began: list[datetime] = field(default_factory=list)

    def add(self, drafts: list[Draft]) -> None:
        moves = {EventKind.RESTART, EventKind.ROLLBACK}
        if self.parts[-1].launch and any(draft.kind in moves for draft in drafts):
            self.parts.append(Part())
        self.parts[-1] = replace(self.parts[-1], drafts=(*self.parts[-1].drafts, *drafts))

    def launch(self, launch: Launch) -> None:
        if self.parts[-1].launch:
            self.parts.append(Part())
        self.parts[-1] = replace(self.parts[-1], launch=launch)

    def curve(self, step: int) -> None:
        self.parts[-1] = replace(self.parts[-1], curve_step=step)


def dated(section: Section, *, bare: bool = False) -> PrintedTime | None:
    """The time at the beginning of a section's heading, None when it has none there."""
    printed = dates.find(section.heading, bare=bare)
    return printed if printed and re.fullmatch(r"[\W_]*", section.heading[: printed.start]) else None


def read_entries(
    document: Document, tally: Tally, *, when: Callable[[Section], PrintedTime | None] = dated
) -> list[Entry]:
    """The dated entries of ``document`` in their order.  Sections without a date are counted, not read."""
    entries = []
    for section in document.sections:
        printed = when(section)
        if printed is None:
            continue
        entries.append(_read_entry(section, printed, tally))
    return entries


def _read_entry(section: Section, printed: PrintedTime, tally: Tally) -> Entry:
    entry = _Entry()
    title = section.heading[printed.end :].strip(" -–—:：")
    if title:
        drafts = read_sentence(title, line=section.line, heading=True)
        tally.sentence(title, bool(drafts))
        entry.add(drafts)
    for block in section.blocks:
        if block.kind is BlockKind.CODE:
            tally.count("code block")
            continue
        for sentence in sentences(block.text):
            _read_sentence(entry, sentence, block.line, tally)
    return Entry(
        heading=section.heading,
        line=section.line,
        printed=printed,
        parts=tuple(entry.parts),
        began=tuple(entry.began),
    )


def _read_sentence(entry: _Entry, sentence: str, line: int, tally: Tally) -> None:
    named, files = launches(sentence), epochs(sentence)
    curve = _CURVES.search(sentence)
    entry.began.extend(files)
    rest = EVENT_FILE.sub("", LAUNCH.sub("", sentence))
    if curve:
        entry.curve(int(curve["step"]))
        tally.count("curve record")
        rest = rest.replace(curve[0], "")
    tally.count("launch name", len(named))
    tally.count("event file", len(files))
    for launch in named:
        entry.launch(launch)
    if saved := _CHECKPOINT_NAME.match(rest):
        detail = {"checkpoint": rest.strip(" `*")}
        entry.add([Draft(kind=EventKind.CHECKPOINT_SAVE, step=int(saved["step"]), detail=detail, line=line)])
        tally.sentence(sentence, True)
        return
    if _LABEL.match(rest):
        tally.count("file name")
        return
    mark = re.fullmatch(r"[\W_]*(?:\(?(?:abolished|removed|废除|移除)\)?)?[\W_]*", rest, re.IGNORECASE)
    if mark and (named or files or curve):
        return
    if not re.search(r"\w{2}", rest):
        return
    drafts = read_sentence(rest, line=line)
    tally.sentence(sentence, bool(drafts))
    entry.add(drafts)
