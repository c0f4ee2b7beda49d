"""Books of one trouble that tell time from a moment: "T+2h: rolled back", "two hours later", "the next morning"."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from replay_parsers.chronicles import dates
from replay_parsers.chronicles.beginnings import at_start, is_labelled
from replay_parsers.chronicles.dates import PrintedTime
from replay_parsers.chronicles.markdown import Block, BlockKind, Document, Section
from replay_parsers.chronicles.passages import Passage
from replay_parsers.chronicles.phrases import hours

_I = re.IGNORECASE
_DURATION = (
    r"(?:\d{1,3}(?:\.\d)?\s?(?:d(?:ays?)?|h(?:ours?|rs?)?|m(?:in(?:utes?)?)?|s(?:ec(?:onds?)?)?|小时|分钟|天)\s?){1,2}"
    r"\d{0,2}"
)
_OFFSET = re.compile(rf"^\W{{0,3}}(?:T\s?|T0\s?)?\+\s?(?P<span>{_DURATION})(?![\w.])\s?[:：,–—-]?\s?", _I)
_ZERO = re.compile(r"^\W{0,3}T\s?(?:[+=]\s?)?0\b\s?(?:h|min)?\s?(?:\((?P<at>[^()]{4,40})\))?\s?[:：,–—-]?\s?", _I)
_NUMBERS = {
    word: number
    for number, words in enumerate(
        (
            "",
            "a an one 一",
            "two 两",
            "three 三",
            "four 四",
            "five 五",
            "six 六",
            "seven 七",
            "eight 八",
            "nine 九",
            "ten 十",
        )
    )
    for word in words.split()
}
_LATER = re.compile(
    rf"^\W{{0,3}}(?:about |some |roughly |around |another )?(?P<n>\d{{1,3}}(?:\.\d)?|{'|'.join(_NUMBERS)})\s?(?:个)?\s?"
    r"(?P<unit>minutes?|mins?|hours?|h\b|days?|小时|分钟|天)\s?(?:later|after(?:wards| that)|on\b|之?后|以后)\W{0,3}",
    _I,
)
_NEXT = re.compile(
    r"^\W{0,3}(?:on )?(?:(?:the )?(?:next|following) (?:day|morning|afternoon|evening|night)|第二天|次日)"
    r"(?:\s?[(,]\s?(?P<date>[^(),;]{3,24})[),])?[\s,:：]{0,3}",
    _I,
)
_ON = re.compile(r"^\W{0,3}(?:on |at )?", _I)
_UNIT = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "分": timedelta(minutes=1),
         "小": timedelta(hours=1), "天": timedelta(days=1)}  # fmt: skip
_FEW = 2


def is_told_from_a_moment(document: Document) -> bool:
    """Whether several lines of a book begin with a time that counts from a moment."""
    texts = [block.text for section in document.sections for block in section.blocks]
    return sum(1 for text in texts if _OFFSET.match(text) or _LATER.match(text) or _ZERO.match(text)) >= _FEW


@dataclass(slots=True)
class _Telling:
    """A book of one day while it is read: the moment that times count from, and the time told last."""

    title: Section
    day: PrintedTime
    zero: datetime | None = None
    now: datetime | None = None
    passages: list[Passage] = field(default_factory=list)
    texts: list[list[Block]] = field(default_factory=list)

    def begin(self, heading: str, printed: PrintedTime, line: int, *, spoken: bool = True) -> None:
        short = heading if len(heading) <= 80 else heading[:77] + "..."
        self.passages.append(
            Passage(heading=short, title="", label=printed.key, line=line, printed=printed, spoken=spoken)
        )
        self.texts.append([])

    def moment(self, text: str) -> tuple[PrintedTime, int] | None:
        """The time with which a line begins, and where it ends in the line."""
        if zero := _ZERO.match(text):
            found = dates.find(zero["at"]) if zero["at"] else None
            self.zero = self._set(found) if found else self.zero or self.day.local
            return self._at(self.zero, found or self.day, hour=found is None or found.hour is not None), zero.end()
        if (offset := _OFFSET.match(text)) and (span := hours(_spelt(offset["span"]))) is not None:
            self.zero = self.zero or self.day.local
            timed = self.day.hour is not None or self.zero != self.day.local
            return self._at(self.zero and self.zero + timedelta(hours=span), self.day, hour=timed), offset.end()
        if later := _LATER.match(text):
            count = _NUMBERS.get(later["n"].lower()) or float(later["n"])
            then: datetime | None = (self.now or self.day.local or datetime.min) + count * _UNIT[
                later["unit"][0].lower()
            ]
            return self._at(then, self.day, hour=self.now is not None), later.end()
        if following := _NEXT.match(text):
            found = dates.find(following["date"]) if following["date"] else None
            then = self._set(found) if found else (self.now or self.day.local or datetime.min) + timedelta(days=1)
            return self._at(then, self.day, hour=False), following.end()
        return self._clock(text)

    def _clock(self, text: str) -> tuple[PrintedTime, int] | None:
        if clock := dates.time_at_start(text):
            printed = self.now or self.day.local
            if printed is None:
                return None
            then = printed.replace(hour=clock[0], minute=clock[1] or 0, second=0)
            if re.match(r"\W{0,3}\(?T\s?[+=]?\s?0\b", text[clock[3] :], _I):
                self.zero = then
            return self._at(then, self.day, hour=True), clock[3]
        on = _ON.match(text)
        start = on.end() if on else 0
        found = at_start(text[start:])
        if found is None or found.day is None:
            return None
        return self._at(self._set(found), found, hour=found.hour is not None), start + found.end

    def _set(self, found: PrintedTime) -> datetime | None:
        """The moment of a date, the year being the book's where none is printed."""
        return replace(found, year=found.year or self.day.year).local

    def _at(self, then: datetime | None, like: PrintedTime, *, hour: bool) -> PrintedTime:
        self.now = then or self.now
        if then is None:
            return self.day
        known = {"hour": then.hour, "minute": then.minute} if hour else {"hour": None, "minute": None}
        zone = like.zone or self.day.zone
        if zone and not self.day.zone:
            self.day = replace(self.day, zone=zone)
        return PrintedTime(year=then.year, month=then.month, day=then.day, zone=zone, **known)


def _spelt(span: str) -> str:
    """ "1h10" with its unit, as "1h10m"."""
    return re.sub(r"(\d\s?h)(\d{1,2})$", r"\1\2m", span.strip())


def passages(document: Document, title: Section, printed: PrintedTime) -> list[Passage]:
    """The entries of a book of one day: each line that begins with a time of its own, where several count from a
    moment; else the book is one entry.  What stands apart (the cause, what is to be done) belongs to the first."""
    telling = _Telling(title, printed)
    telling.begin(title.heading, printed, title.line, spoken=False)
    parted = is_told_from_a_moment(document)
    for section in document.sections:
        if section is not title and section.level:
            telling.texts[0].append(Block(kind=BlockKind.HEADING, text=section.heading, line=section.line))
        within = False
        for block in section.blocks:
            if is_labelled(block.text):
                continue
            timed = block.kind in (BlockKind.BULLET, BlockKind.PARAGRAPH)
            if parted and timed and (moment := telling.moment(block.text)):
                telling.begin(block.text, moment[0], block.line)
                within = True
                block = replace(block, text=block.text[moment[1] :].lstrip(" -–—:：,.)"))
            elif not parted and (clock := dates.time_at_start(block.text)):
                block = replace(block, text=block.text[clock[3] :].lstrip(" -–—:："))
            telling.texts[-1 if within else 0].append(block)
    told = zip(telling.passages, telling.texts, strict=True)
    filled = [replace(passage, blocks=tuple(text)) for passage, text in told]
    # The first entry holds what is told without a time: beside the others it tells of the first of them.
    if len(filled) > 1:
        first = replace(filled[1], blocks=(*filled[1].blocks, *filled[0].blocks))
        filled = [first, *filled[2:]]
    return filled
