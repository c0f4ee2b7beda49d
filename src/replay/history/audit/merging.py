"""The audit's findings and those that the logbook or its parser already holds, each thing told once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    found: list[Found] = []
    told: set[tuple[str | None, str, str, tuple[str, ...]]] = set()
    for finding in audited:
        twins = [one for one in rest if _same(finding, one)]
        rest = [one for one in rest if one not in twins]
        key = (finding.incident, family(finding), finding.likely or "", finding.readings)
        if key in told:
            continue
        told.add(key)
        found.append(Found(finding=_joined(finding, twins, by_people), by=BOTH if twins else AUDIT))
    found += [Found(finding=finding, by=KNOWN) for finding in rest]
    return _once(found)


def family(finding: Finding) -> str:
    """What a finding doubts: a date, a step, an option, a sum, or whatever its check says."""
    return _FAMILIES.get(finding.check, finding.check)


def _same(one: Finding, other: Finding) -> bool:
    if family(one) != family(other):
        return False
    if one.incident is None or other.incident is None:
        # Two statements on the clocks of the book are one.
        return one.incident == other.incident and (one.check == "clock" or one.locator == other.locator)
    return one.incident == other.incident


def _joined(finding: Finding, twins: Sequence[Finding], by_people: set[Finding]) -> Finding:
    if not twins:
        return finding
    told = [twin.likely for twin in twins if twin in by_people]
    readings = dict.fromkeys([*(reading for twin in twins for reading in twin.readings), *finding.readings])
    reasons = dict.fromkeys([finding.reasons, *(twin.reasons for twin in twins)])
    return replace(
        finding,
        check=twins[0].check,
        readings=tuple(readings),
        likely=next((one for one in (*told, finding.likely, *(twin.likely for twin in twins)) if one), None),
        reasons="; ".join(reason for reason in reasons if reason),
    )


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
