"""From a run's scalars to the series that rules read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import replay_parsers
from replay import lineage, measurements, rules, signals
from replay.rules import Evaluation, Severity


def rows(
    tag: str, step: Sequence[int], value: Sequence[float], *, source: str = "log", attempt: int = 0
) -> pd.DataFrame:
    frame = pd.DataFrame({"source": source, "tag": tag, "step": list(step), "value": list(value), "attempt": attempt})
    frame["wall_time"] = pd.Series([pd.NaT] * len(frame), dtype="datetime64[us, UTC]")
    frame["attempt"] = frame["attempt"].astype("Int64")
    frame["signal"] = signals.signal_of(tag)
    return frame


def test_of_two_tags_for_one_signal_the_fuller_one_is_read() -> None:
    scalars = pd.concat(
        [
            rows("lm loss", range(10, 101, 10), range(10), source="log"),
            rows("lm-loss-training/lm loss", range(1, 101), range(100), source="events"),
            rows("lm loss", range(101, 111), range(10), source="log", attempt=1),
        ]
    )
    loss = rules.from_scalars(scalars)["loss"]
    assert loss.step.tolist() == list(range(1, 111))
    assert loss.attempt.tolist() == [0] * 100 + [1] * 10


def test_two_sources_of_one_tag_fill_each_other_in() -> None:
    scalars = pd.concat(
        [rows("loss", [1, 2, 3], [9, 8, 7], source="a"), rows("loss", [3, 4], [0, 6], source="b")], ignore_index=True
    )
    loss = rules.from_scalars(scalars)["loss"]
    assert (loss.step.tolist(), loss.value.tolist()) == ([1, 2, 3, 4], [9, 8, 7, 6])


def test_a_loss_that_is_missing_where_it_always_was_is_not_a_number() -> None:
    """GOTCHAS 11."""
    steps = range(1, 21)
    scalars = pd.concat(
        [rows("lm loss", [s for s in steps if s not in (15, 16)], [2.0] * 18), rows("grad norm", steps, [1.0] * 20)]
    )
    loss = rules.from_scalars(scalars)["loss"]
    assert loss.step.tolist() == list(steps)
    assert np.flatnonzero(np.isnan(loss.value)).tolist() == [14, 15]
    [flag] = rules.evaluate(rules.load(), {"loss": loss}).flags
    assert (flag.rule, flag.step, flag.step_end) == ("loss-not-finite", 15, 16)


@pytest.mark.parametrize("every", [2, 10, 100])
def test_a_loss_that_is_reported_less_often_than_others_is_not_missing(every: int) -> None:
    steps = range(1, 1001)
    reported = sorted({1, 2, 3, 4, *range(every, 1001, every)})
    scalars = pd.concat([rows("loss", reported, [2.0] * len(reported)), rows("lr", steps, [1e-3] * 1000)])
    assert measurements.missing_losses(scalars).empty


def test_the_last_report_of_an_event_file_may_still_be_written() -> None:
    both = pd.concat([rows("loss", range(1, 20), [2.0] * 19), rows("lr", range(1, 21), [1e-3] * 20)])
    timed = both.assign(wall_time=pd.Timestamp("2022-04-15", tz="UTC").as_unit("us"))
    assert measurements.missing_losses(timed).empty
    assert measurements.missing_losses(both)["step"].tolist() == [20], "a line of a text log is whole"


def test_a_loss_of_exactly_zero_beside_a_norm_that_is_nan_is_nan() -> None:
    """GOTCHAS 23; and a nan gradient norm beside a finite loss is none."""
    norms = rows("grad_norm", [1, 2, 3, 4], [1, np.nan, 1, np.nan])
    scalars = pd.concat([rows("loss", [1, 2, 3, 4], [2, 0, 0, 2]), norms])
    value = rules.from_scalars(scalars)["loss"].value
    assert np.isnan(value).tolist() == [False, True, False, False]


def test_a_stale_gradient_norm_is_no_measurement() -> None:
    """GOTCHAS 26: repeated to the last digit over skipped steps."""
    value = [453082.517, 464441.887, 464441.887, 464441.887, 879946.622, 879946.622]
    norm = rules.from_scalars(rows("grad norm", range(1, 7), value))["grad_norm"]
    assert norm.step.tolist() == [1, 2, 5]
    few_digits = rules.from_scalars(rows("grad norm", range(1, 7), [0.15, 0.15, 0.15, 0.151, 0.15, 0.15]))["grad_norm"]
    assert len(few_digits) == 6, "three digits repeat by chance"


def test_throughput_is_found_from_the_time_of_a_step_and_the_size_of_the_batch() -> None:
    seconds = rows("elapsed time per iteration (s)", [1, 2, 3], [2.0, 4.0, 8.0])
    sizes = rows("global batch size", [1, 2, 3], [64, 128, 256])
    assert rules.from_scalars(pd.concat([seconds, sizes]))["throughput"].value.tolist() == [32, 32, 32]
    assert rules.from_scalars(seconds)["throughput"].value.tolist() == [0.5, 0.25, 0.125]
    logged = rows("tokens per second", [1], [9.0])
    assert rules.from_scalars(pd.concat([seconds, logged]))["throughput"].value.tolist() == [9.0]


def test_a_key_that_changes_from_seconds_to_milliseconds_is_no_drop_of_throughput() -> None:
    """GOTCHAS 10: Megatron's time of an iteration has had both units."""
    early = rows("elapsed time per iteration (s)", range(1, 201), [2.0] * 200)
    late = rows("elapsed time per iteration (ms)", range(201, 401), [2000.0] * 200, attempt=1)
    throughput = rules.from_scalars(pd.concat([early, late]))
    assert set(throughput["throughput"].value.round(9)) == {0.5}
    assert rules.evaluate(rules.load(), throughput).flags == ()


def test_a_batch_size_reported_at_other_steps_than_the_time_of_a_step_still_counts() -> None:
    seconds = rows("step_time", range(10, 60, 10), [2.0] * 5)
    sizes = rows("global batch size", [1, 25, 47], [16, 32, 64])
    assert rules.from_scalars(pd.concat([seconds, sizes]))["throughput"].value.tolist() == [8, 8, 16, 16, 32]
    later = rows("step_time", range(51, 54), [2.0] * 3, attempt=1)
    assert rules.from_scalars(pd.concat([later, sizes]))["throughput"].value.tolist() == [8, 8, 8]


# --- real logs -----------------------------------------------------------------------------------------------------


def evaluated(path: Path) -> Evaluation:
    scalars = replay_parsers.read(path).scalars
    frame = pd.DataFrame(
        {
            "run": "r",
            "source": str(path),
            "segment": scalars.segment.astype(np.int64),
            "tag": np.array(scalars.tags, dtype=object)[scalars.tag],
            "step": scalars.step,
            "wall_time": pd.Series(scalars.wall_time.view("datetime64[us]")).dt.tz_localize("UTC"),
            "value": scalars.value,
        }
    )
    attempts = lineage.attempts(frame, pd.DataFrame())
    return rules.evaluate(rules.load(), rules.from_scalars(lineage.assign(frame, attempts)))


def test_blooms_one_spike_is_found_and_its_gradient_is_ahead(shared: Path) -> None:
    found = evaluated(shared / "real/trainers/megatron-deepspeed/tr11_31214.log")
    by_rule = {flag.rule: flag for flag in found.flags}
    assert set(by_rule) == {"loss-spike", "grad-norm-spike"}
    assert (by_rule["loss-spike"].step, by_rule["loss-spike"].value) == (31_219, 5.098124)
    assert (by_rule["grad-norm-spike"].step, by_rule["grad-norm-spike"].value) == (31_218, 960.351)
    assert by_rule["grad-norm-spike"].lead_steps == 1


def test_the_104b_runs_divergence_is_found(shared: Path) -> None:
    found = evaluated(shared / "real/trainers/megatron-deepspeed/tr8_8738.log")
    assert [(flag.rule, flag.step) for flag in found.flags] == [
        ("loss-spike", 8741),
        ("grad-norm-spike", 8742),
        ("loss-not-finite", 9027),
        ("loss-scale-collapse", 9027),
    ]
    assert found.flags[0].value == 7.596509
    assert found.flags[1].baseline == pytest.approx((231_817.368 + 89_608.482) / 2), "what came before the rise"


def test_the_104b_runs_falling_loss_scale_and_its_loss_that_stays_up_are_found(shared: Path) -> None:
    """Two reports of 2.67, then 4.4 throughout: too little history for one value, enough for three in a row."""
    found = evaluated(shared / "real/trainers/megatron-deepspeed/tr8b_17060.log")
    assert [(flag.rule, flag.step, flag.value) for flag in found.flags] == [
        ("loss-spike", 17_064, 4.404639),
        ("loss-scale-collapse", 17_065, 32_768),
    ]


@pytest.mark.parametrize(
    "log",
    [
        "deepspeed/opt-1.3b-globalBatchSize128.log",
        "fairseq/fsdp_8gpu.log",
        "huggingface/run/trainer_state.json",
        "huggingface/single/trainer_state.json",
        "megatron-deepspeed/tr11_42780_wrapped.log",
    ],
)
def test_healthy_logs_raise_no_warning(shared: Path, log: str) -> None:
    """GOTCHAS 28."""
    path = shared / "real/trainers" / log
    assert [flag.message for flag in evaluated(path).flags if flag.severity != Severity.INFO] == []
