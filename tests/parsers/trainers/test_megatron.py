"""Megatron logs: records as they are printed, and what terminals, ranks and crashes do to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_reading import ReadText, of_kind, read_growing, read_path, rows, values
from megatron_records import LOSS, OVERFLOW, log_of, record

from growth import grows_with_its_size
from replay_parsers import detection
from replay_parsers.files import sample
from replay_parsers.parser import Sample
from replay_parsers.records import NO_TIME, EventKind, Evidence, ProblemKind
from replay_parsers.trainers.megatron import PARSER, recognise, records_in


class TestRecords:
    def test_every_field_is_kept_under_the_key_that_the_log_prints(self, read_text: ReadText) -> None:
        records = read_text(PARSER, log_of(record(10, 2.5)))
        assert rows(records) == [
            ("consumed samples", 0, 10, NO_TIME, 640.0),
            ("elapsed time per iteration (ms)", 0, 10, NO_TIME, 812.4),
            ("learning rate", 0, 10, NO_TIME, 6e-5),
            ("global batch size", 0, 10, NO_TIME, 64.0),
            ("lm loss", 0, 10, NO_TIME, 2.5),
            ("loss scale", 0, 10, NO_TIME, 65536.0),
            ("grad norm", 0, 10, NO_TIME, 1.25),
            ("num zeros", 0, 10, NO_TIME, 0.0),
            ("number of skipped iterations", 0, 10, NO_TIME, 0.0),
            ("number of nan iterations", 0, 10, NO_TIME, 0.0),
        ]
        assert (records.coverage.not_understood, records.problems) == (0, ())

    def test_a_time_in_front_of_a_record_is_its_wall_time(self, read_text: ReadText) -> None:
        records = read_text(PARSER, log_of(" [2024-05-01 12:00:00]" + record(10), record(11)))
        times = dict(zip(records.scalars.step.tolist(), records.scalars.wall_time.tolist(), strict=True))
        assert times == {10: 1_714_564_800_000_000, 11: NO_TIME}

    def test_the_newer_form_with_throughput_and_params_norm(self, read_text: ReadText) -> None:
        line = (
            " [2025-02-03 04:05:06.789] iteration       20/    5000 | consumed samples:         5120 | elapsed time per"
            " iteration (ms): 5210.3 | throughput per GPU (TFLOP/s/GPU): 401.7 | learning rate: 1.200000E-05 | global"
            " batch size:   256 | lm loss: 9.1E+00 | load_balancing_loss: 1.01E+00 | loss scale: 1.0 | grad norm: 3.2 |"
            " params norm: 812.5 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
        read = read_text(PARSER, log_of(line))
        assert values(read, "throughput per GPU (TFLOP/s/GPU)") == {20: 401.7}
        assert values(read, "params norm") == {20: 812.5}
        assert values(read, "load_balancing_loss") == {20: 1.01}

    def test_gpt_neox_prints_samples_per_second_before_the_header_and_units_behind_the_number(
        self, read_text: ReadText
    ) -> None:
        def line(step: int) -> str:
            return (
                f"10.0.0.7:  samples/sec: {step / 10} | iteration {step:8d}/  320000 |"
                " elapsed time per iteration (ms): 980.1 | learning rate: 1.9E-04 |"
                " approx flops per GPU: 52.7TFLOPS | lm_loss: 3.1E+00 | loss scale: 4096.0 |"
                " number of skipped iterations:   0 | number of nan iterations:   0 |"
            )

        validation = " validation results at iteration 101 | lm_loss value: 3.0E+00 | lm_loss_ppl value: 2.0E+01 | "
        read = read_text(PARSER, log_of(line(100), line(101), validation))
        assert values(read, "samples/sec") == {100: 10.0, 101: 10.1}
        assert values(read, "approx flops per GPU (TFLOPS)") == {100: 52.7, 101: 52.7}
        assert values(read, "lm_loss") == {100: 3.1, 101: 3.1}
        assert values(read, "lm_loss validation") == {101: 3.0}
        assert values(read, "lm_loss_ppl validation") == {101: 20.0}

    def test_the_first_versions_print_most_fields_without_a_colon(self, read_text: ReadText) -> None:
        text = log_of(
            " iteration      100/ 1000000 | elapsed time per iteration (ms): 600.1 | learning rate 1.500E-04 |"
            " lm loss 7.125000E+00 | loss scale 65536.0 | oddity 5 of 7 |"
        )
        records = read_text(PARSER, text)
        found = {tag: values(records, tag) for tag in records.scalars.tags}
        assert found == {
            "elapsed time per iteration (ms)": {100: 600.1},
            "learning rate": {100: 1.5e-4},
            "lm loss": {100: 7.125},
            "loss scale": {100: 65536.0},
        }
        assert records.coverage.not_understood == 1

    def test_a_fork_prints_the_mean_behind_each_value_and_a_logger_in_front(self, read_text: ReadText) -> None:
        """The mean changes with every record: taken for a unit, it would make each a tag of its own."""
        text = log_of(
            *(
                f"[20251202 06:56:28][\x1b[36mrank-7/8\x1b[0m][INFO ] [---trainer.py:2560] : iteration {step}/ 5000 |"
                f" elapsed time per iteration (ms): 13100.0/1324{step}.9 | memory: 153.81GB/102.17GB/60.09% |"
                f" lm loss: 4.5E-03 | number of nan iterations: 0 |\x1b[0m"
                for step in (4, 5)
            )
        )
        records = read_text(PARSER, text)
        assert values(records, "elapsed time per iteration (ms)") == {4: 13100.0, 5: 13100.0}
        assert values(records, "memory (GB)") == {4: 153.81, 5: 153.81}
        assert len(records.scalars.tags) == 4

    def test_validation_lines_get_the_tags_of_megatrons_own_tensorboard(self, read_text: ReadText) -> None:
        validation = " validation loss at iteration 10 | lm loss value: 3.5E+00 | lm loss PPL: 3.3E+01 | "
        named = " validation loss at iteration 10 on test set | lm loss value: 4.5E+00 | lm loss PPL: 9.0E+01 | "
        read = read_text(PARSER, log_of(record(10), "-" * 60, validation, named))
        assert values(read, "lm loss validation") == {10: 3.5}
        assert values(read, "lm loss validation ppl") == {10: 33.0}
        assert values(read, "lm loss validation (test set)") == {10: 4.5}
        assert values(read, LOSS) == {10: 2.5}

    def test_a_step_back_begins_a_segment_and_a_rare_tag_that_follows_does_not(self, read_text: ReadText) -> None:
        validation = " validation loss at iteration {} | lm loss value: 3.5E+00 | "
        text = log_of(record(10), record(20), validation.format(20), record(15), validation.format(15), record(25))
        read = read_text(PARSER, text)
        at = {(tag, step): segment for tag, segment, step, _, _ in rows(read)}
        assert [at[LOSS, step] for step in (10, 20, 15, 25)] == [0, 0, 1, 1]
        assert [at["lm loss validation", step] for step in (20, 15)] == [0, 1]

    def test_a_step_that_is_printed_twice_is_a_duplicate_and_no_restart(self, read_text: ReadText) -> None:
        assert {segment for _, segment, *_ in rows(read_text(PARSER, log_of(record(10), record(10), record(11))))} == {
            0
        }


class TestGotcha9PrefixesAndBrokenRecords:
    @pytest.mark.parametrize("prefix", ["[default7]:", "511: ", "[rank3]:", "[1,3]<stdout>:", "\x1b[32m", "node-17: "])
    def test_rank_prefixes_and_colours(self, read_text: ReadText, prefix: str) -> None:
        assert values(read_text(PARSER, log_of(prefix + record(10, 2.5) + "\x1b[0m")), LOSS) == {10: 2.5}

    @pytest.mark.parametrize("header", ["42780/ 115311", "42780/115311", "   42780/  115311", "42780 /     115311"])
    def test_any_padding_of_the_header(self, read_text: ReadText, header: str) -> None:
        line = f"[default7]: iteration {header} | learning rate: 4.475E-05 | lm loss: 2.117073E+00 |"
        assert values(read_text(PARSER, log_of(line)), LOSS) == {42780: 2.117073}

    def test_progress_bars_share_a_line_with_a_record(self, read_text: ReadText) -> None:
        text = (
            " 10%|#    | 1/10 [00:01<00:09,  1.00s/it]\r"
            + record(10)
            + "\r 20%|##   | 2/10 [00:02<00:08]\n"
            + record(11)
            + "\n"
        )
        read = read_text(PARSER, text)
        assert values(read, LOSS) == {10: 2.5, 11: 2.5}
        assert read.coverage.not_understood == 0

    def test_two_records_on_one_line(self, read_text: ReadText) -> None:
        assert values(read_text(PARSER, record(10, 2.5) + record(11, 2.25) + "\n"), LOSS) == {10: 2.5, 11: 2.25}

    def test_a_record_that_another_one_interrupts(self, read_text: ReadText) -> None:
        cut = record(10, 2.5)[:170] + record(11, 2.25)
        read = read_text(PARSER, cut + "\n")
        assert values(read, LOSS) == {11: 2.25}
        assert values(read, "consumed samples") == {10: 640.0, 11: 704.0}

    @pytest.mark.parametrize("width", [80, 100, 120, 132, 151, 160, 200])
    def test_records_wrapped_at_any_width_in_mid_field(self, read_text: ReadText, width: int) -> None:
        lines = []
        for step in range(42780, 42790):
            text = "[default7]:" + record(step, step / 1e4)
            lines += [text[at : at + width].rstrip() for at in range(0, len(text), width)]
        read = read_text(PARSER, log_of(*lines))
        assert values(read, LOSS) == pytest.approx({step: step / 1e4 for step in range(42780, 42790)})
        assert len(read.scalars) == 100
        assert read.events == ()

    def test_the_blank_at_which_a_record_was_wrapped_is_put_back(self, read_text: ReadText) -> None:
        text = (
            record(10)
            .replace("number of nan iterations", "number of nan\niterations")
            .replace("learning rate", "learning\n rate")
        )
        read = read_text(PARSER, text + "\n")
        assert values(read, "number of nan iterations") == {10: 0.0}
        assert values(read, "learning rate") == {10: 6e-5}

    def test_lines_of_another_rank_do_not_end_up_in_a_wrapped_record(self, read_text: ReadText) -> None:
        text = "[default7]:" + record(10)
        read = read_text(PARSER, log_of(text[:150], "[default3]: loading | rate: 7.0 |", text[150:]))
        assert values(read, "learning rate") == {10: 6e-5}
        assert "rate" not in read.scalars.tags

    def test_a_crash_in_the_middle_of_a_record_leaves_its_closed_fields(self, read_text: ReadText) -> None:
        read = read_text(
            PARSER, log_of(record(10)[:150], "Traceback (most recent call last):", '  File "x.py", line 3', record(11))
        )
        assert values(read, "consumed samples") == {10: 640.0, 11: 704.0}
        assert values(read, LOSS) == {11: 2.5}
        assert read.coverage.other["fields cut off"] == 1


class TestGotcha10UnitsInTheKey:
    def test_milliseconds_and_seconds_are_two_tags(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10), record(11).replace("iteration (ms): 812.4", "iteration (s): 0.81")))
        assert values(read, "elapsed time per iteration (ms)") == {10: 812.4}
        assert values(read, "elapsed time per iteration (s)") == {11: 0.81}


class TestGotcha11TheMissingLoss:
    def test_a_missing_loss_is_a_nan_loss_though_the_counter_reads_0(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10), record(11, None), record(12)))
        (event,) = of_kind(read, "nan_loss")
        assert (event.step, event.locator, event.evidence) == (11, "line 2", Evidence.LOGGED)
        assert event.event == "run/nan_loss@11"
        assert event.detail == {"field": "missing"}
        assert values(read, LOSS) == {10: 2.5, 12: 2.5}

    def test_an_auxiliary_loss_does_not_stand_for_the_missing_one(self, read_text: ReadText) -> None:
        lines = [
            record(step, loss).replace(" loss scale", " load_balancing_loss: 1.0 | loss scale")
            for step, loss in ((10, 2.5), (11, None))
        ]
        assert [event.step for event in of_kind(read_text(PARSER, log_of(*lines)), "nan_loss")] == [11]

    def test_the_nan_counter_is_believed_when_it_counts(self, read_text: ReadText) -> None:
        (event,) = of_kind(read_text(PARSER, log_of(record(10), record(20, 2.5, nans=3))), "nan_loss")
        assert (event.step, event.detail) == (20, {"nan_iterations": "3"})

    @pytest.mark.parametrize("printed", ["nan", "NAN", "-nan", "inf", "INF"])
    def test_a_fork_that_prints_the_loss_anyhow(self, read_text: ReadText, printed: str) -> None:
        read = read_text(PARSER, log_of(record(10), record(11, printed)))
        assert [event.step for event in of_kind(read, "nan_loss")] == [11]
        assert not math.isfinite(values(read, LOSS)[11])

    def test_where_all_iterations_were_skipped_the_missing_loss_says_no_more(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(1, None, skipped=1), record(2, None, skipped=1), record(3)))
        assert of_kind(read, "nan_loss") == []
        assert [(event.step, event.step_end) for event in of_kind(read, "overflow_skip")] == [(1, 1), (2, 2)]

    def test_skipping_from_the_start_up_to_the_first_report(self, read_text: ReadText) -> None:
        (event,) = read_text(PARSER, log_of(record(10, None, skipped=10))).events
        assert (event.kind, event.step, event.step_end) == (EventKind.OVERFLOW_SKIP, 1, 10)

    def test_skipped_iterations_are_counted_since_the_last_report(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10), record(20, skipped=3)))
        (event,) = of_kind(read, "overflow_skip")
        assert (event.step, event.step_end, event.detail) == (11, 20, {"skipped": "3"})

    def test_a_bf16_log_has_no_loss_scale_and_lacks_nothing(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10).replace(" loss scale: 65536.0 |", "")))
        assert "loss scale" not in read.scalars.tags
        assert read.events == ()


class TestGotcha13OverflowLines:
    def test_an_overflow_line_between_two_records_is_the_step_in_between(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10), record(11), OVERFLOW.format(0, 65536.0, 32768.0), record(12)))
        (event,) = of_kind(read, "overflow_skip")
        assert (event.step, event.field, event.before, event.after) == (12, "loss_scale", 65536.0, 32768.0)
        assert event.time is not None
        assert event.time.isoformat() == "2022-01-19T13:16:17.683000+00:00"

    def test_many_ranks_tell_of_one_step(self, read_text: ReadText) -> None:
        told = [OVERFLOW.format(rank, 65536, 32768) for rank in range(16)]
        read = read_text(PARSER, log_of(record(10), record(11), *told, record(12)))
        assert len(of_kind(read, "overflow_skip")) == 1
        assert read.coverage.other["events told again by other ranks"] == 15

    def test_with_longer_intervals_the_step_is_only_bounded_and_each_overflow_counts(self, read_text: ReadText) -> None:
        held = OVERFLOW.format(0, 65536, "").replace(
            ", reducing to ", ", but hysteresis is 2. Reducing hysteresis to 1"
        )
        lines = [record(10), record(20), held, OVERFLOW.format(0, 65536, 32768), record(30)]
        events = of_kind(read_text(PARSER, log_of(*lines)), "overflow_skip")
        assert [(event.step, event.step_end, event.before, event.after) for event in events] == [
            (21, 30, 65536.0, 65536.0),
            (21, 30, 65536.0, 32768.0),
        ]
        assert len({event.event for event in events}) == 2

    def test_the_count_of_skipped_iterations_says_nothing_new_after_overflow_lines(self, read_text: ReadText) -> None:
        lines = [record(10), record(11), OVERFLOW.format(0, 65536, 32768), record(12, None, skipped=1)]
        assert len(of_kind(read_text(PARSER, log_of(*lines)), "overflow_skip")) == 1

    def test_the_same_step_of_a_second_attempt_has_an_id_of_its_own(self, read_text: ReadText) -> None:
        attempt = [record(10), record(11), OVERFLOW.format(0, 65536, 32768), record(12)]
        events = of_kind(read_text(PARSER, log_of(*attempt, *attempt)), "overflow_skip")
        assert [event.event for event in events] == ["run/overflow_skip@12", "run/overflow_skip@12-2"]


class TestGotcha16Numbers:
    @pytest.mark.parametrize(
        ("printed", "value"),
        [
            ("1.0E+04", 1e4),
            ("1,024", 1024.0),
            ("inf", math.inf),
            ("Infinity", math.inf),
            ("1.797693e+308", math.inf),
            ("-1.797693E+308", -math.inf),
        ],
    )
    def test_all_ways_to_print_one(self, read_text: ReadText, printed: str, value: float) -> None:
        assert values(read_text(PARSER, log_of(record(10, norm=printed))), "grad norm") == {10: value}

    @pytest.mark.parametrize("printed", ["nan", "-nan", "NaN"])
    def test_nan_is_kept(self, read_text: ReadText, printed: str) -> None:
        assert math.isnan(values(read_text(PARSER, log_of(record(10, norm=printed))), "grad norm")[10])


class TestGotcha17TheEndOfTheFileAndItsBytes:
    def test_half_a_record_keeps_its_closed_fields_and_says_where_it_breaks_off(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10)) + record(11)[:130])
        assert values(read, "consumed samples") == {10: 640.0, 11: 704.0}
        (problem,) = read.problems
        assert problem.kind is ProblemKind.TRUNCATED
        assert problem.line == 2

    def test_a_whole_record_without_an_end_of_line_is_read(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10)) + record(11, None))
        assert (len(of_kind(read, "nan_loss")), read.problems) == (1, ())
        assert read.end == len(log_of(record(10)) + record(11, None))

    def test_half_an_event_line_waits(self, read_text: ReadText) -> None:
        text = log_of(record(10), record(11)) + OVERFLOW.format(0, 65536, 3)
        read = read_text(PARSER, text)
        assert read.events == ()
        assert [problem.kind for problem in read.problems] == [ProblemKind.TRUNCATED]
        assert read.end == len(log_of(record(10), record(11)))

    def test_windows_line_ends_nul_bytes_and_latin1(self, read_text: ReadText) -> None:
        content = b"caf\xe9\r\n" + record(10).encode() + b"\r\n\0\0\0" + record(11).encode() + b"\r\n"
        assert values(read_text(PARSER, content), LOSS) == {10: 2.5, 11: 2.5}

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(cuts=st.lists(st.integers(0, 4_500), max_size=6))
    def test_the_same_rows_and_events_whatever_the_moments_of_the_reads(self, tmp_path: Path, cuts: list[int]) -> None:
        overflow = OVERFLOW
        text = "[default7]:" + record(15)
        lines = [record(10), record(11), overflow.format(0, 65536, 32768), record(12), record(13, None), record(11)]
        lines += [record(12), "[default7]:" + record(14), text[:140], text[140:], overflow.format(0, 32768, 16384)]
        content = log_of(*lines, "[default7]:" + record(16)).encode()
        path = tmp_path / "grown.log"
        path.write_bytes(content)
        at_once = read_path(PARSER, path)
        pieces = read_growing(PARSER, path, content, [min(cut, len(content)) for cut in cuts])
        assert [row for piece in pieces for row in rows(piece)] == rows(at_once)
        assert [event for piece in pieces for event in piece.events] == list(at_once.events)
        assert [finding for piece in pieces for finding in piece.findings] == list(at_once.findings)


class TestRecognition:
    def test_a_log_is_recognised_by_its_records(self, tmp_path: Path) -> None:
        path = tmp_path / "no-telling-name"
        path.write_text(log_of(*(record(step) for step in range(10, 20))))
        assert recognise(sample(path)) > 0.9

    def test_a_configuration_dump_longer_than_the_sample_is_recognised_by_its_wording(self) -> None:
        head = (
            b"using world size: 8, data-parallel-size: 1\n> padded vocab (size: 5) with 3 dummy tokens\n"
            + b"  a ... b\n" * 7_000
        )
        assert recognise(Sample(path=Path("x"), head=head[:65_536], whole=False)) > detection.CONFIDENT_ENOUGH

    @pytest.mark.parametrize(
        "text", ["", "iteration 5: loss 2.0\n", "# Chronicle\n\nIt diverged at iteration 7000.\n", "{}\n"]
    )
    def test_other_text_is_not(self, text: str) -> None:
        assert recognise(Sample(path=Path("x"), head=text.encode(), whole=True)) == 0.0

    def test_a_chronicle_that_quotes_records_is_none(self) -> None:
        text = "# What happened\n\n" + "Prose about it. " * 200 + "\n\n## Then\n\n" + log_of(record(10))
        assert recognise(Sample(path=Path("x"), head=text.encode(), whole=True)) < detection.CONFIDENT_ENOUGH


class TestManyRecordsOnALine:
    @pytest.mark.parametrize("count", [2, 100, 3_000])
    def test_all_are_read_however_many_they_are(self, read_text: ReadText, count: int) -> None:
        """A log whose line feeds were lost."""
        text = "".join(record(step) for step in range(1, count + 1))
        records = read_text(PARSER, text + "\n")
        assert values(records, LOSS) == dict.fromkeys(range(1, count + 1), 2.5)
        assert rows(records) == rows(read_text(PARSER, log_of(*map(record, range(1, count + 1)))))
        assert (records.coverage.not_understood, records.problems) == (0, ())

    def test_without_any_line_feed_at_all(self, read_text: ReadText) -> None:
        records = read_text(PARSER, "".join(record(step) for step in range(1, 201)))
        assert len(values(records, LOSS)) == 200

    def test_what_is_more_than_a_line_is_allowed_to_be_is_a_problem(self, read_text: ReadText) -> None:
        records = read_text(PARSER, log_of("".join(record(step) for step in range(1, 8_001)), record(9_000)))
        assert values(records, LOSS).keys() > {*range(1, 3_000), 9_000}
        (problem,) = records.problems
        assert problem.kind is ProblemKind.NOT_UNDERSTOOD
        assert problem.lost_bytes > 0


class TestImpossibleSteps:
    STEPS = ("99999999999999999999", "-5", "9" * 60)

    @pytest.mark.parametrize("step", STEPS)
    def test_the_record_is_a_problem_and_its_neighbours_are_kept(self, read_text: ReadText, step: str) -> None:
        bad = record(7).replace("       7/", f"{step}/")
        records = read_text(PARSER, log_of(record(6, 2.0), bad, record(8, 2.25), bad))
        assert values(records, LOSS) == {6: 2.0, 8: 2.25}
        assert len(records.scalars) == 20
        (problem,) = records.problems
        assert (problem.kind, problem.line) == (ProblemKind.INVALID, 2)
        assert step in problem.message
        assert (records.coverage.lost_records, records.coverage.not_understood) == (2, 0)

    @pytest.mark.parametrize("step", STEPS)
    def test_on_a_line_with_others_no_field_goes_to_the_record_before(self, read_text: ReadText, step: str) -> None:
        bad = record(7, 9.75).replace("       7/", f"{step}/")
        records = read_text(PARSER, log_of(record(6, 2.0) + bad + record(8, 2.25)))
        assert values(records, LOSS) == {6: 2.0, 8: 2.25}
        assert len(records.scalars) == 20
        assert records.coverage.lost_records == 1

    def test_at_the_beginning_of_a_file(self, read_text: ReadText) -> None:
        bad = record(7, 9.75).replace("       7/", "99999999999999999999/")
        records = read_text(PARSER, bad + log_of(record(8, 2.25)))
        assert values(records, LOSS) == {8: 2.25}

    def test_of_a_log_that_grows_the_first_is_told_and_all_are_counted(self, tmp_path: Path) -> None:
        bad = record(7).replace("       7/", "99999999999999999999/")
        content = log_of(record(6), bad, record(8), bad).encode()
        cuts = [len(log_of(record(6), bad)), len(log_of(record(6), bad, record(8)))]
        pieces = read_growing(PARSER, tmp_path / "log", content, cuts)
        assert sum(piece.coverage.lost_records for piece in pieces) == 2
        assert sum(len(piece.problems) for piece in pieces) == 1


class TestRecordsInAText:
    def test_lines_pasted_into_prose_are_found_with_their_line_numbers(self) -> None:
        text = (
            "# Day 3\n\nIt was stuck:\n\n```\n"
            + record(10)
            + "\n```\nthen | more\n"
            + record(11)[:140]
            + "\n"
            + record(11)[140:]
            + "\n...\n"
        )
        found = records_in(text)
        assert [(one.line, one.step, one.fields[LOSS], len(one.fields)) for one in found] == [
            (6, 10, 2.5, 10),
            (9, 11, 2.5, 10),
        ]


@pytest.mark.parametrize(
    "evil",
    [
        lambda size: "|" * size,
        lambda size: "iteration 1/ 1|" * (size // 15),
        lambda size: "iteration " * (size // 10),
        lambda size: "iteration" + " " * size + "5",
        lambda size: "iteration 5/" + " " * size,
        lambda size: "iteration 5/ 10 |" + "a" * size,
        lambda size: "iteration 5/ 10 |" + "x: " * (size // 3),
        lambda size: "iteration 5/ 10 | a: " + "1" * size + " |",
        lambda size: "validation loss at iteration 5" + " on" * (size // 3),
        lambda size: "OVERFLOW! Attempted loss scale: " + "1" * size,
        lambda size: "Rank 1" * (size // 6),
        lambda size: "0/" * (size // 2),
        lambda size: "iteration 5/ 10 |" + "|" * size,
        lambda size: "iteration 5/ 10 |" + "a: 1|" * (size // 5),
        lambda size: "iteration 5/ 10 |" + "a/iteration|" * (size // 12),
        lambda size: "iteration 99999999999999999999/ 10|" * (size // 35),
    ],
    ids=lambda evil: evil(50)[:24],
)
def test_no_line_of_a_megabyte_takes_long_or_raises(tmp_path: Path, evil: Callable[[int], str]) -> None:
    path = tmp_path / "train.log"

    def reading(size: int) -> Callable[[], object]:
        path.write_text(log_of(record(9), evil(size), record(10)))
        return lambda: read_path(PARSER, path)

    assert grows_with_its_size(reading, 1_000_000)
    reading(1_000_000)
    assert 10 in values(read_path(PARSER, path), LOSS)
