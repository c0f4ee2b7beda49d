"""BigScience's chronicles: BLOOM-176B and its prequel, the 104B experiments, the 13B.

The style: sections by date or by experiment ("Experiment 7", "Embed-Norm Experiment 3", "Round2 SAVE_INTERVAL=18"),
with much discussion between them; settings as code (``--lr 3e-5``), edits of scripts (``perl -pi -e``), and log
lines of Megatron-DeepSpeed pasted in.  Quotations and plans are no events; log lines become scalars.

Source of the style: bigscience-workshop/bigscience, train/*/chronicles.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from replay_parsers.chronicles import structure
from replay_parsers.chronicles.beginnings import at_start
from replay_parsers.chronicles.book import Style, assemble
from replay_parsers.chronicles.encoding import read_document
from replay_parsers.chronicles.entries import tells_trouble
from replay_parsers.chronicles.markdown import Document, Section, walk
from replay_parsers.chronicles.reading import tells_something
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records

FORMAT = "bigscience-chronicle"
# BigScience numbers its trainings; the 104B had two series.
_RUNS = {"tr1": "bigscience-13b", "tr8": "bigscience-104b", "tr8b": "bigscience-104b", "tr11": "bloom-176b"}
_TRAINING = re.compile(r"\btr\d{1,2}[a-z]?-\d{1,4}[bBM]\d?", re.IGNORECASE)
# Code and places that their chronicles link to throughout.
_THEIRS = re.compile(r"\bbigscience-workshop\b|\bMegatron-DeepSpeed\b|\bolruwase\b|\bJZ\b")
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)$", re.MULTILINE)
# Blanks of one line only: over many empty lines, each beginning would look at all that follow.
_PASTED = re.compile(r"^[ \t]*(?:\[\w+\]:[ \t]*)?iteration[ \t]+\d+/[ \t]*\d+ \|", re.MULTILINE)
# Headings that announce a trouble without naming it.
_TROUBLE = re.compile(
    r"\bstab(?:le|ility)\b|\bissues?\b|\bproblems?\b|\bbugs?\b|\bexperiments?\b|\bimportance\b|\bwatchdog\b",
    re.IGNORECASE,
)
# Headings over plans, advice and tools.
_NO_INCIDENT = re.compile(
    r"\bfuture\b|\bsummary\b|\bconclusion|\bwisdom\b|\bthings to\b|\badding support\b|\brenaming\b|"
    r"\banaly[sz]\w+ the\b|\badditional\b|"
    r"\ball \w+ together\b|\btest suite\b|\bwait time\b",
    re.IGNORECASE,
)


def recognise(sample: Sample) -> float:
    """How sure it is that a file is a BigScience chronicle: markdown that speaks of their trainings by number."""
    headings = _HEADING.findall(sample.text)
    named = len(_TRAINING.findall(sample.text))
    pasted = _PASTED.search(sample.text) is not None
    theirs = len(_THEIRS.findall(sample.text)) >= 3
    if len(headings) < 2 or not (named >= 3 or theirs or (named and pasted)):
        return 0.0
    told = sum(at_start(text) is not None or structure.names_experiment(text) for text in headings)
    chronicle = re.search(r"chronicle", sample.text[:4000], re.IGNORECASE) is not None
    return 0.9 if told and chronicle else 0.5 if told else 0.2


def read(request: Request) -> Iterator[Records]:
    """Read the whole chronicle; a changed one is read anew."""
    yield parse(read_document(request.path), request.source, request.run)


def parse(data: bytes, source: str, run: str) -> Records:
    """The records of a chronicle's bytes.  The run is the training that the text names most, else ``run``, which may
    be named like one (``tr11-176B-ml``)."""
    document = walk(data)
    outline = structure.outline(document, undated=_is_incident, bullets=False)
    style = Style(format=FORMAT, careful=True, run=_run(document, run), clock="Europe/Paris")
    return assemble(document, outline, style, source=source, run=run)


def _run(document: Document, given: str) -> str | None:
    names: Counter[str] = Counter()
    for section in document.sections:
        for text in (section.heading, *(block.text for block in section.blocks)):
            names.update(name.lower() for name in _TRAINING.findall(text))
    most = names.most_common(1)[0][0] if names else given.lower()
    return _RUNS.get(most.split("-")[0])


def _is_incident(section: Section) -> bool:
    if _NO_INCIDENT.search(section.heading) or section.level < 2:
        return False
    if structure.names_experiment(section.heading) or tells_something(section.heading):
        return True
    return _TROUBLE.search(section.heading) is not None and tells_trouble(section)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False)
