"""Learning rates: what a schedule does is no event, what a person did is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import derive, lineage, signals
from replay.derive.schedule import jumps, quantum
from replay_parsers.records import Event

TOTAL = 10_000
WARM_UP = 500
PEAK = 6e-5
STEP = np.arange(1, TOTAL + 1)


def warmed_up(after: np.ndarray) -> np.ndarray:
    return np.where(STEP < WARM_UP, PEAK * STEP / WARM_UP, after)


SINCE = np.clip((STEP - WARM_UP) / (TOTAL - WARM_UP), 0, 1)
SCHEDULES = {
    "constant": np.full(TOTAL, PEAK),
    "constant after warm-up": warmed_up(np.full(TOTAL, PEAK)),
    "cosine to a tenth": warmed_up(PEAK * (0.1 + 0.45 * (1 + np.cos(np.pi * SINCE)))),
    "cosine to zero": warmed_up(PEAK * 0.5 * (1 + np.cos(np.pi * SINCE))),
    "linear to zero": warmed_up(PEAK * (1 - SINCE)),
    "inverse square root": PEAK * np.minimum(STEP / WARM_UP, np.sqrt(WARM_UP / STEP)),
    "WSD, linear decay": warmed_up(PEAK * np.clip((TOTAL - STEP) / (0.2 * TOTAL), 0.01, 1)),
    "WSD, square-root decay": warmed_up(PEAK * (1 - np.sqrt(np.clip((STEP - 0.8 * TOTAL) / (0.2 * TOTAL), 0, 0.999)))),
    "exponential": PEAK * 0.9995**STEP,
    "exponential warm-up": PEAK * 10.0 ** np.minimum(STEP - 5.0, 0.0),
    "polynomial": warmed_up(PEAK * (1 - SINCE) ** 2),
    "one cycle": PEAK * np.where(STEP < 3000, STEP / 3000, np.clip((TOTAL - STEP) / 7000, 1e-4, 1)),
    "triangles": PEAK * (0.1 + 0.9 * np.abs((STEP % 2000) / 1000 - 1)),
    "cosine with warm restarts": PEAK * 0.5 * (1.02 + np.cos(np.pi * (STEP % 2000) / 2000)),
    "a stair every thousand steps": PEAK * 0.5 ** ((STEP - 1) // 1000),
    "a stair every hundred steps of a cosine": warmed_up(PEAK)[((STEP - 1) // 100) * 100]
    * 0.5
    * (1.2 + np.cos(np.pi * SINCE[((STEP - 1) // 100) * 100])),
    "warm-up in five epochs": PEAK * np.minimum(1, (1 + (STEP - 1) // 800) / 5),
    "never set": np.zeros(TOTAL),
    "zero for the first skipped steps": np.where(STEP < 12, 0.0, PEAK),
}


def derived(*parts: pd.DataFrame) -> list[Event]:
    scalars = pd.concat(parts, ignore_index=True)
    attempts = lineage.attempts(scalars, pd.DataFrame())
    scalars = lineage.assign(scalars, attempts)
    scalars["signal"] = scalars["tag"].map({tag: signals.signal_of(tag) for tag in scalars["tag"].unique()})
    return derive.events("r", scalars, attempts)


def rows(tag: str, step: np.ndarray, value: np.ndarray, *, segment: int = 0, source: str = "log") -> pd.DataFrame:
    frame = pd.DataFrame({"run": "r", "source": source, "segment": segment, "tag": tag, "step": step, "value": value})
    frame["wall_time"] = pd.Series([pd.NaT] * len(frame), dtype="datetime64[us, UTC]")
    return frame


def kinds(events: list[Event]) -> list[tuple[str, int]]:
    return [(str(event.kind), event.step or 0) for event in events]


PRINTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exact": lambda rate: rate,
    "float32": lambda rate: rate.astype(np.float32).astype(np.float64),
    "as 5.969E-05": lambda rate: np.array([float(f"{value:.3E}") for value in rate]),
    "with two digits": lambda rate: np.array([float(f"{value:.1E}") for value in rate]),
    "as 0.000060": lambda rate: np.round(rate, 6),
}


@pytest.mark.parametrize("printed", sorted(PRINTED))
@pytest.mark.parametrize("every", [1, 10, 100])
@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_no_schedule_is_an_event(name: str, every: int, printed: str) -> None:
    chosen = slice(every - 1, None, every)
    step, rate = STEP[chosen], PRINTED[printed](SCHEDULES[name][chosen])
    assert kinds(derived(rows("learning rate", step, rate))) == []


@pytest.mark.parametrize("printed", ["exact", "float32", "as 5.969E-05"])
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("factor", [0.5, 0.75, 2.0])
@pytest.mark.parametrize("name", ["constant", "cosine to a tenth", "linear to zero", "inverse square root"])
def test_a_rate_that_is_multiplied_from_a_step_on_is_one(name: str, factor: float, every: int, printed: str) -> None:
    rate = SCHEDULES[name] * np.where(STEP >= 5001, factor, 1.0)
    chosen = slice(every - 1, None, every)
    [event] = derived(rows("learning rate", STEP[chosen], PRINTED[printed](rate[chosen])))
    step = 5001 if every == 1 else 5010
    assert (str(event.kind), event.step, event.field) == ("lr_change", step, "learning_rate")
    assert event.after is not None
    assert event.before is not None
    assert event.after / event.before == pytest.approx(factor, rel=0.02)
    assert str(event.evidence) == "derived"
    assert event.locator == f"tag 'learning rate', steps {step - every}..{step}"


def test_a_rate_that_is_set_back_later_is_two_changes() -> None:
    rate = SCHEDULES["cosine to a tenth"] * np.where((STEP >= 3001) & (STEP < 6001), 0.25, 1.0)
    assert kinds(derived(rows("lr", STEP, rate))) == [("lr_change", 3001), ("lr_change", 6001)]


def test_a_slip_of_a_report_is_no_change() -> None:
    rate = SCHEDULES["cosine to a tenth"].copy()
    rate[4000] = rate[4000] / 3
    rate[7000:7002] = 1e-9
    assert kinds(derived(rows("lr", STEP, rate))) == []


def test_a_change_on_the_last_report_waits_for_the_next() -> None:
    rate = np.full(100, PEAK)
    rate[-1] = PEAK / 2
    assert derived(rows("lr", STEP[:100], rate)) == []
    assert kinds(derived(rows("lr", STEP[:101], np.append(rate, PEAK / 2)))) == [("lr_change", 100)]


def test_a_fall_and_a_climb_is_a_rewarm() -> None:
    rate = SCHEDULES["cosine to a tenth"].copy()
    rate[6000:6200] = rate[6200] * np.arange(1, 201) / 200
    [event] = derived(rows("lr", STEP, rate))
    assert (str(event.kind), event.step, event.step_end) == ("lr_rewarm", 6001, 6200)
    assert event.before == pytest.approx(rate[5999])
    assert event.after == pytest.approx(rate[6200])


def test_a_rate_halved_at_a_restart_is_told_from_the_schedule_of_the_attempt_before() -> None:
    rate = SCHEDULES["cosine to a tenth"]
    first = rows("lr", STEP[:6000], rate[:6000])
    second = rows("lr", STEP[5500:8000], rate[5500:8000] / 2, segment=1)
    found = derived(first, second)
    assert kinds(found) == [("restart", 5500), ("rollback", 5500), ("lr_change", 5501)]
    assert found[2].before == pytest.approx(rate[5500])
    assert found[2].after == pytest.approx(rate[5500] / 2)
    same = rows("lr", STEP[5500:8000], rate[5500:8000], segment=1)
    assert kinds(derived(first, same)) == [("restart", 5500), ("rollback", 5500)]


def test_a_warm_up_after_a_restart_is_a_rewarm() -> None:
    rate = np.full(TOTAL, PEAK)
    again = rate.copy()
    again[5500:5700] = PEAK * np.arange(1, 201) / 200
    found = derived(rows("lr", STEP[:6000], rate[:6000]), rows("lr", STEP[5500:], again[5500:], segment=1))
    assert [(str(e.kind), e.step, e.step_end) for e in found[2:]] == [("lr_rewarm", 5501, 5700)]


def test_a_hole_in_the_record_is_no_jump_of_the_schedule() -> None:
    kept = (STEP < 200) | (STEP > 7000)
    for name in ("cosine to a tenth", "linear to zero", "inverse square root"):
        assert kinds(derived(rows("lr", STEP[kept], SCHEDULES[name][kept]))) == [("gap", 199)], name


@given(st.sampled_from(sorted(SCHEDULES)), st.integers(1, 5000), st.integers(8, 3000), st.integers(1, 60))
@settings(max_examples=300, deadline=None)
def test_no_excerpt_of_a_schedule_holds_a_jump(name: str, start: int, count: int, every: int) -> None:
    chosen = slice(start, start + count * every, every)
    found = jumps(STEP[chosen], SCHEDULES[name][chosen])
    stairs = "stair" in name or "epoch" in name or "restarts" in name
    # One or two stairs, seen alone, look like what a person does.
    assert found == [] or (stairs and len(found) <= 2)


def test_the_last_printed_digit_is_found() -> None:
    assert quantum(np.array([5.969e-05, 5.968e-05, 6.0e-05])) == pytest.approx([1e-8, 1e-8, 1e-8])
    assert quantum(np.array([1e-06, 2e-06, 0.0])) == pytest.approx([1e-6, 1e-6, 0])
    assert quantum(np.array([1 / 3, np.pi / 4]))[0] <= 1e-7
