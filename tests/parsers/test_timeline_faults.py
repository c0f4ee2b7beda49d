"""What is wrong with a timeline is told with its line, all of it at once, and the rest is kept."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay_parsers.parser import Request
from replay_parsers.records import ProblemKind, Records
from replay_parsers.timeline import MAXIMUM_BYTES, PARSER

GOOD = """\
run:
  name: my-run
  clock: Europe/Paris
  sources:
    log: The log
incidents:
  - at: 2022-05-07 20:14
    locator: § A
    cause:
      - kind: node_failure
        detail: {node: n1}
    lifecycle:
      - kind: restart
        step: 4000
  - at: 2022-05-08 20:14
    locator: § B
    done:
      - kind: lr_change
        before: 6e-5
        after: 3e-5
"""


def parse(tmp_path: Path, data: str | bytes) -> Records:
    """Read a timeline of this content."""
    path = tmp_path / "run.yaml"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    (records,) = PARSER.read(Request(path=path, source="run.yaml", run="fallback"))
    return records


def messages(tmp_path: Path, data: str | bytes) -> list[str]:
    """The problems as they are printed."""
    return [str(problem) for problem in parse(tmp_path, data).problems]


def test_the_timeline_that_the_tests_spoil_is_sound(tmp_path: Path) -> None:
    records = parse(tmp_path, GOOD)
    assert records.problems == ()
    assert len(records.events) == 3


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("  name: my-run", "  name: My Run", "run.yaml:2: run: `name`: `My Run` is no id"),
        ("  name: my-run", "  nmae: my-run", "run.yaml:2: run: unknown key `nmae`; did you mean `name`?"),
        ("  clock: Europe/Paris", "  clock: Paris time", "run.yaml:3: run: `clock`: `Paris time` is no IANA time zone"),
        ("  clock: Europe/Paris", "  clock: Europe", "run.yaml:3: run: `clock`: `Europe` is no IANA time zone"),
        ("  clock: Europe/Paris", "  parameters: many", "run.yaml:3: run: `parameters`: `many` is no number"),
        ("  clock: Europe/Paris", "  parameters: -1", "run.yaml:3: run: `parameters` must be above 0"),
        ("  clock: Europe/Paris", "  parameters: .inf", "run.yaml:3: run: `parameters`: `.inf` is no number"),
        ("  clock: Europe/Paris", "  sequence_length: 2048.5", "`2048.5` is no whole number"),
        ("  clock: Europe/Paris", "  title: [a]", "run.yaml:3: run: `title` must be text, not a list"),
        ("  clock: Europe/Paris", "  metadata: some", "run.yaml:3: run: `metadata` must be a mapping"),
        ("  clock: Europe/Paris", "  clock:", "run.yaml:3: run: `clock` is empty; leave the key out"),
        ("  clock: Europe/Paris", "  batch_schedule: [{from_step: 0}]", "`batch_schedule` needs `samples`"),
        (
            "  clock: Europe/Paris",
            "  batch_schedule: [{from_step: 9, samples: 1}, {from_step: 9, samples: 2}]",
            "each from_step must be above the one before it",
        ),
        ("    log: The log", "    log: {ttle: The log}", "`ttle`; did you mean `title`?"),
        ("kind: node_failure", "kind: node_failed", "run.yaml:10: event in `cause`: `kind`: `node_failed` is none"),
        ("kind: node_failure", "kind: restart", "run.yaml:10: restart belongs under `lifecycle`, not `cause`"),
        ("kind: node_failure", "text: no kind", "run.yaml:10: event in `cause` needs `kind`"),
        ("detail: {node: n1}", "detail: n1", "run.yaml:11: event in `cause`: `detail` must be a mapping"),
        ("detail: {node: n1}", "node: n1", "run.yaml:11: event in `cause`: unknown key `node`"),
        ("step: 4000", "step: 4,000", "run.yaml:14: event in `lifecycle`: `step`: `4,000` is no whole number"),
        ("step: 4000", "step: -1", "`-1` is no whole number"),
        ("step: 4000", "step: 99999999999999999999", "is no whole number"),
        ("step: 4000", "at: 2022-02-30", "run.yaml:14: event in `lifecycle`: `at`: `2022-02-30` does not exist"),
        ("step: 4000", "at: 2022-03-27 02:30", "does not exist in Europe/Paris: the clocks were put forward"),
        ("step: 4000", "at: yesterday", "`yesterday` is no time"),
        ("step: 4000", "lost_hours: -2", "`lost_hours` cannot be below 0"),
        ("step: 4000", "evidence: rumour", "`evidence`: `rumour` is none of its values"),
        ("step: 4000", "source: wiki", "run.yaml:14: source `wiki` is none of run.sources: log"),
        ("step: 4000", "step_end: 12", "run.yaml:13: restart event my-run/2022-05-07T20:14/restart: steps None..12"),
        ("        after: 3e-5\n", "", "needs after or detail.factor or detail.direction"),
        (
            "after: 3e-5",
            "after: 3e-5\n        after: 2e-5",
            "run.yaml:21: `after` is given twice; the first, on line 20",
        ),
    ],
)
def test_each_fault_is_told_where_it_is(tmp_path: Path, good: str, bad: str, said: str) -> None:
    assert good in GOOD
    told = messages(tmp_path, GOOD.replace(good, bad))
    assert any(said in message for message in told), told


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("    locator: § A\n", "", "run.yaml:7: incident needs `locator`"),
        ("at: 2022-05-07 20:14", "when: 2022-05-07 20:14", "run.yaml:7: incident: unknown key `when`"),
        ("at: 2022-05-07 20:14", "id: No Id", "run.yaml:7: incident: `id`: `No Id` is no id"),
        ("at: 2022-05-07 20:14", "at: 2022-13-07", "run.yaml:7: incident: `at`: `2022-13-07`: there is no month 13"),
        ("at: 2022-05-07 20:14", "at: 2022-05-07 25:14", "`2022-05-07 25:14` does not exist: hours run from 0 to 23"),
        ("at: 2022-05-07 20:14", "at: 0001-05-07 20:14", "there is no month 05 of 0001"),
        ("at: 2022-05-07 20:14", "at: 2022-05-07 20:14+99:00", "no zone is +99:00 from UTC"),
        ("at: 2022-05-07 20:14", "id: a\n    precision: day", "run.yaml:8: incident: `precision` of what?"),
        ("at: 2022-05-07 20:14", "id: 2022-05-08t20.14\n    evidence: yes", "`evidence`: `yes` is none of its values"),
        (
            "    locator: § A\n",
            "    locator: § A\n    source: wiki\n",
            "run.yaml:9: source `wiki` is none of run.sources",
        ),
    ],
)
def test_a_bad_incident_is_left_out_and_the_others_are_kept(tmp_path: Path, good: str, bad: str, said: str) -> None:
    assert good in GOOD
    records = parse(tmp_path, GOOD.replace(good, bad, 1))
    told = [str(problem) for problem in records.problems]
    assert any(said in message for message in told), told
    assert any("this incident is left out" in message for message in told), told
    assert [event.event for event in records.events] == ["my-run/2022-05-08T20:14/lr_change"]


def test_all_faults_are_told_at_once_in_order(tmp_path: Path) -> None:
    bad = (
        GOOD.replace("kind: node_failure", "kind: nod_failure")
        .replace("step: 4000", "step: four")
        .replace("  clock:", "  clok:")
    )
    lines = [problem.line for problem in parse(tmp_path, bad).problems]
    assert lines == [3, 10, 14]


def test_a_bad_event_is_left_out_and_the_rest_of_its_incident_kept_under_the_same_ids(tmp_path: Path) -> None:
    spoiled = GOOD.replace(
        "      - kind: restart\n        step: 4000\n",
        "      - kind: restart\n        step: four\n      - kind: restart\n        step: 4100\n",
    )
    records = parse(tmp_path, spoiled)
    assert [event.event for event in records.events if event.kind == "restart"] == ["my-run/2022-05-07T20:14/restart-2"]


def test_mending_an_incident_renames_no_other(tmp_path: Path) -> None:
    spoiled = GOOD.replace("2022-05-08 20:14", "2022-05-07 20:14").replace("    locator: § A\n", "")
    records = parse(tmp_path, spoiled)
    assert {event.incident for event in records.events} == {"my-run/2022-05-07T20:14-2"}


def test_two_incidents_of_one_name_are_told(tmp_path: Path) -> None:
    spoiled = GOOD.replace("at: 2022-05-07 20:14", "id: a").replace("at: 2022-05-08 20:14", "id: a")
    records = parse(tmp_path, spoiled)
    assert any("run.yaml:15: incident my-run/a is there already, on line 7" in str(p) for p in records.problems)
    assert {event.kind for event in records.events} == {"node_failure", "restart"}


def test_an_incident_that_tells_nothing_is_told(tmp_path: Path) -> None:
    told = messages(tmp_path, GOOD + "  - {id: a, locator: p}\n")
    assert any("run.yaml:21: incident my-run/a tells nothing" in message for message in told)


def test_an_incident_needs_a_time_or_a_name(tmp_path: Path) -> None:
    told = messages(tmp_path, GOOD + "  - {locator: p, lifecycle: [{kind: start}]}\n")
    assert any("run.yaml:21: incident needs `at`, the time as printed, or an `id`" in message for message in told)


def test_a_reading_outside_an_incident_needs_its_place(tmp_path: Path) -> None:
    told = messages(tmp_path, GOOD + "readings:\n  - {check: clock, values: [a, b], because: c}\n")
    assert told == ["run.yaml:22: reading needs `locator`, as it belongs to no incident"]


def test_a_reading_has_at_least_two_values(tmp_path: Path) -> None:
    told = messages(tmp_path, GOOD + "readings:\n  - {check: clock, values: [a], because: c, locator: d}\n")
    assert told == ["run.yaml:22: reading: `values` must be a list of at least two texts"]


def test_without_a_name_the_caller_names_the_run(tmp_path: Path) -> None:
    records = parse(tmp_path, GOOD.replace("  name: my-run\n", ""))
    assert records.run is not None
    assert records.run.run == "fallback"
    assert {event.run for event in records.events} == {"fallback"}
    assert [str(problem) for problem in records.problems] == ["run.yaml:2: run needs `name`"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "an empty timeline: it needs `run` and `incidents`"),
        ("- a\n- b\n", "a timeline must be a mapping"),
        ("just text\n", "a timeline must be a mapping"),
        ("run: 3\nincidents: 4\n", "run must be a mapping"),
        ("run:\n  name: a\n  sources: {}\nincidents: []\n", "`sources` must map at least one short id"),
        ("run:\n\tname: a\n", "the YAML breaks off here"),
        ("run: {name: a", "the YAML breaks off here"),
        ("incidents: [1, [2], {a: b}]\nrun: {name: a, sources: {l: L}}\n", "incident must be a mapping"),
        ("? [a, b]\n: c\n", "a key must be text"),
    ],
)
def test_files_that_are_no_timeline_at_all_are_told_so(tmp_path: Path, data: str, said: str) -> None:
    records = parse(tmp_path, data)
    assert any(said in str(problem) for problem in records.problems), records.problems
    assert records.events == ()


def test_what_stands_before_a_syntax_error_is_kept(tmp_path: Path) -> None:
    records = parse(tmp_path, GOOD + "  - at: 2022-05-09 20:14\n    locator: [§ C\n    cause:\n")
    assert len(records.events) == 3
    (problem,) = records.problems
    assert problem.line is not None
    assert problem.line > 21
    assert "the YAML breaks off here" in problem.message


def test_a_bomb_of_aliases_does_not_go_off(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    told = messages(tmp_path, bomb + GOOD)
    assert any("run.yaml:2: alias *a: write the value out" in message for message in told)


def test_a_tag_runs_nothing(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    spoiled = GOOD.replace("§ A", f'!!python/object/apply:os.system ["touch {witness}"]')
    told = messages(tmp_path, spoiled)
    assert not witness.exists()
    assert any("tag tag:yaml.org,2002:python/object/apply:os.system is not allowed" in message for message in told)


@pytest.mark.parametrize("deep", ["[" * 100_000, "{a: " * 50_000, "- " * 20_000])
def test_deep_nesting_ends_with_a_message(tmp_path: Path, deep: str) -> None:
    assert messages(tmp_path, deep)


def test_an_enormous_file_is_refused_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for _ in range(64):
            stream.write(b"#" * (MAXIMUM_BYTES // 16))
    (records,) = PARSER.read(Request(path=path, source="run.yaml", run="a"))
    assert [problem.kind for problem in records.problems] == [ProblemKind.INVALID]
    assert "at most 8 MiB" in records.problems[0].message


def test_a_broken_off_gzip_stream_keeps_what_it_gave(tmp_path: Path) -> None:
    long = GOOD + "".join(
        f"  - {{id: i{number}-{(number * 7919) % 99991}, locator: p, lifecycle: [{{kind: start}}]}}\n"
        for number in range(5000)
    )
    packed = gzip.compress(long.encode())
    path = tmp_path / "run.yaml"
    path.write_bytes(packed[: len(packed) // 2])
    (records,) = PARSER.read(Request(path=path, source="run.yaml", run="a"))
    assert records.problems[0].kind is ProblemKind.CORRUPT
    assert "the gzip stream breaks off" in records.problems[0].message
    assert 100 < len(records.events) < 5000


def test_bytes_that_are_no_text_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    records = parse(tmp_path, GOOD.encode().replace(b"n1", b"n\xff1").replace("§ B".encode(), b"B\x00"))
    told = [str(problem) for problem in records.problems]
    assert any("run.yaml:11: byte" in message and "is not UTF-8" in message for message in told), told
    assert any("run.yaml:16: character U+0000 may not stand" in message for message in told), told
    assert len(records.events) == 3


def test_thousands_of_faults_are_told_in_hundreds(tmp_path: Path) -> None:
    told = messages(tmp_path, GOOD + "".join(f"  - {{k{number}: 1}}\n" for number in range(3000)))
    assert len(told) == 201
    assert "more faults are not listed" in told[-1]


@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, len(GOOD) - 1), junk=st.binary(max_size=6), cut=st.integers(0, 12))
def test_no_damage_to_a_timeline_raises_or_is_silent_about_lost_events(
    tmp_path_factory: pytest.TempPathFactory, position: int, junk: bytes, cut: int
) -> None:
    data = GOOD.encode()
    spoiled = data[:position] + junk + data[position + cut :]
    records = parse(tmp_path_factory.mktemp("damaged"), spoiled)
    # A comment, or a quotation mark across lines, can swallow lines without breaking a rule of the format.
    if len(records.events) < 3 and not {b"#"[0], b"'"[0], b'"'[0]} & set(junk) and cut == 0:
        assert records.problems
