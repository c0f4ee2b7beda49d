"""A hundred faults planted in copies of the logbooks: how many the audit finds, and how often it cries wolf."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from planted import PLANTERS, Plant, plant

from replay.history.audit import AUDIT, KNOWN, audit_records
from replay_parsers import read
from replay_parsers.records import Records


@pytest.fixture(scope="module")
def logbooks(root: Path) -> list[Records]:
    return [read(path) for path in sorted((root / "logbooks").glob("*.yaml"))]


def audited(records: tuple[Records, ...]) -> set[tuple[str | None, str, tuple[str, ...]]]:
    """What the audit finds by itself, without what the logbook's own notes say."""
    return {
        (one.finding.incident, one.finding.check, one.finding.readings)
        for report in audit_records([Records(**{**vars_of(one), "findings": ()}) for one in records])
        for one in report.found
        if one.by != KNOWN
    }


def vars_of(records: Records) -> dict[str, object]:
    return {name: getattr(records, name) for name in Records.__dataclass_fields__}


def _names(reading: str, value: str) -> bool:
    """Whether ``reading`` names ``value``, however it is written."""
    try:
        return float(value) in {float(one) for one in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", reading)}
    except ValueError:
        return False


@pytest.fixture(scope="module")
def results(logbooks: list[Records]) -> list[tuple[Plant, bool, int]]:
    """For each plant whether it was found, and how many other things are newly found."""
    sound = {one.source: audited((one,)) for one in logbooks}
    outcome = []
    for one in plant(logbooks, 100, seed=2022):
        found = audited(one.copies)
        new = found - sound[one.logbook]
        at_place = {finding for finding in new if finding[0] == one.incident}
        # What the sound copy has at the same incident may read otherwise now, but is no new alarm.
        before = {(finding[0], finding[1]) for finding in sound[one.logbook]}
        # Two entries that contradict each other may be told at either: the planted value is named then.
        at_place |= {finding for finding in new if any(_names(reading, one.became) for reading in finding[2])}
        elsewhere = {finding for finding in new - at_place if (finding[0], finding[1]) not in before}
        outcome.append((one, bool(at_place), len(elsewhere)))
    return outcome


def test_a_hundred_faults_of_every_kind_are_planted_in_every_logbook(
    results: list[tuple[Plant, bool, int]], logbooks: list[Records]
) -> None:
    assert len(results) == 100
    assert {one.kind for one, _, _ in results} == set(PLANTERS)
    # One that tells little may hold nothing that can be mistaken in these ways.
    possible = {
        records.source
        for records in logbooks
        if any(next(planter(records, random.Random(1)), None) for planter in PLANTERS.values())
    }
    assert {one.logbook for one, _, _ in results} == possible
    assert len(possible) >= 0.9 * len(logbooks)


def test_recall_and_false_alarms(results: list[tuple[Plant, bool, int]], capsys: pytest.CaptureFixture[str]) -> None:
    planted = Counter(one.kind for one, _, _ in results)
    found = Counter(one.kind for one, hit, _ in results if hit)
    alarms = sum(extra for _, _, extra in results)
    told = [one for one in results if not one[0].traceless]
    recall = sum(found.values()) / len(results)
    with capsys.disabled():
        print(f"\naudit: {sum(found.values())} of {len(results)} planted faults found, {alarms} false alarms")
        print(f"  of {len(told)} that leave a trace {sum(hit for _, hit, _ in told)} are found")
        for kind in PLANTERS:
            print(f"  {kind:28} {found[kind]:3} of {planted[kind]:3}")
        for one, hit, extra in results:
            if not hit or extra:
                note = f"missed ({one.traceless or 'it can be told'})" if not hit else f"{extra} false alarms"
                print(f"  {note}: {one.kind}, {one.incident}: {one.was} -> {one.became}"[:220])
    assert recall >= 0.8
    assert sum(hit for _, hit, _ in told) >= 0.9 * len(told)
    assert alarms <= 4


def test_on_the_sound_logbooks_the_audit_alone_finds_only_what_cannot_be_right(logbooks: list[Records]) -> None:
    """Every finding that no curator had noted, by incident: each is a contradiction in the source."""
    found = {
        (one.finding.incident, one.finding.check)
        for records in logbooks
        for report in audit_records([records])
        for one in report.found
        if one.by == AUDIT and "zh" not in records.source
    }
    assert found == {
        # From step 85,376 on 28 June to 94,767 on 4 July are 11.4 days at 105 s a step.
        ("bloom-176b/2022-06-28", "step_against_clock"),
    }
