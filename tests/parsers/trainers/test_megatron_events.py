"""Megatron logs: what happened, as told by records, by the lines around them, and by what is missing."""

from __future__ import annotations

import pytest
from log_reading import ReadText, of_kind, rows, values
from megatron_records import LOSS, OVERFLOW, log_of, record

from replay_parsers.records import EventKind
from replay_parsers.trainers.megatron import PARSER


class TestGotcha23NotEveryNanIsANanLoss:
    def test_a_nan_gradient_norm_a_timer_and_a_remark(self, read_text: ReadText) -> None:
        lines = [
            record(10, norm="nan"),
            "time (ms) | forward: nanms | backward: 12.0",
            record(11).replace("lm loss: 2.500000E+00", "lm loss: 2.5 (nan)"),
            " 10%|#    | 1/10 [00:01<00:09,  1.00s/it, loss=nan]",
        ]
        read = read_text(PARSER, log_of(*lines))
        assert of_kind(read, "nan_loss") == []
        assert values(read, LOSS) == {10: 2.5, 11: 2.5}
        assert read.coverage.not_understood == 0


class TestGotcha24LossScaleIsNoLoss:
    def test_a_record_with_only_a_loss_scale_has_no_loss(self, read_text: ReadText) -> None:
        assert len(of_kind(read_text(PARSER, log_of(record(10), record(11, None))), "nan_loss")) == 1

    @pytest.mark.parametrize("scale", ["1399.0", "0.000", "1.0"])
    def test_averages_and_zeros_are_kept_and_nothing_is_made_of_them(self, read_text: ReadText, scale: str) -> None:
        read = read_text(PARSER, log_of(record(10), record(11, scale=scale)))
        assert values(read, "loss scale") == {10: 65536.0, 11: float(scale)}
        assert read.events == ()


class TestGotcha25StepsByManyRanks:
    def test_the_same_steps_printed_by_seven_ranks_are_no_restart(self, read_text: ReadText) -> None:
        # Rank 3 is always one step late: a reader that trusts the order sees it going back.
        lines = []
        for step in range(10, 20):
            lines += [f"[default{rank}]:{record(step)}" for rank in range(7) if rank != 3]
            lines.append(f"[default3]:{record(step - 1)}")
        read = read_text(PARSER, log_of(*lines))
        assert {segment for _, segment, *_ in rows(read)} == {0}
        assert list(values(read, LOSS)) == list(range(10, 20))
        assert len(read.scalars) == 10 * 10
        assert read.coverage.other["records repeated by other ranks"] == 60

    def test_after_a_restart_another_rank_may_report_the_same_steps(self, read_text: ReadText) -> None:
        loaded = "  successfully loaded checkpoint from /ckpt at iteration 10"
        first = [f"511:{record(step)}" for step in (10, 11, 12)]
        again = [f"255:{record(step, 2.25)}" for step in (11, 12, 13)]
        read = read_text(PARSER, log_of(*first, loaded, *again))
        assert values(read, LOSS) == {10: 2.5, 11: 2.25, 12: 2.25, 13: 2.25}
        assert int(read.scalars.segment.max()) == 1


class TestGotcha26NormsThatWereNotMeasured:
    def test_a_norm_repeated_over_skipped_steps_is_stale(self, read_text: ReadText) -> None:
        overflow = OVERFLOW.format(0, 65536, 32768)
        lines = [record(10, norm="464441.887"), record(11, norm="464441.888")]
        for step in (12, 13):
            lines += [overflow, record(step, norm="464441.888")]
        read = read_text(PARSER, log_of(*lines, record(14, norm="3.000")))
        (finding,) = read.findings
        assert (finding.check, finding.locator) == ("stale_grad_norm", "line 4")
        # The values stay: they are what the log says.
        assert values(read, "grad norm")[13] == 464441.888

    def test_a_small_norm_that_happens_to_repeat_is_not(self, read_text: ReadText) -> None:
        assert read_text(PARSER, log_of(record(10, norm="0.150"), record(11, norm="0.150"))).findings == ()

    def test_a_norm_of_zero_throughout_is_absent(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(*(record(step, norm="0.000") for step in range(10, 30))))
        assert [finding.check for finding in read.findings] == ["absent_grad_norm"]

    def test_a_zero_among_others_is_not(self, read_text: ReadText) -> None:
        norms = ["1.0", *["0.000"] * 8]
        read = read_text(PARSER, log_of(*(record(step, norm=norm) for step, norm in enumerate(norms, start=10))))
        assert read.findings == ()


class TestGotcha27WhatStandsAroundTheRecords:
    def test_configuration_source_code_and_stack_traces_are_counted_and_shown(self, read_text: ReadText) -> None:
        noise = [f"  lr_{number} ........................ {number}" for number in range(300)]
        code = ["def train_step(forward, data):", "    loss = forward(data)  # loss scale: see optimizer"]
        trace = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "ValueError: no"]
        summary = "{" + ", ".join(f"'key{number}': {number}" for number in range(40_000)) + "}"
        read = read_text(PARSER, log_of(*noise, record(10), *code, summary, record(11), *trace))
        assert values(read, LOSS) == {10: 2.5, 11: 2.5}
        assert read.coverage.not_understood == 300 + 2 + 1 + 3
        assert len(read.coverage.examples) == 5
        assert all(len(example) < 200 for example in read.coverage.examples)
        assert (read.events, read.problems) == ((), ())


class TestEvents:
    def test_checkpoints_saved_and_loaded_and_the_restart(self, read_text: ReadText) -> None:
        lines = [
            "WARNING: could not find the metadata file /ckpt/latest.txt, will start from random",
            record(10),
            "saving checkpoint at iteration      10 to /ckpt",
            "[2021-08-08 01:00:44,221] [INFO] [logging.py:68:log_dist] [Rank 0] Saving model checkpoint:"
            " /ckpt/global_step10/mp_rank_00_model_states.pt",
            "  successfully saved checkpoint at iteration      10 to /ckpt",
            record(11),
            " successfully loaded checkpoint from /ckpt at iteration 10",
            record(11),
        ]
        read = read_text(PARSER, log_of(*lines))
        assert [(event.kind, event.step, event.before) for event in read.events] == [
            (EventKind.START, 0, None),
            (EventKind.CHECKPOINT_SAVE, 10, None),
            (EventKind.CHECKPOINT_LOAD, 10, None),
            (EventKind.RESTART, 10, 11.0),
        ]
        assert read.events[2].detail["checkpoint"] == "/ckpt"

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            ("  what():  CUDA error: uncorrectable ECC error encountered", EventKind.GPU_FAILURE),
            ("RuntimeError: CUDA error: out of memory", EventKind.MEMORY_ERROR),
            ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", EventKind.MEMORY_ERROR),
            ("[default3]:  what():  CUDA error: unknown error", EventKind.CRASH),
            (
                "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:847, unhandled system error",
                EventKind.NETWORK_FAILURE,
            ),
            ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)", EventKind.HANG),
            ("srun: error: node37: task 12: Exited with exit code 1", EventKind.CRASH),
            (
                "slurmstepd: error: *** STEP 7.0 ON node37 CANCELLED AT 2022-01-01T00:00:00 DUE TO TIME LIMIT ***",
                EventKind.END,
            ),
            ("[exiting program at iteration 11] datetime: 2022-01-01 00:00:00 ", EventKind.END),
            ("[after training is done] datetime: 2022-01-01 00:00:00 ", EventKind.END),
        ],
    )
    def test_what_went_wrong_is_an_event_at_the_step_reached_told_once(
        self, read_text: ReadText, line: str, kind: EventKind
    ) -> None:
        read = read_text(PARSER, log_of(record(10), record(11), line, line))
        (event,) = read.events
        assert (event.kind, event.step, event.locator) == (kind, 11, "line 3")

    def test_a_learning_rate_that_the_trainer_lowers_by_itself(self, read_text: ReadText) -> None:
        read = read_text(PARSER, log_of(record(10), record(11), "| INFO | Scaling LR by 0.70 to 0.000042", record(12)))
        (event,) = of_kind(read, "lr_change")
        assert (event.step, event.field, event.after, event.detail["factor"]) == (12, "learning_rate", 4.2e-05, "0.70")

    def test_nodes_are_named(self, read_text: ReadText) -> None:
        (event,) = read_text(PARSER, log_of(record(11), "srun: error: node37: task 12: Exited with exit code 1")).events
        assert event.detail["node"] == "node37"
