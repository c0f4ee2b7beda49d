"""Where the entries of a logbook begin: at dated headings, dated or timed bullets, paragraphs and table rows, and at
headings of experiments that carry no date."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from replay_parsers.chronicles import dates, relative, transcripts
from replay_parsers.chronicles.beginnings import at_start, is_labelled, is_number
from replay_parsers.chronicles.dates import PrintedTime
from replay_parsers.chronicles.dating import Order, order, with_years
from replay_parsers.chronicles.markdown import Block, BlockKind, Document, Section
from replay_parsers.chronicles.passages import Passage
from replay_parsers.chronicles.tables import dated_row

_EXPERIMENT = re.compile(
    r"\b(?:exp(?:eriment)?|run|attempt|trial|round|phase|try|restart|incident|实验|"
    r"第)\s?#?[\w.-]{0,12}\d[\w.]*\b|^\W*main[- ]\w+$|"
    r"第\s?\d+\s?次",
    re.IGNORECASE,
)
_EXPERIMENT_AT_END = re.compile(r"\bexperiment\W*$", re.IGNORECASE)
_SEVERAL = re.compile(r"\bexp\w*s\b|\b\d+-\d+\b|summary|future|set \d", re.IGNORECASE)
_SLUG_LENGTH = 100
_PUNCTUATION = r"[\s\W_]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The entries of a document in their order, and the sections that belong to none."""

    passages: tuple[Passage, ...]
    others: tuple[Section, ...]
    order: Order = field(default_factory=Order)


def slug(heading: str) -> str:
    """The heading as the end of an id: small letters and digits of any script, joined by ``-``.

    >>> slug("CL Experiment 3"), slug("重启 #2")
    ('cl-experiment-3', '重启-2')
    """
    return re.sub(r"[\W_]+", "-", heading.lower()).strip("-")[:_SLUG_LENGTH].strip("-") or "untitled"


def names_experiment(heading: str) -> bool:
    """Whether a heading names one experiment or attempt ("Experiment 7", "第 3 次实验"), not several or future ones."""
    if _SEVERAL.search(heading):
        return False
    return bool(_EXPERIMENT.search(heading) or _EXPERIMENT_AT_END.search(heading))


def outline(
    document: Document, *, undated: Callable[[Section], bool] = lambda _: False, bullets: bool = True
) -> Outline:
    """Find the entries of ``document``.

    ``undated`` says which sections without a date are entries too; ``bullets`` also takes bullets, paragraphs and
    table rows that begin with a date or, under a dated heading, with a time.
    """
    notation = order(document)
    finder = _Finder(
        undated=undated,
        bullets=bullets,
        day_first=notation.day_first,
        title=_title(document),
        cover=_cover(document) if bullets else None,
        spoken=bullets and transcripts.is_transcript(document),
    )
    for section in document.sections:
        finder.section(section)
    if (
        bullets
        and (day := _day_of(document))
        and (not finder.passages or _counts_from_a_moment(document, finder.passages))
    ):
        return Outline(passages=tuple(relative.passages(document, *day)), others=(), order=notation)
    passages = with_years(finder.finished(), document)
    return Outline(passages=tuple(passages), others=tuple(finder.others), order=notation)


def _counts_from_a_moment(document: Document, passages: Sequence[Passage]) -> bool:
    """Whether a book of one day counts its times from a moment, rather than keeping a diary."""
    days = {passage.printed.key[:10] for passage in passages if passage.printed is not None}
    return len(days) <= 2 and relative.is_told_from_a_moment(document)


def _day_of(document: Document) -> tuple[Section, PrintedTime] | None:
    """The title and the date of a book of one day: a date in the title or in a line "Date: ..." dates all of it."""
    title = next((section for section in document.sections if section.level), None)
    lines = [block.text for section in document.sections for block in section.blocks[:3]]
    labelled = (at_start(text, bare=True) for text in lines[:12] if is_labelled(text))
    printed = next((time for time in labelled if time is not None and time.day is not None), None)
    if printed is None and title is not None:
        printed = dates.find(title.heading)
    if title is None or printed is None or printed.day is None or printed.year is None:
        return None
    return title, printed


def _cover(document: Document) -> Section | None:
    """The only heading of a book whose entries are dated lines: "Run 13 / Logbook" names the book, no experiment."""
    headed = [section for section in document.sections if section.level]
    if len(headed) != 1:
        return None
    dated = sum(
        at_start(cell) is not None for block in headed[0].blocks for cell in block.text.strip("| ").split(" | ")[:4]
    )
    return headed[0] if dated >= 2 else None


def _title(document: Document) -> Section | None:
    """The document's title: the only heading of the highest level, where deeper ones bear dates."""
    headed = [section for section in document.sections if section.level]
    highest = min((section.level for section in headed), default=0)
    top = [section for section in headed if section.level == highest]
    deeper = any(at_start(section.heading, bare=True) for section in headed if section.level > highest)
    return top[0] if len(top) == 1 and top[0] is headed[0] and deeper else None


@dataclass(slots=True, kw_only=True)
class _Finder:
    """One pass over the sections: the open entry, and the day that timed bullets belong to."""

    undated: Callable[[Section], bool]
    bullets: bool
    day_first: bool
    title: Section | None = None
    cover: Section | None = None
    spoken: bool = False
    passages: list[Passage] = field(default_factory=list)
    others: list[Section] = field(default_factory=list)
    _sections: int = 0
    _level: int = 0
    _open: bool = False
    _day: PrintedTime | None = None
    _texts: list[list[Block]] = field(default_factory=list)

    def finished(self) -> list[Passage]:
        """The passages with what stands below them."""
        return [replace(passage, blocks=tuple(text)) for passage, text in zip(self.passages, self._texts, strict=True)]

    def section(self, section: Section) -> None:
        self._sections += 1
        printed = self._heading_date(section)
        if printed is None and self._day is not None and section.level > self._level:
            printed = self._timed(section.heading)
        if printed is not None:
            title = _without(section.heading, printed)
            self._begin(section.heading, title, printed.key, section.line, printed, section.level)
        elif section.level and self._own(section):
            self._day = None
            self._begin(section.heading, section.heading, slug(section.heading), section.line, None, section.level)
        elif self._belongs(section):
            # A heading below an entry's own is part of what the entry says.
            self._extend([Block(kind=BlockKind.HEADING, text=section.heading, line=section.line)])
        else:
            self._open = False
            self._day = None
            self.others.append(Section(heading=section.heading, level=section.level, line=section.line))
        self._blocks(section.blocks)

    def _heading_date(self, section: Section) -> PrintedTime | None:
        if not section.level or section is self.title:
            return None
        printed = at_start(section.heading, bare=True, day_first=self.day_first)
        if printed is None:
            anywhere = dates.find(section.heading, day_first=self.day_first)
            # "Experiment 12 - November 11, 2021": a date at the end dates the heading as well.
            if anywhere and anywhere.day is not None and re.fullmatch(_PUNCTUATION, section.heading[anywhere.end :]):
                printed = anywhere
        # "## May 2022" heads the days below it.
        return printed if printed is None or printed.day is not None or self._month(section, printed) else None

    def _month(self, section: Section, printed: PrintedTime) -> bool:
        return bool(section.blocks) and printed.year is not None

    def _own(self, section: Section) -> bool:
        """Whether an undated section is an entry of its own: not within a dated one, nor within an experiment."""
        within = self._belongs(section) and self._level > 1
        return not within and section is not self.cover and self.undated(section)

    def _belongs(self, section: Section) -> bool:
        return self._open and section.level > self._level and self.passages[-1].line != section.line

    def _begin(self, heading: str, title: str, label: str, line: int, printed: PrintedTime | None, level: int) -> None:
        # Headings of one level are one list, bullets and rows of one section another.
        group = -level if level else self._sections
        spoken = self.spoken and not level and printed is not None and printed.hour is not None
        passage = Passage(
            heading=heading, title=title, label=label, line=line, printed=printed, group=group, spoken=spoken
        )
        self.passages.append(passage)
        self._texts.append([])
        self._open = True
        if level:
            self._level = level
        # A line that is nothing but a date heads the hours below it.
        day = printed is not None and printed.day is not None and printed.hour is None
        if level or (self.bullets and day and not title):
            self._day = printed if printed is not None and printed.day is not None else None

    def _extend(self, blocks: Iterable[Block]) -> None:
        self._texts[-1].extend(blocks)

    def _blocks(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if self.bullets and block.kind is BlockKind.TABLE:
                block = dated_row(block, day_first=self.day_first)
            printed = self._block_time(block) if self.bullets else None
            if printed is not None:
                heading = block.text if len(block.text) <= 80 else block.text[:77] + "..."
                title = _without(block.text, printed)
                day = self._day
                self._begin(heading, "", printed.key, block.line, printed, 0)
                if title:
                    self._day = day
                said = transcripts.without_speaker(title) if self.spoken else title
                self._extend([replace(block, text=said)] if said else [])
            elif self._open:
                self._extend([block])
            elif self.others:
                self.others[-1].blocks.append(block)
            else:
                self.others.append(Section(heading="", level=0, line=block.line, blocks=[block]))

    def _block_time(self, block: Block) -> PrintedTime | None:
        """The time at which a block begins an entry of its own."""
        if block.kind not in (BlockKind.BULLET, BlockKind.PARAGRAPH, BlockKind.TABLE):
            return None
        text = block.text.lstrip("| ")
        shift = len(block.text) - len(text)
        printed = at_start(text, day_first=self.day_first) or self._timed(text)
        if printed is None or printed.day is None:
            return None
        rest = text[printed.end :].strip(" |:：-–—")
        # A date alone, or one within running text ("2022-05-06 was a Friday"), begins no entry by itself.
        if (
            block.kind is BlockKind.PARAGRAPH
            and printed.hour is None
            and not re.match(r"\s*(?:[-–—:：|,，(（\[\]]|$|[A-Z\u4e00-\u9fff])", text[printed.end :])
        ):
            return None
        if not rest and block.kind is BlockKind.TABLE:
            return None
        return replace(printed, start=printed.start + shift, end=printed.end + shift)

    def _timed(self, text: str) -> PrintedTime | None:
        """A time of day at the beginning of ``text``, on the day of the entry's heading."""
        if self._day is None:
            return None
        shift = transcripts.speaker(text) if self.spoken else 0
        found = dates.time_at_start(text[shift:])
        if found is None:
            return None
        hour, minute, second, end, zone = found
        end += shift
        printed = replace(
            self._day, hour=hour, minute=minute, second=second, start=0, end=end, zone=zone or self._day.zone
        )
        return self._after_midnight(printed)

    def _after_midnight(self, printed: PrintedTime) -> PrintedTime:
        """Times that fall back by more than half a day under one heading are those of the day after."""
        previous = next((passage.printed for passage in reversed(self.passages) if passage.printed is not None), None)
        then, now = (previous.local if previous and previous.hour is not None else None), printed.local
        if then is None or now is None or not timedelta(hours=12) < then - now < timedelta(hours=24):
            return printed
        later = now + timedelta(days=1)
        return replace(printed, year=later.year, month=later.month, day=later.day)


_WEEKDAY = re.compile(
    r"(?:(?:day|week|d|w)\s?\d{1,4}[\W_]*)?(?:\w{3,6}day|mon|tue|wed|thu|fri|sat|sun|(?:周|星期).)[\W_]*", re.IGNORECASE
)
# The end of a span of time: "10:05–11:30 maintenance", and a weekday behind the date.
_STANDSTILL = re.compile(r"\b(?:down(?:time)?|outage|maintenance|offline|unavailable)\b|停机|维护", re.IGNORECASE)
_UNTIL = re.compile(
    r"^\s?[-–—~]\s?(?P<hour>\d{1,2})[:：](?P<minute>\d\d)\b|^\s?\((?:mon|tue|wed|thu|fri|sat|sun)\w{0,6}\)",
    re.IGNORECASE,
)


def _without(text: str, printed: PrintedTime) -> str:
    """``text`` without the printed time and the punctuation around it."""
    ahead = text[: printed.start].strip(" #*_[(-–—")
    until = _UNTIL.match(text[printed.end :])
    behind = text[printed.end + (until.end() if until else 0) :]
    if until and until["hour"] and printed.hour is not None and _STANDSTILL.search(behind):
        # "01:20-03:00 down: ..." tells how long in its own way.
        lasted = (int(until["hour"]) * 60 + int(until["minute"]) - printed.hour * 60 - (printed.minute or 0)) % (
            24 * 60
        )
        behind += f"\nDowntime {lasted} min"
    rest = behind if not ahead or _WEEKDAY.fullmatch(ahead) or is_number(ahead) else f"{ahead} {behind}"
    return rest.lstrip(" -–—:：|)]】*_,，").rstrip(" |")
