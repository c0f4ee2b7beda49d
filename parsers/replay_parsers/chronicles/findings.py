"""What a logbook prints that cannot be right, as findings with all readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from replay_parsers.chronicles import clock
from replay_parsers.chronicles.consistency import Doubt
from replay_parsers.chronicles.dating import Order
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.entries import Entry
from replay_parsers.chronicles.grouping import MOVES
from replay_parsers.chronicles.incidents import Incident
from replay_parsers.records import EventKind, Finding


def clock_finding(name: str, source: str, clocks: clock.Clocks, entries: Sequence[Entry]) -> list[Finding]:
    """That headings and launch names are kept by different clocks, if they are."""
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
                f"{clocks.agreeing} event file(s) begin within minutes of the launch beside them if launch names are "
                f"in {launcher}; and of {clocks.pairs} headings nearly all precede their launch only if they are in "
                f"{headings}"
            ),
        )
    ]


def _offset(offset: timedelta) -> str:
    hours = offset.total_seconds() / 3600
    return "UTC" if not hours else f"UTC{hours:+g}"


def doubt_finding(name: str, source: str, doubt: Doubt, entries: Sequence[Entry], told: Sequence[Incident]) -> Finding:
    """A doubtful print as a finding."""
    likely = f"{doubt.at:%Y-%m-%d %H:%M}" if doubt.at else f"about {doubt.step}" if doubt.step is not None else None
    return Finding(
        run=name,
        check=doubt.check,
        source=source,
        locator=f"§ {entries[doubt.entry].heading}",
        readings=doubt.readings,
        likely=likely,
        reasons=doubt.reasons,
        incident=next((incident.name for incident in told if incident.place == doubt.entry), None),
    )


def flag_findings(name: str, source: str, told: Sequence[Incident]) -> list[Finding]:
    """Where an option and the words beside it name different batches, the words are kept as the event."""
    findings = []
    for incident in told:
        skips = [draft for draft in incident.drafts if draft.kind is EventKind.SKIP_BATCHES and draft.step is not None]
        flagged = [draft for draft in skips if draft.detail.get("flag")]
        worded = [draft for draft in skips if not draft.detail.get("flag")]
        if len(flagged) != 1 or len(worded) != 1:
            continue
        flag, word = flagged[0], worded[0]
        incident.drafts = [
            replace(word, detail={**word.detail, "flag": flag.detail["flag"]}) if draft is word else draft
            for draft in incident.drafts
            if draft is not flag
        ]
        findings.append(_flag_finding(name, source, incident, flag, word))
    return findings


def _flag_finding(name: str, source: str, incident: Incident, flag: Draft, word: Draft) -> Finding:
    moves = [draft.step for draft in incident.drafts if draft.kind in MOVES and draft.step is not None]
    fits = any(word.step is not None and 0 <= word.step - step <= 1 for step in moves)
    prose = f"steps {word.step} to {word.step_end}"
    return Finding(
        run=name,
        check="flag_against_prose",
        source=source,
        locator=f"§ {incident.entry.heading}",
        readings=(f"flag: steps {flag.step} to {flag.step_end}", f"prose: {prose}"),
        likely=prose if fits else None,
        reasons=(
            "the words continue at the step that training is put back to, the option does not"
            if fits
            else "the option and the words beside it name different steps"
        ),
        incident=incident.name,
    )


def notation_finding(name: str, source: str, order: Order, entries: Sequence[Entry]) -> list[Finding]:
    """That nothing in a book tells whether its dates begin with the day or the month, if nothing does."""
    first = next((entry for entry in entries if entry.printed is not None and entry.printed.ambiguous), None)
    if first is None or not order.example:
        return []
    day, month = (int(part) for part in order.example.rsplit(None, 1)[-1].split("/")[:2])
    return [
        Finding(
            run=name,
            check="date_notation",
            source=source,
            locator=f"§ {first.heading}",
            readings=(f"{order.example}: day {day} of month {month}", f"{order.example}: month {day}, day {month}"),
            likely=None,
            reasons=(
                "no date of the book has a number above 12, and its entries follow each other in time either way; "
                "they were read with the month first: write the dates as 2024-05-31 to make sure"
            ),
        )
    ]
