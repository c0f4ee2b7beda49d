"""The audit on raw notes as people keep them: a book of our own, and the public ones, each with one slip of the pen."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.history.audit import KNOWN, audit_files
from replay_parsers.records import Finding

BOOK = """# Training notes of a small run

- Global batch size: 256
- 8 nodes: 30.0s/iter

## 2024-03-01 09:00 Training starts

- small-run-2024.03.01-08:05:11

## 2024-03-03 10:20 Node failure

n07 broke down, restart from 5800 step

- small-run-2024.03.03-09:31:40

## 2024-03-05 16:00 Node failure

n03 lost its connection, restart from 12200 step

- small-run-2024.03.05-15:10:02

## 2024-03-08 11:00 Loss explodes

The loss explodes at 20150 step

- `--skip-train-iteration-range 20101-20300`
- Restarting from 20100 step and skipping the data in 20101-20300 steps
- small-run-2024.03.08-10:20:31

## 2024-03-11 08:00 Gradient spikes

Reducing minimum lr from 6e-6 to 3e-6, restarting from 28400 step

- `--min-lr 3e-6`
- small-run-2024.03.11-07:12:09

## 2024-03-14 20:00 Node failure

n05 broke down, restarting from 38000 step

- small-run-2024.03.14-19:22:54
"""


def findings(path: Path, text: str) -> list[Finding]:
    """What the audit itself finds in ``text``, the clocks of the book aside."""
    path.write_text(text)
    reports, problems = audit_files([path])
    assert problems == []
    return [
        one.finding
        for report in reports
        for one in report.found
        if one.by != KNOWN and one.finding.incident is not None
    ]


def test_the_book_as_it_is_gives_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path / "notes.md", BOOK) == []


@pytest.mark.parametrize(
    ("was", "became", "heading", "likely"),
    [
        ("2024-03-05 16:00", "2024-03-06 16:00", "2024-03-06 16:00", "2024-03-05 16:00"),
        ("2024-03-05 16:00", "2024-05-03 16:00", "2024-05-03 16:00", "2024-03-05 16:00"),
        ("2024-03-11 08:00", "2024-03-10 08:00", "2024-03-10 08:00", "2024-03-11 08:00"),
        ("28400 step", "82400 step", "2024-03-11 08:00", "28400"),
        ("38000 step", "83000 step", "2024-03-14 20:00", None),
        ("from 20100 step", "from 20200 step", "2024-03-08 11:00", None),
        (
            "`--skip-train-iteration-range 20101-20300`",
            "`--skip-train-iteration-range 21101-21300`",
            "2024-03-08",
            None,
        ),
        ("`--min-lr 3e-6`", "`--min-lr 3e-5`", "2024-03-11 08:00", None),
    ],
)
def test_one_slip_is_found_where_it_is(tmp_path: Path, was: str, became: str, heading: str, likely: str | None) -> None:
    assert was in BOOK
    found = findings(tmp_path / "notes.md", BOOK.replace(was, became))
    assert found, f"{was} -> {became} went unnoticed"
    assert all(heading in finding.locator for finding in found), [finding.locator for finding in found]
    if likely is not None:
        assert likely in {finding.likely for finding in found}


SLIPS = [
    ("## 2022-05-11 12:13", "## 2022-05-14 12:13", "2022-05-14 12:13"),
    ("restart from 7300 step", "restart from 3700 step", "2022-05-11 12:13"),
    ("restart from 15400 step", "restart from 51400 step", "2022-05-20 00:03"),
    ("--warmup-samples-after-loading 2112000", "--warmup-samples-after-loading 2212000", "2022-05-28 20:50"),
    ("Restaring from 33600 step", "Restaring from 36300 step", "2022-06-12 10:00"),
    ("## 2022-06-14 03:00", "## 2022-06-04 03:00", "2022-06-04 03:00"),
    ("restarting from 39600 step", "restarting from 36900 step", "2022-06-19 00:10"),
    ("skipping the noisy data in 40701-40900", "skipping the noisy data in 47001-47900", "2022-06-20 09:10"),
    ("`--min-lr 4e-6`", "`--min-lr 4e-5`", "2022-06-22 21:00"),
    ("Restarting from 42700 step", "Restarting from 47200 step", "2022-06-22 21:00"),
]


@pytest.mark.parametrize(("was", "became", "heading"), SLIPS)
def test_one_more_slip_in_the_notes_of_glm_130b_is_found(
    upstream: Path, tmp_path: Path, was: str, became: str, heading: str
) -> None:
    text = (upstream / "glm-130b" / "main-log-en.md").read_text(encoding="utf-8")
    assert was in text
    before = {(one.incident, one.check) for one in findings(tmp_path / "main-log-en.md", text)}
    after = findings(tmp_path / "main-log-en.md", text.replace(was, became))
    new = [one for one in after if (one.incident, one.check) not in before]
    assert new, f"{was} -> {became} went unnoticed"
    assert any(heading in one.locator for one in new), [one.locator for one in new]
