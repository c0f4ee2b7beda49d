"""Hugging Face's Trainer: its console, its state files, and the logs of what is built on it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from log_reading import ReadText, of_kind, read_growing, read_path, rows, values

from replay_parsers.detection import UnknownFormatError, detect
from replay_parsers.records import ProblemKind
from replay_parsers.trainers import huggingface, json_lines, trainer_state
from replay_parsers.trainers.huggingface import parse_dictionary


def state(*history: str, step: int = 100) -> str:
    rows = ",\n".join(f"    {row}" for row in history)
    head = f'{{\n  "best_metric": null,\n  "global_step": {step},\n'
    return f'{head}  "log_history": [\n{rows}\n  ],\n  "max_steps": {step}\n}}'


class TestGotcha14TrainerState:
    def test_bare_nan_and_infinity_are_read(self, read_text: ReadText) -> None:
        text = state(
            '{"loss": NaN, "step": 10}',
            '{"loss": 2.5, "grad_norm": Infinity, "step": 20}',
            '{"loss": -Infinity, "step": 30}',
        )
        read = read_text(trainer_state.PARSER, text, "trainer_state.json")
        loss = values(read, "loss")
        assert math.isnan(loss[10])
        assert (loss[20], loss[30]) == (2.5, -math.inf)
        assert [event.step for event in of_kind(read, "nan_loss")] == [10, 30]
        assert of_kind(read, "nan_loss")[0].locator == "record 1 of the history"

    def test_a_nan_gradient_norm_beside_a_sound_loss_is_told_once_a_stretch(self, read_text: ReadText) -> None:
        rows = [
            f'{{"loss": 2.5, "grad_norm": {"NaN" if step in (20, 30) else 1.0}, "step": {step}}}'
            for step in range(10, 60, 10)
        ]
        read = read_text(trainer_state.PARSER, state(*rows))
        (finding,) = read.findings
        assert finding.check == "loss_behind_nan_filter"
        assert "step 20" in finding.readings[0]
        assert of_kind(read, "nan_loss") == []

    def test_an_integer_of_thousands_of_digits_does_not_cost_the_history(self, read_text: ReadText) -> None:
        text = '{"log_history": [{"step": 1, "loss": 2.5}, {"step": 2, "loss": ' + "9" * 5_000 + "}]}"
        read = read_text(trainer_state.PARSER, text)
        assert (values(read, "loss"), read.problems) == ({1: 2.5, 2: math.inf}, ())

    def test_steps_repeated_after_a_resume_are_a_new_segment(self, read_text: ReadText) -> None:
        rows = [f'{{"loss": 2.5, "step": {step}}}' for step in (10, 20, 30, 20, 30, 40)]
        read = read_text(trainer_state.PARSER, state(*rows))
        assert read.scalars.segment.tolist() == [0, 0, 0, 1, 1, 1]

    def test_what_the_run_was_goes_into_its_metadata(self, read_text: ReadText) -> None:
        run = read_text(trainer_state.PARSER, state('{"loss": 2.5, "step": 10}')).run
        assert run is not None
        assert run.metadata["max_steps"] == "100"

    def test_half_a_document_says_where_it_ends(self, read_text: ReadText) -> None:
        read = read_text(trainer_state.PARSER, state('{"loss": 2.5, "step": 10}')[:80])
        (problem,) = read.problems
        assert problem.kind is ProblemKind.CORRUPT
        assert "line 5" in str(problem)

    def test_cut_anywhere_its_whole_records_are_kept(self, read_text: ReadText) -> None:
        records = ", ".join(f'{{"loss": {step}.5, "step": {step}, "a": {{"b": NaN}}}}' for step in range(1, 6))
        for text in (state(records), f"[{records}]", f'{{"history": [{records}]}}'):
            kept = [list(values(read_text(trainer_state.PARSER, text[:cut]), "loss")) for cut in range(len(text))]
            assert kept == sorted(kept)
            assert kept[-1] == [1, 2, 3, 4, 5]
            for steps in kept:
                assert steps == list(range(1, len(steps) + 1))

    @pytest.mark.parametrize(
        "text",
        [
            '{"log_history": 5}',
            "[]",
            '{"log_history": [1, null, "x", {}]}',
            "[" * 100_000,
            '{"log_history": [{"step": 1e999}]}',
        ],
        ids=["no-list", "empty", "no-records", "nested", "huge-step"],
    )
    def test_other_documents_are_told_and_never_raise(self, read_text: ReadText, text: str) -> None:
        assert len(read_text(trainer_state.PARSER, text).scalars) == 0

    def test_it_is_a_document_and_not_a_log(self) -> None:
        assert not trainer_state.PARSER.appends

    def test_lists_of_records_and_columns_are_histories_too(self, read_text: ReadText) -> None:
        listed = json.dumps([{"step": 1, "loss": 2.5}, {"step": 2, "loss": 2.25}])
        columns = json.dumps({"step": [1, 2], "loss": [2.5, 2.25], "name": "x"})
        for text in (listed, columns):
            assert values(read_text(trainer_state.PARSER, text), "loss") == {1: 2.5, 2: 2.25}


class TestExportsOfTensorBoard:
    def test_rows_of_one_tag_are_named_by_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run-a-tag-train_loss.json"
        path.write_text("[[1700000000.5, 10, 2.5], [1700000001.5, 20, NaN], [1700000002.5, 30, 2.0]]")
        assert detect(path).parser is trainer_state.PARSER
        read = read_path(trainer_state.PARSER, path)
        assert (values(read, "train_loss")[10], values(read, "train_loss")[30]) == (2.5, 2.0)
        assert [event.step for event in of_kind(read, "nan_loss")] == [20]
        assert read.scalars.wall_time.tolist()[0] == 1_700_000_000_500_000

    def test_all_tags_in_one_file(self, tmp_path: Path) -> None:
        rows_of = {"train/loss": [[1700000000.5, step, 2.5] for step in range(3)], "lr": [[1700000000.5, 0, 1e-3]]}
        path = tmp_path / "all_scalars.json"
        path.write_text(json.dumps(rows_of))
        assert detect(path).parser is trainer_state.PARSER
        read = read_path(trainer_state.PARSER, path)
        assert (values(read, "train/loss"), values(read, "lr")) == ({0: 2.5, 1: 2.5, 2: 2.5}, {0: 1e-3})

    @pytest.mark.parametrize("text", ["[[1, 2, 3]]", '{"a": [[1, 2]]}', "[[17000000000, 1, 2]]"])
    def test_other_tables_of_numbers_are_none(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "x.json"
        path.write_text(text)
        with pytest.raises(UnknownFormatError):
            detect(path)


class TestGotcha14Console:
    def bar(self, step: int, total: int = 1000) -> str:
        return f"  1%|#     | {step}/{total} [00:10<16:30,  1.00it/s]"

    def test_the_bar_tells_the_step(self, read_text: ReadText) -> None:
        text = f"\r{self.bar(10)}\r{{'loss': 2.5, 'epoch': 0.01}}\n\r{self.bar(20)}{{'loss': 2.25, 'epoch': 0.02}}\n"
        assert values(read_text(huggingface.PARSER, text), "loss") == {10: 2.5, 20: 2.25}

    def test_the_bar_of_an_evaluation_does_not(self, read_text: ReadText) -> None:
        text = (
            f"{self.bar(500)}\n{{'loss': 2.5, 'epoch': 0.5}}\n{self.bar(7, 8)}\n{{'eval_loss': 2.75, 'epoch': 0.5}}\n"
        )
        read = read_text(huggingface.PARSER, text)
        assert values(read, "eval_loss") == {500: 2.75}
        assert values(read, "loss") == {500: 2.5}

    def test_nor_does_one_that_is_longer_than_that_of_the_training(self, read_text: ReadText) -> None:
        evaluation = f"\r{self.bar(7, 5000)}\r{self.bar(5000, 5000)}\r{{'eval_loss': 2.75, 'epoch': 0.5}}\n"
        text = f"{self.bar(0)}\r{self.bar(500)}\r{{'loss': 2.5, 'epoch': 0.5}}\n{evaluation}"
        text += f"\r{self.bar(501)}\r{{'loss': 2.25, 'epoch': 0.6}}\n"
        read = read_text(huggingface.PARSER, text)
        assert (values(read, "loss"), values(read, "eval_loss")) == ({500: 2.5, 501: 2.25}, {500: 2.75})

    def test_the_bar_before_the_training_loss_is_the_one_of_the_training(self, read_text: ReadText) -> None:
        text = f"{self.bar(3, 3)}\nwords\n{self.bar(10)}\n{{'loss': 2.5}}\n{self.bar(3, 3)}\n{{'eval_loss': 2.75}}\n"
        read = read_text(huggingface.PARSER, text)
        assert (values(read, "loss"), values(read, "eval_loss")) == ({10: 2.5}, {10: 2.75})

    def redrawn(self, *, eval_bar: str = "") -> str:
        """A fast run, whose bar is drawn rarely: wiped for each record, and drawn anew behind it."""
        text = f"\r{self.bar(0, 30)}"
        for step, loss in ((10, 2.5), (20, 2.25), (30, 2.0)):
            text += f"\r{self.bar(step - 3, 30)}\r      \r{{'loss': '{loss}', 'train_runtime': '0.5'}}\n"
            text += f"\r{self.bar(step, 30)}"
        text += (
            f"\n\r{self.bar(0, 2)}\x1b[A\r    \n\r   \r\x1b[A{{'eval_loss': '2.75'}}\n{eval_bar}\r{self.bar(30, 30)}\n"
        )
        return f"{text}\r    \r{{'train_runtime': '9.5', 'train_loss': '2.25'}}\n\r{self.bar(30, 30)}"

    def test_a_bar_drawn_anew_behind_a_record_tells_its_step(self, read_text: ReadText) -> None:
        for eval_bar in ("", f"\r{self.bar(2, 2)}\x1b[A"):
            read = read_text(huggingface.PARSER, self.redrawn(eval_bar=eval_bar))
            assert values(read, "loss") == {10: 2.5, 20: 2.25, 30: 2.0}
            assert (values(read, "eval_loss"), values(read, "train/train_loss")) == ({30: 2.75}, {30: 2.25})
            assert read.problems == ()

    def test_read_at_any_moment_it_says_the_same(self, tmp_path: Path, read_text: ReadText) -> None:
        content = self.redrawn().encode()
        whole = rows(read_text(huggingface.PARSER, content.decode()))
        for cut in range(len(content)):
            pieces = read_growing(huggingface.PARSER, tmp_path / "growing.log", content, [cut])
            assert [row for piece in pieces for row in rows(piece)] == whole, cut

    def test_a_record_that_waits_for_its_bar_is_told(self, read_text: ReadText) -> None:
        text = self.redrawn()
        read = read_text(huggingface.PARSER, text[: text.index("2.5") + len("2.5', 'train_runtime': '0.5'}\n")])
        assert values(read, "loss") == {}
        assert [problem.kind for problem in read.problems] == [ProblemKind.TRUNCATED]

    def test_what_is_no_bar_ends_the_waiting(self, read_text: ReadText) -> None:
        text = f"\r{self.bar(10)}\r      \r{{'loss': '2.5'}}\nwords\n"
        text += f"\r{self.bar(20)}\r      \r{{'loss': '2.25'}}\n{{'eval_loss': '2.75'}}\n"
        read = read_text(huggingface.PARSER, text)
        assert (values(read, "loss"), values(read, "eval_loss")) == ({10: 2.5, 20: 2.25}, {20: 2.75})

    def test_a_run_time_in_every_record_is_not_the_end_of_the_run(self, read_text: ReadText) -> None:
        text = "".join(f"{{'loss': '{loss}', 'epoch': '0.1', 'train_runtime': '0.5'}}\n" for loss in (2.5, 2.25))
        assert values(read_text(huggingface.PARSER, text), "loss") == {1: 2.5, 2: 2.25}

    def test_a_crash_printed_behind_the_bar_is_seen(self, read_text: ReadText) -> None:
        read = read_text(
            huggingface.PARSER, f"\r{self.bar(10)}{{'loss': 2.5}}\n\r{self.bar(11)}RuntimeError: CUDA error: x\n"
        )
        assert [event.step for event in of_kind(read, "crash")] == [10]

    def test_swift_names_its_bar(self, read_text: ReadText) -> None:
        text = (
            f"Train: {self.bar(10)}{{'loss': '2.5', 'epoch': '0.01'}}\nVal: {self.bar(3, 3)}\n{{'eval_loss': '2.75'}}\n"
        )
        read = read_text(huggingface.PARSER, text)
        assert (values(read, "loss"), values(read, "eval_loss")) == ({10: 2.5}, {10: 2.75})

    def test_without_a_bar_the_epoch_tells_it_once_the_plan_is_known(self, read_text: ReadText) -> None:
        text = "  Num Epochs = 4\n  Total optimization steps = 8,660\n"
        text += "{'loss': 2.5, 'epoch': 1.0}\n{'loss': 2.25, 'epoch': 2.0}\n"
        assert values(read_text(huggingface.PARSER, text), "loss") == {2165: 2.5, 4330: 2.25}

    def test_without_either_the_records_are_numbered_and_that_is_said(self, read_text: ReadText) -> None:
        read = read_text(huggingface.PARSER, "{'loss': 2.5, 'epoch': 0.01}\n{'loss': 2.25, 'epoch': 0.02}\n")
        assert values(read, "loss") == {1: 2.5, 2: 2.25}
        assert [finding.check for finding in read.findings] == ["no_step"]

    def test_values_as_strings_in_newer_versions(self, read_text: ReadText) -> None:
        text = f"{self.bar(10)}{{'loss': '2.5', 'grad_norm': '1.25', 'learning_rate': '5e-05', 'epoch': '0.01'}}\n"
        read = read_text(huggingface.PARSER, text)
        assert (values(read, "loss"), values(read, "learning_rate")) == ({10: 2.5}, {10: 5e-05})

    def test_the_filter_for_nan_losses_is_told(self, read_text: ReadText) -> None:
        text = f"{self.bar(10)}{{'loss': 0.1474, 'grad_norm': nan, 'learning_rate': 0.0001, 'epoch': 0.04}}\n"
        read = read_text(huggingface.PARSER, text)
        assert [finding.check for finding in read.findings] == ["loss_behind_nan_filter"]
        assert read.events == ()

    def test_gotcha_23_a_loss_of_zero_with_a_nan_norm_is_a_nan_loss(self, read_text: ReadText) -> None:
        text = f"{self.bar(10)}{{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 0.0001, 'epoch': 0.04}}\n"
        read = read_text(huggingface.PARSER, text)
        assert [event.step for event in of_kind(read, "nan_loss")] == [10]
        assert read.findings == ()

    def test_checkpoints_and_restarts(self, read_text: ReadText) -> None:
        text = f"{self.bar(500)}{{'loss': 2.5, 'epoch': 0.5}}\nSaving model checkpoint to out/checkpoint-500\n"
        text += "  Continuing training from global step 500\n"
        read = read_text(huggingface.PARSER, text)
        assert [(event.kind, event.step) for event in read.events] == [("checkpoint_save", 500), ("restart", 500)]
        assert read.events[0].detail["checkpoint"] == "out/checkpoint-500"

    def test_gotcha_27_25000_carriage_returns_in_one_line(self, read_text: ReadText) -> None:
        bars = "".join(f"\r{self.bar(step, 25_000)}" for step in range(25_000))
        read = read_text(huggingface.PARSER, bars + "{'loss': 2.5, 'epoch': 1.0}\n")
        assert values(read, "loss") == {24_999: 2.5}
        assert read.coverage.not_understood == 0


class TestTheMeanOverTheRun:
    """The last record's `train_loss` is no loss of a step, and is called what the Trainer calls it in event files."""

    LAST = '"train_runtime": 9.5, "total_flos": 2.0, "train_loss": 2.25'

    def test_in_its_state(self, read_text: ReadText) -> None:
        read = read_text(trainer_state.PARSER, state('{"loss": 2.5, "step": 10}', f'{{{self.LAST}, "step": 10}}'))
        assert (values(read, "loss"), values(read, "train/train_loss")) == ({10: 2.5}, {10: 2.25})
        assert "train_loss" not in read.scalars.tags

    def test_on_the_console(self, read_text: ReadText) -> None:
        bar = "  1%|#     | 10/1000 [00:10<16:30,  1.00it/s]"
        read = read_text(huggingface.PARSER, f"{bar}\n{{'loss': 2.5}}\n{{{self.LAST}}}\n".replace('"', "'"))
        assert (values(read, "loss"), values(read, "train/train_loss")) == ({10: 2.5}, {10: 2.25})
        assert "train_loss" not in read.scalars.tags

    def test_others_train_loss_is_that_of_the_step(self, read_text: ReadText) -> None:
        read = read_text(json_lines.PARSER, '{"step": 1, "train_loss": 2.5, "train_time": 3.0}\n')
        assert values(read, "train_loss") == {1: 2.5}


class TestWhatIsLeftOut:
    def test_values_that_are_no_numbers_are_counted(self, read_text: ReadText) -> None:
        read = read_text(huggingface.PARSER, "{'loss': 2.5, 'a': None, 'b': 'x', 'global_step/max_steps': '1/5'}\n")
        assert read.coverage.other == {"null values": 1, "texts in place of numbers": 1}

    def test_a_loss_of_none_is_missing(self, read_text: ReadText) -> None:
        bar = "  1%|#     | 10/1000 [00:10<16:30,  1.00it/s]"
        read = read_text(huggingface.PARSER, f"{bar}{{'loss': None, 'learning_rate': 0.1}}\n")
        assert [(event.step, event.detail["value"]) for event in of_kind(read, "nan_loss")] == [(10, "null")]


class TestDictionaries:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("{'loss': 2.5}", {"loss": "2.5"}),
            (
                "{'loss': nan, 'a': -inf, 'b': '1', 'c': None, 'd': True}",
                {"loss": "nan", "a": "-inf", "b": "1", "c": "None", "d": "True"},
            ),
            ("{'loss': np.float64(2.5), 'x': tensor(1.5, device='cuda:0')}", {"loss": "2.5", "x": "1.5"}),
            (
                "{'train_speed(iter/s)': 0.21, 'global_step/max_steps': '10/100'}",
                {"train_speed(iter/s)": "0.21", "global_step/max_steps": "10/100"},
            ),
            ("{'loss': 2.5", None),
            ("{'loss': __import__('os').system('true')}", None),
            ("{'loss': [1, 2]}", None),
            ("{}", None),
            ("{'loss': 2.5} and more", {"loss": "2.5"}),
        ],
    )
    def test_plain_ones_are_read_and_nothing_is_evaluated(self, text: str, expected: dict[str, str] | None) -> None:
        assert parse_dictionary(text) == expected


class TestLlamaFactoryAndSwift:
    def test_llama_factory(self, read_text: ReadText) -> None:
        row = {"current_steps": 10, "total_steps": 8660, "loss": 2.5, "learning_rate": 5.7e-07, "epoch": 0.004,
               "percentage": 0.12, "elapsed_time": "0:00:24", "throughput": "0.00", "total_tokens": 0}  # fmt: skip
        read = read_text(json_lines.PARSER, json.dumps(row) + "\n", "trainer_log.jsonl")
        assert values(read, "loss") == {10: 2.5}
        assert values(read, "throughput") == {10: 0.0}
        assert "elapsed_time" not in read.scalars.tags

    @pytest.mark.parametrize("key", ["global_step/max_steps", "steps[global_step/max_steps]"])
    def test_swift_names_the_step_as_a_fraction(self, read_text: ReadText, key: str) -> None:
        row = {"loss": 1.85, "acc": 0.59, "grad_norm": 1.75, "memory(GiB)": 15.83, key: "60/61", "percentage": "98.36%"}
        read = read_text(json_lines.PARSER, json.dumps(row) + "\n")
        assert values(read, "loss") == {60: 1.85}
        assert values(read, "memory(GiB)") == {60: 15.83}


class TestRealFiles:
    """One run told four times, and a run of its own."""

    @pytest.fixture
    def folder(self, shared: Path) -> Path:
        return shared / "real" / "trainers" / "huggingface"

    def test_the_four_tellings_agree_where_they_overlap(self, folder: Path) -> None:
        whole = read_path(trainer_state.PARSER, folder / "run" / "trainer_state.json")
        losses = values(whole, "loss")
        assert (len(losses), losses[10], losses[8660]) == (866, 2.4977, 0.1333)
        for step in (7000, 7500):
            part = values(
                read_path(trainer_state.PARSER, folder / "run" / f"checkpoint-{step}" / "trainer_state.json"), "loss"
            )
            assert (len(part), max(part)) == (step / 10, step)
            assert part.items() <= losses.items()
        assert values(read_path(json_lines.PARSER, folder / "run" / "trainer_log.jsonl"), "loss") == losses

    def test_the_single_one(self, folder: Path) -> None:
        read = read_path(trainer_state.PARSER, folder / "single" / "trainer_state.json")
        assert (values(read, "loss")[10], values(read, "loss")[7000]) == (25.5062, 2.2437)
        assert values(read, "eval_loss")[7000] == 2.065276861190796
