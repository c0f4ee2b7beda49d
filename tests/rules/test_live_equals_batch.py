"""A live tail gives the flags of the whole series, however it is cut, also across processes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import rules
from replay.rules import Series, Watch
from replay.rules.detectors import DETECTORS
from replay.rules.model import Combination, Condition, Rule, Severity
from replay_parsers.kinds import EventKind

SMALL: dict[str, dict[str, Any]] = {
    "spike": {"window": 8, "short": 6, "change_when_short": 3.0, "lasting": 2, "change_when_lasting": 0.2},
    "drop": {"window": 8, "scale": "log", "settle": True},
    "drift": {"window": 3, "reference": 4, "gap": 1},
    "changepoint": {"window": 3, "reference": 4},
    "floor": {"at": 1.0, "seen_beyond": 3.0},
    "ceiling": {"at": 4.0},
    "nonfinite": {},
    "plateau": {"window": 3, "min_points": 12, "fraction": 0.4},
    "growth": {"window": 2, "blocks": 3, "factor": 1.5},
}


def rule(name: str, when: Condition | Combination, **options: Any) -> Rule:
    return Rule(
        name=name,
        summary="s",
        when=when,
        severity=Severity.WARNING,
        announces=EventKind.LOSS_SPIKE,
        advice="a",
        source="s",
        **options,
    )


def condition(detector: str, signal: str = "loss") -> Condition:
    return Condition(signal, detector, DETECTORS[detector].settings(**SMALL[detector]))


EVERYTHING = [
    *(rule(name, condition(name)) for name in DETECTORS),
    rule("held", condition("spike"), for_points=2, tolerate=1),
    rule("held for steps", condition("ceiling"), for_steps=3, tolerate=2),
    rule("any", Combination("any", (condition("spike"), condition("ceiling", "grad_norm")), within=2)),
    rule("all", Combination("all", (condition("spike"), condition("spike", "grad_norm")), within=5)),
    rule("then", Combination("then", (condition("spike", "grad_norm"), condition("spike")), within=20)),
]


@st.composite
def runs(draw: st.DrawFn) -> Series:
    """Several attempts, some going back, with spikes, shifts, repeats and what is no number."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = []
    start = 1
    for attempt in range(draw(st.integers(1, 3))):
        length = draw(st.integers(1, 60))
        step = start + np.arange(length)
        level = draw(st.sampled_from([0.5, 2.0, 2.0, 5.0]))
        value = level + draw(st.sampled_from([0.0, 0.05, 0.5])) * generator.normal(size=length)
        odd = generator.random(length) < draw(st.sampled_from([0.0, 0.05, 0.2]))
        value[odd] = generator.choice([np.nan, np.inf, 0.0, 9.0, 100.0, -1.0, 0.1], size=int(odd.sum()))
        if draw(st.booleans()):
            step = np.sort(generator.choice(step, size=length))  # steps told twice
        parts.append(Series.of(value, step=step, attempt=attempt))
        start = max(1, int(step[-1]) - draw(st.integers(-5, 40)))
    return Series.joined(parts)


@given(runs(), runs(), st.lists(st.floats(0, 1), max_size=8), st.booleans())
@settings(max_examples=80, deadline=None)
def test_any_split_gives_the_same_evaluation(loss: Series, norm: Series, cuts: list[float], hand_over: bool) -> None:
    whole = rules.evaluate(EVERYTHING, {"loss": loss, "grad_norm": norm})
    watch = Watch(EVERYTHING)
    bounds = [0.0, *sorted(cuts), 1.0]
    returned = []
    for low, high in itertools.pairwise(bounds):
        batch = {
            # The two signals are not level with each other.
            "loss": loss[int(low * len(loss)) : int(high * len(loss))],
            "grad_norm": norm[int(low**2 * len(norm)) : int(high**2 * len(norm))],
        }
        returned += watch.update(batch)
        if hand_over:
            state = json.loads(json.dumps(watch.state_dict()))
            watch = Watch(EVERYTHING)
            watch.load_state_dict(state)
    assert repr(watch.evaluation()) == repr(whole)
    told = {(flag.rule, flag.attempt, flag.step) for flag in returned}
    assert {(flag.rule, flag.attempt, flag.step) for flag in whole.flags} <= told, (
        "each flag is returned when it begins"
    )
    assert len(told) == len(returned), "and once"


def test_a_live_tail_tells_again_when_an_odd_point_turns_out_to_be_more() -> None:
    """The first point of an explosion is a note, by what is known there; the note alone would be a false comfort."""
    watch = Watch(rules.load())
    returned = []
    for batch in ([2.3] * 100, [5.0], [6.0], [7.0], [2.3] * 10):
        start = watch.evaluation().checked[0].last_step if watch.evaluation().checked else 0
        series = Series.of(batch, step=range(start + 1, start + 1 + len(batch)))
        returned.append([(flag.rule, flag.step, str(flag.severity)) for flag in watch.update({"loss": series})])
        state = json.loads(json.dumps(watch.state_dict()))
        watch = Watch(rules.load())
        watch.load_state_dict(state)
    assert returned == [[], [("loss-spike", 101, "info")], [("loss-spike", 101, "warning")], [], []]


@given(runs(), runs())
@settings(max_examples=60, deadline=None)
def test_recurrences_and_leads_are_what_they_are_defined_to_be(loss: Series, norm: Series) -> None:
    found = rules.evaluate(EVERYTHING, {"loss": loss, "grad_norm": norm})

    def told_before(flag: rules.Flag) -> bool:
        return any(
            other.rule == flag.rule
            and other.attempt < flag.attempt
            and other.step <= flag.step_end
            and flag.step <= other.step_end
            for other in found.flags
        )

    assert all(told_before(flag) for flag in found.recurrences)
    assert not any(told_before(flag) for flag in found.flags)
    symptoms = [flag for flag in found.flags if flag.signal == "loss"]
    for flag in found.flags:
        ahead = [s.step - flag.known_at for s in symptoms if s.attempt == flag.attempt and s.step >= flag.known_at]
        assert flag.lead_steps == (min(ahead, default=None) if flag.signal != "loss" else None)


@given(runs(), st.integers(1, 100))
@settings(max_examples=60, deadline=None)
def test_what_is_known_at_a_step_does_not_depend_on_what_comes_later(loss: Series, cut: int) -> None:
    alone = [rule for rule in EVERYTHING if isinstance(rule.when, Condition)]
    early = rules.evaluate(alone, {"loss": loss[:cut]})
    late = rules.evaluate(alone, {"loss": loss})
    begun = {(flag.rule, flag.attempt, flag.step, flag.known_at) for flag in (*late.flags, *late.recurrences)}
    for flag in (*early.flags, *early.recurrences):
        assert (flag.rule, flag.attempt, flag.step, flag.known_at) in begun
        assert flag.step <= flag.known_at <= flag.step_end


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_one_point_at_a_time_is_the_same_as_all_at_once(name: str) -> None:
    generator = np.random.default_rng(7)
    value = np.concatenate([2 + 0.1 * generator.normal(size=300), [30.0, 25.0], 2 + 0.1 * generator.normal(size=100)])
    value[[49, 50, 51, 200]] = [3.5, np.nan, 0.02, np.inf]
    value[350:] *= np.linspace(1, 4, len(value) - 350)
    series = Series.of(value)
    once = DETECTORS[name].build(DETECTORS[name].settings(**SMALL[name]))
    often = DETECTORS[name].build(DETECTORS[name].settings(**SMALL[name]))
    whole = once.update(series)
    pieces = [often.update(series[index : index + 1]) for index in range(len(series))]
    assert np.concatenate([piece.firing for piece in pieces]).tolist() == whole.firing.tolist()
    for column in ("baseline", "score"):
        np.testing.assert_array_equal(np.concatenate([getattr(p, column) for p in pieces]), getattr(whole, column))
    assert whole.firing.any(), "the series shows the detector something"


def test_points_in_any_order_are_put_in_order_for_a_whole_series() -> None:
    series = Series.of([2.3] * 100 + [9.0] + [2.3] * 20)
    shuffled = series[np.random.default_rng(0).permutation(len(series))]
    found = rules.evaluate(rules.load(), {"loss": shuffled})
    assert [flag.step for flag in found.flags if flag.rule == "loss-spike"] == [101]
