"""Any markdown logbook with dates: what a team's own book may look like."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from replay_parsers.chronicles import general
from replay_parsers.detection import detect
from replay_parsers.parser import Sample
from replay_parsers.records import Event, EventKind, Records

K = EventKind
FIXTURES = Path(__file__).parent / "fixtures"


def parse(text: str) -> Records:
    return general.parse(text.encode(), "book.md", "book")


def told(records: Records) -> list[tuple[str, K, int | None]]:
    return [
        ((event.incident or "").removeprefix("book/"), event.kind, event.step)
        for event in records.events
        if "told_by" not in event.detail
    ]


def one(records: Records, kind: K) -> Event:
    (event,) = [event for event in records.events if event.kind is kind]
    return event


# --- how entries begin ----------------------------------------------------------------------------------------

ENTRIES = {
    "headings": "## 2024-05-06 14:00 Restarted from step 4000\n\n## 2024-05-07 Loss spike at step 5000\n",
    "bullets": "# log\n- 2024-05-06 14:00: restarted from step 4000\n- 2024-05-07: loss spike at step 5000\n",
    "stars and dashes": "# l\n* 2024-05-06 14:00 — restarted from step 4000\n* 2024-05-07 — loss spike at step 5000\n",
    "bold lines": "**2024-05-06 14:00** restarted from step 4000\n\n**2024-05-07** Loss spike at step 5000\n",
    "plain lines": "# log\n2024-05-06 14:00 - restarted from step 4000\n2024-05-07 - loss spike at step 5000\n",
    "brackets": "# log\n[2024-05-06 14:00] restarted from step 4000\n[2024-05-07] Loss spike at step 5000\n",
    "table": "| when | what |\n|---|---|\n"
    "| 2024-05-06 14:00 | restarted from step 4000 |\n| 2024-05-07 | loss spike at step 5000 |\n",
    "hours below days": "## 6 May 2024\n- 14:00 restarted from step 4000\n## 7 May 2024\nLoss spike at step 5000\n",
    "american": "## May 6, 2024 2pm\nRestarted from step 4000\n## May 7, 2024\nLoss spike at step 5000\n",
    "continental": "## 06.05.2024 14:00\nRestarted from step 4000\n## 07.05.2024\nLoss spike at step 5000\n",
    "iso": "## 2024-05-06T14:00\nRestarted from step 4000\n## 2024-05-07\nLoss spike at step 5000\n",
    "chinese": "## 2024年5月6日 14:00\n从 4000 步重启\n## 2024年5月7日\nloss 在 5000 步突增\n",
    "chinese afternoon": "## 2024年5月6日 下午2点\n从 4000 步重启\n## 5月7日\nloss 在 5000 步突增\n",
    "weekday": "## Monday, 6 May 2024, 14:00\nRestarted from step 4000\n## 7 May 2024 (Tue)\nLoss spike at step 5000\n",
}


@pytest.mark.parametrize("text", ENTRIES.values(), ids=ENTRIES.keys())
def test_the_same_two_entries_in_many_notations(text: str) -> None:
    records = parse(text)
    assert told(records) == [("2024-05-06T14:00", K.RESTART, 4000), ("2024-05-07", K.LOSS_SPIKE, 5000)]
    assert general.recognise(Sample(path=Path("b.md"), head=text.encode(), whole=True)) >= 0.4


def test_hours_after_midnight_below_one_day_are_those_of_the_next() -> None:
    records = parse("## 2024-05-06\n- 23:50 the job crashed\n- 00:20 restarted from step 4000\n")
    assert [incident for incident, _, _ in told(records)] == ["2024-05-06T23:50", "2024-05-07T00:20"]


def test_a_missing_year_is_that_of_the_entry_before_and_goes_on_over_new_year() -> None:
    records = parse("## 2023-12-30 Node failure\n## Dec 31 Node failure\n## Jan 2 Node failure\n")
    assert [incident for incident, _, _ in told(records)] == ["2023-12-30", "2023-12-31", "2024-01-02"]


def test_days_written_first_are_recognised_by_their_numbers() -> None:
    records = parse("## 13/04/2021 Node failure\n## 05/05/2021 Node failure\n## 04/06/2021 Node failure\n")
    assert [incident for incident, _, _ in told(records)] == ["2021-04-13", "2021-05-05", "2021-06-04"]


@pytest.mark.parametrize(
    ("told", "put_back"),
    [
        ("Loss went to NaN at iteration 8100. Resumed from ckpt 8000.", [8000]),
        ("The loss went to 11 at step 8100.", []),
        ("Loss is going to inf by step 8100.", []),
        ("It exploded at 8100, so we went back to checkpoint 8000.", [8000]),
        ("It exploded at 8100 and we reverted to the 8000 checkpoint.", [8000]),
    ],
)
def test_a_loss_that_goes_to_some_value_is_not_put_back_there(told: str, put_back: list[int]) -> None:
    records = parse(f"# Log\n\n## 2024-06-04 02:40\n\n{told}\n\n## 2024-06-05 02:40\n\nA node failed.\n")
    assert [event.step for event in records.events if event.kind in (K.ROLLBACK, K.RESTART)] == put_back


MONTH = """
# Log

## 2022-04-12 Spike

The loss spiked at step 900.

## {}

A GPU died; restarted from step 1000.

## 2022-04-28 Slow node

A node failed; restarted from step 1500.
"""


@pytest.mark.parametrize(("printed", "findings"), [("2022-04-XX", 0), ("2022-04-20", 0), ("2022-07-XX", 1)])
def test_a_date_without_a_day_may_be_any_of_its_month(printed: str, findings: int) -> None:
    assert len(parse(MONTH.format(printed)).findings) == findings


def test_a_second_entry_with_the_same_print_is_numbered() -> None:
    records = parse("## 2024-05-06\nNode failure\n## 2024-05-06\nThe job crashed\n")
    assert [incident for incident, _, _ in told(records)] == ["2024-05-06", "2024-05-06-2"]


def test_undated_experiments_are_entries_by_their_heading() -> None:
    records = parse(
        "## Attempt 1\nDiverged at step 900.\n## Attempt 2\nLowered lr to 1e-4.\n## Ideas\nTry a smaller beta2.\n"
    )
    assert told(records) == [("attempt-1", K.DIVERGENCE, 900), ("attempt-2", K.LR_CHANGE, None)]
    assert all(event.time is None for event in records.events)


def test_numbered_headings_are_no_dates() -> None:
    records = parse("## 1.3 Node failure\n## 2.1 Node failure\n### 2.1.1 Node failure\n## 1.3B run: node failure\n")
    assert not [incident for incident, _, _ in told(records) if incident[0].isdigit() and "-" in incident[:3]]


def test_headings_below_an_entry_belong_to_it() -> None:
    records = parse("## 2024-05-06 Loss spike at step 5000\n### What we did\nRolled back to step 4900.\n")
    assert told(records) == [("2024-05-06", K.LOSS_SPIKE, 5000), ("2024-05-06", K.ROLLBACK, 4900)]


def test_a_dated_title_is_no_entry_of_its_own() -> None:
    records = parse("# 2024-05-06 Training notes\n## 2024-05-06\nNode failure\n")
    assert told(records) == [("2024-05-06", K.NODE_FAILURE, None)]


def test_a_table_may_have_its_date_and_step_in_any_column() -> None:
    text = (
        "| # | Start | End | Step | Root cause | Fix |\n|---|---|---|---|---|---|\n"
        "| 1 | 2024-08-01 03:12 | 04:40 | 10200 | GPU fell off the bus on n114 | swapped node, resumed from 10000 |\n"
        "| 2 | 2024-08-09 | | 30120 | loss spike | rolled back to 30000, skipped 500 steps, LR x0.8 |\n"
    )
    records = parse(text)
    assert told(records) == [
        ("2024-08-01T03:12", K.GPU_FAILURE, 10200),
        ("2024-08-01T03:12", K.NODE_REPLACEMENT, None),
        ("2024-08-01T03:12", K.RESTART, 10000),
        ("2024-08-09", K.LOSS_SPIKE, 30120),
        ("2024-08-09", K.ROLLBACK, 30000),
        ("2024-08-09", K.SKIP_BATCHES, None),
        ("2024-08-09", K.LR_CHANGE, 30000),
    ]
    assert one(records, K.LR_CHANGE).detail["factor"] == "0.8"


def test_days_of_the_run_and_weekdays_may_stand_before_the_date() -> None:
    records = parse(
        "- **Day 2 (Tue 4 Feb 2025)** 06:30 job died, resumed @ step 1,750\n"
        "- **Day 9 (Tue 11 Feb 2025)** Node failure\n"
    )
    assert told(records) == [
        ("2025-02-04T06:30", K.CRASH, None),
        ("2025-02-04T06:30", K.RESTART, 1750),
        ("2025-02-11", K.NODE_FAILURE, None),
    ]


def test_a_book_of_one_day_is_dated_by_its_title_or_a_line() -> None:
    by_line = "# Training log\n\nTime: October, 15 2022 19:00\n\n## Comment\n\nThe loss became NaN. We halved the lr.\n"
    assert told(parse(by_line)) == [("2022-10-15T19:00", K.NAN_LOSS, None), ("2022-10-15T19:00", K.LR_CHANGE, None)]
    by_title = "# Training log of 15 October 2022\n\n## Comment\n\nThe loss became NaN.\n"
    assert told(parse(by_title)) == [("2022-10-15", K.NAN_LOSS, None)]


def test_dates_may_be_labelled_and_have_two_digits_of_the_year() -> None:
    records = parse("### 训练时间：25/1/20\nloss 停滞在5左右\n### 训练时间：25/1/21\n节点故障\n")
    assert told(records) == [("2025-01-20", K.PLATEAU, None), ("2025-01-21", K.NODE_FAILURE, None)]


def test_lists_of_different_kinds_need_not_follow_each_other_in_time() -> None:
    text = (
        "## Failures\n- 2024-08-01 Node failure\n- 2024-08-09 Node failure\n"
        "## Changes\n- 2024-08-02 halved lr\n- 2024-08-03 halved lr\n"
    )
    assert not parse(text).findings


# --- times ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "hour"),
    [
        ("All times in UTC.", 14),
        ("Times are in PT.", 21),
        ("Timestamps are Europe/Paris.", 12),
        ("时间均为北京时间。", 6),
    ],
)
def test_the_book_may_state_its_clock(statement: str, hour: int) -> None:
    records = parse(f"# log\n{statement}\n\n## 2024-05-06 14:00\nNode failure\n")
    assert records.events[0].time == datetime(2024, 5, 6, hour, tzinfo=UTC)


def test_without_a_clock_the_day_is_all_that_is_claimed() -> None:
    event = parse("## 2024-05-06 14:00\nNode failure\n").events[0]
    assert (event.time, str(event.time_precision)) == (datetime(2024, 5, 6, 14, tzinfo=UTC), "day")


def test_a_zone_at_the_time_itself_beats_all() -> None:
    event = parse("All times in UTC.\n## 2024-05-06 14:00 PT\nNode failure\n").events[0]
    assert (event.time, str(event.time_precision)) == (datetime(2024, 5, 6, 21, tzinfo=UTC), "minute")


# --- whole books ----------------------------------------------------------------------------------------------


def test_an_english_book_of_timed_bullets() -> None:
    records = general.parse((FIXTURES / "helios.md").read_bytes(), "helios.md", "book")
    assert told(records) == [
        ("2024-05-06T09:15", K.START, 0),
        ("2024-05-06T14:40", K.NETWORK_FAILURE, None),
        ("2024-05-06T14:40", K.NODE_REPLACEMENT, None),
        ("2024-05-06T14:40", K.RESTART, 1200),
        ("2024-05-06T23:55", K.GRAD_NORM_SPIKE, 3412),
        ("2024-05-06T23:55", K.WAIT, None),
        ("2024-05-06T23:55", K.RECOVERED_BY_ITSELF, None),
        ("2024-05-07T00:20", K.NAN_LOSS, 3650),
        ("2024-05-07T00:20", K.ROLLBACK, 3500),
        ("2024-05-07T00:20", K.SKIP_BATCHES, None),
        ("2024-05-07T11:00", K.LR_CHANGE, 5000),
        ("2024-05-07T18:30", K.MAINTENANCE, None),
        ("2024-05-09", K.THROUGHPUT_DROP, None),
        ("2024-05-09", K.GPU_FAILURE, None),
        ("2024-05-09", K.NODE_REPLACEMENT, None),
        ("2024-05-09", K.CHECKPOINT_INTERVAL_CHANGE, None),
        ("2024-05-09", K.RECOVERED, None),
    ]
    assert one(records, K.RESTART).lost_hours == 0.75
    assert one(records, K.MAINTENANCE).detail["hours"] == "3"


def test_a_chinese_book() -> None:
    records = general.parse((FIXTURES / "tianshu.md").read_bytes(), "tianshu.md", "book")
    assert told(records) == [
        ("2023-11-03T10:00", K.START, 0),
        ("2023-11-05T22:30", K.GPU_FAILURE, None),
        ("2023-11-05T22:30", K.NODE_REPLACEMENT, 2400),
        ("2023-11-05T22:30", K.RESTART, 2400),
        ("2023-11-09T03:20", K.LOSS_SPIKE, 9120),
        ("2023-11-09T03:20", K.GRAD_NORM_SPIKE, None),
        ("2023-11-09T03:20", K.ROLLBACK, 9000),
        ("2023-11-09T03:20", K.SKIP_BATCHES, 9001),
        ("2023-11-09T03:20", K.LR_CHANGE, 9000),
        ("2023-11-12T15:00", K.HANG, None),
        ("2023-11-12T15:00", K.STORAGE_FAILURE, None),
        ("2023-11-12T15:00", K.RESTART, 12500),
        ("2023-11-15", K.OPTIMIZER_BETAS_CHANGE, None),
        ("2023-11-15", K.GRAD_CLIP_CHANGE, None),
        ("2023-11-15", K.CHECKPOINT_INTERVAL_CHANGE, None),
        ("2023-12-02", K.END, None),
    ]
    assert records.run is not None
    assert records.run.batch_schedule[0].samples == 1536


def test_a_diary_in_prose() -> None:
    records = general.parse((FIXTURES / "osprey.md").read_bytes(), "osprey.md", "book")
    assert records.run is not None
    assert records.run.clock == "Europe/Berlin"
    assert told(records) == [
        ("2025-01-12", K.START, 0),
        ("2025-01-14", K.HANG, 3912),
        ("2025-01-14", K.CRASH, None),
        ("2025-01-14", K.RESTART, 3900),
        ("2025-01-19", K.DIVERGENCE, 14000),
        ("2025-01-19", K.GRAD_NORM_SPIKE, None),
        ("2025-01-19", K.ROLLBACK, 13750),
        ("2025-01-19", K.LR_CHANGE, 13750),
        ("2025-01-19", K.SKIP_BATCHES, None),
        ("2025-01-19", K.RECOVERED, None),
        ("2025-01-23", K.NODE_REPLACEMENT, None),
        ("2025-01-23", K.CHECKPOINT_INTERVAL_CHANGE, None),
        ("2025-01-30", K.OPTIMIZER_BETAS_CHANGE, None),
        ("2025-01-30", K.GRAD_CLIP_CHANGE, None),
        ("2025-01-30", K.Z_LOSS_CHANGE, None),
        ("2025-02-03", K.NAN_LOSS, 41017),
        ("2025-02-03", K.DATA_DEFECT, None),
        ("2025-02-03", K.NODE_REPLACEMENT, 41000),
        ("2025-02-03", K.ROLLBACK, 41000),
        ("2025-02-11", K.DATA_CHANGE, 60000),
        ("2025-02-15", K.END, None),
    ]


def test_postmortems_of_labelled_lines() -> None:
    records = general.parse((FIXTURES / "postmortems.md").read_bytes(), "postmortems.md", "book")
    assert told(records) == [
        ("2024-11-02T04:17", K.NAN_LOSS, 88210),
        ("2024-11-02T04:17", K.GPU_FAILURE, None),
        ("2024-11-02T04:17", K.NODE_REPLACEMENT, None),
        ("2024-11-02T04:17", K.ROLLBACK, 88000),
        ("2024-11-05T22:03", K.THROUGHPUT_DROP, None),
        ("2024-11-05T22:03", K.WAIT, None),
        ("2024-11-09T13:45", K.GRAD_NORM_SPIKE, 97330),
        ("2024-11-09T13:45", K.ROLLBACK, 97000),
        ("2024-11-09T13:45", K.LR_CHANGE, 97000),
        ("2024-11-09T13:45", K.RECOVERED, None),
    ]
    back = next(event for event in records.events if event.step == 88000)
    assert (back.lost_hours, back.lost_steps, back.time) == (1.5, 210, datetime(2024, 11, 2, 4, 17, tzinfo=UTC))


def test_a_chinese_list_without_years() -> None:
    records = general.parse((FIXTURES / "dashiji.md").read_bytes(), "dashiji.md", "book")
    assert told(records) == [
        ("03-01T10:00", K.START, 0),
        ("03-03T02:15", K.CRASH, None),
        ("03-03T02:15", K.NETWORK_FAILURE, None),
        ("03-03T02:15", K.NODE_REPLACEMENT, 3200),
        ("03-03T02:15", K.RESTART, 3200),
        ("03-05T19:00", K.LOSS_SPIKE, 7350),
        ("03-05T19:00", K.WAIT, None),
        ("03-05T19:00", K.RECOVERED_BY_ITSELF, None),
        ("03-08T08:30", K.DIVERGENCE, None),
        ("03-08T08:30", K.ROLLBACK, 12000),
        ("03-08T08:30", K.LR_CHANGE, 12000),
        ("03-08T08:30", K.SKIP_BATCHES, None),
        ("03-12", K.BATCH_SIZE_CHANGE, None),
        ("03-15T23:40", K.STORAGE_FAILURE, None),
        ("03-20", K.DATA_CHANGE, 20000),
        ("03-28", K.END, None),
    ]
    assert all(event.time is None for event in records.events)
    assert one(records, K.STORAGE_FAILURE).lost_steps == 200


def test_detection_takes_it_for_a_logbook_and_other_files_for_none(tmp_path: Path) -> None:
    assert detect(FIXTURES / "helios.md").parser.name == "markdown-logbook"
    for text in (
        "# Readme\n\nInstall with pip.\n\n## Usage\n\nRun it.\n",
        "2024-05-06 14:00:01,123 INFO step 1\n" * 50,
    ):
        assert general.recognise(Sample(path=tmp_path / "x.md", head=text.encode(), whole=True)) < 0.3


def test_what_is_not_understood_is_left_over_with_its_line() -> None:
    coverage = parse("## 2024-05-06\nNode failure. The cafeteria was closed.\n\nWe sang a song.\n").coverage
    assert coverage.not_understood == 2
    assert coverage.examples == ("line 2: The cafeteria was closed.", "line 4: We sang a song.")
    assert coverage.other["sentence understood"] == 1
