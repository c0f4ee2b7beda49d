"""Any markdown logbook whose entries begin with a date: headings, bullets, bold lines, table rows.

Dates in the common notations, English and Chinese; under a dated heading bullets may begin with the hour alone.
Undated headings that name an experiment ("Attempt 3") are entries too when the book has them beside dated ones or
instead of them.  What is not understood is left over and counted, sentence by sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from replay_parsers.chronicles import dates, structure
from replay_parsers.chronicles.beginnings import at_start
from replay_parsers.chronicles.book import Style, assemble
from replay_parsers.chronicles.clauses import sentences
from replay_parsers.chronicles.encoding import read_document
from replay_parsers.chronicles.markdown import BlockKind, Document, Section, walk
from replay_parsers.chronicles.passages import Passage
from replay_parsers.chronicles.reading import read_sentence
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records

FORMAT = "markdown-logbook"
_PLANS = re.compile(r"\bfuture\b|\btodo\b|\bplans?\b|\bideas?\b|\bnext steps\b|\bappendix\b|计划|待办", re.IGNORECASE)


# "## [1.4.0] - 2024-06-11" releases a program: what stands below was fixed, and happened to no run.
_RELEASE = re.compile(
    r"^\W*(?:version |release )?v?\d{1,4}\.\d{1,4}(?:\.\d{1,4})?[\w.+-]{0,20}\W{1,6}(?=\d|\w{3,9} \d)", re.I
)
_CHANGELOG = re.compile(r"\bchange ?log\b|\brelease notes\b|更新日志|版本记录", re.IGNORECASE)


def recognise(sample: Sample) -> float:
    """How sure it is that a file is a logbook in markdown: entries that begin with dates, or name experiments."""
    document = walk(sample.head)
    outline = structure.outline(document, undated=_is_experiment)
    dated = [passage for passage in outline.passages if passage.printed is not None]
    if _is_changelog(document):
        return 0.0
    headings = sum(1 for section in document.sections if section.level)
    headed = sum(1 for section in document.sections if section.level and at_start(section.heading, bare=True))
    # A program's log also begins its lines with times, but to the second, and has no headings.
    by_program = sum(passage.printed is not None and passage.printed.second is not None for passage in dated)
    if by_program * 2 > len(dated) and not headed and not (headings and _tells_deeds(dated)):
        return 0.0
    if sum(passage.spoken for passage in dated) >= _MESSAGES:
        return 0.5
    if headed >= 2:
        return 0.6
    if len(dated) >= 2 and (
        headings or any(line.lstrip().startswith(("-", "*", "|")) for line in sample.text.splitlines())
    ):
        return 0.5
    if len(dated) >= 1 and (
        headed
        or re.search(
            r"\b(?:log|journal|diary|chronicle|post-?mortem|incident|outage)|事故|复盘|日志|日记|记录",
            document.title,
            re.IGNORECASE,
        )
    ):
        return 0.4
    return 0.35 if sum(1 for passage in outline.passages if passage.printed is None) >= 2 else 0.0


_MESSAGES = 4
_LINES = 40


def _tells_deeds(passages: Sequence[Passage]) -> bool:
    """Whether half of the first entries tell something that happened, as a program's lines seldom do."""
    texts = [passage.blocks[0] for passage in passages[:_LINES] if passage.blocks]
    told = sum(bool(read_sentence(block.text[:300], line=block.line)) for block in texts)
    return len(texts) >= _FEW and told * 2 >= len(texts)


_FEW = 3


def read(request: Request) -> Iterator[Records]:
    """Read the whole logbook; a changed one is read anew."""
    yield parse(read_document(request.path), request.source, request.run)


def parse(data: bytes, source: str, run: str) -> Records:
    """The records of a logbook's bytes.  ``run`` is its name unless launch names in the text give one."""
    document = _without_repeats(walk(data))
    outline = structure.outline(document, undated=_is_experiment)
    return assemble(document, outline, Style(format=FORMAT, others=True, relaunches=False), source=source, run=run)


def _without_repeats(document: Document) -> Document:
    """``document`` without the quotations of what stands above them, as in threads that answer each other."""
    said: set[str] = set()
    for section in document.sections:
        kept = []
        for block in section.blocks:
            if block.kind is BlockKind.QUOTE and all(sentence in said for sentence in sentences(block.text)):
                continue
            said.update(sentences(block.text))
            kept.append(block)
        section.blocks[:] = kept
    return document


def _is_changelog(document: Document) -> bool:
    """Whether the dated headings are those of releases."""
    headings = [section.heading for section in document.sections if section.level and dates.find(section.heading)]
    releases = sum(1 for heading in headings if _RELEASE.match(heading) and not at_start(heading, bare=True))
    return releases * 2 > len(headings) or (releases > 0 and _CHANGELOG.search(document.title) is not None)


def _is_experiment(section: Section) -> bool:
    return structure.names_experiment(section.heading) and not _PLANS.search(section.heading)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False, surest=0.6)
