"""Books in other forms than dated headings: tables, chats, times told from a moment; and how dates are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from growth import grows_with_its_size
from replay_parsers.chronicles import general
from replay_parsers.chronicles.beginnings import at_start
from replay_parsers.parser import Sample
from replay_parsers.records import EventKind, Records, Role

K = EventKind
MOVES = (K.RESTART, K.ROLLBACK)


def parse(text: str) -> Records:
    return general.parse(text.encode(), "book.md", "book")


def told(records: Records) -> list[tuple[str, K, int | None]]:
    return [
        ((event.incident or "").removeprefix("book/"), event.kind, event.step)
        for event in records.events
        if "told_by" not in event.detail
    ]


# --- tables ---------------------------------------------------------------------------------------------------


def test_a_table_says_where_the_run_was_and_from_where_it_went_on() -> None:
    records = parse(
        "# Interruptions\n\nTimes: Asia/Tokyo\n\n"
        "| # | Day | Time | Who | Stopped at step | Resumed from | Cause | Lost |\n|--|--|--|--|--|--|--|--|\n"
        "| 1 | 2025-03-04 | 06:15 | AB | - | 0 | start | - |\n"
        "| 2 | 2025-03-06 | 21:40 | CD | 4,410 | 4,250 | NCCL timeout | 25 min |\n"
        "| 3 | 2025-03-09 | 02:30 | AB | 9,876 | 9,500 | loss spike 2.4 -> 5.1, rolled back | 1.5 h |\n"
    )
    assert told(records) == [
        ("2025-03-04T06:15", K.START, 0),
        ("2025-03-06T21:40", K.NETWORK_FAILURE, 4410),
        ("2025-03-06T21:40", K.RESTART, 4250),
        ("2025-03-09T02:30", K.LOSS_SPIKE, 9876),
        ("2025-03-09T02:30", K.ROLLBACK, 9500),
    ]
    assert [e.lost_hours for e in records.events if e.lost_hours is not None] == [pytest.approx(25 / 60), 1.5]
    assert records.run is not None
    assert records.run.clock == "Asia/Tokyo"


def test_a_step_beside_a_bare_restart_is_what_was_loaded() -> None:
    records = parse(
        "| When | What | Action | Step |\n|--|--|--|--|\n| 2025-03-06 21:40 | n117 down | restart | 4250 |\n"
        "| 2025-03-07 10:00 | rate too high? | LR 3e-4 → 2e-4 | 5100 |\n"
    )
    assert told(records) == [
        ("2025-03-06T21:40", K.NODE_FAILURE, None),
        ("2025-03-06T21:40", K.RESTART, 4250),
        ("2025-03-07T10:00", K.LR_CHANGE, 5100),
    ]


# --- chats ----------------------------------------------------------------------------------------------------

CHATS = {
    "name, then hour": ("**ida** 08:05 AM\n{}", "**bo** 09:10 AM\n{}"),
    "hour in brackets": ("[08:05] ida: {}", "[09:10] bo: {}"),
    "plain": ("ida  8:05 AM\n{}", "bo  9:10 AM\n{}"),
}


@pytest.mark.parametrize("style", CHATS.values(), ids=CHATS.keys())
def test_what_is_said_about_one_trouble_is_one_incident_at_the_hour_of_the_first_message(
    style: tuple[str, str],
) -> None:
    first, second = style
    text = (
        "Monday, 3 March 2025\n\n"
        + first.format("loss spiked to 8 at step 7,040")
        + "\n\n"
        + second.format("not recovering. rolled back to 6,900, skipping 7,030 to 7,050")
        + "\n\nTuesday, 4 March 2025\n\n"
        + first.format("should we lower the LR to 1e-4?")
        + "\n\n"
        + second.format("node n1204 died, restarted from 9,100")
        + "\n"
    )
    records = parse(text)
    assert told(records) == [
        ("2025-03-03T08:05", K.LOSS_SPIKE, 7040),
        ("2025-03-03T08:05", K.ROLLBACK, 6900),
        ("2025-03-03T08:05", K.SKIP_BATCHES, 7030),
        ("2025-03-04T09:10", K.NODE_FAILURE, None),
        ("2025-03-04T09:10", K.RESTART, 9100),
    ]
    assert general.recognise(Sample(path=Path("b.md"), head=text.encode(), whole=True)) >= 0.4


# --- times from a moment --------------------------------------------------------------------------------------


def test_times_that_count_from_a_moment() -> None:
    records = parse(
        "# Post-mortem of 7 May 2024\n\nDate: 7 May 2024\n\n## Timeline\n"
        "- T+0 (07 May 2024, 21:00 UTC): loss spikes at step 30,410.\n"
        "- T+25min: on-call is paged.\n"
        "- T+1h10: rolled back to step 30,250 and skipped batches 30,400 to 30,420.\n"
        "- Two hours later the loss spiked again at step 30,630.\n"
        "- T+5h: rolled back to step 30,250 once more.\n"
        "- The next morning (9 May) all was well.\n"
        "- On 10 May at 08:30 node n3312 died; restarted from step 41,500.\n\n"
        "## Action items\n- Roll back 700 steps next time.\n"
    )
    assert [entry for entry in told(records) if entry[1] is not K.RECURRED] == [
        ("2024-05-07T21:00", K.LOSS_SPIKE, 30410),
        ("2024-05-07T21:00", K.ROLLBACK, 30250),
        ("2024-05-07T21:00", K.SKIP_BATCHES, 30400),
        ("2024-05-08T00:10", K.LOSS_SPIKE, 30630),
        ("2024-05-08T00:10", K.ROLLBACK, 30250),
        ("2024-05-10T08:30", K.NODE_FAILURE, None),
        ("2024-05-10T08:30", K.RESTART, 41500),
    ]
    assert [event.lost_steps for event in records.events if event.lost_steps] == []


def test_a_span_of_hours_tells_how_long_it_was() -> None:
    (stop,) = parse("## 2024-05-07\n- 02:10–04:40 down: scheduler upgrade\n").events
    assert (stop.kind, stop.detail["hours"]) == (K.MAINTENANCE, "2.5")


# --- dates and zones ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "key"),
    [
        ("17-Sep-2024", "2024-09-17"),
        ("17-Sep-24 04:05", "2024-09-17T04:05"),
        ("2024 September 17", "2024-09-17"),
        ("17.09.2024 4 Uhr", "2024-09-17T04:00"),
        ("20240917 0405", "2024-09-17T04:05"),
        ("2024-09-17 4h05", "2024-09-17T04:05"),
        ("04:05 17/09/2024", "2024-09-17T04:05"),
        ("9/17/24 4:05 PM", "2024-09-17T16:05"),
        ("九月十七日", "09-17"),
    ],
)
def test_more_notations_of_dates(printed: str, key: str) -> None:
    found = at_start(printed, bare=True)
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize(
    ("printed", "zone"),
    [
        ("2024-09-17 04:05 -0500", "Etc/GMT+5"),
        ("2024-09-17T04:05:00-07:00", "Etc/GMT+7"),
        ("2024-09-17 14:05-03:00", "Etc/GMT+3"),
        ("2024-09-17 10:05-11:30", None),
        ("2024-09-17 04:05 AEST", "Etc/GMT-10"),
        ("2024-09-17 04:05 SGT", "Asia/Singapore"),
        ("2024-09-17 04:05Z", "UTC"),
        ("2024-09-17 04:05 z-loss 1e-3", None),
        ("2024-09-17 04:05 ist der Knoten ausgefallen", None),
    ],
)
def test_zones_behind_a_time(printed: str, zone: str | None) -> None:
    found = at_start(printed, bare=True)
    assert found is not None
    assert found.zone == zone


@pytest.mark.parametrize(
    ("line", "clock"),
    [
        ("All times UTC.", "UTC"),
        ("All times UTC-3.", "Etc/GMT+3"),
        ("Times: America/Chicago", "America/Chicago"),
        ("| Time zone | JST |", "Asia/Tokyo"),
    ],
)
def test_a_book_says_its_clock(line: str, clock: str) -> None:
    records = parse(f"# Log\n\n{line}\n\n## 2024-09-17 04:05\nNode n1 died.\n\n## 2024-09-18 04:05\nNode n2 died.\n")
    assert records.run is not None
    assert records.run.clock == clock


def test_a_step_takes_some_seconds() -> None:
    records = parse("# Log\n\nOne step takes about 7.5 s.\n\n## 2024-09-17\nNode n1 died.\n")
    assert records.run is not None
    assert records.run.seconds_per_step == 7.5


def _book(*dates: str) -> Records:
    return parse("# Log\n\n" + "\n\n".join(f"## {date}\nNode n10{n} died." for n, date in enumerate(dates)) + "\n")


def test_one_date_that_can_only_be_day_first_decides_for_the_book() -> None:
    records = _book("02/03/2024", "05/03/2024", "14/03/2024")
    assert [incident for incident, _, _ in told(records)] == ["2024-03-02", "2024-03-05", "2024-03-14"]
    assert records.findings == ()


def test_the_order_of_the_entries_decides_where_no_number_does() -> None:
    records = _book("11/02/2024", "02/03/2024", "05/04/2024")
    assert [incident for incident, _, _ in told(records)] == ["2024-02-11", "2024-03-02", "2024-04-05"]


def test_dates_that_can_be_read_both_ways_are_a_finding() -> None:
    (finding,) = _book("02/03/2024", "04/03/2024", "09/03/2024").findings
    assert finding.check == "date_notation"
    assert finding.readings == ("02/03/2024: day 2 of month 3", "02/03/2024: month 2, day 3")


# --- time -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["Restarted from step {} after node n{} failed.\n", "```\n# {} {}\n"])
def test_one_long_entry_is_read_in_a_time_that_grows_with_its_length(line: str) -> None:
    def reading(size: int) -> Callable[[], None]:
        text = "## 2024-05-01 10:00 long\n" + "".join(line.format(37 * n + 100, n) for n in range(size // 60))

        def read() -> None:
            assert parse(text).end == len(text)

        return read

    assert grows_with_its_size(reading, 60_000)


def test_deeds_of_a_long_entry_are_all_kept() -> None:
    text = "## 2024-05-01 10:00\n" + "".join(f"Restarted from step {37 * n + 100}.\n" for n in range(300))
    steps = [event.step for event in parse(text).events if event.role in (Role.LIFECYCLE, Role.INTERVENTION)]
    assert steps == [37 * n + 100 for n in range(300)]


@pytest.mark.parametrize(
    "headings",
    [
        ("TRN-7 — 2024-09-02 07:30 — launch", "TRN-8 — 2024-09-06 19:05 — node crash"),
        ("#7 2024-09-02 07:30: launch", "#8 2024-09-06 19:05: node crash"),
        ("7. 2024-09-02 07:30 launch", "8. 2024-09-06 19:05 node crash"),
        ("Incident 7: 2024-09-02 07:30 launch", "Incident 8: 2024-09-06 19:05 node crash"),
        ("Attempt 7 — 2024-09-02 07:30 — launch", "Attempt 8 — 2024-09-06 19:05 — node crash"),
    ],
)
def test_headings_may_be_numbered_before_their_date(headings: tuple[str, str]) -> None:
    first, second = headings
    book = f"# Tern\n\n## {first}\n\nAll quiet.\n\n## {second}\n\nNode k031 died at step 2,600.\n".encode()
    assert general.PARSER.recognise(Sample(path=Path("tern.md"), head=book, whole=True)) >= 0.5
    events = {(incident, kind) for incident, kind, _ in told(parse(book.decode()))}
    assert {("2024-09-02T07:30", K.START), ("2024-09-06T19:05", K.NODE_FAILURE)} <= events


def test_a_list_of_releases_is_no_logbook_though_its_headings_are_numbered() -> None:
    book = b"# Changelog\n\n## [2.3.0] - 2024-09-02\n\n- Fixed a crash.\n\n## [2.2.1] - 2024-08-02\n\n- Fixed a hang.\n"
    assert general.PARSER.recognise(Sample(path=Path("CHANGELOG.md"), head=book, whole=True)) == 0.0
