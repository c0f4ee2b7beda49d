"""The training notes of GLM-130B, and logbooks kept in the same way, in English or Chinese.

The style: a heading for each entry that begins with its date and hour; below it what happened, in sentences or
bullets; the names of the launches (``<run>-YYYY.MM.DD-HH:MM:SS``) and of their event files.  Headings are in the
writers' zone and launch names in the launcher's; both are established from the content (:mod:`.clock`).

Source of the style: THUDM/GLM-130B, logs/main-log-en.md and logs/main-log.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay_parsers.chronicles import clock, structure
from replay_parsers.chronicles.beginnings import at_start
from replay_parsers.chronicles.book import Style, assemble
from replay_parsers.chronicles.encoding import read_document
from replay_parsers.chronicles.markdown import walk
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records

FORMAT = "glm130b-chronicle"
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)$", re.MULTILINE)


def recognise(sample: Sample) -> float:
    """How sure it is that a file is such a logbook: dated headings, with launch names that carry a time stamp."""
    headings = [found[1] for found in _HEADING.finditer(sample.text)]
    dated = sum(at_start(heading) is not None for heading in headings)
    if dated < 2 or len(clock.launches(sample.text)) < 2:
        return 0.0
    return 0.95 if dated * 2 >= len(headings) else 0.7


def read(request: Request) -> Iterator[Records]:
    """Read the whole logbook; a changed one is read anew."""
    yield parse(read_document(request.path), request.source, request.run)


def parse(data: bytes, source: str, run: str) -> Records:
    """The records of a logbook's bytes.  ``run`` is its name unless launch names in the text give one."""
    document = walk(data)
    outline = structure.outline(document, bullets=False)
    return assemble(document, outline, Style(format=FORMAT), source=source, run=run)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False)
