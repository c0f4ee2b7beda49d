"""What stands in an entry: its sentences and pasted code as drafts, its launches, its log lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from replay_parsers.chronicles import pasted
from replay_parsers.chronicles.clauses import sentences
from replay_parsers.chronicles.clock import Launch, epochs, launches, without_launches
from replay_parsers.chronicles.dates import PrintedTime
from replay_parsers.chronicles.drafts import Draft, add_to, is_addition
from replay_parsers.chronicles.markdown import Block, BlockKind, Section
from replay_parsers.chronicles.mood import announces_plans
from replay_parsers.chronicles.musing import is_quoted
from replay_parsers.chronicles.passages import Passage
from replay_parsers.chronicles.reading import read_sentence
from replay_parsers.records import EventKind, Role
from replay_parsers.trainers.megatron import LoggedRecord

# A record of curves that is named after the step at which something was seen.
_CURVES = re.compile(
    r"\b(?:tensorboard|tb|wandb)\b[^:：]{0,20}[:：]\s?(?P<name>[\w.-]{1,80})-(?P<step>\d{3,12})(?![\w.:-])",
    re.IGNORECASE,
)
_CHECKPOINT_NAME = re.compile(r"^\W*global[_ ]?step(?P<step>\d{1,12})\w{0,40}\W*$", re.IGNORECASE)
_LABEL = re.compile(r"^\W*(?:config(?:uration)? file|script|logs?|tensorboard|配置文件)\W*$", re.IGNORECASE)
_SETTING = re.compile(
    r"^\W*(?:nodes|gpus|seed|layers|hidden size|batch size|model|hardware|"
    r"data)\s?[:：=]\s?`?[\w.,x -]{1,30}`?\W*$",
    re.IGNORECASE,
)
_DISCARDED = re.compile(r"[\W_]*(?:\(?(?:abolished|removed|dropped|废除|移除)\)?)?[\W_]*", re.IGNORECASE)
_MOST_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What belongs to one launch within an entry: drafts, the launch itself, the step in a curve record's name."""

    drafts: tuple[Draft, ...] = ()
    launch: Launch | None = None
    curve_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry: its heading as printed, the time in it if any, and its parts in the order told.

    ``label`` ends the ids of its incidents; ``group`` is the list of entries that it stands in; ``began`` are the
    beginnings of event files named in it, in UTC; ``likely`` is the time that it probably means, without zone, where
    the print cannot be right; ``logged`` are the log records pasted into it; ``spoken`` marks what
    is said bit by bit.
    """

    heading: str
    label: str
    line: int
    printed: PrintedTime | None
    parts: tuple[Part, ...]
    group: int = 0
    began: tuple[datetime, ...] = ()
    likely: datetime | None = None
    logged: tuple[LoggedRecord, ...] = ()
    spoken: bool = False

    @property
    def local(self) -> datetime | None:
        """The entry's time without zone: the likely one where there is one, else as printed."""
        return self.likely or (self.printed.local if self.printed else None)

    @property
    def timed(self) -> bool:
        """Whether an hour is printed."""
        return self.printed is not None and self.printed.hour is not None

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
    left: int = 0
    examples: list[str] = field(default_factory=list)
    other: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, number: int = 1) -> None:
        """Note something that was recognised but is no event."""
        if number:
            self.other[name] = self.other.get(name, 0) + number

    def sentence(self, text: str, line: int, *, understood: bool) -> None:
        """Note one sentence."""
        if understood:
            self.understood += 1
            return
        self.left += 1
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(f"line {line}: {text}"[:160])


@dataclass(slots=True)
class _Part:
    """A part while it is read."""

    drafts: list[Draft] = field(default_factory=list)
    launch: Launch | None = None
    curve_step: int | None = None

    def done(self) -> Part:
        return Part(drafts=tuple(self.drafts), launch=self.launch, curve_step=self.curve_step)


@dataclass(slots=True)
class _Reader:
    """An entry while its blocks are read."""

    tally: Tally
    careful: bool
    own: str = ""
    relaunches: bool = True
    planned: bool = False
    parts: list[_Part] = field(default_factory=lambda: [_Part()])
    began: list[datetime] = field(default_factory=list)
    logged: list[LoggedRecord] = field(default_factory=list)
    _below_heading: bool = False

    def add(self, drafts: list[Draft]) -> None:
        if any(is_addition(draft) for draft in drafts):
            drafts = [draft for draft in drafts if not is_addition(draft) or not add_to(self.parts[-1].drafts, draft)]
            drafts = [draft for draft in drafts if not is_addition(draft)]
        if self.parts[-1].launch and drafts:
            self.parts.append(_Part())
        self.parts[-1].drafts.extend(drafts)

    def launch(self, launch: Launch) -> None:
        if self.parts[-1].launch:
            self.parts.append(_Part())
        self.parts[-1].launch = launch

    def block(self, block: Block) -> None:
        if block.kind is BlockKind.HEADING or block.kind is BlockKind.PARAGRAPH:
            # What stands below "Next steps" is still to be done, up to the next heading or paragraph.
            self.planned = announces_plans(block.text) or (self._below_heading and block.kind is BlockKind.PARAGRAPH)
            self._below_heading = self.planned and (self._below_heading or block.kind is BlockKind.HEADING)
        if block.kind is BlockKind.CODE:
            self._code(block)
        elif block.kind is BlockKind.QUOTE and self.careful:
            # What others are quoted to have said is advice, not what was done.
            for sentence in sentences(block.text):
                self.tally.sentence(sentence, block.line, understood=False)
        else:
            for sentence in sentences(block.text):
                self._sentence(sentence, block.line)

    def _code(self, block: Block) -> None:
        code = pasted.read_code(block)
        self.logged.extend(code.records)
        self.tally.count("log line", len(code.records))
        self.tally.count("edit or setting", len(code.drafts))
        self.tally.count("line of other code", code.other)
        self.add(list(code.drafts))

    def _sentence(self, sentence: str, line: int) -> None:
        named, files = launches(sentence), epochs(sentence)
        rest = without_launches(sentence) if named or files else sentence
        self.began.extend(files)
        self.tally.count("launch name", len(named))
        self.tally.count("event file", len(files))
        if curve := _CURVES.search(rest):
            self.parts[-1].curve_step = int(curve["step"])
            self.tally.count("curve record")
            rest = rest.replace(curve[0], " ")
        for launch in named:
            self.launch(launch)
        if (named or files or curve) and _DISCARDED.fullmatch(rest):
            return
        if saved := _CHECKPOINT_NAME.match(rest):
            detail = {"checkpoint": rest.strip(" `*-")}
            self.add([Draft(kind=EventKind.CHECKPOINT_SAVE, step=int(saved["step"]), detail=detail, line=line)])
            self.tally.sentence(sentence, line, understood=True)
        elif _LABEL.match(rest):
            self.tally.count("file name")
        elif _SETTING.match(rest):
            self.tally.count("setting")
        elif re.search(r"\w{2}|[\u4e00-\u9fff]", rest):
            drafts = self._read(rest, line)
            self.tally.sentence(sentence, line, understood=bool(drafts))
            self.add(drafts)

    def _read(self, sentence: str, line: int) -> list[Draft]:
        drafts = read_sentence(
            sentence, line=line, careful=self.careful, planned=self.planned, relaunches=self.relaunches, own=self.own
        )
        if not self.careful:
            return drafts
        if is_quoted(sentence):
            return []
        if re.fullmatch(r"(?:[A-Z][A-Z0-9_]+=[\w.+-]+\s?)+", sentence):
            # A line of settings says how things are: a change only against what was said before.
            return [replace(draft, onset=True) for draft in drafts]
        return drafts


def read_entry(
    passage: Passage, tally: Tally, *, careful: bool = False, relaunches: bool = True, own: str = ""
) -> Entry:
    """Read one entry.  ``careful`` is for books that discuss much: quotations and musings are left out.
    ``relaunches`` says that settings which hold "from step N" were set by starting anew from there; ``own`` is the
    book's title, by which models of others are told from its own.
    """
    below = announces_plans(passage.title)
    reader = _Reader(tally, careful, own, relaunches, planned=below, _below_heading=below)
    if passage.title:
        drafts = read_sentence(passage.title, line=passage.line, heading=True, relaunches=relaunches, own=own)
        if passage.printed is not None:
            tally.sentence(passage.title, passage.line, understood=bool(drafts))
        reader.add(drafts)
    for block in passage.blocks:
        reader.block(block)
    return Entry(
        heading=passage.heading,
        label=passage.label,
        line=passage.line,
        printed=passage.printed,
        parts=tuple(part.done() for part in reader.parts),
        group=passage.group,
        began=tuple(reader.began),
        logged=tuple(reader.logged),
        spoken=passage.spoken,
    )


def tells_trouble(section: Section) -> bool:
    """Whether a section tells, outside its musings, of a symptom, a cause or something done."""
    return any(
        draft.role is not Role.OUTCOME
        for block in section.blocks
        if block.kind in (BlockKind.PARAGRAPH, BlockKind.BULLET)
        for sentence in sentences(block.text)
        for draft in read_sentence(sentence, line=block.line, careful=True)
    )
