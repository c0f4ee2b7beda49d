"""torchtitan, OLMo-core, NeMo, nanotron, nanoGPT and its kin, and logs of no known dialect."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from log_reading import ReadText, of_kind, read_growing, rows, values

from replay_parsers.detection import detect
from replay_parsers.trainers import clu, composer, composer_file, key_value, nanogpt, nanotron, nemo, olmo, torchtitan


class TestTorchtitan:
    def line(self, step: int, loss: str = "4.5000", second: int = 10, rank: str = "[rank0]:", **more: str) -> str:
        fields = "  ".join(f"{key}: {value}" for key, value in more.items())
        return (
            f"{rank}[titan] 2025-07-21 15:57:{second:02d},774 - root - INFO - step: {step:2d}  loss: {loss}  {fields}\n"
        )

    def test_gotcha_9_thousands_units_and_memory(self, read_text: ReadText) -> None:
        read = read_text(
            torchtitan.PARSER, self.line(3, memory="9.46GiB(64.99%)", tps="12,345", tflops="3.15", mfu="0.32%")
        )
        assert values(read, "tps") == {3: 12345}
        assert values(read, "memory (GiB)") == {3: 9.46}
        assert values(read, "memory (%)") == {3: 64.99}
        assert values(read, "mfu (%)") == {3: 0.32}

    def test_gotcha_25_seven_ranks_that_are_not_named_print_one_step(self, read_text: ReadText) -> None:
        text = "".join(
            self.line(step, f"{5 - step}.0", 10 + step, "", tps="1,000") for step in (1, 2, 3) for _ in range(7)
        )
        read = read_text(torchtitan.PARSER, text)
        assert read.scalars.tag.tolist().count(read.scalars.tags.index("loss")) == 3
        assert read.coverage.other["records repeated by other ranks"] == 18

    def test_a_restart_that_prints_the_same_loss_again_is_kept(self, read_text: ReadText) -> None:
        first = "".join(self.line(step, second=step) for step in (1, 2, 3))
        again = "".join(self.line(step, second=40 + step) for step in (2, 3, 4))
        assert int(read_text(torchtitan.PARSER, first + again).scalars.segment.max()) == 1

    def test_validation_has_names_of_its_own(self, read_text: ReadText) -> None:
        text = self.line(10) + self.line(10).replace("step: 10", "validate step: 10")
        read = read_text(torchtitan.PARSER, text)
        assert (values(read, "loss"), values(read, "validation/loss")) == ({10: 4.5}, {10: 4.5})

    def test_loading_a_checkpoint_and_resuming(self, read_text: ReadText) -> None:
        loading = (
            "[titan] 2025-07-21 15:57:01,774 - root - INFO - Loading the checkpoint from outputs/checkpoint/step-500.\n"
        )
        starts = "[titan] 2025-07-21 15:57:02,774 - root - INFO - Training starts at step 501.\n"
        read = read_text(torchtitan.PARSER, loading + starts + self.line(501))
        assert [(event.kind, event.step) for event in read.events] == [("checkpoint_load", 500), ("restart", 500)]

    def test_nan(self, read_text: ReadText) -> None:
        assert [event.step for event in of_kind(read_text(torchtitan.PARSER, self.line(3, "nan")), "nan_loss")] == [3]

    def test_a_line_that_breaks_off_behind_the_memory_is_not_whole(self, tmp_path: Path) -> None:
        content = (self.line(1, memory="9.46GiB(64.99%)", mfu="0.32%") + "\n").encode()
        cut = content.index(b"64.99%") + len("64.99%")
        first, second = read_growing(torchtitan.PARSER, tmp_path / "growing.log", content, [cut])
        assert len(first.scalars) == 0
        assert values(second, "memory (%)") == {1: 64.99}


class TestOLMo:
    def test_abbreviated_and_grouped_numbers(self, read_text: ReadText) -> None:
        text = "[2024-04-17 09:42:26] INFO     [olmo.train:816, rank=0] [step=1/739328]\n"
        text += "    train/CrossEntropyLoss=11.25\n    train/Perplexity=76,631\n    throughput/total_tokens=4,194,304\n"
        text += "    throughput/total tokens=4.19B\n    System/Peak GPU Memory (MB)=42,133\n"
        read = read_text(olmo.PARSER, text)
        assert values(read, "train/CrossEntropyLoss") == {1: 11.25}
        assert values(read, "train/Perplexity") == {1: 76631}
        assert values(read, "throughput/total tokens") == {1: 4.19e9}
        assert values(read, "System/Peak GPU Memory (MB)") == {1: 42133}

    def test_evaluations_belong_to_the_last_step(self, read_text: ReadText) -> None:
        text = "x [step=120/1451,epoch=0]\n    train/CE loss=3.25\narc_challenge\n"
        text += "    eval/downstream/arc_challenge=2.371\n"
        assert values(read_text(olmo.PARSER, text), "eval/downstream/arc_challenge") == {120: 2.371}

    def test_nan_and_skipped_steps(self, read_text: ReadText) -> None:
        text = "x [step=356/500,epoch=1]\n    train/CE loss=nan\n    optim/step skipped=1.0\n"
        read = read_text(olmo.PARSER, text)
        assert [event.step for event in of_kind(read, "nan_loss")] == [356]
        assert values(read, "optim/step skipped") == {356: 1.0}

    def test_where_it_resumes(self, read_text: ReadText) -> None:
        text = "x [step=1100/1451,epoch=3]\n    train/CE loss=3.25\n"
        text += "x\tINFO\tWill resume training from step 1,200, epoch 3\n"
        (event,) = read_text(olmo.PARSER, text).events
        assert (event.kind, event.step) == ("restart", 1200)

    def test_an_indented_assignment_before_any_step_is_none(self, read_text: ReadText) -> None:
        assert len(read_text(olmo.PARSER, "    lr=5\n").scalars) == 0


class TestComposer:
    def test_older_versions_name_no_folder_and_ranks_stand_in_front(self, read_text: ReadText) -> None:
        text = (
            "0: [batch=4/100]:\n0:       Train LanguageCrossEntropy: 10.9736\n0:       Train loss/train/total: 10.5\n"
        )
        read = read_text(composer.PARSER, text)
        assert values(read, "Train LanguageCrossEntropy") == {4: 10.9736}
        assert values(read, "loss/train/total") == {4: 10.5}

    def test_batches_of_each_epoch_run_on(self, read_text: ReadText) -> None:
        text = "".join(
            f"[epoch={epoch}][batch={batch}/2]:\n\t Train loss/train/total: {epoch}.5\n"
            for epoch in (1, 2)
            for batch in (1, 2)
        )
        read = read_text(composer.PARSER, text)
        assert values(read, "loss/train/total") == {1: 1.5, 2: 1.5, 3: 2.5, 4: 2.5}
        assert set(read.scalars.segment.tolist()) == {0}

    def test_a_run_that_was_resumed_begins_in_a_later_epoch(self, read_text: ReadText) -> None:
        text = "".join(f"[epoch=3][batch={batch}/20]:\n\t Train loss/train/total: 0.5\n" for batch in (1, 5))
        assert list(values(read_text(composer.PARSER, text), "loss/train/total")) == [41, 45]

    def test_its_text_files_tell_what_the_run_was_and_no_copy_twice(self, read_text: ReadText) -> None:
        text = (
            '[hyperparameter]: seed: 17 \n[hyperparameter]: node: "a: b" \n[metric][batch=7]: loss/train/total: nan \n'
        )
        text += "[stderr]: [epoch=1][batch=8/20]:\n[stderr]: \t Train loss/train/total: nan\n[stderr]: CUDA error: x\n"
        read = read_text(composer_file.PARSER, text)
        assert read.run is not None
        assert read.run.metadata == {"hparams/seed": "17", "hparams/node": "a: b"}
        assert [(event.kind, event.step) for event in read.events] == [("nan_loss", 7), ("crash", 7)]
        assert (len(read.scalars), read.coverage.not_understood) == (1, 0)

    def test_its_bar_counts_from_0_and_shows_the_last_step_twice(self, read_text: ReadText) -> None:
        text = ""
        for epoch, losses in enumerate((("6.5", "6.25"), ("6.0", "6.0"))):
            for done, loss in [*enumerate(losses), (2, losses[-1])]:
                bar = f"\rtrain          Epoch   {epoch}:   50%|###  | {done}/2 [00:00<00:00, 51.36ba/s"
                text += f"{bar}, loss/train/total={loss}]      " * 2
            text += (
                f"\reval           Epoch   {epoch}:  100%|#####| 4/4 [00:00<00:00, 782.41ba/s, metrics/eval/Loss=0\n"
            )
        read = read_text(nemo.PARSER, text)
        assert values(read, "loss/train/total") == {0: 6.5, 1: 6.25, 2: 6.0, 3: 6.0}
        assert len(read.scalars) == 4

    def test_evaluations_belong_to_the_last_batch_and_images_are_counted(self, read_text: ReadText) -> None:
        text = "[batch=3/9]:\n\t Train loss/train/total: nan\n\t Train expert: <wandb.Image object at 0x1>\n"
        text += "[Eval batch=2/2] Eval on eval data:\n\t Eval metrics/eval/LanguageCrossEntropy: 3.25\n"
        read = read_text(composer.PARSER, text)
        assert values(read, "metrics/eval/LanguageCrossEntropy") == {3: 3.25}
        assert [event.step for event in of_kind(read, "nan_loss")] == [3]
        assert read.coverage.not_understood == 2


class TestNeMo:
    def bar(self, done: int, total: int = 77225, epoch: int = 0, **fields: str) -> str:
        shown = ", ".join(f"{key}={value}" for key, value in fields.items())
        return f"\rEpoch {epoch}:   1%|#  | {done}/{total} [9:07:58<878:01:48, 41.36s/it, {shown}]"

    def test_gotcha_23_a_nan_in_the_bar_beside_a_sound_loss_is_none(self, read_text: ReadText) -> None:
        read = read_text(nemo.PARSER, self.bar(11, loss="nan", reduced_train_loss="3.090", global_step="10.0") + "\n")
        assert of_kind(read, "nan_loss") == []
        assert values(read, "reduced_train_loss") == {10: 3.09}

    @pytest.mark.parametrize(
        "bar",
        [
            "Epoch 0: :  47%|####7     | 7/15 [06:19<07:13, ",  # newer versions print no speed
            "[2025-12-17 04:54:49,774] [INFO] Epoch 1: : 7it [00:32, 10.68s/it, v_num=1feb, ",  # nor a length
            "Epoch 0: : 100%|##########| 7/7 [43:24:54<00:00, v_num=, ",
        ],
    )
    def test_bars_without_a_speed_or_a_length(self, read_text: ReadText, bar: str) -> None:
        read = read_text(nemo.PARSER, f"{bar}reduced_train_loss=11.50, global_step=6.000, val_loss=0.5]\n")
        assert (values(read, "reduced_train_loss"), values(read, "val_loss")) == ({6: 11.5}, {6: 0.5})

    @pytest.mark.parametrize(
        "fields", ["loss=2.5, v_num=0", "v_num=0, train_loss=2.5", "v_num=ab12, train/loss_step=2.5"]
    )
    def test_lightnings_own_bar(self, read_text: ReadText, tmp_path: Path, fields: str) -> None:
        text = "".join(
            f"\rEpoch {epoch}:  10%|#  | {done}/10 [00:10<01:00,  1.00it/s, {fields}]"
            for epoch in (0, 1)
            for done in (1, 2, 10)
        )
        path = tmp_path / "x"
        text += "\n`Trainer.fit` stopped: `max_epochs=2` reached.\n"
        path.write_text(text)
        assert detect(path).parser is nemo.PARSER
        read = read_text(nemo.PARSER, text)
        assert read.scalars.step.tolist() == [1, 2, 10, 11, 12, 20]
        assert set(read.scalars.value.tolist()) == {2.5}

    def redrawn(self) -> str:
        """Two epochs of three steps as Lightning draws them: each step counted first, then measured."""
        text, values, kept = "", "v_num=0", ""
        for epoch, losses in enumerate((("2.500", "2.250", "2.250"), ("nan.0", "nan.0", "2.000"))):
            text += f"\rEpoch {epoch}:   0%|  | 0/3 [00:00<?, ?it/s, {values}{kept}]"
            for done, loss in enumerate(losses, 1):
                bar = f"\rEpoch {epoch}:  30%|# | {done}/3 [00:00<00:00, 200.00it/s"
                text += f"{bar}, {values}{kept}]{bar}, v_num=0, train_loss_step={loss}{kept}]"
                values = f"v_num=0, train_loss_step={loss}"
            kept = f", val_loss=3.{epoch}00, train_loss_epoch=2.{epoch}00"
            text += f"\rEpoch {epoch}: 100%|##| 3/3 [00:01<00:00, 200.00it/s, {values}{kept}]"
        return text + "`Trainer.fit` stopped: `max_epochs=2` reached.\n"

    def test_a_step_counted_and_not_yet_measured_shows_the_values_of_another(self, read_text: ReadText) -> None:
        read = read_text(nemo.PARSER, self.redrawn())
        told = [(tag, step, value) for tag, segment, step, _, value in rows(read) if segment == 0]
        assert [(step, value) for tag, step, value in told if tag == "train_loss_step"] == [
            (1, 2.5), (2, 2.25), (3, 2.25), (4, "nan"), (5, "nan"), (6, 2.0)
        ]  # fmt: skip
        assert len(read.scalars) == 10
        assert read.problems == ()

    def test_the_end_of_the_training_is_told_and_an_interruption_is_none(self, read_text: ReadText) -> None:
        assert [event.kind for event in read_text(nemo.PARSER, self.redrawn()).events if event.kind == "end"] == ["end"]
        read = read_text(nemo.PARSER, self.redrawn().replace("`max_epochs=2` reached", "no validation data"))
        assert of_kind(read, "end") == []

    def test_what_is_measured_once_an_epoch_is_told_where_it_changes(self, read_text: ReadText) -> None:
        read = read_text(nemo.PARSER, self.redrawn())
        assert values(read, "val_loss") == {3: 3.0, 6: 3.1}
        assert values(read, "train_loss_epoch") == {3: 2.0, 6: 2.1}

    def test_read_at_any_moment_the_bar_says_the_same(self, tmp_path: Path, read_text: ReadText) -> None:
        content = self.redrawn().encode()
        whole = rows(read_text(nemo.PARSER, content.decode()))
        for cut in range(0, len(content), 7):
            pieces = read_growing(nemo.PARSER, tmp_path / "growing.log", content, [cut])
            assert [row for piece in pieces for row in rows(piece)] == whole, cut

    def test_a_crash_printed_behind_the_bar_is_seen(self, read_text: ReadText) -> None:
        bar = self.bar(11, reduced_train_loss="3.0", global_step="10.0")
        read = read_text(nemo.PARSER, f"{bar}RuntimeError: CUDA error: x\n")
        assert [event.step for event in of_kind(read, "crash")] == [10]

    def test_a_loss_of_nan_dot_zero_is_one(self, read_text: ReadText) -> None:
        read = read_text(nemo.PARSER, self.bar(11, reduced_train_loss="nan.0", global_step="10.0") + "\n")
        assert [event.step for event in of_kind(read, "nan_loss")] == [10]
        assert math.isnan(values(read, "reduced_train_loss")[10])

    @pytest.mark.parametrize(
        ("done", "epoch", "printed", "step"),
        [
            (9000, 0, "9e+3", 8999),
            (12346, 0, "1.23e+4", 12345),
            (46, 2, "2.05e+3", 2045),
            (11, 0, "10.0", 10),
            (5, 0, "9e+3", 9000),
        ],
    )
    def test_rounded_steps_are_made_exact_by_the_bar(
        self, read_text: ReadText, done: int, epoch: int, printed: str, step: int
    ) -> None:
        text = self.bar(done, 1000 if epoch else 77225, epoch, reduced_train_loss="3.0", global_step=printed) + "\n"
        assert list(values(read_text(nemo.PARSER, text), "reduced_train_loss")) == [step]

    def test_steps_that_would_be_beyond_64_bits_are_those_of_the_bar(self, read_text: ReadText) -> None:
        read = read_text(nemo.PARSER, self.bar(5, 10**17, 999_999_999, reduced_train_loss="3.0") + "\n")
        assert list(values(read, "reduced_train_loss")) == [5]

    def test_the_same_state_of_the_bar_is_one_record(self, read_text: ReadText) -> None:
        read = read_text(nemo.PARSER, self.bar(11, reduced_train_loss="3.0", global_step="10.0") * 1_000 + "\n")
        assert len(read.scalars) == 1

    def test_the_lines_of_nemo_2(self, read_text: ReadText) -> None:
        text = "Training epoch 0, iteration 120/149 | lr: 3e-05 | global_step: 120 |"
        text += " reduced_train_loss: 1.233 | val_loss: 4.106\n"
        read = read_text(nemo.PARSER, text)
        assert values(read, "reduced_train_loss") == {120: 1.233}
        assert values(read, "lr") == {120: 3e-05}

    def test_saved_checkpoints(self, read_text: ReadText) -> None:
        text = self.bar(11, reduced_train_loss="3.0", global_step="10.0")
        text += "\nEpoch 0, global step 9000: 'val_loss' reached 7.04 (best 7.04),"
        text += " saving model to '/x/gpt--step=9000.ckpt' as top 3\n"
        (event,) = read_text(nemo.PARSER, text).events
        assert (event.kind, event.step) == ("checkpoint_save", 9000)


class TestNanotron:
    def test_magnitudes_and_american_dates(self, read_text: ReadText) -> None:
        text = (
            "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | consumed_tokens: 85.8G |"
            " tokens_per_sec: 22.8K | cuda_memory_allocated: 90.9M | lm_loss: 2.38 | lr: 1e-05 | grad_norm: 1.25\n"
        )
        read = read_text(nanotron.PARSER, text)
        assert values(read, "consumed_tokens") == {327281: 85.8e9}
        assert values(read, "tokens_per_sec") == {327281: 22800}
        assert values(read, "lr") == {327281: 1e-05}
        assert set(read.scalars.wall_time.tolist()) == {1_760_718_716_000_000}

    @pytest.mark.parametrize(("printed", "value"), [("infE", math.inf), ("1.23E", 1.23e18), ("-infE", -math.inf)])
    def test_a_loss_beyond_all_letters(self, read_text: ReadText, printed: str, value: float) -> None:
        read = read_text(nanotron.PARSER, f"x: iteration: 12 / 100 | lm_loss: {printed} | grad_norm: 1.25\n")
        assert values(read, "lm_loss") == {12: value}
        assert len(of_kind(read, "nan_loss")) == math.isinf(value)


class TestCLU:
    def test_nan_and_collections(self, read_text: ReadText) -> None:
        line = "I0721 15:57:42.774310 1406 logging_writer.py:48] [7] "
        read = read_text(clu.PARSER, f"{line}loss=nan, lr=1e-05\n{line}collection=eval loss=2.5, shape=[1 2]\n")
        assert [event.step for event in of_kind(read, "nan_loss")] == [7]
        assert (values(read, "lr"), values(read, "eval/loss")) == ({7: 1e-05}, {7: 2.5})


class TestNanoGPTAndKin:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("iter 1631: loss 4.0863, time 561.94ms", {"loss": 4.0863, "time (ms)": 561.94}),
            ("iter 5: loss nan, time 5.00ms, mfu -100.00%", {"loss": math.nan, "time (ms)": 5.0, "mfu (%)": -100.0}),
            ("step 250: train loss 2.4, val loss 2.5", {"train loss": 2.4, "val loss": 2.5}),
            (
                "step    1/74 | loss 4.283499 (+nanz)| norm 13.0082 (+nanz)| lr 3.00e-04 | 349.48 ms |"
                " 40.3% bf16 MFU | 11720 tok/s",
                {"loss": 4.283499, "norm": 13.0082, "lr": 3e-4, "ms": 349.48, "bf16 MFU (%)": 40.3, "tok/s": 11720},
            ),
            ("step 5: train loss 4.28 (took 349.48 ms)", {"train loss": 4.28, "took (ms)": 349.48}),
            ("s:250 tel:4.5137", {"tel": 4.5137}),
            ("s:10 trl:9.5 lr:0.0001 norm:4.2", {"trl": 9.5, "lr": 0.0001, "norm": 4.2}),
            (
                "step:125/1750 val_loss:4.2887 train_time:12345ms step_avg:98.76ms",
                {"val_loss": 4.2887, "train_time (ms)": 12345, "step_avg (ms)": 98.76},
            ),
            (
                "step 00010/21400 (0.05%) | loss: 10.8 | grad_norm: 1.2 | dt: 480.03ms |"
                " tok/sec: 1,092,142 | mfu: 46.5",
                {"loss": 10.8, "grad_norm": 1.2, "dt (ms)": 480.03, "tok/sec": 1092142, "mfu": 46.5},
            ),
            ("Step 00000 | Validation bpb: 3.3013", {"Validation bpb": 3.3013}),
        ],
    )
    def test_each_form(self, read_text: ReadText, line: str, expected: dict[str, float]) -> None:
        read = read_text(nanogpt.PARSER, line + "\n")
        found = {tag: next(iter(values(read, tag).values())) for tag in read.scalars.tags}
        assert found == pytest.approx(expected, nan_ok=True)

    def test_gotcha_23_a_score_that_is_not_known_yet_is_no_nan_loss(self, read_text: ReadText) -> None:
        line = "step    1/74 | loss 4.28 (+nanz)| norm 13.0 (+nanz)| lr 3.00e-04 | 349.48 ms | 11720 tok/s\n"
        assert read_text(nanogpt.PARSER, line).events == ()

    def test_a_validation_without_a_step_belongs_to_the_last(self, read_text: ReadText) -> None:
        text = "val loss 11.03\ns:1 trl:9.5\nval loss 4.5\n"
        assert values(read_text(nanogpt.PARSER, text), "val loss") == {0: 11.03, 1: 4.5}

    def test_gotcha_27_hundreds_of_lines_of_source_code_before_the_records(
        self, read_text: ReadText, tmp_path: Path
    ) -> None:
        code = "".join(f"def step_{number}(loss):\n    return loss  # step {number}\n" for number in range(3_000))
        log = "".join(
            f"step:{step}/1750 val_loss:4.28 train_time:12345ms step_avg:98.76ms\n" for step in range(0, 500, 125)
        )
        path = tmp_path / "record.txt"
        path.write_text(code + "=" * 60 + "\n" + log)
        assert detect(path).parser.name == "nanogpt"
        read = read_text(nanogpt.PARSER, code + "=" * 60 + "\n" + log)
        assert list(values(read, "val_loss")) == [0, 125, 250, 375]
        assert read.coverage.not_understood == 6_000


class TestKeyValue:
    @pytest.mark.parametrize(
        ("line", "step", "expected"),
        [
            ("step 5, loss: 7.2923", 5, {"loss": 7.2923}),
            ("[Step 1,000/5,000] loss=2.5 lr=1e-4", 1000, {"loss": 2.5, "lr": 1e-4}),
            ("Iter 70: Train loss 2.786, Learning Rate 1.000e-05", 70, {"Train loss": 2.786, "Learning Rate": 1e-5}),
            (
                "2025-01-01 00:00:00 INFO global_step=12 train/loss=3.5 tps=12,345",
                12,
                {"train/loss": 3.5, "tps": 12345},
            ),
            ("iteration: 7 | loss: nan", 7, {"loss": math.nan}),
        ],
    )
    def test_lines_that_name_a_step_and_a_loss(
        self, read_text: ReadText, line: str, step: int, expected: dict[str, float]
    ) -> None:
        read = read_text(key_value.PARSER, line + "\n")
        for tag, value in expected.items():
            assert values(read, tag) == pytest.approx({step: value}, nan_ok=True)

    def test_a_time_a_source_file_and_a_rank_in_front_are_no_values(self, read_text: ReadText) -> None:
        text = "2024-01-01T10:00:01 - 0 - levanter.callbacks - callbacks.py:100 - INFO :: step=1 loss=8.5\n"
        text += (
            "2023-07-07 12:26:52\tINFO train.py:318 in record -- tflops=188.8,step=2,loss=7.1,tgs (tokens/gpu)=41.5\n"
        )
        text += "[XTuner][RANK 0][2025-08-28 11:30:16][INFO] Step 3/32 lr: 0.00006 total_loss: 12.134\n"
        read = read_text(key_value.PARSER, text)
        assert set(read.scalars.tags) == {"loss", "tflops", "lr", "total_loss"}

    def test_a_unit_behind_a_blank_is_no_part_of_the_next_name(self, read_text: ReadText) -> None:
        read = read_text(
            key_value.PARSER,
            "Step 1/32 total_loss: 12.134 max_memory: 4.86 GB grad_norm: 16.711 used: 71/80GB tgs: 9\n",
        )
        found = {tag: values(read, tag)[1] for tag in read.scalars.tags}
        assert found == {"total_loss": 12.134, "max_memory (GB)": 4.86, "grad_norm": 16.711, "used": 71, "tgs": 9}

    def test_gotcha_23_a_running_mean_of_nan_behind_a_sound_value(self, read_text: ReadText) -> None:
        line = (
            "Epoch: [1]  [1298/1299]  eta: 0:00:00  lr: 0.001435  loss: 6.5993 (6.5971)  loss_scale: 8192.0 (8646.0)"
            "  grad_norm: 0.3922 (nan)  time: 0.4944  max mem: 19152\n"
        )
        read = read_text(key_value.PARSER, line)
        assert values(read, "grad_norm") == {1298: 0.3922}
        assert values(read, "loss") == {1298: 6.5993}
        assert read.events == ()

    def test_gotcha_24_a_loss_scale_alone_is_no_loss(self, read_text: ReadText) -> None:
        assert len(read_text(key_value.PARSER, "step 5 loss_scale: 1399.0\n").scalars) == 0

    def test_gotcha_25_steps_of_each_epoch_run_on(self, read_text: ReadText) -> None:
        text = "".join(
            f"Epoch [{epoch}][{step}/300] lr: 1.000e-03, loss: 1.9091\n" for epoch in (1, 2) for step in (100, 200, 300)
        )
        assert list(values(read_text(key_value.PARSER, text), "loss")) == [100, 200, 300, 400, 500, 600]
