"""A timeline file becomes a run, events grouped by incident, and findings."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from replay_parsers import detect
from replay_parsers.files import sample
from replay_parsers.kinds import EventKind, Role
from replay_parsers.parser import Request
from replay_parsers.records import BatchStage, Evidence, Records, TimePrecision
from replay_parsers.timeline import PARSER, recognise

RUN = """\
run:
  name: my-run
  clock: Asia/Shanghai
  sources:
    log: {title: The log, url: "https://example.org/log"}
    wiki: The wiki
"""


def read(path: Path) -> Records:
    """Read a timeline without asking every other parser first."""
    (records,) = PARSER.read(Request(path=path, source=path.name, run="fallback"))
    return records


def timeline(tmp_path: Path, incidents: str, run: str = RUN) -> Records:
    """What a timeline with these incidents says."""
    path = tmp_path / "my-run.yaml"
    path.write_text(run + "incidents:\n" + dedent(incidents), encoding="utf-8")
    return read(path)


def sound(tmp_path: Path, incidents: str, run: str = RUN) -> Records:
    """The same, of a timeline without faults."""
    records = timeline(tmp_path, incidents, run)
    assert records.problems == ()
    return records


def test_the_run_block_becomes_the_run(tmp_path: Path) -> None:
    run = """\
run:
  name: my-run
  title: My run
  organisation: A lab
  parameters: 7e9
  hardware: 64 GPUs
  precision: bf16
  optimizer: AdamW
  batch: 1,024 sequences
  schedule: cosine
  clock: Europe/Paris
  batch_schedule: [{from_step: 0, samples: 512}, {from_step: 2000, samples: 1024}]
  sequence_length: 2048
  seconds_per_step: 12.5
  metadata: {tied: "yes"}
  sources:
    log: {title: The log, url: "https://example.org/log"}
    wiki: The wiki
"""
    told = sound(tmp_path, "  - {id: a, locator: p. 1, lifecycle: [{kind: start}]}\n", run).run
    assert told is not None
    assert (told.run, told.title, told.organisation, told.parameters) == ("my-run", "My run", "A lab", 7e9)
    assert (told.hardware, told.precision, told.optimizer) == ("64 GPUs", "bf16", "AdamW")
    assert (told.batch, told.schedule, told.clock) == ("1,024 sequences", "cosine", "Europe/Paris")
    assert told.batch_schedule == (BatchStage(from_step=0, samples=512), BatchStage(from_step=2000, samples=1024))
    assert (told.sequence_length, told.seconds_per_step) == (2048, 12.5)
    assert told.sources == ("The log", "The wiki")
    assert told.metadata == {"tied": "yes", "url of The log": "https://example.org/log"}


def test_events_of_an_incident_share_its_id_time_source_and_place(tmp_path: Path) -> None:
    records = sound(
        tmp_path,
        """\
          - at: 2022-06-20 09:10
            locator: § Loss explodes
            seen:
              - {kind: loss_explosion, step: 40800, text: It exploded.}
            done:
              - {kind: rollback, step: 40700, before: 40800, unit: step}
              - {kind: skip_batches, step: 40701, step_end: 40900, detail: {flag: --skip 40701-40900}}
        """,
    )
    explosion, rollback, skip = records.events
    assert {event.incident for event in records.events} == {"my-run/2022-06-20T09:10"}
    assert {event.time for event in records.events} == {datetime(2022, 6, 20, 1, 10, tzinfo=UTC)}
    assert {event.time_precision for event in records.events} == {TimePrecision.MINUTE}
    assert {(event.source, event.locator) for event in records.events} == {("The log", "§ Loss explodes")}
    assert {event.evidence for event in records.events} == {Evidence.STATED}
    assert (explosion.kind, explosion.role, explosion.step) == (EventKind.LOSS_EXPLOSION, Role.SYMPTOM, 40800)
    assert explosion.text == "It exploded."
    assert rollback.event == "my-run/2022-06-20T09:10/rollback"
    assert (rollback.role, rollback.before, rollback.unit) == (Role.INTERVENTION, 40800, "step")
    assert (skip.step, skip.step_end, skip.detail) == (40701, 40900, {"flag": "--skip 40701-40900"})


def test_an_event_may_have_its_own_time_source_place_and_evidence(tmp_path: Path) -> None:
    records = sound(
        tmp_path,
        """\
          - at: 2022-06-20 09:10
            locator: § A
            evidence: figure
            lifecycle:
              - {kind: restart, at: "2022-06-20T03:36:13Z", source: wiki, locator: § B, evidence: second_hand}
              - {kind: restart, at: "2022-07", precision: month}
        """,
    )
    first, second = records.events
    assert (first.time, first.time_precision) == (datetime(2022, 6, 20, 3, 36, 13, tzinfo=UTC), TimePrecision.SECOND)
    assert (first.source, first.locator, first.evidence) == ("The wiki", "§ B", Evidence.SECOND_HAND)
    assert (second.source, second.locator, second.evidence) == ("The log", "§ A", Evidence.FIGURE)
    assert (first.event, second.event) == ("my-run/2022-06-20T09:10/restart", "my-run/2022-06-20T09:10/restart-2")


def test_incidents_dated_alike_are_numbered_in_their_order(tmp_path: Path) -> None:
    records = sound(
        tmp_path,
        """\
          - {at: 2022-05-30 14:00, locator: § A, cause: [{kind: node_failure}]}
          - {at: 2022.05.30 14:00, locator: § A, cause: [{kind: config_bug}]}
          - {at: 2022-05-30, locator: § B, cause: [{kind: storage_failure}]}
        """,
    )
    assert [event.incident for event in records.events] == [
        "my-run/2022-05-30T14:00",
        "my-run/2022-05-30T14:00-2",
        "my-run/2022-05-30",
    ]


def test_an_undated_incident_is_named_and_has_no_time(tmp_path: Path) -> None:
    records = sound(tmp_path, "  - {id: spikes, locator: §5.1, seen: [{kind: loss_spike}]}\n")
    (event,) = records.events
    assert (event.incident, event.time, event.time_precision) == ("my-run/spikes", None, None)


def test_a_named_incident_may_be_dated_too(tmp_path: Path) -> None:
    records = sound(tmp_path, "  - {id: eval, at: 2022-05-09, locator: § A, seen: [{kind: hang}]}\n")
    (event,) = records.events
    assert (event.incident, event.time) == ("my-run/eval", datetime(2022, 5, 9, tzinfo=UTC))


def test_a_misprinted_time_names_the_incident_and_the_likely_one_dates_it(tmp_path: Path) -> None:
    records = sound(
        tmp_path,
        """\
          - at: 2022.05.03 20:00
            likely: {at: 2022-05-31 20:00, because: the next entry is of 1 June}
            locator: § A
            lifecycle: [{kind: restart, step: 23500}]
        """,
    )
    (event,) = records.events
    (finding,) = records.findings
    assert event.incident == finding.incident == "my-run/2022-05-03T20:00"
    assert event.time == datetime(2022, 5, 31, 12, 0, tzinfo=UTC)
    assert (finding.check, finding.likely) == ("clock", "2022-05-31T20:00")
    assert finding.readings == ("2022.05.03 20:00", "2022-05-31T20:00")
    assert (finding.reasons, finding.locator) == ("the next entry is of 1 June", "§ A")


def test_even_a_date_that_does_not_exist_may_be_what_is_printed(tmp_path: Path) -> None:
    records = sound(
        tmp_path,
        """\
          - at: 2024-02-30
            likely: {at: 2024-03-01, because: there is no 30 February}
            locator: § A
            lifecycle: [{kind: start}]
        """,
    )
    assert records.events[0].incident == "my-run/2024-02-30"


def test_contradictions_become_findings_and_are_no_problem(tmp_path: Path) -> None:
    records = sound(
        tmp_path,
        """\
          - at: 2022-06-22 10:40
            locator: § Gradient spikes
            done: [{kind: skip_batches, step: 42401, step_end: 42600}]
            readings:
              - check: flag_against_prose
                values: ["flag: 40701-40900", "prose: 42401-42600"]
                likely: 42401-42600
                because: the restart is from 42400
              - {check: total, values: [a, b], because: unknown, source: wiki, locator: p. 2}
        readings:
          - {check: clock, values: [UTC+8, UTC], because: two clocks, locator: § Run names}
        """,
    )
    flag, total, clock = records.findings
    assert (flag.source, flag.locator, flag.incident) == ("The log", "§ Gradient spikes", "my-run/2022-06-22T10:40")
    assert (flag.readings, flag.likely) == (("flag: 40701-40900", "prose: 42401-42600"), "42401-42600")
    assert (total.source, total.locator, total.likely) == ("The wiki", "p. 2", None)
    assert (clock.incident, clock.source, clock.locator) == (None, "The log", "§ Run names")


def test_without_a_clock_a_time_of_day_is_trusted_to_the_day_only(tmp_path: Path) -> None:
    run = "run:\n  name: my-run\n  sources: {log: The log}\n"
    records = sound(tmp_path, "  - {at: 2022-06-20 09:10, locator: § A, lifecycle: [{kind: start}]}\n", run)
    (event,) = records.events
    assert event.time == datetime(2022, 6, 20, 9, 10, tzinfo=UTC)
    assert event.time_precision is TimePrecision.DAY


def test_text_over_several_lines_becomes_one(tmp_path: Path) -> None:
    records = sound(
        tmp_path,
        """\
          - id: a
            locator: § A
            lifecycle:
              - kind: start
                text: >-
                  One
                  line.
        """,
    )
    assert records.events[0].text == "One line."


@pytest.mark.parametrize("number", ["6e-5", "6.0E-05", "0.00006", "+6e-5"])
def test_numbers_are_read_as_people_write_them(tmp_path: Path, number: str) -> None:
    records = sound(tmp_path, f"  - {{id: a, locator: p, done: [{{kind: lr_change, after: {number}}}]}}\n")
    assert records.events[0].after == 6e-5


def test_a_compressed_timeline_and_windows_line_ends_make_no_difference(tmp_path: Path) -> None:
    plain = sound(tmp_path, "  - {id: a, locator: p, lifecycle: [{kind: start}]}\n")
    text = (tmp_path / "my-run.yaml").read_bytes()
    packed = tmp_path / "packed.yaml"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")))
    assert read(packed).events == plain.events
    assert read(packed).problems == ()


def test_coverage_counts_what_was_kept_and_what_was_left_out(tmp_path: Path) -> None:
    records = timeline(
        tmp_path,
        """\
          - id: a
            locator: p
            lifecycle: [{kind: start}, {kind: strat}]
        """,
    )
    assert records.coverage.bytes_read == records.end == (tmp_path / "my-run.yaml").stat().st_size
    assert (records.coverage.records, records.coverage.lost_records, records.coverage.not_understood) == (1, 1, 1)


def test_it_is_told_by_its_content_and_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "without-a-telling-name"
    path.write_text("# a comment\n---\n" + RUN + "incidents: []\n", encoding="utf-8")
    detection = detect(path)
    assert detection.parser.name == "timeline"
    assert detection.confidence > 0.9
    assert not detection.parser.appends


def test_a_page_that_shows_a_timeline_is_none(root: Path) -> None:
    assert recognise(sample(root / "logbooks" / "README.md")) == 0.0
