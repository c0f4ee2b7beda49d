"""Dates and times in the notations of logbooks, English and Chinese."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from replay_parsers.chronicles import dates, general, zones
from replay_parsers.records import TimePrecision


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("2022-05-06 04:00 Training starts", "2022-05-06T04:00"),
        ("2022.06.26 16:00 Node failure", "2022-06-26T16:00"),
        ("2022/6/2 9:30", "2022-06-02T09:30"),
        ("[2024-06-01T08:00Z] launched", "2024-06-01T08:00"),
        ("2022-05-29 Smoothing", "2022-05-29"),
        ("2022-04-XX repeated crashes", "2022-04"),
        ("2023年11月3日 上午10点 开始", "2023-11-03T10:00"),
        ("2023年11月9日 凌晨3点20分", "2023-11-09T03:20"),
        ("11月24日下午3点半", "11-24T15:30"),
        ("May 6, 2022 at 5:30pm PT", "2022-05-06T17:30"),
        ("6 May 2022, 9pm", "2022-05-06T21:00"),
        ("November 11th, 2021 12:46am", "2021-11-11T00:46"),
        ("13/04/2021 - Launch", "2021-04-13"),
        ("31.12.2021", "2021-12-31"),
        ("20220506 restart", "2022-05-06"),
        ("May 2022", "2022-05"),
    ],
)
def test_dates_as_printed(text: str, key: str) -> None:
    printed = dates.find(text)
    assert printed is not None
    assert printed.key == key


@pytest.mark.parametrize(
    "text",
    [
        "step 4000",
        "3/4 of the data",
        "version 2.7.9",
        "2.4.1",
        "10%",
        "ratio 16:9 or so",
        "1653709957",
        "",
        "13/13/2021",
    ],
)
def test_other_numbers_are_no_dates(text: str) -> None:
    assert dates.find(text) is None


def test_a_printed_zone_beats_the_books_clock() -> None:
    printed = dates.find("2021-11-11 12:46pm PST")
    assert printed is not None
    assert printed.utc("Europe/Paris") == datetime(2021, 11, 11, 20, 46, tzinfo=UTC)


def test_a_date_that_does_not_exist_is_kept_as_printed() -> None:
    printed = dates.find("2023-02-30 10:00")
    assert printed is not None
    assert (printed.key, printed.local) == ("2023-02-30T10:00", None)


def test_precision_is_that_of_the_print() -> None:
    printed = [
        dates.find(text)
        for text in ("2022-05", "2022-05-06", "6 May 2022 9pm", "2022-05-06 04:00", "2022-05-06 04:00:01")
    ]
    assert [time.precision if time else None for time in printed] == [
        None,
        TimePrecision.DAY,
        TimePrecision.HOUR,
        TimePrecision.MINUTE,
        TimePrecision.SECOND,
    ]


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("UTC+8", "Etc/GMT-8"),
        ("UTC", "UTC"),
        ("PT", "America/Los_Angeles"),
        ("北京时间", "Asia/Shanghai"),
        ("XYZ", None),
    ],
)
def test_zones_by_name(printed: str, name: str | None) -> None:
    assert zones.zone_name(printed) == name


@pytest.mark.parametrize(
    "beginning", ["# Tern 12B (CET, bf16)\n", "# Tern (fp16, CET)\n", "# Tern\n\n12B, times CET.\n"]
)
def test_a_zone_named_beside_other_things_is_the_clock_of_the_book(beginning: str) -> None:
    book = beginning + "\n## 2024-01-06 14:00\n\nNode failure.\n\n## 2024-01-08 09:00\n\nNode failure.\n"
    first = general.parse(book.encode(), "tern.md", "tern").events[0]
    assert first.time == datetime(2024, 1, 6, 13, tzinfo=UTC)
