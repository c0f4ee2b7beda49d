"""The training notes of GLM-130B, and logbooks kept in the same way, in English or Chinese.

The style: a heading for each entry that begins with its date and hour; below it what happened, in sentences or
bullets; the names of the launches (``<run>-YYYY.MM.DD-HH:MM:SS``) and of their event files.  Headings are in the
writers' zone and launch names in the launcher's; both are established from the content (:mod:`.clock`).

Source of the style: THUDM/GLM-130B, logs/main-log-en.md and logs/main-log.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from replay_parsers.chronicles import clock, consistency, dates, incidents, outcomes
from replay_parsers.chronicles.consistency import Doubt
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.entries import Entry, Tally, read_entries
from replay_parsers.chronicles.facts import run_facts
from replay_parsers.chronicles.incidents import MOVES, Incident
from replay_parsers.chronicles.markdown import Document, walk
from replay_parsers.files import open_bytes
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import (
    Coverage,
    EventKind,
    Finding,
    Problem,
    ProblemKind,
    Records,
    Run,
)

FORMAT = "glm130b-chronicle"
_HEADING = re.compile(r"^#{1,6}\s+\S.*$", re.MULTILINE)


def recognise(sample: Sample) -> float:
    """How sure it is that a file is such a logbook: dated headings, with launch names that carry a time stamp."""
    headings = [found[0].lstrip("# ") for found in _HEADING.finditer(sample.text)]
    dated = sum((time := dates.find(heading)) is not None and time.start <= 2 for heading in headings)
    named = len(clock.launches(sample.text))
    if dated < 2 or named < 2:
        return 0.0
    return 0.95 if dated * 2 >= len(headings) else 0.7


def read(request: Request) -> Iterator[Records]:
    """Read the whole logbook; a changed one is read anew."""
    with open_bytes(request.path) as stream:
        data = stream.read()
    yield parse(data, request.source, request.run)


def parse(data: bytes, source: str, run: str) -> Records:
    """The records of a logbook's bytes.  ``run`` is its name unless launch names in the text give one."""
    document = walk(data)
    tally = Tally()
    entries = read_entries(document, tally)
    facts = run_facts(document, tally)
    name = _run_name(entries) or run
    clocks = _clocks(entries)
    ahead = None if clocks.headings is None or clocks.launches is None else clocks.headings - clocks.launches
    zone = clocks.zone(chinese=re.search(r"[\u4e00-\u9fff]", data.decode("utf-8", "replace")) is not None)

    rate = consistency.rate(entries, ahead, facts.seconds_per_step)
    doubts = consistency.doubtful_dates(entries, ahead, rate)
    for doubt in doubts:
        entries[doubt.entry] = replace(entries[doubt.entry], likely=doubt.at)
    told = incidents.build(name, entries, launcher=clocks.launches, samples_per_step=facts.batch)
    steps = consistency.doubtful_steps(entries, ahead, rate, _interval(told))
    _apply_steps(told, steps)
    _stable_before(told)
    outcomes.add(told)
    findings = [
        *_clock_finding(name, source, clocks, entries),
        *(_finding(name, source, doubt, entries, told) for doubt in (*doubts, *steps)),
        *_flag_findings(name, source, told),
    ]
    events = incidents.to_events(name, source, told, zone)
    tally.count("image", document.images)
    return Records(
        source=source,
        format=FORMAT,
        end=document.size,
        run=Run(
            run=name,
            title=document.title,
            clock=zone,
            parameters=facts.parameters,
            hardware=facts.hardware,
            batch=facts.batch_text,
            batch_schedule=facts.batch_schedule,
            seconds_per_step=facts.seconds_per_step,
            sources=(source,),
            metadata=facts.metadata,
        ),
        events=tuple(events),
        problems=_problems(document, entries, source),
        findings=tuple(findings),
        coverage=Coverage(
            bytes_read=document.size,
            records=len(events),
            not_understood=len(tally.left),
            examples=tuple(tally.left[:5]),
            other={"sentence understood": tally.understood, **tally.other},
        ),
    )


def _run_name(entries: list[Entry]) -> str | None:
    prefixes = Counter(launch.prefix for entry in entries for launch in entry.launches)
    return re.sub(r"[^a-z0-9._-]+", "-", prefixes.most_common(1)[0][0].lower()) if prefixes else None


def _clocks(entries: list[Entry]) -> clock.Clocks:
    headed = [
        (entry.printed.local, entry.launches[0].stamp)
        for entry in entries
        if entry.printed.hour is not None and entry.printed.local is not None and entry.launches
    ]
    filed = [(launch.stamp, began) for entry in entries for launch in entry.launches for began in entry.began]
    return clock.establish(headed, filed)


def _interval(told: list[Incident]) -> int | None:
    changes = [draft.after for incident in told for draft in incident.drafts if draft.field == "checkpoint_interval"]
    return int(changes[-1]) if changes and changes[-1] else None


def _apply_steps(told: list[Incident], doubts: list[Doubt]) -> None:
    """Let events carry the likely step, with the print kept in their detail."""
    for doubt in doubts:
        for incident in told:
            if incident.place != doubt.entry or doubt.step is None:
                continue
            for index, draft in enumerate(incident.drafts):
                if draft.kind in MOVES and draft.step == doubt.printed_step:
                    detail = {**draft.detail, "printed_step": str(draft.step), "approximate": "step"}
                    incident.drafts[index] = replace(draft, step=doubt.step, detail=detail)


def _stable_before(told: list[Incident]) -> None:
    """A sentence that calls the last attempt stable is an outcome of the incident before."""
    for earlier, later in zip(told, told[1:], strict=False):
        for draft in later.drafts:
            if draft.kind is EventKind.RECOVERED:
                locator = {"locator": f"§ {later.entry.heading}", "told_by": later.name}
                earlier.drafts.append(Draft(kind=draft.kind, line=draft.line, quote=draft.quote, detail=locator))
        later.drafts = [
            draft for draft in later.drafts if draft.kind is not EventKind.RECOVERED or "told_by" in draft.detail
        ]


def _clock_finding(name: str, source: str, clocks: clock.Clocks, entries: list[Entry]) -> list[Finding]:
    if clocks.headings is None or clocks.launches is None or clocks.headings == clocks.launches:
        return []
    first = next(entry for entry in entries if entry.began and entry.launches)
    headings, launcher = _offset(clocks.headings), _offset(clocks.launches)
    return [
        Finding(
            run=name,
            check="clock",
            source=source,
            locator=f"§ {first.heading}",
            readings=(f"headings: {headings}", f"launch names: {launcher}"),
            likely=f"headings are printed in {headings}, launch names in {launcher}",
            reasons=(
                f"{clocks.agreeing} event file(s) begin within minutes of the launch beside them if launch names are in "
                f"{launcher}; and of {clocks.pairs} headings nearly all precede their launch only if they are in {headings}"
            ),
        )
    ]


def _offset(offset: timedelta) -> str:
    hours = offset.total_seconds() / 3600
    return "UTC" if not hours else f"UTC{hours:+g}"


def _finding(name: str, source: str, doubt: Doubt, entries: list[Entry], told: list[Incident]) -> Finding:
    entry = entries[doubt.entry]
    likely = f"{doubt.at:%Y-%m-%d %H:%M}" if doubt.at else f"about {doubt.step}" if doubt.step is not None else None
    return Finding(
        run=name,
        check=doubt.check,
        source=source,
        locator=f"§ {entry.heading}",
        readings=doubt.readings,
        likely=likely,
        reasons=doubt.reasons,
        incident=next((incident.name for incident in told if incident.place == doubt.entry), None),
    )


def _flag_findings(name: str, source: str, told: list[Incident]) -> list[Finding]:
    """Where an option and the words beside it name different ranges of batches, the words are kept as the event."""
    findings = []
    for incident in told:
        skips = [draft for draft in incident.drafts if draft.kind is EventKind.SKIP_BATCHES]
        flagged = [draft for draft in skips if draft.detail.get("flag")]
        worded = [draft for draft in skips if not draft.detail.get("flag")]
        if len(flagged) != 1 or len(worded) != 1:
            continue
        flag, word = flagged[0], worded[0]
        moves = [draft.step for draft in incident.drafts if draft.kind in MOVES and draft.step is not None]
        prose_fits = any(word.step is not None and 0 <= word.step - step <= 1 for step in moves)
        kept = replace(word, detail={**word.detail, "flag": flag.detail["flag"]})
        incident.drafts = [kept if draft is word else draft for draft in incident.drafts if draft is not flag]
        findings.append(
            Finding(
                run=name,
                check="flag_against_prose",
                source=source,
                locator=f"§ {incident.entry.heading}",
                readings=(
                    f"flag: steps {flag.step} to {flag.step_end}",
                    f"prose: steps {word.step} to {word.step_end}",
                ),
                likely=f"steps {word.step} to {word.step_end}" if prose_fits else None,
                reasons=(
                    "the words continue at the step that training is put back to, the option does not"
                    if prose_fits
                    else "the option and the words beside it name different steps"
                ),
                incident=incident.name,
            )
        )
    return findings


def _problems(document: Document, entries: list[Entry], source: str) -> tuple[Problem, ...]:
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
                message="no dated heading found; an entry begins with a heading such as `## 2024-05-06 14:00 Node failure`",
            )
        )
    return tuple(problems)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read, appends=False)
