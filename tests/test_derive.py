"""Events found in scalars; and, as often, not found where a run is well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import replay_parsers
from replay import derive, lineage, signals
from replay_parsers.kinds import Role
from replay_parsers.records import Event, Evidence

BEGIN = pd.Timestamp("2022-04-15T00:00", tz="UTC")


def rows(
    tag: str,
    step: Sequence[int] | np.ndarray,
    value: Sequence[float] | np.ndarray | float,
    *,
    segment: int = 0,
    source: str = "log",
    begin: pd.Timestamp | None = None,
    seconds: float = 60.0,
) -> pd.DataFrame:
    """Scalars of one tag, ``seconds`` a step from ``begin`` on; without a clock when ``begin`` is None."""
    steps = np.asarray(step, dtype=np.int64)
    frame = pd.DataFrame({"run": "r", "source": source, "segment": segment, "tag": tag, "step": steps})
    frame["value"] = np.broadcast_to(np.asarray(value, dtype=np.float64), steps.shape)
    if begin is None:
        frame["wall_time"] = pd.Series([pd.NaT] * len(frame), dtype="datetime64[us, UTC]")
    else:
        offsets = pd.to_timedelta((steps - steps[0]) * seconds, unit="s")
        frame["wall_time"] = pd.Series(begin + offsets).dt.as_unit("us")
    return frame


def derived(*parts: pd.DataFrame) -> list[Event]:
    scalars = pd.concat(parts, ignore_index=True)
    attempts = lineage.attempts(scalars, pd.DataFrame())
    scalars = lineage.assign(scalars, attempts)
    scalars["signal"] = (
        scalars["tag"].map({tag: signals.signal_of(tag) for tag in scalars["tag"].unique()}).astype("str")
    )
    return derive.events("r", scalars, attempts)


def told(events: Sequence[Event]) -> list[tuple[str, int | None, int | None]]:
    return [(str(event.kind), event.step, event.step_end) for event in events]


# --- restarts and rollbacks ----------------------------------------------------------------------------------------


def test_a_step_back_is_a_restart_and_a_rollback_with_what_it_cost() -> None:
    first = rows("loss", range(1, 101), 2.0, begin=BEGIN)
    again = rows("loss", range(61, 151), 2.0, segment=1, begin=BEGIN + pd.Timedelta(hours=3))
    restart, rollback = derived(first, again)
    assert (restart.event, restart.step, restart.before, restart.unit) == ("r/restart@60", 60, 100.0, "step")
    assert (rollback.event, rollback.step, rollback.before, rollback.lost_steps) == ("r/rollback@60", 60, 100.0, 40.0)
    assert rollback.lost_hours == pytest.approx(40 / 60, rel=1e-3)
    assert restart.detail == {"attempt": "1", "downtime_hours": "1.35"}
    assert restart.time == (BEGIN + pd.Timedelta(hours=3)).to_pydatetime()
    assert {restart.evidence, rollback.evidence} == {Evidence.DERIVED}
    assert (restart.role, rollback.role) == (Role.LIFECYCLE, Role.INTERVENTION)
    assert "40 steps after step 60 are computed anew" in rollback.text
    assert rollback.locator == "steps 100 and 61, one after the other"


def test_a_rollback_over_two_attempts_counts_both() -> None:
    parts = [
        rows("loss", range(1, 101), 2.0, begin=BEGIN),
        rows("loss", range(61, 151), 2.1, segment=1, begin=BEGIN + pd.Timedelta(hours=3)),
        rows("loss", range(41, 91), 2.2, segment=2, begin=BEGIN + pd.Timedelta(hours=9)),
    ]
    rollback = derived(*parts)[1]
    assert (rollback.step, rollback.before, rollback.lost_steps) == (40, 150.0, 110.0)
    assert rollback.lost_hours == pytest.approx((20 + 89) / 60, rel=1e-3)


def test_a_resume_where_it_ended_is_a_restart_without_a_rollback() -> None:
    first = rows("loss", range(1, 101), 2.0, source="a", begin=BEGIN)
    second = rows("loss", range(101, 151), 2.0, source="b", begin=BEGIN + pd.Timedelta(hours=3))
    assert told(derived(first, second)) == [("restart", 100, None)]


def test_without_a_clock_no_hours_are_guessed() -> None:
    rollback = derived(rows("loss", range(1, 101), 2.0), rows("loss", range(61, 151), 2.0, segment=1))[1]
    assert rollback.lost_hours is None
    assert rollback.time is None


# --- gaps ----------------------------------------------------------------------------------------------------------


def test_missing_reports_are_a_gap_between_the_steps_around_them() -> None:
    steps = [*range(10, 1010, 10), *range(1500, 2000, 10)]
    assert told(derived(rows("loss", steps, 2.0))) == [("gap", 1000, 1500)]


def test_a_missing_file_is_a_gap_between_two_attempts() -> None:
    first = rows("Policy/Entropy", range(10_000, 3_010_000, 10_000), 1.0, source="a", begin=BEGIN)
    later = rows(
        "Policy/Entropy", range(7_130_000, 7_860_000, 10_000), 1.0, source="b", begin=BEGIN + pd.Timedelta(days=3000)
    )
    assert ("gap", 3_000_000, 7_130_000) in told(derived(first, later))


def test_a_report_or_two_that_are_missing_or_irregular_reports_are_no_gap() -> None:
    steps = [step for step in range(10, 2000, 10) if step not in (500, 1200)]
    assert derived(rows("loss", steps, 2.0)) == []
    irregular = np.cumsum(np.random.default_rng(0).integers(1, 50, 300))
    assert derived(rows("loss", irregular, 2.0)) == []
    rarer = [*range(1, 200), *range(200, 20_000, 100)]
    assert derived(rows("loss", rarer, 2.0)) == [], "reports that become rarer for good are no gaps"


def test_hours_without_a_report_are_a_gap() -> None:
    before = rows("loss", range(1, 101), 2.0, begin=BEGIN)
    after = rows("loss", range(101, 201), 2.0, begin=BEGIN + pd.Timedelta(hours=10))
    [gap] = derived(before, after)
    assert (str(gap.kind), gap.step, gap.step_end) == ("gap", 100, 101)
    assert float(gap.detail["hours"]) == pytest.approx(10 - 99 / 60, rel=1e-3)


def test_evaluations_that_take_an_hour_again_and_again_are_no_gaps() -> None:
    parts = [
        rows("loss", range(1 + 100 * i, 101 + 100 * i), 2.0, begin=BEGIN + i * pd.Timedelta(hours=4)) for i in range(20)
    ]
    assert derived(*parts) == []


def test_steps_that_pass_in_no_time_were_skipped() -> None:
    """The Megatron flag of BigScience and GLM-130B moves the step counter on."""
    before = rows("loss", range(1, 101), 2.0, begin=BEGIN)
    after = rows("loss", range(301, 401), 2.0, begin=BEGIN + pd.Timedelta(minutes=101))
    [skip] = derived(before, after)
    assert (str(skip.kind), skip.step, skip.step_end, skip.detail["batches"]) == ("skip_batches", 101, 300, "200")


# --- losses that are no numbers ------------------------------------------------------------------------------------


def test_losses_that_are_no_numbers_are_one_event_a_stretch() -> None:
    value = np.full(100, 2.0)
    value[[40, 41, 42]] = np.nan
    value[80] = np.inf
    found = derived(rows("loss", range(1, 101), value))
    assert told(found) == [("nan_loss", 41, 43), ("nan_loss", 81, 81)]
    assert "infinite" in found[1].text


def test_a_loss_left_out_is_one() -> None:
    """GOTCHAS 11: Megatron prints no loss that is not greater than zero, while its NaN counter reads 0."""
    steps = range(1, 101)
    kept = [step for step in steps if step not in (50, 51)]
    found = derived(
        rows("lm loss", kept, 2.0), rows("learning rate", steps, 6e-5), rows("number of nan iterations", steps, 0)
    )
    assert told(found) == [("nan_loss", 50, 51)]
    assert "missing" in found[0].text
    assert "'learning rate'" in found[0].locator


def test_not_every_nan_is_a_nan_loss() -> None:
    """GOTCHAS 23."""
    norm = np.full(100, 1.0)
    norm[30] = np.nan
    value = np.full(100, 2.0)
    assert derived(rows("loss", range(1, 101), value), rows("grad_norm", range(1, 101), norm)) == []
    value[30] = 0.0
    found = derived(rows("loss", range(1, 101), value), rows("grad_norm", range(1, 101), norm))
    assert told(found) == [("nan_loss", 31, 31)], "a loss of 0 with a gradient norm that is nan is one"


# --- loss scale and skipped updates --------------------------------------------------------------------------------


def test_a_scale_that_falls_by_three_halvings_is_a_drop_from_the_first_of_them() -> None:
    scale = [65536.0] * 200 + [32768.0, 16384.0, 8192.0, 4096.0] + [65536.0] * 50
    [drop] = derived(rows("loss scale", range(1, 255), scale))
    assert (str(drop.kind), drop.step, drop.step_end) == ("loss_scale_drop", 201, 204)
    assert (drop.field, drop.before, drop.after) == ("loss_scale", 65536.0, 4096.0)


def test_a_scale_that_falls_to_one_has_reached_its_floor_besides() -> None:
    scale = [65536.0] * 200 + [2.0**k for k in range(15, -1, -1)] + [1.0] * 5
    found = derived(rows("loss scale", range(1, len(scale) + 1), scale))
    assert told(found) == [("loss_scale_drop", 201, 221), ("loss_scale_floor", 216, 221)]
    assert (found[1].before, found[1].after) == (65536.0, 1.0)


@pytest.mark.parametrize("growth", [100, 500, 2000])
def test_growth_and_back_off_of_a_healthy_run_is_nothing(growth: int) -> None:
    """GOTCHAS 28."""
    rng = np.random.default_rng(growth)
    scale, level, skipped = [2.0**k for k in range(32, 15, -1)], 15, [1.0] * 17
    while len(scale) < 8000:
        scale += [2.0**level] * growth
        skipped += [0.0] * growth
        if level >= 16 or rng.random() < 0.2:
            scale += [2.0**level] * 2
            skipped += [1.0, 1.0]
            level -= 1
        else:
            level += 1
    steps = range(1, len(scale) + 1)
    found = derived(rows("loss scale", steps, scale), rows("number of skipped iterations", steps, skipped))
    assert told(found) == []


@pytest.mark.parametrize("scale", [1399.0, 0.0, 1.0])
def test_a_scale_that_is_an_average_or_not_shown_is_nothing(scale: float) -> None:
    """GOTCHAS 24."""
    noise = 1 + 0.3 * np.sin(np.arange(500))
    assert derived(rows("loss_scale", range(1, 501), scale * noise if scale > 1 else scale)) == []


def test_updates_skipped_one_after_the_other_are_an_event() -> None:
    skipped = np.zeros(1000)
    skipped[[300, 301]] = 1  # one overflow and its hysteresis
    skipped[500:506] = 1
    [skip] = derived(rows("number of skipped iterations", range(1, 1001), skipped))
    assert (str(skip.kind), skip.step, skip.step_end, skip.detail["batches"]) == ("overflow_skip", 501, 506, "6")
    total = np.cumsum(skipped)
    assert told(derived(rows("skipped", range(1, 1001), total))) == [("overflow_skip", 501, 506)]


def test_a_stale_gradient_norm_tells_of_skipped_updates() -> None:
    """GOTCHAS 26: six digits and more do not repeat by chance."""
    norm = 400_000 * (1 + 0.1 * np.random.default_rng(0).normal(size=200).round(6))
    norm[100:104] = norm[99]
    scale = rows("loss scale", range(1, 201), 65536.0)
    [skip] = derived(scale, rows("grad norm", range(1, 201), norm))
    assert (str(skip.kind), skip.step, skip.step_end, skip.detail["batches"]) == ("overflow_skip", 101, 104, "4")
    assert derived(rows("grad norm", range(1, 201), norm)) == [], "without loss scaling nothing is skipped"
    assert derived(scale, rows("grad norm", range(1, 201), 0.0)) == [], "printed 0.000 throughout is absent"
    assert derived(scale, rows("grad norm", range(1, 201), 0.15)) == [], "three digits repeat by chance"


# --- batches -------------------------------------------------------------------------------------------------------


def test_a_batch_size_ramp_is_one_event_and_a_change_another() -> None:
    size = np.concatenate([np.repeat(np.arange(16, 208, 16), 50), np.full(400, 192), np.full(400, 96)])
    found = derived(rows("global batch size", range(1, len(size) + 1), size))
    assert told(found) == [("batch_size_change", 51, 551), ("batch_size_change", 1001, 1001)]
    assert [(event.before, event.after) for event in found] == [(16.0, 192.0), (192.0, 96.0)]
    assert found[0].detail == {"ramp": "11"}


def test_batches_of_changing_size_and_the_last_of_an_epoch_are_nothing() -> None:
    rng = np.random.default_rng(0)
    assert derived(rows("bsz", range(1, 1001), rng.integers(50, 70, 1000))) == []
    size = np.full(1000, 64.0)
    size[99::100] = 17
    assert derived(rows("bsz", range(1, 1001), size)) == []


def test_samples_that_run_ahead_of_the_steps_were_passed_over() -> None:
    samples = np.cumsum(np.full(400, 256.0))
    samples[200:] += 50 * 256
    [skip] = derived(rows("consumed samples", range(1, 401), samples), rows("global batch size", range(1, 401), 256))
    assert (str(skip.kind), skip.step, skip.step_end, skip.detail["batches"]) == ("skip_batches", 201, 201, "50")


def test_samples_that_follow_a_ramp_are_not_passed_over() -> None:
    size = np.repeat(np.arange(16, 208, 16), 40).astype(float)
    every = slice(9, None, 10)
    steps = np.arange(1, len(size) + 1)
    samples = rows("consumed samples", steps[every], np.cumsum(size)[every])
    [change] = derived(samples, rows("global batch size", steps[every], size[every]))
    assert (str(change.kind), change.before, change.after) == ("batch_size_change", 16.0, 192.0)


def test_an_attempt_that_begins_with_other_data_passed_some_over() -> None:
    """PaLM's way: the step counter goes back, the data position does not."""
    size = rows("global batch size", range(1, 101), 64)
    first = rows("consumed samples", range(1, 101), 64.0 * np.arange(1, 101))
    size_again = rows("global batch size", range(61, 201), 64, segment=1)
    shifted = rows("consumed samples", range(61, 201), 64.0 * (np.arange(61, 201) + 250), segment=1)
    found = derived(size, first, size_again, shifted)
    assert told(found) == [("restart", 60, None), ("rollback", 60, None), ("skip_batches", 61, 61)]
    assert found[2].detail == {"batches": "250", "samples": "16000"}
    same = rows("consumed samples", range(61, 201), 64.0 * np.arange(61, 201), segment=1)
    assert told(derived(size, first, size_again, same)) == [("restart", 60, None), ("rollback", 60, None)]


# --- the whole -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_run_has_no_events(seed: int, every: int) -> None:
    rng = np.random.default_rng(seed)
    step = np.arange(every, 6001, every)
    decay = np.minimum(step / 300, 0.1 + 0.45 * (1 + np.cos(np.pi * np.clip((step - 300) / 5700, 0, 1))))
    found = derived(
        rows("lm loss", step, (1.8 + 9 * step**-0.4) * (1 + 0.02 * rng.standard_normal(len(step))), begin=BEGIN),
        rows("grad norm", step, np.round(np.exp(-1.5 + 0.3 * rng.standard_normal(len(step))), 3), begin=BEGIN),
        rows("learning rate", step, [float(f"{6e-5 * value:.3E}") for value in decay], begin=BEGIN),
        rows("loss scale", step, 2.0 ** (15 + (step // 1000) % 2), begin=BEGIN),
        rows("global batch size", step, 2048, begin=BEGIN),
        rows("consumed samples", step, 2048.0 * step, begin=BEGIN),
        rows("number of skipped iterations", step, (step % 1000 == 0).astype(float), begin=BEGIN),
        rows("lm loss validation", step[:: max(1, 500 // every)], 2.0, begin=BEGIN),
    )
    assert told(found) == []


def test_the_same_scalars_give_the_same_events_in_any_order() -> None:
    parts = [
        rows("loss", range(1, 101), [2.0] * 60 + [np.nan] * 3 + [2.0] * 37),
        rows("loss", range(61, 151), 2.0, segment=1),
        rows("loss scale", range(1, 101), [65536.0] * 60 + [1024.0] * 40),
    ]
    once = derived(*parts)
    assert repr(derived(*parts)) == repr(once)
    assert repr(derived(*reversed(parts))) == repr(once)
    assert len({event.event for event in once}) == len(once)


def test_nothing_gives_nothing() -> None:
    assert derive.events("r", rows("loss", [], []).assign(attempt=[], signal=[]), pd.DataFrame()) == []


# --- real files ----------------------------------------------------------------------------------------------------


def of_files(*paths: Path) -> list[Event]:
    parts = []
    for path in paths:
        scalars = replay_parsers.read(path).scalars
        frame = pd.DataFrame(
            {
                "run": "r",
                "source": path.name,
                "segment": scalars.segment.astype(np.int64),
                "tag": np.array(scalars.tags, dtype=object)[scalars.tag],
                "step": scalars.step,
                "wall_time": pd.Series(scalars.wall_time.view("datetime64[us]")).dt.tz_localize("UTC"),
                "value": scalars.value,
            }
        )
        parts.append(frame)
    return derived(*parts)


def test_three_event_files_of_one_run_are_two_restarts_and_a_gap(shared: Path) -> None:
    found = of_files(*sorted((shared / "real/tensorboard/resumed-three-files").iterdir()))
    assert told(found) == [
        ("restart", 2_510_000, None),
        ("gap", 3_000_000, 7_130_000),
        ("restart", 7_120_000, None),
    ]


def test_twenty_rows_told_twice_are_a_rollback_of_ten_steps(shared: Path) -> None:
    found = of_files(*sorted((shared / "real/tensorboard/duplicate-steps").iterdir()))
    assert [(str(event.kind), event.step, event.before, event.lost_steps) for event in found] == [
        ("restart", 89, 99.0, None),
        ("rollback", 89, 99.0, 10.0),
    ]


def test_the_104b_runs_logs(shared: Path) -> None:
    logs = shared / "real/trainers/megatron-deepspeed"
    diverged = of_files(logs / "tr8_8738.log")
    assert told(diverged) == [
        ("gap", 8743, 9026),
        ("batch_size_change", 9026, 9026),
        ("loss_scale_drop", 9026, 9027),
        ("nan_loss", 9027, 9027),
    ]
    assert [(event.before, event.after) for event in diverged[1:3]] == [(176.0, 192.0), (65536.0, 8192.0)]
    falling = of_files(logs / "tr8b_17060.log")
    assert told(falling) == [("overflow_skip", 17_062, 17_068), ("loss_scale_drop", 17_063, 17_068)]
    assert (falling[1].before, falling[1].after) == (1_048_576.0, 32_768.0)
    assert told(of_files(logs / "tr8_6900.log")) == []


@pytest.mark.parametrize(
    "log",
    [
        "deepspeed/opt-1.3b-globalBatchSize128.log",
        "fairseq/fsdp_8gpu.log",
        "huggingface/run/trainer_log.jsonl",
        "huggingface/run/trainer_state.json",
        "huggingface/single/trainer_state.json",
        "megatron-deepspeed/tr11_42780_wrapped.log",
    ],
)
def test_healthy_logs_have_no_events(shared: Path, log: str) -> None:
    assert told(of_files(shared / "real/trainers" / log)) == []
