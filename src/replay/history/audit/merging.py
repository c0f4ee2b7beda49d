"""The audit's findings and those that the logbook or its parser already holds, each thing told once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay.history.audit.book import BRANCHES, DISORDERED, Notes
from replay_parsers.records import Finding

_FAMILIES = {
    "clock": "date",
    "date_order": "date",
    "step_against_clock": "step",
    "step_order": "step",
    "checkpoint_grid": "step",
    "checkpoint_name": "step",
    "restart_far_back": "step",
    "restart_not_reached": "step",
    "rollback_after_symptom": "step",
    "flag_against_prose": "option",
    "skip_range": "option",
}
_RETESTED = {"date_order": "order of dates", "step_against_clock": "steps against the clock"}
"""What a parser tests too, with less of the book: the audit's own comparison of it decides."""
AUDIT, KNOWN, BOTH = "audit", "source", "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding, and who found it: the ``audit`` by its own checks, the ``source`` (curator or parser), or ``both``."""

    finding: Finding
    by: str


def merge(audited: Sequence[Finding], curated: Sequence[Finding], parsed: Sequence[Finding]) -> list[Found]:
    """Known findings that the audit confirms become one with it; of equal findings by two sources one stays.

    A curator's likely value stands; a parser's gives way to the audit's, which has seen the whole book.
    """
    by_people = set(curated)
    rest = list(dict.fromkeys([*curated, *parsed]))
    by_place: dict[tuple[str, str], list[Finding]] = {}
    for finding in rest:
        by_place.setdefault(_place(finding), []).append(finding)
    found: list[Found] = []
    used: set[Finding] = set()
    told: set[tuple[str | None, str, str, tuple[str, ...]]] = set()
    for finding in audited:
        twins = [one for one in by_place.pop(_place(finding), []) if one not in used]
        used.update(twins)
        key = (finding.incident, family(finding), finding.likely or "", finding.readings)
        if key in told:
            continue
        told.add(key)
        found.append(Found(finding=_joined(finding, twins, by_people), by=BOTH if twins else AUDIT))
    found += [Found(finding=finding, by=KNOWN) for finding in rest if finding not in used]
    return _once(found)


def standing(parsed: Sequence[Finding], audited: Sequence[Finding], notes: Notes) -> list[Finding]:
    """The findings of parsers that the audit did not test itself and find sound, list by list and branch by branch.

    Nor do those stand that presume an order, or one course of training, that the audit finds the book not to keep.
    """
    confirmed = {_place(finding) for finding in audited}
    unordered = DISORDERED in notes.unchecked.values() or BRANCHES in notes.unchecked

    def tested(finding: Finding) -> bool:
        name = _RETESTED.get(finding.check, "")
        return bool(name) and (unordered or notes.compared[name] > 0)

    return [finding for finding in parsed if _place(finding) in confirmed or not tested(finding)]


def family(finding: Finding) -> str:
    """What a finding doubts: a date, a step, an option, a sum, or whatever its check says."""
    return _FAMILIES.get(finding.check, finding.check)


def _place(finding: Finding) -> tuple[str, str]:
    """What two findings on the same thing have in common: what they doubt, and where."""
    if finding.incident is not None:
        return family(finding), finding.incident
    # Two statements on the clocks of the book are one.
    return family(finding), "" if finding.check == "clock" else f"§ {finding.locator}"


def _joined(finding: Finding, twins: Sequence[Finding], by_people: set[Finding]) -> Finding:
    """One finding of the audit's and what was noted before.

    A parser tests dates and steps as the audit does, with less of the book, and would say the same again in other
    words; a person may add what no program sees.
    """
    if not twins:
        return finding
    people = [twin for twin in twins if twin in by_people]
    readings = list(finding.readings)
    for reading in (reading for twin in people for reading in twin.readings):
        if not any(_numbers(reading) <= _numbers(other) for other in readings) or not _numbers(reading):
            readings.append(reading)
    noted = dict.fromkeys(twin.reasons for twin in people if twin.reasons and twin.reasons != finding.reasons)
    likely = (*(twin.likely for twin in people), finding.likely, *(twin.likely for twin in twins))
    return replace(
        finding,
        check=twins[0].check,
        readings=tuple(readings),
        likely=next((one for one in likely if one), None),
        reasons=". Noted in the logbook: ".join([finding.reasons, *noted]),
    )


def _numbers(reading: str) -> set[str]:
    return set(re.findall(r"\d+", reading.replace(",", "")))


def _once(found: Sequence[Found]) -> list[Found]:
    """One for what two tellings print alike: the first telling's."""
    kept: dict[tuple[object, ...], Found] = {}
    for one in found:
        finding = one.finding
        place = finding.locator if finding.incident is None and finding.check != "clock" else ""
        kind = family(finding)
        what = "" if kind in ("date", "step", "option") and finding.incident else finding.likely or finding.readings
        key = (finding.run, kind, finding.incident, what, place)
        first = kept.get(key)
        if first is None:
            kept[key] = one
        elif first.by != one.by:
            kept[key] = Found(finding=first.finding, by=BOTH)
    return list(kept.values())
