"""Faults planted in the text of logbooks, one at a time: how many the audit finds, and how often it cries wolf."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from planted_text import BOOKS, SLIPS, Slip

from replay.history.audit import audit_files
from replay_parsers.records import Finding


def findings(folder: Path, text: str) -> list[Finding]:
    path = folder / "book.md"
    path.write_text(text, encoding="utf-8")
    reports, problems = audit_files([path])
    assert problems == []
    return [finding for report in reports for finding in report.findings]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Slip, bool, int]]:
    """For each slip whether it was found where it shows, and how many other places were called wrong."""
    folder = tmp_path_factory.mktemp("books")
    outcome = []
    for slip in SLIPS:
        found = findings(folder, slip.text)
        there = [one for one in found if any(part in one.locator for part in slip.where)]
        outcome.append((slip, bool(there), len({one.locator for one in found if one not in there})))
    return outcome


@pytest.mark.parametrize("name", BOOKS)
def test_the_books_without_a_fault_give_no_finding(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path, BOOKS[name]) == []


def test_recall_and_false_alarms(results: list[tuple[Slip, bool, int]], capsys: pytest.CaptureFixture[str]) -> None:
    planted = Counter(slip.kind for slip, _, _ in results)
    found = Counter(slip.kind for slip, hit, _ in results if hit)
    alarms = sum(others for _, _, others in results)
    traceless = [slip for slip, _, _ in results if slip.traceless]
    with capsys.disabled():
        print(f"\naudit of text: {sum(found.values())} of {len(results)} planted faults found, {alarms} false alarms")
        print(f"  {len(traceless)} of them leave no trace in the book")
        for kind, count in planted.items():
            print(f"  {kind:32} {found[kind]:3} of {count:3}")
        for slip, hit, others in results:
            if not hit or others:
                why = f"missed ({slip.traceless or 'it can be told'})" if not hit else f"{others} false alarms"
                print(f"  {why}: {slip}"[:200])
    assert sum(found.values()) >= 0.8 * len(results)
    assert sum(hit for slip, hit, _ in results if not slip.traceless) >= 0.95 * (len(results) - len(traceless))
    assert alarms <= 1
    assert len(results) >= 40


def test_faults_without_a_trace_are_not_guessed_at(results: list[tuple[Slip, bool, int]]) -> None:
    assert [str(slip) for slip, hit, others in results if slip.traceless and (hit or others)] == []
