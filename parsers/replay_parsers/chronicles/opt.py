"""The updates of OPT-175B: four posts in running prose, with a date in some headings and few numbers.

Each section that tells of a trouble or a change is an entry; a trouble that is told after something was done about
the one before it opens a further incident.

Source of the style: facebookresearch/metaseq, projects/OPT/chronicles/*.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay_parsers.chronicles import structure
from replay_parsers.chronicles.book import Style, assemble
from replay_parsers.chronicles.clauses import sentences
from replay_parsers.chronicles.encoding import read_document
from replay_parsers.chronicles.markdown import BlockKind, Section, walk
from replay_parsers.chronicles.reading import read_sentence
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records

FORMAT = "opt-chronicle"
_TITLE = re.compile(r"^#\s.*\b175B Training Run\b", re.MULTILINE | re.IGNORECASE)
_POSTED = re.compile(r"^\W*Posted on\b", re.MULTILINE | re.IGNORECASE)


def recognise(sample: Sample) -> float:
    """How sure it is that a file is one of the updates: their title, and the line that dates the post."""
    if not _TITLE.search(sample.text):
        return 0.0
    return 0.95 if _POSTED.search(sample.text) else 0.6


def read(request: Request) -> Iterator[Records]:
    """Read the whole update; a changed one is read anew."""
    yield parse(read_document(request.path), request.source, request.run)


def parse(data: bytes, source: str, run: str) -> Records:
    """The records of an update's bytes."""
    document = walk(data)
    outline = structure.outline(document, undated=_is_entry, bullets=False)
    style = Style(format=FORMAT, careful=True, episodes=True, run="opt-175b", title="OPT-175B")
    return assemble(document, outline, style, source=source, run=run)


def _is_entry(section: Section) -> bool:
    """Whether a section tells, outside its musings, of anything that happened."""
    return any(
        bool(read_sentence(sentence, line=block.line, careful=True))
        for block in section.blocks
        if block.kind is not BlockKind.CODE
        for sentence in sentences(block.text)
    )


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False)
