"""JSON lines with any keys, and where their records stand on the axis of steps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from log_reading import ReadText, of_kind, rows, values

from growth import grows_with_its_size
from replay_parsers.records import NO_TIME, ProblemKind
from replay_parsers.trainers.axes import EpochSteps
from replay_parsers.trainers.json_lines import PARSER


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


class TestKeys:
    @pytest.mark.parametrize(
        "key",
        [
            "step",
            "global_step",
            "_step",
            "iteration",
            "iter",
            "current_steps",
            "num_updates",
            "trainer/global_step",
            "Step",
        ],
    )
    def test_the_step_by_any_name(self, read_text: ReadText, key: str) -> None:
        read = read_text(PARSER, lines({key: 10, "loss": 2.5}))
        assert values(read, "loss") == {10: 2.5}
        assert key not in read.scalars.tags

    def test_nested_objects_become_names_with_slashes(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"step": 10, "train": {"loss": 2.5, "norms": {"grad": 1.5}}, "ids": [1, 2]}))
        assert set(read.scalars.tags) == {"train/loss", "train/norms/grad"}

    def test_one_value_a_record(self, read_text: ReadText) -> None:
        read = read_text(
            PARSER, lines({"key": "loss", "value": 2.5, "step": 10}, {"key": "lr", "value": 1e-4, "step": 10})
        )
        assert (values(read, "loss"), values(read, "lr")) == ({10: 2.5}, {10: 1e-4})

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("timestamp", 1_700_000_000),
            ("_timestamp", 1_700_000_000.0),
            ("time", 1_700_000_000_000),
            ("ts", "2023-11-14T22:13:20Z"),
            ("time", "2023-11-15T00:13:20+02:00"),
        ],
    )
    def test_wall_times_in_any_unit(self, read_text: ReadText, key: str, value: object) -> None:
        read = read_text(PARSER, lines({"step": 10, "loss": 2.5, key: value}))
        assert read.scalars.wall_time.tolist() == [1_700_000_000_000_000]
        assert read.scalars.tags == ("loss",)

    @pytest.mark.parametrize(
        "printed", ["9999-12-31T23:59:59-08:00", "0001-01-01T00:00:00+14:00", "2024-13-45T00:00:00"]
    )
    def test_times_that_cannot_be_are_none(self, read_text: ReadText, printed: str) -> None:
        read = read_text(PARSER, lines({"step": 10, "loss": math.nan, "time": printed}))
        assert read.scalars.wall_time.tolist() == [NO_TIME]
        assert [event.time for event in of_kind(read, "nan_loss")] == [None]

    def test_seconds_since_the_start_are_no_wall_time(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"step": 10, "loss": 2.5, "time": 35.2}))
        assert read.scalars.wall_time.tolist() == [NO_TIME, NO_TIME]
        assert values(read, "time") == {10: 35.2}

    def test_records_without_a_step_or_a_loss_are_counted(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"config": {"lr": 1e-4}, "seed": 1}, {"step": 10, "loss": 2.5}))
        assert values(read, "loss") == {10: 2.5}
        assert read.coverage.other["records without a step or a loss"] == 1
        assert read.coverage.examples == ('line 1: {"config": {"lr": 0.0001}, "seed": 1}',)

    @pytest.mark.parametrize("step", [2**63, -(2**70), 1.5, math.inf, "99999999999999999999", "2.5"])
    def test_a_record_of_an_impossible_step_is_a_problem(self, read_text: ReadText, step: object) -> None:
        good, bad = {"step": 10, "loss": 2.5}, {"step": step, "loss": 2.25}
        read = read_text(PARSER, lines(good, bad, bad))
        assert values(read, "loss") == {10: 2.5}
        (problem,) = read.problems
        assert (problem.kind, problem.line) == (ProblemKind.INVALID, 2)
        assert read.coverage.lost_records == 2

    @pytest.mark.parametrize("step", ["final", "", math.nan])
    def test_a_step_that_is_no_number_is_no_problem(self, read_text: ReadText, step: object) -> None:
        read = read_text(PARSER, lines({"step": 10, "loss": 2.5}, {"step": step, "loss": 2.25}))
        assert read.problems == ()


def nested(depth: int, value: object = 1.5) -> object:
    """A value within so many objects."""
    for _ in range(depth):
        value = {"a": value}
    return value


class TestWhatIsLeftOut:
    def test_it_is_counted_by_kind(self, read_text: ReadText) -> None:
        record = {"step": 3, "loss": 2, "layers": [1, 2], "gn": None, "mode": "train", "deep": nested(6, [1])}
        read = read_text(PARSER, lines(record))
        assert values(read, "loss") == {3: 2.0}
        assert read.coverage.other == {
            "lists": 1,
            "null values": 1,
            "texts in place of numbers": 1,
            "values nested more than 5 objects deep": 1,
        }

    def test_what_says_where_and_when_is_not_left_out(self, read_text: ReadText) -> None:
        records = [
            {"step": "3/10", "loss": "2.5", "time": "2023-11-14T22:13:20Z"},
            {"name": "lr", "value": 1e-4, "step": 3},
        ]
        assert read_text(PARSER, lines(*records)).coverage.other == {}

    def test_values_are_kept_to_a_depth_of_five_objects(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"step": 1, "loss": 2.5, "at": nested(5), "below": nested(6)}))
        assert set(read.scalars.tags) == {"loss", "at/a/a/a/a/a"}
        assert read.coverage.other == {"values nested more than 5 objects deep": 1}

    def test_every_value_of_what_lies_too_deep_counts(self, read_text: ReadText) -> None:
        deep = nested(5, {"x": {"y": 1, "z": {"u": 2, "v": "text"}}, "w": {}})
        read = read_text(PARSER, lines({"step": 1, "loss": 2.5, "deep": deep}))
        assert read.coverage.other == {"values nested more than 5 objects deep": 3}


class TestALossThatIsNull:
    """JSON has no nan; what is null was not measured, which is all that is told."""

    @pytest.mark.parametrize(
        "record",
        [
            {"step": 3, "loss": None},
            {"step": 3, "loss": None, "grad_norm": None},
            {"step": 3, "train": {"loss": None}, "lr": 1e-4, "aux": None},
        ],
    )
    def test_it_is_missing(self, read_text: ReadText, record: object) -> None:
        read = read_text(PARSER, lines({"step": 2, "loss": 2.5}, record))
        (event,) = of_kind(read, "nan_loss")
        assert (event.step, event.locator, event.detail["value"]) == (3, "line 2", "null")
        assert "null" in event.text
        assert list(values(read, "loss")) == [2]

    @pytest.mark.parametrize(
        "record",
        [
            {"step": 3, "loss": None, "eval_loss": 2.5},
            {"step": 3, "loss": None, "val/accuracy": 0.5},
            {"step": 3, "loss": None, "reduced_train_loss": 2.5},
            {"current_steps": 3, "loss": None, "eval_loss": None, "learning_rate": None, "epoch": 1.0},
            {"loss": None, "lr": 1e-4},
            {"config": {"loss": None}},
        ],
        ids=["evaluation", "held out", "another loss", "a summary", "no step", "a configuration"],
    )
    def test_where_it_was_not_to_be_measured_it_is_not(self, read_text: ReadText, record: object) -> None:
        assert of_kind(read_text(PARSER, lines({"step": 2, "loss": 2.5}, record)), "nan_loss") == []

    def test_several_ranks_tell_it_once(self, read_text: ReadText) -> None:
        text = "".join(f'[rank{rank}]: {{"step": 3, "loss": null, "lr": 0.1}}\n' for rank in range(4))
        assert len(of_kind(read_text(PARSER, text), "nan_loss")) == 1


class TestGotcha16Numbers:
    def test_bare_nan_and_infinity_strings_and_the_largest_double(self, read_text: ReadText) -> None:
        text = '{"step": 1, "loss": NaN, "a": Infinity, "b": "-inf", "c": "1,024", "d": 1.7976931348623157e+308,'
        text += ' "e": "1.0E+04"}\n'
        read = read_text(PARSER, text)
        assert math.isnan(values(read, "loss")[1])
        found = {tag: values(read, tag)[1] for tag in "abcde"}
        assert found == {"a": math.inf, "b": -math.inf, "c": 1024.0, "d": math.inf, "e": 1e4}
        assert len(of_kind(read, "nan_loss")) == 1

    @pytest.mark.parametrize("number", ["1" * 400, "1" * 5_000, "-" + "9" * 400, "1e999"])
    def test_numbers_beyond_all_bounds(self, read_text: ReadText, number: str) -> None:
        read = read_text(
            PARSER,
            f'{{"step": 1, "loss": {number}}}\n{{"step": {number}, "loss": 2.5}}\n' + lines({"step": 2, "loss": 2.5}),
        )
        assert values(read, "loss")[2] == 2.5

    def test_a_number_beyond_all_bounds_is_infinite_and_costs_nothing_beside_it(self, read_text: ReadText) -> None:
        digits = "9" * 5_000
        read = read_text(PARSER, f'{{"step": 1, "loss": {digits}, "a": -{digits}, "b": 1}}\n')
        assert [values(read, tag) for tag in ("loss", "a", "b")] == [{1: math.inf}, {1: -math.inf}, {1: 1.0}]
        assert [event.step for event in of_kind(read, "nan_loss")] == [1]


class TestGotcha25Axes:
    def test_a_step_as_a_fraction_a_string_and_a_float(self, read_text: ReadText) -> None:
        read = read_text(
            PARSER,
            lines({"step": "173/2353", "loss": 1.0}, {"step": "1,174", "loss": 2.0}, {"step": 1175.0, "loss": 3.0}),
        )
        assert values(read, "loss") == {173: 1.0, 1174: 2.0, 1175: 3.0}

    def test_values_over_samples_and_tokens_say_so(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"samples": 640, "loss": 2.5}, {"tokens": 1_310_720, "loss": 2.25}))
        assert (values(read, "loss vs samples"), values(read, "loss vs tokens")) == ({640: 2.5}, {1_310_720: 2.25})

    def test_with_only_epochs_an_epoch_is_a_step_and_the_run_says_so(self, read_text: ReadText) -> None:
        read = read_text(
            PARSER, lines({"epoch": 0, "train_loss": 2.5, "test_acc": 0.5}, {"epoch": 1, "train_loss": 2.25})
        )
        assert values(read, "train_loss") == {0: 2.5, 1: 2.25}
        assert read.run is not None
        assert read.run.metadata["step axis"] == "epoch"

    def test_fractions_of_an_epoch_are_no_steps_and_the_records_are_numbered(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"epoch": 0.5, "loss": 2.5}, {"epoch": 0.75, "loss": 2.25}))
        assert values(read, "loss") == {1: 2.5, 2: 2.25}

    def test_steps_that_count_anew_in_each_epoch_run_on(self, read_text: ReadText) -> None:
        records = [{"epoch": epoch, "step": step, "loss": 2.5} for epoch in range(3) for step in range(4)]
        read = read_text(PARSER, lines(*records))
        assert list(values(read, "loss")) == list(range(12))
        assert set(read.scalars.segment.tolist()) == {0}

    def test_a_step_back_within_an_epoch_is_a_restart(self, read_text: ReadText) -> None:
        records = [{"epoch": 0, "step": step, "loss": 2.5} for step in (0, 1, 2, 1, 2, 3)]
        read = read_text(PARSER, lines(*records))
        assert [segment for tag, segment, *_ in rows(read) if tag == "loss"] == [0, 0, 0, 1, 1, 1]

    def test_many_steps_back_do_not_take_the_square_of_their_number(self, read_text: ReadText) -> None:
        def prepare(count: int) -> Callable[[], object]:
            text = "".join(f'{{"step": {2 - number % 2}, "loss": NaN}}\n' for number in range(count))
            return lambda: read_text(PARSER, text)

        assert grows_with_its_size(prepare, 16_000)

    def test_each_of_many_steps_back_is_a_restart_of_its_own(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "".join(f'{{"step": {2 - n % 2}, "loss": NaN}}\n' for n in range(40_000)))
        assert read.scalars.segment[-1] == 20_000
        assert len({event.event for event in read.events}) == len(read.events) == 40_000

    def test_steps_that_would_run_on_beyond_64_bits_do_not(self, read_text: ReadText) -> None:
        pairs = [(0, 2**62), (1, 0), (1, 2**62), (2, 0), (2, 2**62)]
        read = read_text(PARSER, lines(*({"epoch": epoch, "step": step, "loss": 2.5} for epoch, step in pairs)))
        assert len(read.scalars) > 0


class TestEpochSteps:
    @pytest.mark.parametrize(
        ("pairs", "running"),
        [
            # from 1
            ([(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)], [1, 2, 3, 4, 5]),
            # from 0
            ([(0, 0), (0, 9), (1, 0), (1, 9)], [0, 9, 10, 19]),
            # never anew: the step is the global one
            ([(0, 10), (0, 20), (1, 30), (2, 40)], [10, 20, 30, 40]),
            # a restart at an epoch told before
            ([(0, 0), (0, 9), (1, 0), (1, 9), (1, 0), (1, 9), (2, 0)], [0, 9, 10, 19, 10, 19, 20]),
        ],
    )
    def test_they_run_on(self, pairs: list[tuple[int, int]], running: list[int]) -> None:
        steps = EpochSteps({})
        assert [steps.running(epoch, step) for epoch, step in pairs] == running


class TestGotcha17TheEnd:
    def test_a_whole_object_without_an_end_of_line_is_read(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"step": 1, "loss": 2.5}).rstrip("\n"))
        assert (values(read, "loss"), read.problems) == ({1: 2.5}, ())

    def test_half_an_object_waits(self, read_text: ReadText) -> None:
        read = read_text(PARSER, lines({"step": 1, "loss": 2.5}) + '{"step": 2, "loss": 2.')
        assert (list(values(read, "loss")), len(read.problems)) == ([1], 1)


def test_gotcha_27_a_summary_of_several_hundred_kilobytes_between_the_records(read_text: ReadText) -> None:
    summary = json.dumps({"summary": {f"key{number}": "x" * 20 for number in range(20_000)}})
    read = read_text(PARSER, lines({"step": 1, "loss": 2.5}) + summary + "\n" + lines({"step": 2, "loss": 2.25}))
    assert values(read, "loss") == {1: 2.5, 2: 2.25}
