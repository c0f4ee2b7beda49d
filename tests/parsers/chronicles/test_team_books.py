"""What teams write in books of their own: each line a habit met in some of them, and what a careful reader takes
from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay_parsers.chronicles import general
from replay_parsers.parser import Sample
from replay_parsers.records import Event, EventKind, Records

K = EventKind


def parse(text: str) -> Records:
    return general.parse(text.encode(), "book.md", "book")


def told(text: str) -> list[tuple[K, int | None, float | None, float | None]]:
    records = parse(f"# Log\n\n## 2024-05-06\n\n{text}\n\n## 2024-05-09\n\nThe cafeteria was closed.\n")
    return [
        (event.kind, event.step, event.before, event.after)
        for event in records.events
        if "told_by" not in event.detail and event.evidence != "derived"
    ]


def events(text: str) -> list[Event]:
    return [event for event in parse(text).events if "told_by" not in event.detail]


HABITS = {
    # checkpoints, as numbers are written
    "We restarted from checkpoint 7,500.": [(K.RESTART, 7500, None, None)],
    "restarted from ckpt 7.5k": [(K.RESTART, 7500, None, None)],
    "Resumed from checkpoint 12_500.": [(K.RESTART, 12500, None, None)],
    "We went back to 27,000.": [(K.ROLLBACK, 27000, None, None)],
    "We went back to 64 nodes.": [(K.TOPOLOGY_CHANGE, None, None, 64)],
    "forked `b2` from step 6000": [(K.RESTART, 6000, None, None)],
    "job back at 10:50 from the 71,250 checkpoint": [(K.RESTART, 71250, None, None)],
    "人工隔离后从 41000 步拉起": [(K.RESTART, 41000, None, None)],
    # beginnings and ends
    "Launch day! Started at 18:00 on 256 GPUs, lr=3e-4, wd=0.1.": [(K.START, 0, None, None)],
    "We began training on 512 GPUs with a learning rate of 1.2e-4.": [(K.START, 0, None, None)],
    "Kicked off the run from scratch on 48 nodes.": [(K.START, 0, None, None)],
    "We restarted from scratch.": [(K.RESTART_FROM_SCRATCH, None, None, None)],
    "Run finished at step 36,000.": [(K.END, 36000, None, None)],
    "The run completed validation.": [],
    # where and how much, in a clause of its own
    "Second spike, step 16,320.": [(K.LOSS_SPIKE, 16320, None, None)],
    "Loss spiked at step 900, going from 2.1 to 7.8.": [(K.LOSS_SPIKE, 900, 2.1, 7.8)],
    "loss 在 3400 步突然飙升，从 2.1 涨到 7.8": [(K.LOSS_SPIKE, 3400, 2.1, 7.8)],
    "grad norm peaks at 92": [(K.GRAD_NORM_SPIKE, None, None, 92)],
    "Grad norm went up to 45.": [(K.GRAD_NORM_SPIKE, None, None, 45)],
    "梯度范数也变大": [(K.GRAD_NORM_SPIKE, None, None, None)],
    # settings
    "restarted from step 6000 with clip 0.5 (was 1.0)": [
        (K.RESTART, 6000, None, None),
        (K.GRAD_CLIP_CHANGE, 6000, 1.0, 0.5),
    ],
    "I restarted from step 13,500 with z-loss 1e-4.": [
        (K.RESTART, 13500, None, None),
        (K.Z_LOSS_CHANGE, 13500, None, 1e-4),
    ],
    "LR now 0.8e-4 instead of 1e-4.": [(K.LR_CHANGE, None, 1e-4, 0.8e-4)],
    "学习率由 1.2e-4 下调至 1e-4": [(K.LR_CHANGE, None, 1.2e-4, 1e-4)],
    "节点数从 64 增加到 96": [(K.TOPOLOGY_CHANGE, None, 64, 96)],
    "Resumed from step 900, this time with a different data seed and clip norm 0.3.": [
        (K.RESTART, 900, None, None),
        (K.SEED_CHANGE, 900, None, None),
        (K.GRAD_CLIP_CHANGE, 900, None, 0.3),
    ],
    "Enabled z-loss (1e-4).": [(K.Z_LOSS_CHANGE, None, None, 1e-4)],
    "Checkpoint every 200 steps instead of every 1000.": [(K.CHECKPOINT_INTERVAL_CHANGE, None, 1000, 200)],
    "We turned on gradient clipping at 1.0.": [(K.GRAD_CLIP_CHANGE, None, None, 1.0)],
    "Weight decay 0.1 -> 0.05; beta2 0.95 -> 0.97; effective from step 123,000.": [
        (K.WEIGHT_DECAY_CHANGE, 123000, 0.1, 0.05),
        (K.OPTIMIZER_BETAS_CHANGE, 123000, 0.95, 0.97),
    ],
    # machines
    "Kicked hgx-219.": [(K.NODE_REPLACEMENT, None, None, None)],
    "Throughput down 20%.": [(K.THROUGHPUT_DROP, None, None, None)],
    "grad norm 超过 100": [(K.GRAD_NORM_SPIKE, None, None, None)],
    "Node k-17 dropped out with an ECC error at step 4,210.": [(K.GPU_FAILURE, 4210, None, None)],
    "node gpu-12 out": [(K.NODE_FAILURE, None, None, None)],
    "node gpu-12 out of memory": [(K.MEMORY_ERROR, None, None, None)],
    "job crashed: CUDA OOM on rank 211": [(K.CRASH, None, None, None), (K.MEMORY_ERROR, None, None, None)],
    "Both hosts were drained and replaced by spares.": [(K.NODE_REPLACEMENT, None, None, None)],
    "换上 node-40": [(K.NODE_REPLACEMENT, None, None, None)],
    "NCCL 超时": [(K.NETWORK_FAILURE, None, None, None)],
    "The parallel file system filled up.": [(K.STORAGE_FAILURE, None, None, None)],
    "A bad InfiniBand link.": [(K.NETWORK_FAILURE, None, None, None)],
    "The spot instances were reclaimed.": [(K.NODE_FAILURE, None, None, None)],
    # what came of it
    "It has been stable ever since.": [(K.RECOVERED, None, None, None)],
    "Loss looks healthy since.": [(K.RECOVERED, None, None, None)],
    "Loss spike at step 8,450, went away without intervention.": [
        (K.LOSS_SPIKE, 8450, None, None),
        (K.RECOVERED_BY_ITSELF, None, None, None),
    ],
    "The loss has been climbing since step 9,600.": [(K.DIVERGENCE, 9600, None, None)],
    "Loss spike at step 300, which came back by itself.": [
        (K.LOSS_SPIKE, 300, None, None),
        (K.RECOVERED_BY_ITSELF, None, None, None),
    ],
    "The spike came back.": [(K.LOSS_SPIKE, None, None, None), (K.RECURRED, None, None, None)],
    # what did not happen
    "If spikes come back, we would lower beta2 to 0.95.": [],
    "If the loss spikes we may want to roll back to step 4000.": [],
    "Lower the LR if it happens again.": [],
    "如果 loss 再次飙升，就回退到 4000 步": [],
    "Restarts now take 6 min instead of 40.": [],
}


@pytest.mark.parametrize(("text", "expected"), HABITS.items(), ids=HABITS.keys())
def test_a_habit_of_writing(text: str, expected: list[tuple[K, int | None, float | None, float | None]]) -> None:
    assert sorted(told(text), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("told", ["restart from step 3,000 (-1h)", "restarted from 3000, 60 min lost"])
def test_lost_hours_may_be_short_notes(told: str) -> None:
    records = events(f"## 2024-05-06\n\nA node failed; {told}\n\n## 2024-05-07\n\nA node failed.\n")
    assert 1.0 in [event.lost_hours for event in records]


def test_a_column_of_lost_time_belongs_to_its_row() -> None:
    records = events(
        "| Date | Step | Event | Action | Downtime |\n|---|---|---|---|---|\n"
        "| 2024-07-03 | 5210 | NCCL timeout | restarted from 5000 | 1.5 h |\n"
        "| 2024-07-10 | 20317 | Node n-08 unreachable | Replaced | 45 min |\n"
    )
    assert [(event.kind, event.step, event.detail.get("hours")) for event in records] == [
        (K.NETWORK_FAILURE, 5210, None),
        (K.RESTART, 5000, "1.5"),
        (K.NODE_FAILURE, 20317, "0.75"),
        (K.NODE_REPLACEMENT, None, None),
    ]


def test_a_column_named_after_hours_may_hold_bare_numbers() -> None:
    records = events(
        "| # | Opened | Symptom | Resolution | Hours lost |\n|--:|---|---|---|--:|\n"
        "| 1 | Apr 3, 2025 | Job hung at step 8,120 | resumed from 8,000 | 2.5 |\n"
        "| 2 | Apr 9, 2025 | NaN loss at step 15,433 | resumed from 15,000 | 0 |\n"
    )
    assert [(event.incident, event.lost_hours) for event in records if event.lost_hours is not None] == [
        ("book/2025-04-03", 2.5)
    ]


def test_a_postmortem_of_one_day_tells_by_the_hour() -> None:
    text = (
        "# Post-mortem: step 52k\n\n**Date:** 2024-09-17\n\n## Timeline\n- 01:20 grad norm spikes to 30\n"
        "- 07:10 restart from 52,000\n\n## Action items\n- Lower the LR if it happens again.\n"
    )
    assert general.recognise(Sample(path=Path("b.md"), head=text.encode(), whole=True)) >= 0.4
    assert [(event.incident, event.kind, event.step) for event in events(text)] == [
        ("book/2024-09-17", K.GRAD_NORM_SPIKE, None),
        ("book/2024-09-17", K.RESTART, 52000),
    ]


def test_log_lines_pasted_without_a_fence_are_scalars_too() -> None:
    lines = "".join(f" iteration  {step}/  9000 | lm loss: 2.5E+00 | grad norm: 0.5 |\n" for step in (100, 110))
    records = parse(f"# Log\n\n## 2024-05-06\n\nNode failure.\n{lines}\nRestarted from step 100.\n\n## 2024-05-07\n")
    assert records.scalars.step.tolist() == [100, 100, 110, 110]
    assert [event.kind for event in records.events] == [K.NODE_FAILURE, K.RESTART]


THREAD = """# Cooldown run, issue 77

**ana** opened this issue on Oct 2, 2024

We train an 8B model.

---

**bela** commented on Oct 9, 2024

Loss spiked at step 14k. I restarted from step 13,500.

---

**ana** commented on Oct 12, 2024

> Loss spiked at step 14k. I restarted from step 13,500.

A node failed at step 22k.
"""


def test_comments_of_a_thread_are_entries_and_quote_each_other_without_telling_it_twice() -> None:
    assert [(event.incident, event.kind, event.step) for event in events(THREAD)] == [
        ("book/2024-10-09", K.LOSS_SPIKE, 14000),
        ("book/2024-10-09", K.ROLLBACK, 13500),
        ("book/2024-10-12", K.NODE_FAILURE, 22000),
    ]


def test_a_year_in_the_title_may_stand_before_a_chinese_letter() -> None:
    (event,) = events("# 训练日记（2024年）\n\n### 3月5日\n\n节点故障\n\n### 3月6日\n\n继续\n")[:1]
    assert event.incident == "book/2024-03-05"


@pytest.mark.parametrize(
    ("printed", "incident"),
    [
        ("4. März 2024", "2024-03-04"),
        ("12. Dezember 2023", "2023-12-12"),
        ("5 février 2024", "2024-02-05"),
        ("1er août 2024", "2024-08-01"),
        ("3 juillet 2024", "2024-07-03"),
        ("3 juin 2024", "2024-06-03"),
    ],
)
def test_german_and_french_dates_are_found_though_the_prose_is_counted_as_not_understood(
    printed: str, incident: str
) -> None:
    text = f"# Buch\n\n## {printed}\n\nKnoten neun ausgefallen.\n\nNeustart.\n\n## 9 mai 2025\n\nlr 2e-4 → 1e-4\n"
    assert general.recognise(Sample(path=Path("b.md"), head=text.encode(), whole=True)) >= 0.5
    records = parse(text + f"\n## {printed} encore\n\nNode failure\n")
    assert records.coverage.not_understood >= 2
    assert {event.incident for event in records.events} == {f"book/{incident}-2", "book/2025-05-09"}


CHANGELOG = """# Changelog

## [Unreleased]

## [1.4.0] - 2024-06-11
### Changed
- Default gradient clipping lowered from 1.0 to 0.5.
### Fixed
- Crash when a node fails.

## [1.3.2] - 2024-04-02
### Fixed
- Loss spike after resuming.
"""


@pytest.mark.parametrize(
    "text",
    [
        CHANGELOG,
        CHANGELOG.replace("# Changelog", "# History").replace("[", "v").replace("]", ""),
        "# Release notes\n\n## v2.0 (May 3, 2024)\n\nNaN loss fixed.\n",
    ],
)
def test_a_list_of_releases_is_no_logbook(text: str) -> None:
    assert general.recognise(Sample(path=Path("b.md"), head=text.encode(), whole=True)) == 0.0


def test_a_log_of_changes_to_a_run_is_one() -> None:
    text = "# Change log of the run\n\n## 2024-05-06 halved lr\n\n## 2024-05-09 Node failure\n"
    assert general.recognise(Sample(path=Path("b.md"), head=text.encode(), whole=True)) >= 0.5
