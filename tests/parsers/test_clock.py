"""A clock that cannot be right is a finding with both readings; what runs and their writers do to it is none."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay_parsers import clock
from replay_parsers.clock import CHECK, ClockCheck, checked
from replay_parsers.detection import join
from replay_parsers.parser import Request
from replay_parsers.records import NO_TIME, Finding, Scalars
from replay_parsers.tensorboard import PARSER as EVENT_FILES
from replay_parsers.trainers.json_lines import PARSER as JSON_LINES
from replay_parsers.trainers.megatron import PARSER as MEGATRON

START = datetime(2024, 1, 1, 10, tzinfo=UTC)
Row = tuple[int, datetime | None]


def steady(first: int, count: int, begin: datetime, seconds: float = 1.0) -> list[Row]:
    """Reports of ``count`` steps from ``first`` on, at one pace."""
    return [(first + number, begin + timedelta(seconds=seconds * number)) for number in range(count)]


def microseconds(time: datetime | None) -> int:
    return NO_TIME if time is None else round(time.timestamp() * 1e6)


def scalars(rows: list[Row], tags: tuple[str, ...] = ("loss",)) -> Scalars:
    """Each row for each tag; a step back begins a segment."""
    steps = np.array([step for step, _ in rows], np.int64)
    segments = np.concatenate(([0], np.cumsum(np.diff(steps) < 0))).astype(np.int32)
    times = np.array([microseconds(time) for _, time in rows], np.int64)
    many = len(tags)
    return Scalars(
        tags=tags,
        tag=np.tile(np.arange(many, dtype=np.int32), len(rows)),
        segment=np.repeat(segments, many),
        step=np.repeat(steps, many),
        wall_time=np.repeat(times, many),
        value=np.zeros(len(rows) * many),
    )


def findings(rows: list[Row], tags: tuple[str, ...] = ("loss",)) -> tuple[Finding, ...]:
    return ClockCheck().look(scalars(rows, tags), "run", "log")


def part(whole: Scalars, first: int, end: int) -> Scalars:
    columns = {name: getattr(whole, name)[first:end] for name in ("tag", "segment", "step", "wall_time", "value")}
    return Scalars(tags=whole.tags, **columns)


OFF: dict[str, list[Row]] = {
    "years back": [*steady(1, 100, START), *steady(101, 50, START.replace(year=2019))],
    "days back": [*steady(1, 100, START), *steady(101, 50, START - timedelta(days=3))],
    "decades ahead": [*steady(1, 100, START), *steady(101, 50, START.replace(year=2099))],
    "not set after a start": [*steady(1, 100, START), *steady(101, 50, datetime(1970, 1, 1, 0, 1, tzinfo=UTC))],
    "one wrong date": [*steady(1, 100, START), (101, START.replace(year=2042)), *steady(102, 50, START)],
}


@pytest.mark.parametrize("name", OFF)
@pytest.mark.parametrize("tags", [("loss",), ("loss", "lr", "norm", "scale", "tokens", "time")])
def test_it_is_told_once_with_both_readings_and_the_likely_one(name: str, tags: tuple[str, ...]) -> None:
    (finding,) = findings(OFF[name], tags)
    assert (finding.check, finding.run, finding.source, finding.locator) == (CHECK, "run", "log", "step 101")
    shown, by_pace = finding.readings
    assert str(OFF[name][100][1])[:19] in shown
    assert "about 2024-01-01 10:01:40, as steps took 1 s each" in by_pace
    assert finding.likely == by_pace
    assert "between steps 100 and 101" in finding.reasons
    assert "days" in finding.reasons


def test_each_of_several_leaps_is_measured_from_where_the_clock_was_right() -> None:
    rows = [*OFF["years back"], *steady(151, 50, datetime(2099, 1, 1, tzinfo=UTC)), *steady(201, 50, START)]
    back, ahead = findings(rows)
    assert (back.locator, ahead.locator) == ("step 101", "step 151")
    assert "2024-01-01 10:02:30" in ahead.readings[1]


def test_a_clock_that_was_not_set_at_first_was_wrong_before() -> None:
    (finding,) = findings([*steady(1, 20, datetime(1970, 1, 1, tzinfo=UTC)), *steady(21, 20, START)])
    assert finding.likely == finding.readings[0]
    assert "2024-01-01 10:00:00" in str(finding.likely)


def test_one_wrong_report_does_not_spoil_the_pace() -> None:
    rows = [
        *steady(1, 10, START, 60.0),
        (11, START + timedelta(hours=20)),
        *steady(12, 9, START + timedelta(hours=20), 60.0),
    ]
    (finding,) = findings([*rows, (21, START.replace(year=2020))])
    assert "steps took 60 s each" in finding.readings[1]


FINE: dict[str, list[Row]] = {
    "a steady run": steady(1, 500, START),
    "a resume after two months": [*steady(1, 100, START), *steady(101, 100, START + timedelta(days=61))],
    "a rollback and a restart the week after": [*steady(1, 100, START), *steady(61, 100, START + timedelta(days=7))],
    "a second run behind the first, older one": [*steady(1, 100, START), *steady(0, 100, START.replace(year=2019))],
    "a second run behind a newer one": [*steady(1, 100, START), *steady(0, 100, START.replace(year=2030))],
    "the end of summer time": [*steady(1, 100, START), *steady(101, 100, START - timedelta(minutes=58))],
    "another zone": [*steady(1, 100, START), *steady(101, 100, START - timedelta(hours=15))],
    "two writers whose clocks differ by minutes": [
        (step, START + timedelta(seconds=step, minutes=5 * (step % 2))) for step in range(200)
    ],
    "the same step by several ranks": [(step // 4, START + timedelta(seconds=step % 4)) for step in range(200)],
    "no times": [(step, None) for step in range(50)],
    "times now and then": [(step, START + timedelta(days=step) if step % 7 == 0 else None) for step in range(90)],
    "a report a month": steady(1, 40, START, 30 * 86_400.0),
}


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize("tags", [("loss",), ("loss", "lr")])
def test_what_runs_and_their_writers_do_is_no_finding(name: str, tags: tuple[str, ...]) -> None:
    assert findings(FINE[name], tags) == ()


def test_a_file_that_is_written_name_by_name_goes_back_at_each() -> None:
    one = scalars(steady(1, 100, START, 86_400.0))
    tags = ("loss", "lr", "norm")
    by_name = [Scalars(tags, one.tag + code, one.segment, one.step, one.wall_time, one.value) for code in range(3)]
    assert ClockCheck().look(Scalars.concatenate(by_name), "run", "log") == ()


def test_two_writers_in_turn_whose_clocks_are_years_apart_are_told_once() -> None:
    rows = [(step, START.replace(year=2024 - 5 * (step % 2)) + timedelta(seconds=step)) for step in range(400)]
    assert len(findings(rows)) == 1


def test_a_clock_that_is_never_right_is_told_a_few_times_only() -> None:
    rows = [(step, START.replace(year=2000 + 37 * step % 60)) for step in range(2_000)]
    assert len(findings(rows)) == 8


@settings(max_examples=150, deadline=None)
@given(
    leaps=st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([0, -3, 400, -2_000, 27_000, 60]), st.sampled_from([0, 0, -5])),
        max_size=6,
    ),
    cuts=st.lists(st.integers(0, 250), max_size=4),
)
def test_the_moments_of_the_reads_change_nothing(leaps: list[tuple[int, int, int]], cuts: list[int]) -> None:
    rows: list[Row] = steady(1, 5, START)
    for count, days, steps in leaps:
        step, time = rows[-1]
        assert time is not None
        moved = min(max(time.year + days // 365, 1980), 2150)
        begin = time.replace(year=moved, day=1) + timedelta(days=days % 365)
        rows += steady(max(0, step + 1 + steps), count, begin)
    whole = scalars(rows, ("loss", "lr"))
    at_once = ClockCheck().look(whole, "run", "log")
    bounds = sorted({0, len(whole), *(min(2 * cut, len(whole)) for cut in cuts)})
    state: dict[str, object] = {}
    found: list[Finding] = []
    for first, end in pairwise(bounds):
        check = ClockCheck(json.loads(json.dumps(state)))
        found += check.look(part(whole, first, end), "run", "log")
        state = check.state()
    assert tuple(found) == at_once


@settings(max_examples=60, deadline=None)
@given(
    pauses=st.lists(st.sampled_from([0, 1, 1, 1, 3, -1, 40_000_000]), min_size=1, max_size=300),
    backs=st.sets(st.integers(1, 299), max_size=3),
    glance=st.sampled_from([100, 256, 4096]),
    cuts=st.lists(st.integers(0, 900), max_size=4),
)
def test_a_glance_at_a_piece_in_which_nothing_can_have_jumped_tells_what_a_look_at_all_does(
    pauses: list[int], backs: set[int], glance: int, cuts: list[int]
) -> None:
    rows: list[Row] = []
    step, time = 0, START
    for number, pause in enumerate(pauses):
        step, time = (0 if number in backs else step + 1), time + timedelta(seconds=pause)
        rows.append((step, time))
    whole = scalars(rows, ("loss", "rate", "norm"))
    bounds = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]

    def looked(size: int) -> tuple[list[Finding], list[dict[str, object]]]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(clock, "_GLANCE", size)
            check = ClockCheck()
            found: list[Finding] = []
            states: list[dict[str, object]] = []
            for first, end in pairwise(bounds):
                found += check.look(part(whole, first, end), "run", "log")
                states.append(check.state())
        return found, states

    assert looked(glance) == looked(0)


@settings(max_examples=100, deadline=None)
@given(times=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_no_time_is_too_wild(times: list[int]) -> None:
    rows = scalars([(step, None) for step in range(len(times))])
    wild = Scalars(rows.tags, rows.tag, rows.segment, rows.step, np.array(times, np.int64), rows.value)
    for finding in ClockCheck().look(wild, "run", "log"):
        assert all(finding.readings)


def read(parser: object, path: Path) -> tuple[Finding, ...]:
    pieces = parser.read(Request(path=path, source=path.name, run="run"))  # type: ignore[attr-defined]
    return join(list(checked(pieces, {}, "run"))).findings


class TestInFiles:
    def test_a_trainers_log(self, tmp_path: Path) -> None:
        lines = "".join(
            f" [{time:%Y-%m-%d %H:%M:%S}] iteration {step}/ 1000 | learning rate: 1.0E-04 | lm loss: 2.5E+00 |\n"
            for step, time in OFF["years back"]
            if time is not None
        )
        (tmp_path / "x.log").write_text(lines)
        (finding,) = read(MEGATRON, tmp_path / "x.log")
        assert (finding.check, finding.locator) == (CHECK, "step 101")

    def test_json_lines_read_at_once(self, tmp_path: Path) -> None:
        rows = [*steady(1, 9_000, START), *steady(9_001, 100, START.replace(year=2019))]
        text = "".join(
            json.dumps({"step": step, "loss": 2.5, "time": microseconds(time) / 1e6}) + "\n" for step, time in rows
        )
        (tmp_path / "x.jsonl").write_text(text)
        (finding,) = read(JSON_LINES, tmp_path / "x.jsonl")
        assert finding.locator == "step 9001"

    @pytest.mark.parametrize("name", ["years back", "a resume after two months"])
    def test_an_event_file(self, tmp_path: Path, name: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        path = tmp_path / "events.out.tfevents.1600000000.host"
        with path.open("wb") as stream:
            writer = RecordWriter(stream)
            for step, time in {**OFF, **FINE}[name]:
                summary = Summary(value=[Summary.Value(tag="loss", simple_value=2.5)])
                assert time is not None
                writer.write(Event(wall_time=time.timestamp(), step=step, summary=summary).SerializeToString())
            writer.write(Event(wall_time=math.nan, step=999, summary=summary).SerializeToString())
        found = read(EVENT_FILES, path)
        assert [one.locator for one in found] == (["step 101"] if name in OFF else [])
