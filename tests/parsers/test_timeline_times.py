"""Times as printed, and what they mean on the run's clock."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from replay_parsers.printed_time import PrintedTimeError, parse_printed_time, printed_label
from replay_parsers.records import TimePrecision

SECOND = TimePrecision.SECOND
SHANGHAI = ZoneInfo("Asia/Shanghai")
PARIS = ZoneInfo("Europe/Paris")


@pytest.mark.parametrize(
    ("printed", "label", "utc", "precision"),
    [
        ("2022-06-20 09:10", "2022-06-20T09:10", datetime(2022, 6, 20, 1, 10, tzinfo=UTC), TimePrecision.MINUTE),
        ("2022-06-20T09:10", "2022-06-20T09:10", datetime(2022, 6, 20, 1, 10, tzinfo=UTC), TimePrecision.MINUTE),
        ("2022.06.26 16:00", "2022-06-26T16:00", datetime(2022, 6, 26, 8, 0, tzinfo=UTC), TimePrecision.MINUTE),
        ("2022/6/2 9:30", "2022-06-02T09:30", datetime(2022, 6, 2, 1, 30, tzinfo=UTC), TimePrecision.MINUTE),
        ("2022-03-21_13:34:34", "2022-03-21T13:34", datetime(2022, 3, 21, 5, 34, 34, tzinfo=UTC), TimePrecision.SECOND),
        (
            "2022-05-31 02:18:24 UTC",
            "2022-05-31T02:18",
            datetime(2022, 5, 31, 2, 18, 24, tzinfo=UTC),
            TimePrecision.SECOND,
        ),
        ("2022-03-11T11:42-08:00", "2022-03-11T11:42", datetime(2022, 3, 11, 19, 42, tzinfo=UTC), TimePrecision.MINUTE),
        ("2022-05-29", "2022-05-29", datetime(2022, 5, 29, tzinfo=UTC), TimePrecision.DAY),
        ("2022-04", "2022-04", datetime(2022, 4, 1, tzinfo=UTC), TimePrecision.MONTH),
        ("2024-02-29 00:00", "2024-02-29T00:00", datetime(2024, 2, 28, 16, 0, tzinfo=UTC), TimePrecision.MINUTE),
    ],
)
def test_common_notations_are_read(printed: str, label: str, utc: datetime, precision: TimePrecision) -> None:
    read = parse_printed_time(printed, SHANGHAI)
    assert (read.label, read.utc, read.precision) == (label, utc, precision)
    assert printed_label(printed) == label


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "today",
        "09:10",
        "2022",
        "2022-06-20 9",
        "2022-06-20 09:1",
        "20220620",
        "2022-06-20 09:10 CEST",
        "2022-06-20 09:10:11:12",
    ],
)
def test_what_is_no_time_is_refused(printed: str) -> None:
    with pytest.raises(PrintedTimeError, match="is no time"):
        parse_printed_time(printed, SHANGHAI)


@pytest.mark.parametrize(
    "printed", ["2023-02-29", "2022-04-31", "2022-00-10", "2022-05-00", "2022-05-01 24:00", "9999-01-01"]
)
def test_times_that_do_not_exist_are_refused_but_still_name_an_incident(printed: str) -> None:
    with pytest.raises(PrintedTimeError):
        parse_printed_time(printed, SHANGHAI)
    assert printed_label(printed).startswith(printed[:10])


def test_an_hour_that_the_clocks_skipped_is_refused() -> None:
    with pytest.raises(PrintedTimeError, match="put forward"):
        parse_printed_time("2022-03-27 02:30", PARIS)
    assert parse_printed_time("2022-03-27 03:30", PARIS).utc == datetime(2022, 3, 27, 1, 30, tzinfo=UTC)
