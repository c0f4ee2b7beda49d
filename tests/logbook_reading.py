"""Reading the built-in logbooks and the sources they cite, for the tests of both."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from replay.builtin import builtin_logbooks
from replay_parsers.parser import Request
from replay_parsers.records import Event, EventKind, Records
from replay_parsers.timeline import PARSER

LOGBOOKS = builtin_logbooks()

# The sources whose text is beside the checkout, by the title under which logbooks cite them.
UPSTREAM = {
    "THUDM/GLM-130B logs/main-log-en.md": "glm-130b/main-log-en.md",
    "THUDM/GLM-130B logs/main-log.md": "glm-130b/main-log.md",
    "bigscience-workshop/bigscience train/tr11-176B-ml/chronicles.md": "bloom/tr11-176B-ml_chronicles.md",
    "bigscience-workshop/bigscience train/tr11-176B-ml/chronicles-prequel.md": (
        "bloom/tr11-176B-ml_chronicles-prequel.md"
    ),
    "bigscience-workshop/bigscience train/tr8-104B-wide/chronicles.md": "bloom/tr8-104B-wide_chronicles.md",
    "bigscience-workshop/bigscience train/tr8b-104B/chronicles.md": "bloom/tr8b-104B_chronicles.md",
    "bigscience-workshop/bigscience train/tr1-13B-base/chronicles.md": "bloom/tr1-13B-base_chronicles.md",
    "bigscience-workshop/bigscience train/lessons-learned.md": "bloom/lessons-learned.md",
    "facebookresearch/metaseq projects/OPT/chronicles/10_percent_update.md": "opt-175b/10_percent_update.md",
    "facebookresearch/metaseq projects/OPT/chronicles/27_percent_update.md": "opt-175b/27_percent_update.md",
    "facebookresearch/metaseq projects/OPT/chronicles/56_percent_update.md": "opt-175b/56_percent_update.md",
    "facebookresearch/metaseq projects/OPT/chronicles/final_update.md": "opt-175b/final_update.md",
}


@cache
def logbook(name: str) -> Records:
    """A built-in logbook, read once."""
    (records,) = PARSER.read(Request(path=LOGBOOKS[name], source=name, run="unnamed"))
    return records


def events(run: str, incident: str | None = None, kind: EventKind | None = None) -> list[Event]:
    """Events of a run's logbook, of one incident and kind if given."""
    return [
        event
        for event in logbook(f"logbooks/{run}.yaml").events
        if (incident is None or event.incident == f"{run}/{incident}") and (kind is None or event.kind is kind)
    ]


def one(run: str, incident: str, kind: EventKind) -> Event:
    """The only event of a kind in an incident."""
    (event,) = events(run, incident, kind)
    return event


def upstream(shared: Path, title: str) -> str:
    """A source's text, without the control characters that one of them holds."""
    text = (shared / "upstream" / UPSTREAM[title]).read_text(encoding="utf-8")
    return re.sub(r"[\x00-\x08\x0b-\x1f]", "", text)


def headings(text: str) -> set[str]:
    """The headings of a markdown page as printed."""
    return {found.strip() for found in re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)}


def section(text: str, heading: str) -> str:
    """The part of a page under a heading, with what is nested in it."""
    taken: list[str] = []
    depth, in_code = 0, False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        found = None if in_code else re.match(r"(#+)\s+(.*)", line)
        if found and depth and len(found[1]) <= depth:
            break
        if found and not depth and found[2].strip() == heading:
            depth = len(found[1])
        if depth:
            taken.append(line)
    return "\n".join(taken)


def numbers(text: str) -> set[float]:
    """Every number in a text, however it is written (1_000_000, 126,953,125, 9.849E-05, 5k, 12_695_312)."""
    found: set[float] = set()
    for number, thousands in re.findall(r"(\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\s?([kK]\b)?", text):
        for part in {number, *number.split(",")}:
            plain = part.replace("_", "").replace(",", "")
            if plain:
                found.add(float(plain) * (1000 if thousands else 1))
    return found


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def dated(text: str) -> list[str]:
    return [heading for heading in headings(text) if re.match(r"20\d\d", heading)]
