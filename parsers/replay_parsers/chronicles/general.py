"""Any markdown logbook whose entries begin with a date: headings, bullets, bold lines, table rows.

Dates in the common notations, English and Chinese; under a dated heading bullets may begin with the hour alone.
Undated headings that name an experiment ("Attempt 3") are entries too when the book has them beside dated ones or
instead of them.  What is not understood is left over and counted, sentence by sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay_parsers.chronicles import structure
from replay_parsers.chronicles.beginnings import at_start
from replay_parsers.chronicles.book import Style, assemble
from replay_parsers.chronicles.encoding import read_document
from replay_parsers.chronicles.markdown import Section, walk
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records

FORMAT = "markdown-logbook"
_PLANS = re.compile(r"\bfuture\b|\btodo\b|\bplans?\b|\bideas?\b|\bnext steps\b|\bappendix\b|计划|待办", re.IGNORECASE)


def recognise(sample: Sample) -> float:
    """How sure it is that a file is a logbook in markdown: entries that begin with dates, or name experiments."""
    document = walk(sample.head)
    outline = structure.outline(document, undated=_is_experiment)
    dated = [passage for passage in outline.passages if passage.printed is not None]
    headings = sum(1 for section in document.sections if section.level)
    headed = sum(1 for section in document.sections if section.level and at_start(section.heading, bare=True))
    # A program's log also begins its lines with times, but to the second, and has no headings.
    by_program = sum(passage.printed is not None and passage.printed.second is not None for passage in dated)
    if by_program * 2 > len(dated) and not headed:
        return 0.0
    if headed >= 2:
        return 0.6
    if len(dated) >= 2 and (
        headings or any(line.lstrip().startswith(("-", "*", "|")) for line in sample.text.splitlines())
    ):
        return 0.5
    if len(dated) >= 1 and (
        headed or re.search(r"\b(?:log|journal|diary|chronicle)|日志|日记|记录", document.title, re.IGNORECASE)
    ):
        return 0.4
    return 0.35 if sum(1 for passage in outline.passages if passage.printed is None) >= 2 else 0.0


def read(request: Request) -> Iterator[Records]:
    """Read the whole logbook; a changed one is read anew."""
    yield parse(read_document(request.path), request.source, request.run)


def parse(data: bytes, source: str, run: str) -> Records:
    """The records of a logbook's bytes.  ``run`` is its name unless launch names in the text give one."""
    document = walk(data)
    outline = structure.outline(document, undated=_is_experiment)
    return assemble(document, outline, Style(format=FORMAT), source=source, run=run)


def _is_experiment(section: Section) -> bool:
    return structure.names_experiment(section.heading) and not _PLANS.search(section.heading)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False, surest=0.6)
