"""The raw GLM-130B chronicle's style, on a logbook of our own: `fixtures/aurora.md`.

Its headings are two hours ahead of UTC and its launch names are in UTC; neither is written in it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from replay_parsers.chronicles import glm130b
from replay_parsers.files import sample
from replay_parsers.parser import Request
from replay_parsers.records import Event, EventKind, ProblemKind, Records, Role

K = EventKind
BOOK = Path(__file__).parent / "fixtures" / "aurora.md"


@pytest.fixture(scope="module")
def book() -> str:
    return BOOK.read_text(encoding="utf-8")


def parse(text: str) -> Records:
    return glm130b.parse(text.encode(), "aurora.md", "file-name")


def of(records: Records, incident: str, kind: K) -> list[Event]:
    return [event for event in records.events if event.incident == f"aurora-70b/{incident}" and event.kind is kind]


def one(records: Records, incident: str, kind: K) -> Event:
    (event,) = of(records, incident, kind)
    return event


def test_it_is_recognised_by_its_content_and_read_from_its_beginning() -> None:
    assert glm130b.PARSER.recognise(sample(BOOK)) > 0.9
    assert not glm130b.PARSER.appends
    (records,) = glm130b.PARSER.read(Request(path=BOOK, source="aurora.md", run="x"))
    assert records.format == "glm130b-chronicle"
    assert (records.start, records.end) == (0, BOOK.stat().st_size)
    assert not records.problems


def test_the_run_is_named_by_its_launches_and_described_by_the_undated_sections(book: str) -> None:
    run = parse(book).run
    assert run is not None
    assert (run.run, run.parameters, run.hardware) == ("aurora-70b", 70e9, "64 nodes")
    assert (run.seconds_per_step, run.batch_schedule[0].samples) == (40.0, 1024)
    assert run.metadata["MyTrainer"] == "0f0f0f0"


def test_every_dated_heading_is_an_incident_in_order(book: str) -> None:
    incidents = list(dict.fromkeys(event.incident for event in parse(book).events))
    assert incidents == [
        "aurora-70b/2023-03-01T10:00",
        "aurora-70b/2023-03-02T21:15",
        "aurora-70b/2023-03-04T09:30",
        "aurora-70b/2023-03-05T18:20",
        "aurora-70b/2023-03-06",
        "aurora-70b/2023-03-08T11:00",
        "aurora-70b/2023-03-08T16:40",
        "aurora-70b/2023-03-11T08:00",
        "aurora-70b/2023-03-11T08:00-2",
    ]


def test_the_two_clocks_are_established_from_event_files_and_launches(book: str) -> None:
    records = parse(book)
    assert records.run is not None
    assert records.run.clock == "Etc/GMT-2"
    clock = next(finding for finding in records.findings if finding.check == "clock" and finding.incident is None)
    assert clock.readings == ("headings: UTC+2", "launch names: UTC")
    seen = one(records, "2023-03-04T09:30", K.LOSS_EXPLOSION)
    assert seen.time == datetime(2023, 3, 4, 7, 30, tzinfo=UTC)
    back = one(records, "2023-03-04T09:30", K.ROLLBACK)
    assert back.time == datetime(2023, 3, 4, 7, 41, tzinfo=UTC)
    assert back.detail["run_name"] == "aurora-70B-2023.03.04-07:41:00"


def test_without_event_files_no_zone_is_claimed_and_times_are_trusted_to_the_day(book: str) -> None:
    text = "\n".join(line for line in book.splitlines() if "tfevents" not in line)
    records = parse(text)
    assert records.run is not None
    assert records.run.clock is None
    assert {str(event.time_precision) for event in records.events} == {"day"}


def test_a_date_without_an_hour_keeps_its_date(book: str) -> None:
    event = one(parse(book), "2023-03-06", K.DATA_CHANGE)
    assert (event.time, str(event.time_precision)) == (datetime(2023, 3, 6, tzinfo=UTC), "day")
    assert event.step == 10250


def test_restarts_and_rollbacks_have_the_checkpoints_step(book: str) -> None:
    records = parse(book)
    moves = [
        (event.kind, event.step, event.before) for event in records.events if event.kind in (K.RESTART, K.ROLLBACK)
    ]
    assert moves == [
        (K.RESTART, 3000, None),
        (K.ROLLBACK, 6000, 6200.0),
        (K.ROLLBACK, 8900, None),
        (K.RESTART, 10250, None),
        (K.RESTART, None, None),
        (K.RESTART, 15000, None),
        (K.RESTART, 17250, None),
        (K.RESTART, 17500, None),
    ]


def test_changes_have_their_values_before_and_after(book: str) -> None:
    records = parse(book)
    saved = one(records, "2023-03-02T21:15", K.CHECKPOINT_INTERVAL_CHANGE)
    assert (saved.field, saved.before, saved.after, saved.unit) == ("checkpoint_interval", 1000, 250, "step")
    lowered = one(records, "2023-03-04T09:30", K.LR_CHANGE)
    assert (lowered.field, lowered.before, lowered.after, lowered.step) == ("learning_rate", 3e-4, 2e-4, 6000)
    halved = one(records, "2023-03-08T16:40", K.LR_CHANGE)
    assert (halved.before, halved.after, halved.detail["factor"], halved.step) == (None, None, "0.5", 15000)


def test_what_was_seen_has_its_step_and_says_when_it_is_approximate(book: str) -> None:
    records = parse(book)
    dropped = one(records, "2023-03-04T09:30", K.LOSS_SCALE_DROP)
    assert (dropped.step, dropped.detail["approximate"]) == (6180, "step")
    assert one(records, "2023-03-04T09:30", K.LOSS_EXPLOSION).step == 6200
    assert one(records, "2023-03-08T16:40", K.PLATEAU).role is Role.SYMPTOM


def test_causes_name_their_machine_and_say_when_they_are_only_suspected(book: str) -> None:
    records = parse(book)
    assert one(records, "2023-03-02T21:15", K.NODE_FAILURE).detail["node"] == "gpu0417"
    assert one(records, "2023-03-08T11:00", K.NETWORK_FAILURE).detail["certainty"] == "suspected"
    # The text says what the heading does not: it was the GPUs.
    assert not of(records, "2023-03-11T08:00", K.NODE_FAILURE)
    assert one(records, "2023-03-11T08:00", K.GPU_FAILURE).detail["node"] == "node 23"


def test_a_second_launch_is_a_second_incident_under_the_same_heading(book: str) -> None:
    records = parse(book)
    again = one(records, "2023-03-11T08:00-2", K.RESTART)
    assert (again.step, again.time) == (17500, datetime(2023, 3, 11, 12, tzinfo=UTC))
    assert one(records, "2023-03-11T08:00-2", K.NODE_REPLACEMENT)


def test_where_flag_and_words_disagree_the_words_are_kept_and_both_are_a_finding(book: str) -> None:
    records = parse(book)
    skipped = one(records, "2023-03-05T18:20", K.SKIP_BATCHES)
    assert (skipped.step, skipped.step_end) == (8901, 9050)
    assert skipped.detail["flag"] == "--skip-train-iteration-range 6001-6100"
    (finding,) = [finding for finding in records.findings if finding.check == "flag_against_prose"]
    assert finding.readings == ("flag: steps 6001 to 6100", "prose: steps 8901 to 9050")
    assert finding.likely == "steps 8901 to 9050"


def test_where_flag_and_words_agree_there_is_one_event_and_no_finding(book: str) -> None:
    records = parse(book.replace("6001-6100", "8901-9050"))
    assert one(records, "2023-03-05T18:20", K.SKIP_BATCHES).step == 8901
    assert not [finding for finding in records.findings if finding.check == "flag_against_prose"]


def test_a_heading_a_whole_day_before_its_launch_is_misdated(book: str) -> None:
    # `2023-03-08 16:40` stands over a launch that is 16:45 of the next day on the headings' clock.
    records = parse(book)
    (finding,) = [finding for finding in records.findings if finding.incident == "aurora-70b/2023-03-08T16:40"]
    assert finding.likely == "2023-03-09 16:40"
    assert one(records, "2023-03-08T16:40", K.PLATEAU).time == datetime(2023, 3, 9, 14, 40, tzinfo=UTC)


def test_what_came_of_it_is_told_by_the_entries_that_follow(book: str) -> None:
    records = parse(book)
    again = one(records, "2023-03-04T09:30", K.RECOVERED)
    assert again.evidence == "derived"
    assert again.locator == "§ 2023-03-05 18:20 Gradient spikes"
    assert one(records, "2023-03-08T16:40", K.NOT_STATED).role is Role.OUTCOME


def test_a_symptom_that_is_told_again_has_recurred(book: str) -> None:
    records = parse(book.replace("Gradient spikes\n", "Loss explodes at 8950 step\n"))
    again = one(records, "2023-03-04T09:30", K.RECURRED)
    assert (again.step, again.locator) == (8950, "§ 2023-03-05 18:20 Loss explodes at 8950 step")


def test_every_sentence_is_counted_as_understood_or_not(book: str) -> None:
    before = parse(book).coverage
    after = parse(book.replace("The job hung", "The weather was fine. The cat sat on the mat. The job hung")).coverage
    assert after.not_understood == before.not_understood + 2
    assert after.other["sentence understood"] == before.other["sentence understood"]
    assert before.other["image"] == 1
    assert any("The weather was fine" in example for example in parse("# a\n\nThe weather was fine.").coverage.examples)


def test_locators_are_the_headings_as_printed(book: str) -> None:
    headings = {f"§ {line[3:]}" for line in book.splitlines() if line.startswith("## 20")}
    assert {event.locator for event in parse(book).events} <= headings


def test_the_same_bytes_give_the_same_records(book: str) -> None:
    assert parse(book).events == parse(book).events
    assert parse(book).findings == parse(book).findings


# --- the same book as it might come otherwise -----------------------------------------------------------------


def told(records: Records) -> list[tuple[object, ...]]:
    return [(event.event, event.time, event.step, event.before, event.after) for event in records.events]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
        lambda text: text.replace("## 2023", "### 2023").encode(),
        lambda text: text.replace("2023-03", "2023.03").replace("## 2023.03", "## 2023-03").encode(),
        lambda text: text.replace(" step", " steps").encode(),
        lambda text: text.replace("\n\n", "\n\n\n").encode(),
        lambda text: text.replace("- ", "* ").encode(),
    ],
    ids=["crlf", "cr", "bom", "utf-16", "deeper headings", "dots", "plural", "blank lines", "stars"],
)
def test_notation_changes_nothing(book: str, change: object) -> None:
    data: bytes = change(book)  # type: ignore[operator]
    assert told(glm130b.parse(data, "aurora.md", "x")) == told(parse(book))


def test_other_numbers_give_other_numbers(book: str) -> None:
    text = book.replace("restart from 3000 step", "restart from 2750 step").replace("gpu0417", "gpu0999")
    records = parse(text)
    assert one(records, "2023-03-02T21:15", K.RESTART).step == 2750
    assert one(records, "2023-03-02T21:15", K.NODE_FAILURE).detail["node"] == "gpu0999"


@pytest.mark.parametrize("hours", [-7, 0, 9])
def test_another_zone_of_the_writers_is_found(book: str, hours: int) -> None:
    """Every launch and event file moved by some hours is the same book written in another zone."""
    import re
    from datetime import timedelta

    shift = timedelta(hours=2 - hours)

    def launch(found: re.Match[str]) -> str:
        stamp = datetime.strptime(found[0], "-%Y.%m.%d-%H:%M:%S") + shift
        return stamp.strftime("-%Y.%m.%d-%H:%M:%S")

    text = re.sub(r"-\d{4}\.\d\d\.\d\d-\d\d:\d\d:\d\d", launch, book)
    text = re.sub(r"(?<=tfevents\.)\d{10}", lambda found: str(int(found[0]) + int(shift.total_seconds())), text)
    records = parse(text)
    assert records.run is not None
    assert records.run.clock == {-7: "Etc/GMT+7", 0: "UTC", 9: "Etc/GMT-9"}[hours]


def test_a_restart_from_a_step_that_the_clock_rules_out_keeps_its_print_in_the_detail(book: str) -> None:
    records = parse(book.replace("restart from 17250 step", "restart from 11250 step"))
    event = one(records, "2023-03-11T08:00", K.RESTART)
    (finding,) = [finding for finding in records.findings if finding.check == "step_against_clock"]
    assert event.detail["printed_step"] == "11250"
    assert finding.readings[0] == "printed: 11250"
    assert event.step is not None
    assert abs(event.step - 17250) <= 500


def test_an_entry_out_of_its_place_is_dated_by_its_neighbours(book: str) -> None:
    records = parse(book.replace("## 2023-03-08 11:00 Hang", "## 2023-08-08 11:00 Hang"))
    finding = next(finding for finding in records.findings if finding.incident == "aurora-70b/2023-08-08T11:00")
    assert finding.likely == "2023-03-08 11:00"


def test_a_date_that_does_not_exist_is_no_crash(book: str) -> None:
    records = parse(book.replace("## 2023-03-06 Switch", "## 2023-02-30 Switch"))
    finding = next(finding for finding in records.findings if finding.incident == "aurora-70b/2023-02-30")
    assert "no such date" in finding.reasons


@pytest.mark.parametrize("cut", range(0, 2400, 61))
def test_a_half_written_book_gives_its_first_entries(book: str, cut: int) -> None:
    data = book.encode()[:cut]
    records = glm130b.parse(data, "aurora.md", "x")
    whole = {event.incident for event in parse(book).events if event.incident}
    dates = {incident.split("/")[1][:10] for incident in whole}
    assert all((event.incident or "").split("/")[1][:8] in {date[:8] for date in dates} for event in records.events)
    assert records.end == len(data)


def test_an_unclosed_code_block_does_not_swallow_the_rest(book: str) -> None:
    text = book.replace("- aurora-70B-2023.03.02-20:05:00", "```\npasted output")
    records = parse(text)
    assert one(records, "2023-03-11T08:00", K.RESTART).step == 17250
    assert any("never closed" in problem.message and problem.line for problem in records.problems)


def test_an_empty_book_says_what_an_entry_looks_like() -> None:
    records = parse("nothing here\n")
    assert not records.events
    (problem,) = records.problems
    assert problem.kind is ProblemKind.NOT_UNDERSTOOD
    assert "## 2024-05-06 14:00" in problem.message


def test_a_file_cut_within_a_character_is_still_being_written() -> None:
    data = "## 2023-03-01 10:00 训练卡住".encode()[:-1]
    (problem,) = [problem for problem in glm130b.parse(data, "a.md", "x").problems if problem.offset is not None]
    assert problem.kind is ProblemKind.TRUNCATED
