"""The catalogue: complete, judged by rules tested on traces made by hand, verified so that it can resume."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from replay.proxy import failures, verification
from replay.proxy.assessment import assess, run_plan
from replay.proxy.checkpoint import Checkpoint
from replay.proxy.config import Fault, ProxyConfig
from replay.proxy.failure import (
    Arm,
    Case,
    Failure,
    Plan,
    Sign,
    Trace,
    both,
    ends_above,
    exceeds,
    falls_below,
    held_out_rises,
    loss_returns,
    never_finite_again,
)
from replay.proxy.failure_table import arm_rows, markdown, sign_lines, status
from replay.proxy.training import Training
from replay.proxy.verification import WITH, WITHOUT, run_one, verify


def trace(moment: int = 1, **columns: list[float]) -> Trace:
    return Trace({name: np.array(values, dtype=np.float64) for name, values in columns.items()}, moment)


# -- The catalogue ---------------------------------------------------------------------------------------------------


def test_eleven_failures_each_with_its_source_and_its_search() -> None:
    entries = list(failures.CATALOGUE.values())
    assert [failure.number for failure in entries] == list(range(1, 12))
    for failure in entries:
        for field in ("title", "source", "mechanism", "settings", "signature", "leading_signal", "criterion", "search"):
            assert getattr(failure, field), (failure.name, field)


def test_a_failure_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(KeyError, match="data-and-state"):
        failures.get("gremlins")


@pytest.mark.parametrize("name", ["attention-logit-growth", "optimizer-state-lost", "silent-data-corruption"])
def test_cause_and_control_are_the_same_bits_before_the_moment(name: str) -> None:
    case = failures.get(name).case(7)
    assert case.config != case.control
    steps = case.moment - 1
    one, other = Training.start(case.config), Training.start(case.control)
    for _ in range(min(steps, 30)):
        assert one.advance() == other.advance()
    if steps == 0:
        assert one.fingerprint() != other.fingerprint()


def held_out(snapshot: Checkpoint, config: ProxyConfig, until: int, **change: object) -> list[float]:
    training = Training.restore(snapshot)
    training.adopt(config)
    training.change(**change)  # type: ignore[arg-type]
    losses = []
    while training.step < until:
        training.advance()
        losses.append(training.evaluate())
    return losses


def test_one_odd_batch_harms_a_long_converged_model_and_clipping_cures_it() -> None:
    case = failures.get("data-and-state").case(100)
    training = Training.start(case.control)
    while training.step < case.moment - 1:
        training.advance()
    before = training.snapshot()
    until = case.moment + 50
    never_saw_it = held_out(before, case.control, until)
    saw_it = held_out(before, case.config, until)
    clipped = held_out(before, case.config, until, grad_clip=0.3)
    assert max(never_saw_it) < 0.05
    assert max(saw_it) > 0.5
    assert saw_it[-1] < 0.1, "the harm passes"
    assert max(clipped) < 0.05


def test_a_lost_optimizer_state_harms_at_once_and_a_flipped_bit_of_the_mantissa_does_not() -> None:
    config = failures.language_task(3, learning_rate=0.1, steps=110)
    lost = config.replace(faults=(Fault(kind="optimizer_lost", step=101),))
    flip = Fault(kind="weight_bit", step=101, parameter="layer0.attention.qkv.weight", element=5, bit=3)
    judge = held_out_rises(0.5, within=9)
    assert judge(run_plan(Plan(lost, 101), held_out=True)) in (101, 102, 103)
    assert judge(run_plan(Plan(config.replace(faults=(flip,)), 101), held_out=True)) is None


# -- Judges and signs ------------------------------------------------------------------------------------------------


def test_loss_returns_needs_a_loss_that_was_learned_first() -> None:
    judge = loss_returns(0.1, 0.5, kept=6)
    assert judge(trace(loss=[3.0] * 10)) is None
    assert judge(trace(loss=[3.0] * 5 + [0.0] * 10)) is None
    assert judge(trace(loss=[3.0] * 5 + [0.0] * 10 + [1.0] * 5)) == 18
    assert loss_returns(0.1, 0.5, kept=7)(trace(loss=[3.0] * 5 + [0.0] * 10 + [1.0] * 5)) is None
    assert judge(trace(loss=[3.0] * 5 + [0.0] * 10 + [math.nan])) == 16


def test_held_out_rises_looks_behind_the_moment_and_no_further_than_it_was_told() -> None:
    judge = held_out_rises(0.5, within=3)
    quiet = [math.nan] * 4 + [0.1] * 10
    assert judge(trace(moment=10, held_out=quiet, loss=quiet)) is None
    early, late, nan = list(quiet), list(quiet), list(quiet)
    early[10], late[13], nan[9] = 0.7, 0.7, math.nan
    assert judge(trace(moment=10, held_out=early, loss=quiet)) == 11
    assert judge(trace(moment=10, held_out=late, loss=quiet)) is None
    assert judge(trace(moment=10, held_out=nan, loss=quiet)) == 10


def test_the_other_judges() -> None:
    assert ends_above("loss", 2.0, last=2)(trace(loss=[3, 1, 3, 3])) == 3
    assert ends_above("loss", 2.0, last=2)(trace(loss=[3, 1, 3, 0])) is None
    assert never_finite_again(2)(trace(loss=[1, math.nan, 1, math.nan, math.inf])) == 4
    assert never_finite_again(2)(trace(loss=[1, math.nan, math.nan, 1])) is None
    assert exceeds("x", 2.0)(trace(moment=3, x=[5, 1, 1, 3])) == 4
    assert falls_below("x", 2.0)(trace(moment=2, x=[1, 3, 1])) == 3
    assert both(exceeds("x", 2.0), falls_below("x", 0.5))(trace(x=[1, 3, 0])) == 3
    assert both(exceeds("x", 9.0), falls_below("x", 0.5))(trace(x=[1, 3, 0])) is None


def test_signs_compare_with_what_came_before() -> None:
    values = [1.0] * 30 + [5.0, 1.0, 0.2, math.nan]
    holds = {
        condition: np.flatnonzero(Sign("x", condition, level).holds(trace(x=values))).tolist()  # type: ignore[arg-type]
        for condition, level in (
            ("above", 4.0),
            ("below", 0.5),
            ("times_median", 4.0),
            ("part_of_median", 0.25),
            ("not_finite", 0.0),
        )
    }
    assert holds == {"above": [30], "below": [32], "times_median": [30], "part_of_median": [32], "not_finite": [33]}


def test_leads_are_counted_within_the_window_and_alarms_outside() -> None:
    failure = failure_of_a_few_steps()
    loss = [0.01] * 100 + [9.0] * 10
    norm = [1.0] * 110
    norm[50] = norm[97] = norm[98] = 7.0
    found = assess(failure, WITH, 1, trace(loss=loss, grad_norm=norm))
    assert found.wrong_at == 101
    assert list(found.leads.values()) == [3]
    assert list(found.alarms.values()) == [1]
    assert found.quiet == 101 - 10 - 20


# -- Verification ----------------------------------------------------------------------------------------------------


def failure_of_a_few_steps() -> Failure:
    def case(seed: int) -> Case:
        config = failures.language_task(seed, learning_rate=0.01, steps=12).replace(data__batch_size=2)
        flip = Fault(kind="weight_bit", step=6, parameter="layer1.mlp.output.weight", bit=30)
        return Case(config.replace(faults=(flip,)), config, moment=6)

    return Failure(
        number=99,
        name="data-and-state",
        title="A short one",
        source="a test",
        mechanism="a flipped bit",
        settings="short",
        signature="the loss leaps",
        leading_signal="grad_norm",
        criterion="loss above 5",
        case=case,
        judge=exceeds("loss", 5.0),
        signs=(Sign("grad_norm", "above", 6.0),),
        window=10,
        arms=(Arm("never flipped", settings={"faults": ()}),),
        search="none",
    )


@pytest.fixture
def short_catalogue(monkeypatch: pytest.MonkeyPatch) -> Failure:
    failure = failure_of_a_few_steps()
    monkeypatch.setattr(failures, "CATALOGUE", {failure.name: failure})
    monkeypatch.setattr(verification, "CATALOGUE", {failure.name: failure})
    return failure


def test_a_verification_goes_on_where_it_stopped(
    tmp_path: Path, short_catalogue: Failure, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = verify(seeds=2, folder=tmp_path)
    assert {(result.arm, result.wrong_at is not None) for result in first} == {
        (WITH, True),
        (WITHOUT, False),
        ("never flipped", False),
    }

    def never(plan: Plan, held_out: bool = False) -> Trace:
        raise AssertionError("trained again what was known")

    with monkeypatch.context() as patched:
        patched.setattr(verification, "run_plan", never)
        assert repr(verify(seeds=2, folder=tmp_path)) == repr(first)
    written = tmp_path / short_catalogue.name / "without-1001.json"
    stale = json.loads(written.read_text()) | {"definition": "older", "final": 77.0}
    written.write_text(json.dumps(stale))
    assert run_one(short_catalogue.name, WITHOUT, 1001, str(tmp_path)).final < 77.0
    written.write_text("{")
    assert run_one(short_catalogue.name, WITHOUT, 1001, str(tmp_path)).final < 77.0


def test_the_table_counts_and_judges(tmp_path: Path, short_catalogue: Failure) -> None:
    few = verify(seeds=2, folder=tmp_path, with_arms=False)
    assert status(short_catalogue, arm_rows(few)) == "not verified"
    many = [result for seed in range(4) for result in few] if few else []
    rows = arm_rows(many)
    assert [(row.wrong, row.seeds) for row in rows] == [(8, 8), (0, 8)]
    assert status(short_catalogue, rows) == "reproduced"
    assert len(sign_lines(short_catalogue, many)) == 1


def test_the_page_has_a_row_and_a_section_for_each_failure() -> None:
    page = markdown([], "2.8")
    assert page.count("| not run | not run | not verified |") == 11
    assert all(f'id="{name}"' in page for name in failures.CATALOGUE)
