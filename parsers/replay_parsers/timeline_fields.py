"""The fields of a timeline file: which there are, which must be there, how each is read.

The tables at the end are the format: logbooks/README.md documents them name by name, and a test holds the two
together.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from replay_parsers.printed_time import PrintedTime
from replay_parsers.records import BatchStage, EventKind, Evidence, TimePrecision
from replay_parsers.timeline_document import Listing, Mapping, Node
from replay_parsers.timeline_values import (
    BAD,
    Bad,
    Reader,
    Rule,
    read_choice,
    read_clock,
    read_fields,
    read_not_negative,
    read_number,
    read_positive,
    read_printed,
    read_slug,
    read_text,
    read_text_by_name,
    read_texts,
    read_time,
    read_whole,
)


def read_batch_schedule(reader: Reader, node: Node, what: str) -> tuple[BatchStage, ...] | Bad:
    """A list of ``from_step`` and ``samples``, in rising order of steps."""
    if not isinstance(node, Listing):
        reader.fault(node, f"{what} must be a list of from_step and samples")
        return BAD
    stages = [read_fields(reader, item, BATCH_STAGE_FIELDS, what) for item in node.items]
    if not all(stage and stage.sound for stage in stages):
        return BAD
    read = tuple(BatchStage(**stage.values) for stage in stages if stage)
    if any(second.from_step <= first.from_step for first, second in itertools.pairwise(read)):
        reader.fault(node, f"{what}: each from_step must be above the one before it")
        return BAD
    return read


@dataclass(frozen=True, slots=True)
class CitedSource:
    """Where facts come from: the title that events carry, and where to find it."""

    title: str
    url: str | None = None


def read_sources(reader: Reader, node: Node, what: str) -> dict[str, CitedSource] | Bad:
    """Short ids and what they stand for: a title, or a mapping of title and url."""
    if not isinstance(node, Mapping) or not node.entries:
        reader.fault(node, f"{what} must map at least one short id to a title, or to `title` and `url`")
        return BAD
    sources: dict[str, CitedSource] = {}
    for name, value in node.entries.items():
        if isinstance(value, Mapping):
            fields = read_fields(reader, value, SOURCE_FIELDS, f"{what}, `{name}`")
            if fields and fields.sound:
                sources[name] = CitedSource(**fields.values)
        else:
            title = read_text(reader, value, f"{what}, `{name}`")
            if not isinstance(title, Bad):
                sources[name] = CitedSource(title)
    return sources or BAD


@dataclass(frozen=True, slots=True)
class Likely:
    """The corrected time of a misprint, and the reason."""

    time: PrintedTime
    because: str


def read_likely(reader: Reader, node: Node, what: str) -> Likely | Bad:
    """A corrected time and why."""
    fields = read_fields(reader, node, LIKELY_FIELDS, what)
    if fields is None or not fields.sound:
        return BAD
    return Likely(fields.values["at"], fields.values["because"])


def read_nodes(reader: Reader, node: Node, what: str) -> list[Node] | Bad:
    """A list whose items are read later, each on its own, so that one bad item spoils no other."""
    if not isinstance(node, Listing) or not node.items:
        reader.fault(node, f"{what} must be a list with at least one item; leave the key out when there is none")
        return BAD
    return node.items


def read_later(reader: Reader, node: Node, what: str) -> Node:  # noqa: ARG001 - the shape of a rule
    """A part that has a table of its own."""
    return node


FILE_FIELDS = {
    "run": Rule(read_later, required=True),
    "incidents": Rule(read_nodes, required=True),
    "readings": Rule(read_nodes),
}
RUN_FIELDS = {
    "name": Rule(read_slug, required=True),
    "title": Rule(read_text),
    "organisation": Rule(read_text),
    "parameters": Rule(read_positive),
    "hardware": Rule(read_text),
    "precision": Rule(read_text),
    "optimizer": Rule(read_text),
    "batch": Rule(read_text),
    "schedule": Rule(read_text),
    "clock": Rule(read_clock),
    "batch_schedule": Rule(read_batch_schedule),
    "sequence_length": Rule(read_whole),
    "seconds_per_step": Rule(read_positive),
    "metadata": Rule(read_text_by_name),
    "sources": Rule(read_sources, required=True),
}
BATCH_STAGE_FIELDS = {"from_step": Rule(read_whole, required=True), "samples": Rule(read_whole, required=True)}
SOURCE_FIELDS = {"title": Rule(read_text, required=True), "url": Rule(read_text)}
LIKELY_FIELDS = {"at": Rule(read_time, required=True), "because": Rule(read_text, required=True)}
INCIDENT_FIELDS = {
    "at": Rule(read_printed),
    "id": Rule(read_slug),
    "likely": Rule(read_likely),
    "precision": Rule(read_choice(TimePrecision)),
    "source": Rule(read_text),
    "locator": Rule(read_text, required=True),
    "evidence": Rule(read_choice(Evidence)),
    "seen": Rule(read_nodes),
    "cause": Rule(read_nodes),
    "done": Rule(read_nodes),
    "then": Rule(read_nodes),
    "lifecycle": Rule(read_nodes),
    "readings": Rule(read_nodes),
}
EVENT_FIELDS = {
    "kind": Rule(read_choice(EventKind), required=True),
    "at": Rule(read_time),
    "precision": Rule(read_choice(TimePrecision)),
    "step": Rule(read_whole),
    "step_end": Rule(read_whole),
    "field": Rule(read_text),
    "before": Rule(read_number),
    "after": Rule(read_number),
    "unit": Rule(read_text),
    "detail": Rule(read_text_by_name),
    "lost_steps": Rule(read_not_negative),
    "lost_hours": Rule(read_not_negative),
    "text": Rule(read_text),
    "source": Rule(read_text),
    "locator": Rule(read_text),
    "evidence": Rule(read_choice(Evidence)),
}
READING_FIELDS = {
    "check": Rule(read_text, required=True),
    "values": Rule(read_texts, required=True),
    "likely": Rule(read_text),
    "because": Rule(read_text, required=True),
    "source": Rule(read_text),
    "locator": Rule(read_text),
}
