"""A logbook's entries put together: clocks, doubtful prints, incidents, outcomes, findings, coverage.

The parsers of this package differ in what they take for an entry and in what they know of the run; the rest is
the same and lives here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from replay_parsers.chronicles import clock, consistency, conversations, incidents, outcomes, summaries, telling
from replay_parsers.chronicles.consistency import Doubt
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.entries import Entry, Tally, read_entry
from replay_parsers.chronicles.facts import Facts, run_facts
from replay_parsers.chronicles.findings import clock_finding, doubt_finding, flag_findings, notation_finding
from replay_parsers.chronicles.grouping import MOVES
from replay_parsers.chronicles.incidents import Incident
from replay_parsers.chronicles.markdown import Document
from replay_parsers.chronicles.structure import Outline
from replay_parsers.records import (
    NO_TIME,
    Coverage,
    EventKind,
    Problem,
    ProblemKind,
    Records,
    Role,
    Run,
    Scalars,
)

_CHINESE = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a kind of logbook is read: its ``format`` name; whether it discusses much (``careful``); whether deeds of
    models that its title does not name are those of ``others``; whether settings are changed by starting anew, so
    that "from step N" names a checkpoint (``relaunches``); whether a further trouble within an entry opens a
    further incident (``episodes``); a fixed ``run`` and ``clock`` where the kind of book implies them."""

    format: str
    careful: bool = False
    others: bool = False
    relaunches: bool = True
    episodes: bool = False
    run: str | None = None
    clock: str | None = None
    title: str = ""


def assemble(document: Document, outline: Outline, style: Style, *, source: str, run: str) -> Records:
    """The records of a document whose entries are known.  ``run`` names it unless the style or launch names do."""
    tally = Tally()
    own = f"{document.title} {run}" if style.others else ""
    entries = [
        read_entry(passage, tally, careful=style.careful, relaunches=style.relaunches, own=own)
        for passage in outline.passages
    ]
    entries = summaries.told_once(conversations.joined(entries))
    facts = run_facts(outline.others, document.title, tally)
    name = style.run or launched_run(entries) or run
    clocks = _clocks(entries)
    zone = style.clock or clocks.zone(chinese=_is_chinese(document)) or facts.clock
    ahead = clocks.ahead

    rate = consistency.rate(entries, ahead, facts.seconds_per_step)
    dates = consistency.doubtful_dates(entries, ahead, rate)
    for doubt in dates:
        entries[doubt.entry] = replace(entries[doubt.entry], likely=doubt.at)
    told = incidents.build(
        name,
        entries,
        launcher=clocks.launches,
        samples_per_step=facts.batch,
        prose=style.episodes,
        settings=style.careful,
    )
    steps = consistency.doubtful_steps(entries, ahead, rate, _interval(told), stated=facts.seconds_per_step is not None)
    _apply_steps(told, steps)
    _stable_before(told)
    flags = flag_findings(name, source, told)
    outcomes.add(told)
    findings = [
        *clock_finding(name, source, clocks, entries),
        *(doubt_finding(name, source, doubt, entries, told) for doubt in (*dates, *steps)),
        *flags,
        *notation_finding(name, source, outline.order, entries),
    ]
    events = telling.to_events(name, source, told, zone)
    tally.count("image", document.images)
    tally.count("link", document.links)
    return Records(
        source=source,
        format=style.format,
        end=document.size,
        run=_run(name, style, document, facts, zone, source),
        events=tuple(events),
        scalars=_scalars(entries),
        problems=_problems(document, entries, source),
        findings=tuple(findings),
        coverage=Coverage(
            bytes_read=document.size,
            records=len(events),
            not_understood=tally.left,
            examples=tuple(tally.examples),
            other={"sentence understood": tally.understood, **tally.other},
        ),
    )


def _run(name: str, style: Style, document: Document, facts: Facts, zone: str | None, source: str) -> Run:
    return Run(
        run=name,
        title=style.title or document.title,
        clock=zone,
        parameters=facts.parameters,
        hardware=facts.hardware,
        batch=facts.batch_text,
        batch_schedule=facts.batch_schedule,
        seconds_per_step=facts.seconds_per_step,
        sources=(source,),
        metadata=facts.metadata,
    )


def launched_run(entries: Sequence[Entry]) -> str | None:
    """The run that launch names are named after, as a slug; None when there are none."""
    prefixes = Counter(launch.prefix for entry in entries for launch in entry.launches)
    return re.sub(r"[^a-z0-9._-]+", "-", prefixes.most_common(1)[0][0].lower()) if prefixes else None


def _is_chinese(document: Document) -> bool:
    return any(
        _CHINESE.search(section.heading) or any(_CHINESE.search(block.text) for block in section.blocks)
        for section in document.sections
    )


def _clocks(entries: Sequence[Entry]) -> clock.Clocks:
    headed = [
        (entry.printed.local, entry.launches[0].stamp)
        for entry in entries
        if entry.printed is not None and entry.timed and entry.printed.local is not None and entry.launches
    ]
    filed = [(launch.stamp, began) for entry in entries for launch in entry.launches for began in entry.began]
    return clock.establish(headed, filed)


def _interval(told: Sequence[Incident]) -> int | None:
    changes = [draft.after for incident in told for draft in incident.drafts if draft.field == "checkpoint_interval"]
    return int(changes[-1]) if changes and changes[-1] else None


def _apply_steps(told: Sequence[Incident], doubts: Sequence[Doubt]) -> None:
    """Let events carry the likely step, with the print kept in their detail."""
    for doubt in doubts:
        for incident in told:
            if incident.place != doubt.entry or doubt.step is None:
                continue
            for index, draft in enumerate(incident.drafts):
                if draft.kind in MOVES and draft.step == doubt.printed_step:
                    detail = {**draft.detail, "printed_step": str(draft.step), "approximate": "step"}
                    incident.drafts[index] = replace(draft, step=doubt.step, detail=detail)


def _stable_before(told: Sequence[Incident]) -> None:
    """An entry that begins by calling the last attempt stable tells an outcome of the incident before."""
    for earlier, later in pairwise(told):
        if any(draft.role in (Role.SYMPTOM, Role.CAUSE) for draft in later.drafts):
            continue
        acted = next((place for place, draft in enumerate(later.drafts) if draft.role is Role.INTERVENTION), 0)
        moved = [
            draft
            for draft in later.drafts[:acted]
            if draft.kind is EventKind.RECOVERED and "told_by" not in draft.detail
        ]
        moved += [
            draft
            for draft in later.drafts[acted:]
            if draft.kind is EventKind.RECOVERED and _same_sentence(draft, later)
        ]
        # A setting that is only compared with an earlier run's was not changed here: the praise is of this entry.
        acts = [draft for draft in later.drafts if draft.role is Role.INTERVENTION]
        if not moved or not any("compared_with" not in draft.detail for draft in acts):
            continue
        told_by = {"locator": f"§ {later.entry.heading}", "told_by": later.name}
        earlier.drafts.extend(
            Draft(kind=draft.kind, line=draft.line, quote=draft.quote, detail=told_by) for draft in moved[:1]
        )
        later.drafts = [draft for draft in later.drafts if draft not in moved]


def _same_sentence(draft: Draft, incident: Incident) -> bool:
    """Whether an outcome stands in the sentence of the entry's first action, before which nothing is told."""
    first = next((other for other in incident.drafts if other.role is Role.INTERVENTION and not other.heading), None)
    return first is not None and bool(draft.quote) and draft.quote == first.quote


def _scalars(entries: Sequence[Entry]) -> Scalars:
    """Log records pasted into the entries, in their order; a new segment wherever a tag steps back."""
    tags: dict[str, int] = {}
    last: dict[str, int] = {}
    rows: list[tuple[int, int, int, float]] = []
    segment, opened = 0, set[str]()
    for record in (record for entry in entries for record in entry.logged):
        for tag, value in record.fields.items():
            if tag in opened and record.step < last[tag]:
                segment, opened = segment + 1, set()
            opened.add(tag)
            last[tag] = record.step
            rows.append((tags.setdefault(tag, len(tags)), segment, record.step, value))
    if not rows:
        return Scalars.empty()
    tag_column, segments, steps, values = zip(*rows, strict=True)
    return Scalars(
        tags=tuple(tags),
        tag=np.array(tag_column, np.int32),
        segment=np.array(segments, np.int32),
        step=np.array(steps, np.int64),
        wall_time=np.full(len(rows), NO_TIME, np.int64),
        value=np.array(values, np.float64),
    )


def _problems(document: Document, entries: Sequence[Entry], source: str) -> tuple[Problem, ...]:
    problems = [
        Problem(
            source=source,
            kind=ProblemKind.TRUNCATED if fault.lost_bytes else ProblemKind.INVALID,
            message=fault.message,
            line=fault.line,
            offset=fault.offset,
            lost_bytes=fault.lost_bytes,
        )
        for fault in document.faults
    ]
    if not entries:
        problems.append(
            Problem(
                source=source,
                kind=ProblemKind.NOT_UNDERSTOOD,
                message="no entry found; one begins with a heading or bullet such as `## 2024-05-06 14:00 Node down`",
            )
        )
    return tuple(problems)
