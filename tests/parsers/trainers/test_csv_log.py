"""Tables: Lightning's, exports of dashboards, everybody's own."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from log_reading import ReadText, of_kind, values

from replay_parsers.parser import Sample
from replay_parsers.records import ProblemKind
from replay_parsers.trainers.csv_log import PARSER, recognise


class TestGotcha15Headers:
    def test_a_header_that_comes_again_after_a_resume(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "step,loss\n1,2.5\n2,2.25\nstep,loss\n3,2.0\n")
        assert values(read, "loss") == {1: 2.5, 2: 2.25, 3: 2.0}
        assert read.coverage.other["header repeated"] == 1
        assert read.coverage.not_understood == 0

    def test_columns_that_change(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "step,loss\n1,2.5\nstep,lr,loss\n2,0.1,2.25\n")
        assert (values(read, "loss"), values(read, "lr")) == ({1: 2.5, 2: 2.25}, {2: 0.1})

    def test_a_file_begun_again_is_a_new_segment(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "step,loss\n1,2.5\n2,2.25\nstep,loss\n1,2.75\n2,2.5\n")
        assert read.scalars.segment.tolist() == [0, 0, 1, 1]

    def test_it_is_read_as_a_whole_for_the_header_may_be_rewritten(self) -> None:
        assert not PARSER.appends

    def test_rows_longer_than_the_header_are_counted(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "step,loss\n1,2.5\n2,2.25,9\n")
        assert (list(values(read, "loss")), read.coverage.not_understood) == ([1], 1)


class TestWhatIsLeftOut:
    def test_cells_that_are_no_numbers_are_counted(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "step,loss,time,a\n1,abc,2023-11-14T22:13:20Z,1\n2,2.25,2023-11-14T22:13:21Z,x\n")
        assert (values(read, "loss"), values(read, "a")) == ({2: 2.25}, {1: 1.0})
        assert read.coverage.other == {"texts in place of numbers": 2}

    def test_rows_that_measure_nothing_are_shown(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "step,loss\n1,2.5\n2,abc\n")
        assert (read.coverage.not_understood, read.coverage.examples) == (1, ("line 3: 2,abc",))


class TestTables:
    def test_lightning_leaves_cells_empty_that_were_not_measured(self, read_text: ReadText) -> None:
        text = "epoch,lr-AdamW,step,train_loss_epoch,train_loss_step,val_loss\n"
        text += "0,,49,,2.5,\n0,,99,,,2.75\n0,,99,2.6,,\n,0.001,99,,,\n"
        read = read_text(PARSER, text)
        assert values(read, "train_loss_step") == {49: 2.5}
        assert values(read, "val_loss") == {99: 2.75}
        assert values(read, "lr-AdamW") == {99: 0.001}

    @pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
    def test_the_separator_is_told_by_the_header(self, read_text: ReadText, separator: str) -> None:
        text = "\n".join(separator.join(row) for row in (("step", "loss", "lr"), ("1", "2.5", "0.1"))) + "\n"
        assert values(read_text(PARSER, text), "loss") == {1: 2.5}

    def test_decimal_commas_where_the_semicolon_separates(self, read_text: ReadText) -> None:
        assert values(read_text(PARSER, "step;loss\n1;2,5\n"), "loss") == {1: 2.5}

    def test_quoted_names_of_a_dashboards_export(self, read_text: ReadText) -> None:
        read = read_text(PARSER, '"Step","my run - train/loss","my run - train/loss__MIN"\n"1","2.5","2.4"\n')
        assert (values(read, "train/loss"), values(read, "train/loss__MIN")) == ({1: 2.5}, {1: 2.4})

    def test_a_nan_loss_in_a_dashboards_export_is_one(self, read_text: ReadText) -> None:
        read = read_text(PARSER, '"Step","swift-dawn-7 - train/loss"\n"10","2.5"\n"20","NaN"\n')
        assert [event.step for event in of_kind(read, "nan_loss")] == [20]

    def test_a_chart_of_several_runs_keeps_their_names(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "Step,a - loss,b - loss\n1,2.5,3.5\n2,,3.25\n")
        assert (values(read, "a - loss"), values(read, "b - loss")) == ({1: 2.5}, {1: 3.5, 2: 3.25})

    def test_tensorboards_export_has_its_tag_in_its_name(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "Wall time,Step,Value\n1700000000.5,10,2.5\n", "run-a-tag-train_loss.csv")
        assert values(read, "train_loss") == {10: 2.5}
        assert read.scalars.wall_time.tolist() == [1_700_000_000_500_000]

    def test_gotcha_16_numbers(self, read_text: ReadText) -> None:
        read = read_text(PARSER, 'step,loss,a\n1,nan,"1,024"\n2,-inf,1.0E+04\n3,1.797693e308,Infinity\n')
        loss = values(read, "loss")
        assert math.isnan(loss[1])
        assert (loss[2], loss[3]) == (-math.inf, math.inf)
        assert values(read, "a") == {1: 1024.0, 2: 1e4, 3: math.inf}
        assert [event.step for event in of_kind(read, "nan_loss")] == [1, 2, 3]

    def test_gotcha_25_steps_that_count_anew_in_each_epoch(self, read_text: ReadText) -> None:
        text = "epoch,batch,loss\n" + "".join(f"{epoch},{batch},2.5\n" for epoch in range(3) for batch in range(4))
        assert list(values(read_text(PARSER, text), "loss")) == list(range(12))

    def test_gotcha_17_half_a_row_waits(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "step,loss,lr\n1,2.5,0.1\n2,2.2")
        assert list(values(read, "loss")) == [1]
        assert [problem.kind for problem in read.problems] == [ProblemKind.TRUNCATED]

    def test_gotcha_27_words_before_the_header_are_counted(self, read_text: ReadText) -> None:
        read = read_text(PARSER, "# written by my trainer\nstep,loss\n1,2.5\n2,2.25\n")
        assert values(read, "loss") == {1: 2.5, 2: 2.25}
        assert read.coverage.examples == ("line 1: # written by my trainer",)


class TestRecognition:
    @pytest.mark.parametrize(
        ("text", "sure"),
        [
            ("step,loss\n1,2.5\n2,2.25\n", True),
            ("epoch,step,train_loss\n", True),
            ("name,age,city\nann,5,x\n", False),
            ("1,2,3\n4,5,6\n", False),
            ("epoch,loss went up, we think\nand then down\n", False),
        ],
    )
    def test_by_a_header_with_names_that_logs_have_and_numbers_below(self, text: str, sure: bool) -> None:
        assert (recognise(Sample(path=Path("x"), head=text.encode(), whole=True)) > 0.3) is sure
