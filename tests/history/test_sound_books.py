"""Books in which nothing contradicts itself, though a hasty reader might think so: the audit says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.history.audit import AuditReport, audit_files

WELL_BEFORE = """# Rolled back well before the spike

Times in UTC. 6.0 s/step.

## 2024-03-08 10:00 Launch

Started from step 0.

## 2024-03-12 12:00 Loss spike

Loss spiked at step 52,860. Rolled back to step 52,000 and skipped batches 52,700 to 53,000.

## 2024-03-15 12:00 Loss spike

Loss spiked at step 92,300. Rolled back to step 91,000 and skipped batches 92,250 to 92,350.
"""

BRANCHES = """# Two branches

Times in UTC. 10 s/step.

## 2024-05-01 09:00 Start

Run A, step 0.

## 2024-05-03 09:00 Branch B

Branched off run B from step 10,000 with LR 1e-4 instead of 2e-4.

## 2024-05-04 09:00 A: node failure

Node c21 died at step 25,000. Restarted from step 24,000.

## 2024-05-04 21:00 B: node failure

Node c22 died at step 21,000. Restarted from step 20,000.

## 2024-05-06 09:00 A: loss spike

Loss spike at step 42,000. Rolled back to step 41,000.

## 2024-05-06 18:00 B: loss spike

Loss spike at step 36,000. Rolled back to step 35,000.

## 2024-05-08 09:00 A: node failure

Node c23 died at step 58,000. Restarted from step 57,500.

## 2024-05-08 20:00 B: node failure

Node c24 died at step 53,000. Restarted from step 52,500.
"""

NO_NAMES = """# A branch whose entries are not named

Times in UTC. 10 s/step.

## 2024-05-01 09:00 Start

Started from step 0.

## 2024-05-04 09:00 Node failure

Node c21 died at step 25,000. Restarted from step 24,500. From here we forked off a second run with another seed.

## 2024-05-05 09:00 Node failure

Node c22 died at step 31,000. Restarted from step 30,500.

## 2024-05-05 19:00 Node failure

Node c23 died at step 26,000. Restarted from step 25,500.

## 2024-05-06 09:00 Node failure

Node c22 died at step 38,000. Restarted from step 37,500.
"""

FASTER = """# Steps became faster

Times in UTC. 8.0 s/step.

## 2024-03-08 10:00 Launch

Started from step 0 on 48 nodes.

## 2024-03-10 10:00 Node failure

Node c14 died at step 21,000. Restarted from step 20,500.

## 2024-03-12 10:00 More nodes

Moved to 96 nodes. Restarted from step 41,500.

## 2024-03-14 10:00 Node failure

Node c15 died at step 84,000. Restarted from step 83,500.

## 2024-03-16 10:00 Node failure

Node c16 died at step 126,500. Restarted from step 126,000.

## 2024-03-18 10:00 Node failure

Node c17 died at step 168,500. Restarted from step 168,000.
"""

FASTER_UNTOLD = FASTER.replace("More nodes", "Node failure").replace("Moved to 96 nodes.", "Node c19 died.")

TWO_LISTS = """# Page of a wiki

## Incidents

| Date | What happened | Step |
|---|---|---|
| 2023-11-02 | start of training | 0 |
| 2023-11-05 | node c7 died, restarted from 9,000 | 9,100 |
| 2023-11-09 | node c8 died, restarted from 21,000 | 21,200 |
| 2023-11-14 | node c9 died, restarted from 36,000 | 36,200 |
| 2023-11-18 | node c1 died, restarted from 48,000 | 48,100 |

## Maintenance

* 2023-11-04: node c2 was replaced, restarted from step 6,000.
* 2023-11-15: node c3 was replaced, restarted from step 39,000.
* 2023-11-20: node c4 was replaced, restarted from step 53,000.
"""

NEWEST_FIRST = """# The newest on top

## 2024-03-20 10:00 Node failure

Node c17 died at step 84,500. Restarted from step 84,000.

## 2024-03-17 10:00 Learning rate

Reduced the learning rate from 1.5e-4 to 1e-4. Restarted from step 63,000.

## 2024-03-14 10:00 Node failure

Node c15 died at step 42,500. Restarted from step 42,000.

## 2024-03-11 10:00 Learning rate

Reduced the learning rate from 2e-4 to 1.5e-4. Restarted from step 21,000.

## 2024-03-08 10:00 Start

Started from step 0.
"""

UNORDERED = """# Kept in no order

""" + "\n".join(
    f"## 2024-03-{day:02} 10:00 Node failure\n\nNode c{day} died. Restarted from step {1000 * day}.\n"
    for day in (8, 20, 3, 17, 11, 25, 6, 14, 22, 9)
)

SUMMARIES = """# Tables that are no sums of counts

## 2024-03-08 10:00 Start

Started from step 0.

## 2024-03-11 10:00 Node failure

Node c15 died at step 21,200. Restarted from step 21,000, lost about 250 steps.

## 2024-03-14 10:00 Loss spike

Loss spiked from 2.1 to 3.0 at step 42,500. We let it run on. Rolled back to step 42,000, lost 900 steps.

## Summary

| week | loss at its end | tokens, billions | restarts |
|---|---|---|---|
| 1 | 2.3 | 10.4 | 1 |
| 2 | 2.1 | 10.4 | 1 |
| total | 2.1 | 20.7 | 2 |

| kind | hours | share |
|---|---|---|
| training | 400 | 83.3% |
| idle | 80 | 16.7% |
| of which broken | 60 | 12.5% |
| total | 480 | 100% |

In total 12 nodes were seen to fail: 3 GPUs of 8 were replaced, and some 40 hours were lost.
"""

SCHEDULED = """# The learning rate decays by itself

## 2024-03-08 10:00 Start

Started from step 0.

## 2024-03-11 10:00 Learning rate

Reduced the learning rate from 3e-4 to 2.4e-4. Restarted from step 21,000.

## 2024-03-14 10:00 Learning rate

Reduced the learning rate from 1.9e-4 to 1.2e-4. Restarted from step 42,000.

## 2024-03-17 10:00 Learning rate

Raised the learning rate from 1.2e-4 to 2.4e-4 again. Restarted from step 61,000.
"""

OLDER_CHECKPOINT = """# The newest checkpoints were broken

Times in UTC. 10 s/step.

## 2024-03-08 10:00 Start

Started from step 0.

## 2024-03-11 10:00 Node failure

Node c15 died at step 25,200. Restarted from step 25,000.

## 2024-03-14 10:00 File system outage

Storage failed at step 50,500. The newest checkpoints were corrupted. Restarted from step 40,000.

## 2024-03-17 10:00 Node failure

Node c16 died at step 65,400. Restarted from step 65,000.
"""

BOOKS = {
    "well before the spike": WELL_BEFORE,
    "branches": BRANCHES,
    "branches without names": NO_NAMES,
    "faster for a stated reason": FASTER,
    "faster for good": FASTER_UNTOLD,
    "two lists": TWO_LISTS,
    "newest first": NEWEST_FIRST,
    "no order": UNORDERED,
    "tables that are no sums": SUMMARIES,
    "scheduled": SCHEDULED,
    "an older checkpoint": OLDER_CHECKPOINT,
}


def report_of(folder: Path, text: str) -> AuditReport:
    path = folder / "book.md"
    path.write_text(text, encoding="utf-8")
    reports, problems = audit_files([path])
    assert problems == []
    return reports[0]


@pytest.mark.parametrize("name", BOOKS)
def test_nothing_is_found_in_a_sound_book(tmp_path: Path, name: str) -> None:
    assert [(one.check, one.locator, one.readings) for one in report_of(tmp_path, BOOKS[name]).findings] == []


def test_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    assert "steps of branches" in report_of(tmp_path, NO_NAMES).unchecked
    assert report_of(tmp_path, UNORDERED).unchecked["order of dates"] == "the entries are not kept in the order of time"
    assert any("the speed" in why for why in report_of(tmp_path, FASTER_UNTOLD).unchecked.values())


def test_a_fault_in_a_branch_is_found_within_the_branch(tmp_path: Path) -> None:
    (finding,) = report_of(tmp_path, BRANCHES.replace("from step 57,500", "from step 75,500")).findings
    assert finding.check in ("restart_not_reached", "step_against_clock")
    assert "A: node failure" in finding.locator


def test_a_fault_is_found_where_the_newest_is_on_top(tmp_path: Path) -> None:
    found = report_of(tmp_path, NEWEST_FIRST.replace("2024-03-14 10:00", "2024-05-14 10:00")).findings
    assert [(one.check, one.likely) for one in found] == [("date_order", "2024-03-14 10:00")]


def test_after_a_stated_change_of_speed_the_new_one_is_the_measure(tmp_path: Path) -> None:
    assert report_of(tmp_path, FASTER.replace("from step 126,000", "from step 162,000")).findings
