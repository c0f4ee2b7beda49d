"""Healthy runs that look ill, and repeats that are none: what rules must not say."""

from __future__ import annotations

import numpy as np
import pytest

from replay import rules
from replay.rules import Flag, Series, Severity

BUILT_IN = rules.load()


def flags(**series: Series) -> list[Flag]:
    return list(rules.evaluate(BUILT_IN, series).flags)


def noisy(level: float, count: int, noise: float = 0.01, seed: int = 0) -> np.ndarray:
    return level * (1 + noise * np.random.default_rng(seed).normal(size=count))


def test_a_step_that_repeats_after_a_rollback_is_not_two_spikes() -> None:
    """GOTCHAS 21: the same batches again give the same spike; it is one, seen twice."""
    value = noisy(2.3, 200)
    value[150:155] = [3.5, 5.0, 4.0, 3.0, 2.8]
    first = Series.of(value[:180], step=range(1, 181))
    again = Series.of(value[100:], step=range(101, 201), attempt=1)
    found = rules.evaluate(BUILT_IN, {"loss": Series.joined([first, again])})
    assert [(flag.rule, flag.attempt, flag.step) for flag in found.flags] == [("loss-spike", 0, 151)]
    assert [(flag.rule, flag.attempt, flag.step) for flag in found.recurrences] == [("loss-spike", 1, 151)]


def test_a_spike_elsewhere_after_a_rollback_is_another() -> None:
    value = noisy(2.3, 180)
    value[150:153] = [3.5, 5.0, 4.0]
    later = noisy(2.3, 100, seed=1)
    later[80:83] = [3.5, 5.0, 4.0]
    series = Series.joined([Series.of(value), Series.of(later, step=range(101, 201), attempt=1)])
    assert [(flag.attempt, flag.step) for flag in flags(loss=series)] == [(0, 151), (1, 181)]


def test_what_is_rolled_back_is_not_in_the_baseline_and_what_came_before_is() -> None:
    """The first points of an attempt are judged at once, by what came before its checkpoint."""
    high = np.concatenate([noisy(2.3, 100), noisy(4.6, 60)])
    after = Series.of([2.3, 4.5, 4.5, 4.5], step=range(101, 105), attempt=1)
    found = rules.evaluate(BUILT_IN, {"loss": Series.joined([Series.of(high), after])})
    assert [(flag.attempt, flag.step) for flag in found.flags] == [(0, 101)]
    assert [(flag.attempt, flag.step) for flag in found.recurrences] == [(1, 102)]
    assert found.recurrences[0].baseline == pytest.approx(2.3, rel=0.01)


def test_the_same_step_told_by_seven_ranks_is_one_point() -> None:
    """GOTCHAS 25."""
    value = np.repeat([*noisy(2.3, 60), 5.0, *noisy(2.3, 20)], 7)
    step = np.repeat(np.arange(1, 82), 7)
    [flag] = flags(loss=Series.of(value, step=step))
    assert (flag.step, flag.step_end, flag.points) == (61, 61, 1)


def test_a_batch_size_ramp_is_no_regression() -> None:
    """GOTCHAS 21: a step takes longer and does more."""
    size = np.repeat([256, 512, 1024, 2048], 300)
    rate = np.repeat([90.0, 110.0, 125.0, 130.0], 300) * noisy(1, 1200, 0.02)
    found = flags(throughput=Series.of(rate), step_time=Series.of(size / rate), batch_size=Series.of(size))
    assert found == []


def test_an_fp16_run_that_backs_off_139_times_is_well() -> None:
    """GOTCHAS 28: one halving at a time, twice in a row at most."""
    rng = np.random.default_rng(0)
    scale = [65536.0, 32768.0, 16384.0, 8192.0, 4096.0, 2048.0]
    while len(scale) < 7000:
        for level in (4096.0, 8192.0, 16384.0, 32768.0, 65536.0)[-rng.integers(1, 4) :]:
            scale += [level] * 100
        scale += [32768.0] * 50
        if rng.random() < 0.1:
            scale += [16384.0] * 100
    assert flags(loss_scale=Series.of(scale)) == []


@pytest.mark.parametrize("seed", range(5))
def test_small_batches_whose_loss_jumps_by_half_each_step_are_well(seed: int) -> None:
    """GOTCHAS 28."""
    rng = np.random.default_rng(seed)
    value = 2.0 * rng.choice([0.6, 0.75, 1.0, 1.25, 1.5], size=3000) * noisy(1, 3000, 0.05, seed)
    assert [flag for flag in flags(loss=Series.of(value)) if flag.rule == "loss-spike"] == []


def test_a_single_odd_batch_is_worth_no_more_than_a_note() -> None:
    """GOTCHAS 28: one-step spikes at the same steps in two runs are their shared batches."""
    value = noisy(2.3, 500)
    value[[100, 250, 400]] = 3.4
    found = flags(loss=Series.of(value))
    assert [flag.step for flag in found] == [101, 251, 401]
    assert {flag.severity for flag in found} == {Severity.INFO}


def test_a_slow_divergence_is_told_and_early() -> None:
    """Too slow for a window of 64 reports to see a spike: at 2.4 of a climb from 2.1 to 5 someone must look."""
    value = noisy(2.1, 6000, 0.01)
    value[3000:] += np.linspace(0, 3, 3000)
    found = [flag for flag in flags(loss=Series.of(value)) if flag.severity == Severity.CRITICAL]
    assert [flag.rule for flag in found] == ["loss-divergence"]
    assert 3000 < found[0].known_at < 3500


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_that_wanders_with_its_data_does_not_diverge(seed: int) -> None:
    """Data that are not well shuffled make the loss of neighbouring steps alike, for hundreds of steps."""
    noise = np.random.default_rng(seed).normal(size=6000)
    for index in range(1, len(noise)):
        noise[index] = 0.99 * noise[index - 1] + 0.14 * noise[index]
    found = flags(loss=Series.of((1.8 + 9 * np.arange(1, 6001) ** -0.4) * (1 + 0.05 * noise)))
    assert [flag for flag in found if flag.rule == "loss-divergence"] == []


def test_five_reports_of_a_divergence_are_told_by_the_history_before_them() -> None:
    """BigScience tr8 at 6900, every tenth step: alone they could be anything, behind a course at rest they are not."""
    reports = [6.365808, 6.598378, 7.314456, 9.121927, 10.23865]
    assert flags(loss=Series.of(reports, step=range(6900, 6941, 10))) == []
    value = [*noisy(6.3, 200), *reports]
    [flag] = flags(loss=Series.of(value, step=range(4900, 6941, 10)))
    assert (flag.rule, flag.severity, flag.step, flag.known_at) == ("loss-spike", Severity.WARNING, 6920, 6920)


def test_a_gradient_norm_printed_as_zero_is_told_as_not_measured() -> None:
    """GOTCHAS 26 and 22: never `clean` on what was not measured."""
    found = rules.evaluate(BUILT_IN, {"grad_norm": Series.of([0.0] * 500)})
    assert found.flags == ()
    assert ("grad-norm-spike", "grad norm is 0 throughout: printed, but not measured") in {
        (entry.rule, entry.reason) for entry in found.unchecked
    }


def test_a_loss_that_never_was_a_number_is_not_told_to_have_been_one() -> None:
    [flag] = flags(loss=Series.of([np.nan] * 5))
    assert flag.message == "loss is not a number (and no finite value was before it), steps 1 to 5"


def test_a_loss_scale_printed_as_zero_has_not_reached_its_floor() -> None:
    """GOTCHAS 24."""
    assert flags(loss_scale=Series.of([65536.0] * 50 + [0.0] * 50 + [65536.0] * 50)) == []


def test_what_is_absent_or_too_short_is_told_with_the_reason() -> None:
    """GOTCHAS 22."""
    found = rules.evaluate(BUILT_IN, {"loss": Series.of([2.3] * 100)})
    assert {entry.rule for entry in found.checked} == {"loss-spike", "loss-not-finite"}
    reasons = {entry.rule: entry.reason for entry in found.unchecked}
    assert reasons["grad-norm-spike"] == "no grad norm in the logs"
    assert reasons["loss-plateau"] == "loss has 100 values; 2,000 are needed"
    assert {entry.rule for entry in found.checked} | set(reasons) == {rule.name for rule in BUILT_IN}
    assert rules.evaluate(BUILT_IN, {}).checked == ()


def test_the_quiet_of_a_short_history_is_told_with_what_an_alarm_would_have_asked_for() -> None:
    """Six points of seven looked at is no clean bill where each had to be 16 times the median to count."""
    found = rules.evaluate(BUILT_IN, {"grad_norm": Series.of([1.0, 1.2, 0.9, 1.1, 14.0, 1.0, 1.1])})
    assert found.flags == ()
    [norm] = [entry for entry in found.checked if entry.rule == "grad-norm-spike"]
    assert (norm.judged, norm.points) == (4, 7), "the first three are a history, not judged"
    assert norm.reservation == (
        "4 of them quiet on a short history, which asks for a rise to 16 times the median, not 4 times, "
        "or 3 points in a row at 4 times the highest before or beyond"
    )


def test_a_long_history_has_no_reservation_for_its_beginning() -> None:
    found = rules.evaluate(BUILT_IN, {"loss": Series.of(noisy(2.3, 300))})
    [spike] = [entry for entry in found.checked if entry.rule == "loss-spike"]
    assert (spike.judged, spike.cautious, spike.reservation) == (297, 13, "")
    [finite] = [entry for entry in found.checked if entry.rule == "loss-not-finite"]
    assert finite.reservation == ""


def test_three_points_in_a_row_are_a_step_only_while_history_is_short() -> None:
    """Later the noise is known, and the spike's own limit is the sharper one."""
    step_up = [2.0, 2.01, 3.2, 3.25, 3.22, 3.21]
    assert [flag.step for flag in flags(loss=Series.of(step_up))] == [5]
    assert flags(loss=Series.of([2.0, 2.6, 3.9, 4.5, 5.2, 3.9])) == [], "the two before are too far apart to tell"


def test_after_a_step_that_lasted_the_baseline_is_what_came_before_it() -> None:
    series = [2.0, 2.01, 3.2, 3.25, 3.22, 2.0, 2.01, 1.99, 4.2, 4.3]
    assert [(flag.step, flag.step_end, round(flag.baseline, 3)) for flag in flags(loss=Series.of(series))] == [
        (5, 5, 2.005),
        (9, 10, 2.0),
    ]


def test_a_gradient_norm_ahead_of_the_loss_tells_its_lead() -> None:
    loss, norm = noisy(2.3, 300), noisy(0.2, 300, 0.1)
    norm[200:210], loss[207:212] = 20.0, 5.0
    by_rule = {flag.rule: flag for flag in flags(loss=Series.of(loss), grad_norm=Series.of(norm))}
    assert by_rule["grad-norm-spike"].lead_steps == 7
    assert by_rule["loss-spike"].lead_steps is None


@pytest.mark.parametrize("seed", range(3))
def test_healthy_runs_of_many_shapes_raise_no_warning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 4000
    step = np.arange(1, count + 1)
    shapes = {
        "power law": 1.8 + 9 * step**-0.4,
        "copy task down to zero": np.exp(-step / 300) * 3 + 0.01,
        "two phases": np.where(step < 1500, 3 + 6 * np.exp(-step / 200), 2.4 + 0.6 * np.exp(-(step - 1500) / 300)),
        "reports of every hundredth step": 2 + 8 * (100 * step) ** -0.3,
    }
    for name, curve in shapes.items():
        found = flags(
            loss=Series.of(curve * (1 + 0.02 * rng.standard_normal(count))),
            grad_norm=Series.of(5 * step**-0.3 * np.exp(0.25 * rng.standard_normal(count))),
            throughput=Series.of(100 * (1 + 0.03 * rng.standard_normal(count))),
            loss_scale=Series.of(2.0 ** (15 + (step // 500) % 2)),
        )
        loud = [flag.message for flag in found if flag.severity != Severity.INFO]
        assert loud == [], name


def test_flags_make_a_table_with_the_columns_of_the_store() -> None:
    empty = rules.flags_frame([])
    assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == rules.FLAG_COLUMNS
    series = Series.of([2.3] * 100 + [9.0], wall_time=range(1_650_000_000_000_000, 1_650_000_000_000_101))
    frame = rules.flags_frame(flags(loss=series), run="r")
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == rules.FLAG_COLUMNS
    assert frame.loc[0, ["run", "rule", "step", "severity"]].tolist() == ["r", "loss-spike", 101, "info"]
    assert frame["time"][0].isoformat() == "2022-04-15T05:20:00.000100+00:00"
