"""DeepSpeed's own logs, and overflow lines in all their wordings."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_reading import ReadText, of_kind, read_path, values

from replay_parsers.trainers.deepspeed import PARSER
from replay_parsers.trainers.line_events import recognise

STAMP = "[2023-04-18 01:46:{:02d},142] [INFO] [logging.py:96:log_dist] "


def step_line(step: int, skipped: int, rates: str = "9.6e-06, 9.6e-06") -> str:
    return (
        STAMP.format(step) + f"[Rank 0] step={step}, skipped={skipped}, lr=[{rates}], mom=[(0.9, 0.95), (0.9, 0.95)]\n"
    )


def overflow(before: int, after: int | None, rank: int = 0) -> str:
    said = f"reducing to {after}" if after else "but hysteresis is 2. Reducing hysteresis to 1"
    stamp = "[2023-04-18 01:46:55,142] [INFO] [deepspeed]"
    return f"{stamp} OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: {before}, {said}\n"


class TestGotcha13Wordings:
    @pytest.mark.parametrize(
        ("line", "before", "after"),
        [
            (
                "[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1048576.0, reducing to 524288.0",
                1048576,
                524288,
            ),
            (
                "[deepspeed] OVERFLOW! Rank 3 Skipping step. Attempted loss scale: 65536, reducing to 32768",
                65536,
                32768,
            ),
            (
                "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536,"
                " but hysteresis is 2. Reducing hysteresis to 1",
                65536,
                65536,
            ),
            (
                "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 65536.0,"
                " reducing to 32768.0",
                65536,
                32768,
            ),
            (
                "[Rank 0] Overflow detected. Skipping step. Attempted loss scale: 65536, reducing to 32768.0",
                65536,
                32768,
            ),
            ("OVERFLOW! Skipping step. Attempted loss scale: 4294967296", 4294967296, None),
            ("[deepspeed] OVERFLOW! Rank 0 Skipping step.", None, None),
            ("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 8192.0", None, 8192),
            ("NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 64.0", None, 64),
            ("NOTE: overflow detected, setting loss scale to: 64.0", None, 64),
        ],
    )
    def test_each_wording_is_an_overflow(self, line: str, before: float | None, after: float | None) -> None:
        seen = recognise(line)
        assert seen is not None
        assert (seen.kind, seen.before, seen.after) == ("overflow_skip", before, after)

    def test_hysteresis_changes_nothing_and_says_so(self) -> None:
        seen = recognise(overflow(65536, None))
        assert seen is not None
        assert seen.before == seen.after == 65536
        assert seen.detail == {"hysteresis_before": "2", "hysteresis_after": "1"}

    @pytest.mark.parametrize("line", ["loss_scale_overflow: False", "  overflow_check ......... True", "no overflow"])
    def test_a_configuration_that_speaks_of_overflow_is_none(self, line: str) -> None:
        assert recognise(line) is None

    def test_ranks_that_tell_the_same_step_are_one_event_and_the_next_step_another(self, read_text: ReadText) -> None:
        ranks = "".join(overflow(65536, 32768, rank) for rank in range(8))
        again = "".join(overflow(32768, 16384, rank) for rank in range(8))
        read = read_text(PARSER, step_line(10, 0) + ranks + again + step_line(20, 2))
        assert [(event.before, event.after) for event in of_kind(read, "overflow_skip")] == [
            (65536, 32768),
            (32768, 16384),
        ]

    def test_a_scale_at_its_floor_overflows_again_and_again(self, read_text: ReadText) -> None:
        read = read_text(PARSER, step_line(10, 0) + overflow(1, 1) * 5)
        assert len(of_kind(read, "overflow_skip")) == 5


class TestReports:
    def test_steps_skips_and_rates(self, read_text: ReadText) -> None:
        read = read_text(PARSER, step_line(10, 6) + step_line(20, 6, "9.5e-06, 1.5e-06"))
        assert values(read, "skipped") == {10: 6, 20: 6}
        assert values(read, "lr") == {10: 9.6e-06, 20: 9.5e-06}
        assert values(read, "lr/group1") == {20: 1.5e-06}
        assert read.scalars.wall_time.min() > 0

    def test_an_overflow_lies_between_the_reports_around_it(self, read_text: ReadText) -> None:
        read = read_text(PARSER, overflow(65536, 32768) + step_line(10, 1) + step_line(20, 1) + overflow(65536, 32768))
        assert [(event.step, event.step_end) for event in of_kind(read, "overflow_skip")] == [(None, None), (21, 30)]

    def test_both_forms_of_the_timer_line(self, read_text: ReadText) -> None:
        new = (
            STAMP.format(1)
            + "epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.8, MemAllocated=59.65GB\n"
        )
        old = "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.4, MemAllocated=0.26GB\n"
        read = read_text(PARSER, new + old)
        assert values(read, "RunningAvgSamplesPerSec") == {34: 7.8}
        assert values(read, "SamplesPerSec") == {40: 83.4}
        assert values(read, "MemAllocated (GB)") == {34: 59.65, 40: 0.26}


class TestGotcha28AHealthyRunWith139Overflows:
    def test_the_real_log(self, shared: Path) -> None:
        path = shared / "real" / "trainers" / "deepspeed" / "opt-1.3b-globalBatchSize128.log"
        read = read_path(PARSER, path)
        overflows = of_kind(read, "overflow_skip")
        assert len(overflows) == 139
        changes = [(event.before, event.after) for event in overflows if event.before != event.after]
        assert len(changes) == 72
        assert changes[:5] == [(65536, 32768), (32768, 16384), (16384, 8192), (8192, 4096), (4096, 2048)]
        assert changes[5:].count((65536, 32768)) == 66
        assert changes[5:].count((32768, 16384)) == 1
        assert values(read, "skipped")[7360] == 139
        # Nothing is made of them: that is for what looks at the whole run.
        assert {event.kind for event in read.events} == {"overflow_skip"}
        assert read.coverage.not_understood == 2
        assert values(read, "ppl")[7360] == pytest.approx(1.8085135221481323)

    def test_its_own_form(self, read_text: ReadText) -> None:
        parts = [step_line(10, 0), step_line(20, 0)]
        for number in range(30):
            parts += [overflow(65536, None), overflow(65536, 32768), step_line(30 + 10 * number, 2 * number + 2)]
        read = read_text(PARSER, "".join(parts))
        assert len(of_kind(read, "overflow_skip")) == 60
        assert len({event.event for event in read.events}) == 60
