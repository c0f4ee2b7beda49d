"""The catalogue: complete, judged by rules tested on traces made by hand, verified so that it can resume."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from replay.cli import replay as command_line
from replay.proxy import failure_table, failures, verification
from replay.proxy.assessment import assess, code_digest, definition_hash, lead_order, rival_sign, run_plan
from replay.proxy.catalogue import states
from replay.proxy.checkpoint import Checkpoint
from replay.proxy.config import Fault, ProxyConfig
from replay.proxy.data import training_batch
from replay.proxy.failure import (
    LOSS_SIGNS,
    Arm,
    Case,
    Failure,
    Plan,
    Sign,
    Trace,
    both,
    ends_above,
    ends_not_finite,
    exceeds,
    falls_below,
    held_out_rises,
    loss_returns,
    still_above,
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


@pytest.mark.parametrize("failure", failures.CATALOGUE.values(), ids=lambda failure: failure.name)
def test_each_failure_has_a_leading_sign_and_the_losss_own_to_compare_it_with(failure: Failure) -> None:
    assert failure.signs[0].signal == failure.leading_signal
    assert set(LOSS_SIGNS) <= set(failure.signs)
    assert failure.leading_signal != "loss"
    assert len({arm.name for arm in failure.arms} | {WITH, WITHOUT}) == len(failure.arms) + 2


def test_a_failure_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(KeyError, match="data-and-state"):
        failures.get("gremlins")


CAUSES = {
    "attention-logit-growth": {"model.qk_norm"},
    "output-logit-drift": {"model.z_loss"},
    "fp16-overflow-collapse": {"precision.mode"},
    "second-moment-lag": {"optimizer.weight_decay"},
    "data-and-state": {"data.defects"},
    "data-switch": {"data.second_source", "data.second_ramp"},
    "embedding-gradient": {"model.embedding_grad_ramp"},
    "optimizer-state-lost": {"faults"},
    "bad-initialisation": {"model.init_std"},
    "silent-data-corruption": {"faults"},
    "loss-scale-falls-first": {"optimizer.weight_decay"},
}
"""What each failure's cause is: the settings in which it and its control differ, and no others."""


def settings_of(config: ProxyConfig) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in config.to_dict().items():
        flat |= {f"{name}.{inner}": item for inner, item in value.items()} if isinstance(value, dict) else {name: value}
    return flat


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens 500 steps behind convergence happens at step 12."""
    monkeypatch.setattr(states, "converged_step", lambda _config: 12 - 500)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", failures.CATALOGUE)
def test_cause_and_control_differ_in_the_cause_alone(name: str) -> None:
    case = failures.get(name).case(7)
    one, other = settings_of(case.config), settings_of(case.control)
    assert {setting for setting in one if one[setting] != other[setting]} == CAUSES[name]
    assert "seed" in one
    assert one["seed"] == 7


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", failures.CATALOGUE)
def test_cause_and_control_are_the_same_bits_up_to_the_moment_and_not_behind_it(name: str) -> None:
    case = failures.get(name).case(7)
    one, other = Training.start(case.config), Training.start(case.control)
    for step in range(1, case.moment):
        assert repr(one.advance()) == repr(other.advance()), step
    if case.moment > 1:
        ours, theirs = one.snapshot().tensors, other.snapshot().tensors
        assert all(torch.equal(ours[tensor], theirs[tensor]) for tensor in ours)
    assert repr(one.advance()) != repr(other.advance())


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
    assert judge(run_plan(Plan(lost, 101), held_out=True)) in (102, 103, 104)
    assert judge(run_plan(Plan(config.replace(faults=(flip,)), 101), held_out=True)) is None


def test_a_checkpoint_loaded_over_a_change_undoes_it() -> None:
    config = failures.language_task(3, learning_rate=0.01, steps=8).replace(data__batch_size=2)
    lower = config.replace(optimizer__beta2=0.5)
    unchanged, changed = run_plan(Plan(config, 1)), run_plan(Plan(config, 1, switch=4, then=lower))
    undone = run_plan(Plan(config, 1, switch=4, then=lower, reload=True))
    assert undone["loss"].tolist() == unchanged["loss"].tolist()
    assert changed["loss"].tolist() != unchanged["loss"].tolist()


@pytest.mark.parametrize("name", failures.CATALOGUE)
def test_every_arm_can_be_planned_and_is_no_second_run_of_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_spike_step", lambda _config: 300)
    monkeypatch.setattr(states, "converged_step", lambda _config: 200)
    failure = failures.get(name)
    plans = [arm.plan(failure.case(7)) for arm in verification.arms_of(failure)]
    assert all(0 <= plan.switch < plan.config.steps for plan in plans)
    assert len({repr(plan) for plan in plans}) == len(plans)


# -- Judges and signs ------------------------------------------------------------------------------------------------


def test_loss_returns_needs_a_loss_that_was_learned_first() -> None:
    judge = loss_returns(0.1, 0.5, kept=6)
    assert judge(trace(loss=[3.0] * 10)) is None
    assert judge(trace(loss=[3.0] * 5 + [0.0] * 10)) is None
    assert judge(trace(loss=[3.0] * 5 + [0.0] * 10 + [1.0] * 5)) == 16
    assert loss_returns(0.1, 0.5, kept=7)(trace(loss=[3.0] * 5 + [0.0] * 10 + [1.0] * 5)) is None
    assert judge(trace(loss=[3.0] * 5 + [0.0] * 10 + [math.nan])) == 16


def test_held_out_rises_looks_behind_the_moment_and_no_further_than_it_was_told() -> None:
    judge = held_out_rises(0.5, within=3)
    quiet = [math.nan] * 4 + [0.1] * 10
    assert judge(trace(moment=10, held_out=quiet, loss=quiet)) is None
    early, late, nan = list(quiet), list(quiet), list(quiet)
    early[10], late[13], nan[9] = 0.7, 0.7, math.nan
    assert judge(trace(moment=10, held_out=early, loss=quiet)) == 12
    assert judge(trace(moment=10, held_out=late, loss=quiet)) is None
    assert judge(trace(moment=10, held_out=nan, loss=quiet)) == 11


def test_the_other_judges() -> None:
    assert ends_above("loss", 2.0, last=2)(trace(loss=[3, 1, 3, 3])) == 4
    assert ends_above("loss", 2.0, last=2)(trace(loss=[3, 1, 3, 0])) is None
    assert still_above("loss", 2.0, by=4, last=2)(trace(loss=[3, 1, 3, 3, 3, 3])) == 4
    assert still_above("loss", 2.0, by=4, last=2)(trace(loss=[3, 3, 3, 0, 3, 3])) is None
    assert still_above("loss", 2.0, by=4, last=2)(trace(loss=[3, 3, 3, 3, 0, 0])) is None
    assert exceeds("x", 2.0)(trace(moment=3, x=[5, 1, 1, 3])) == 4
    assert falls_below("x", 2.0)(trace(moment=2, x=[1, 3, 1])) == 3
    assert both(exceeds("x", 2.0), falls_below("x", 0.5))(trace(x=[1, 3, 0])) == 3
    assert both(exceeds("x", 9.0), falls_below("x", 0.5))(trace(x=[1, 3, 0])) is None


def test_a_loss_that_flickers_before_it_is_gone_for_good_is_gone_from_the_first_flicker_on() -> None:
    judge = ends_not_finite(2, last=2)
    assert judge(trace(loss=[1, math.nan, 1, math.nan, math.inf])) == 2
    assert judge(trace(loss=[1, 1, 1, math.nan, math.inf])) == 4
    assert judge(trace(loss=[1, math.nan, math.nan, 1])) is None
    assert judge(trace(loss=[1, math.nan, math.nan, 1, math.nan])) is None
    assert judge(trace(loss=[math.nan])) is None


def test_one_number_among_many_losses_that_are_none_is_no_recovery() -> None:
    judge = ends_not_finite(15, last=20)
    gone = [1.0] * 9 + [math.nan] * 20
    assert judge(trace(loss=[*gone, 1.0])) == 10
    assert judge(trace(loss=[*gone, *[1.0] * 5])) == 10
    assert judge(trace(loss=[*gone, *[1.0] * 6])) is None


def test_no_run_goes_wrong_behind_its_end() -> None:
    dips = [1.0] * 5 + [9.0, 0.0, 9.0, 0.0]
    assert ends_above("x", 4.0, last=4)(trace(x=dips)) == 8
    assert ends_above("x", 0.5, last=4)(trace(x=dips)) == 4
    quiet = [0.1] * 9
    assert held_out_rises(0.5, within=30)(trace(moment=6, held_out=[*quiet, 0.7], loss=[*quiet, 0.7])) == 10


def test_a_harm_measured_behind_the_update_is_dated_by_the_step_whose_loss_can_show_it() -> None:
    failure = dataclasses.replace(failure_of_a_few_steps(), judge=held_out_rises(0.5, within=9), held_out=True)
    loss, harm, norm = [1.0] * 100 + [4.0] * 5, [1.0] * 99 + [4.0] * 6, [1.0] * 99 + [7.0] * 6
    found = assess(failure, WITH, 1, trace(moment=100, loss=loss, held_out=harm, grad_norm=norm))
    assert found.wrong_at == 101
    assert list(found.leads.values()) == [1, 0, 0, 0]


def test_the_early_state_meets_the_batch_of_the_late_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "converged_step", lambda _config: 4)
    failure = failures.get("data-and-state")
    case = failure.case(7)
    early, twin = (arm.plan(case) for arm in failure.arms[:2])
    training = Training.start(early.config)
    for _ in range(early.switch):
        training.advance()
    training.adopt(early.then or early.config)
    training.skip_batches(early.skip)
    assert training.step + 1 == early.moment == 4 + 20
    met = training_batch(training.config, training.step + 1 + training.data_offset)
    meant = training_batch(case.config, case.moment)
    clean = training_batch(case.control, case.moment)
    assert np.array_equal(met.inputs, meant.inputs)
    assert not np.array_equal(met.inputs, clean.inputs)
    assert (twin.moment, twin.switch, twin.skip) == (early.moment, early.switch, early.skip)
    assert not twin.config.data.defects
    assert twin.then == twin.config


def test_what_is_changed_ahead_of_a_spike_runs_as_long_as_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_spike_step", lambda _config: 300)
    failure = failures.get("second-moment-lag")
    for arm in failure.arms:
        plan = arm.plan(failure.case(7))
        assert (plan.then or plan.config).steps == failure.case(7).config.steps, arm.name


def test_a_ramp_of_alpha_is_run_to_its_end() -> None:
    failure = failures.get("embedding-gradient")
    config = failure.arms[0].plan(failure.case(7)).config
    assert config.model.embedding_grad_ramp is not None
    assert config.model.embedding_grad_ramp.at(config.steps) == 1.0


def test_a_spike_is_dated_by_the_loss_and_not_by_its_mean_of_five_steps() -> None:
    judge = loss_returns(0.1, 0.5, kept=6)
    rising = [3.0] * 5 + [0.0] * 12 + [0.2, 0.6, 0.9, 1.5, 2.0]
    assert judge(trace(loss=rising)) == 5 + 12 + 2
    blip = [3.0] * 5 + [0.0] * 12 + [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert judge(trace(loss=blip)) is None


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
    assert list(found.leads.values()) == [3, 0, 0, 0]
    assert list(found.alarms.values()) == [1, 0, 0, 0]
    assert found.quiet == 101 - 10 - 20


def test_nothing_before_the_cause_is_a_lead() -> None:
    failure = failure_of_a_few_steps()
    norm = [1.0] * 110
    norm[97] = norm[99] = 7.0
    found = assess(failure, WITH, 1, trace(moment=100, loss=[0.01] * 100 + [9.0] * 10, grad_norm=norm))
    assert found.wrong_at == 101
    assert found.leads[str(failure.signs[0])] == 1
    assert found.alarms[str(failure.signs[0])] == 1


def test_a_lead_is_told_against_the_losss_own_sign() -> None:
    failure, (dull, _, keen) = failure_of_a_few_steps(), LOSS_SIGNS

    def order(norm_at: int | None, loss_at: int, rival: Sign = dull, size: float = 0.03) -> str:
        loss, norm = [0.01] * 100 + [9.0] * 10, [1.0] * 110
        loss[loss_at - 1] = size
        if norm_at is not None:
            norm[norm_at - 1] = 7.0
        return lead_order(failure, assess(failure, WITH, 1, trace(loss=loss, grad_norm=norm)), rival)

    assert order(98, 99) == "ahead"
    assert order(98, 98) == "same step"
    assert order(99, 98) == "behind"
    assert order(None, 98) == "not seen"
    assert order(98, 96, dull, size=0.014) == "ahead", "too little for two medians"
    assert order(98, 96, keen, size=0.014) == "behind"


def test_a_sign_that_the_loss_shows_nothing_of_is_alone() -> None:
    failure = failure_of_a_few_steps()
    found = assess(failure, WITH, 1, trace(loss=[5.0] * 100 + [6.0] * 10, grad_norm=[1.0] * 95 + [7.0] * 15))
    assert found.leads == {str(failure.signs[0]): 5} | {str(sign): None for sign in LOSS_SIGNS}
    assert {lead_order(failure, found, sign) for sign in LOSS_SIGNS} == {"alone"}


def test_the_rival_is_the_keenest_loss_sign_that_is_as_quiet_as_the_leading_one() -> None:
    failure = failure_of_a_few_steps()

    def rival(norms: int, *losses: float) -> Sign:
        loss, norm = [0.01] * 110, [1.0] * 110
        norm[40 : 40 + norms] = [7.0] * norms
        loss[60 : 60 + len(losses)] = [0.01 * size for size in losses]
        return rival_sign(failure, [assess(failure, WITHOUT, 1, trace(loss=loss, grad_norm=norm))])

    assert rival(0) == LOSS_SIGNS[2]
    assert rival(2, 1.3, 1.3) == LOSS_SIGNS[2]
    assert rival(1, 1.3, 1.3) == LOSS_SIGNS[1]
    assert rival(1, 1.3, 1.6) == LOSS_SIGNS[1]
    assert rival(1, 1.6, 1.6) == LOSS_SIGNS[0]
    assert rival(0, 3.0) == LOSS_SIGNS[0], "none is as quiet"


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
        signs=(Sign("grad_norm", "above", 6.0), *LOSS_SIGNS),
        window=10,
        arms=(Arm("never flipped", settings={"faults": ()}),),
        search="none",
    )


@pytest.fixture
def short_catalogue(monkeypatch: pytest.MonkeyPatch) -> Failure:
    failure = failure_of_a_few_steps()
    monkeypatch.setattr(failures, "CATALOGUE", {failure.name: failure})
    monkeypatch.setattr(verification, "CATALOGUE", {failure.name: failure})
    monkeypatch.setattr(failure_table, "CATALOGUE", {failure.name: failure})
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
    written = tmp_path / short_catalogue.name / "without-5001.json"
    stale = json.loads(written.read_text()) | {"definition": "older", "final": 77.0}
    written.write_text(json.dumps(stale))
    assert run_one(short_catalogue.name, WITHOUT, 5001, str(tmp_path)).final < 77.0
    whole = json.loads(written.read_text())
    part = {name: value for name, value in whole.items() if name != "peak"}
    for damaged in ("{", "[]", "7", json.dumps(part), json.dumps(whole | {"more": 1}), json.dumps(whole | {"seed": 5})):
        written.write_text(damaged)
        assert run_one(short_catalogue.name, WITHOUT, 5001, str(tmp_path)).final < 77.0
        assert json.loads(written.read_text()) == whole


def test_a_result_counts_only_for_the_code_and_the_numbers_that_made_it() -> None:
    failure = failure_of_a_few_steps()
    arm = failure.arms[0]
    known = definition_hash(failure, arm)
    assert known == definition_hash(failure_of_a_few_steps(), arm)
    assert known == definition_hash(dataclasses.replace(failure, search="told in other words"), arm)
    for other in (
        dataclasses.replace(failure, judge=exceeds("loss", 5.5)),
        dataclasses.replace(failure, judge=both(exceeds("loss", 5.0), exceeds("loss", 5.0))),
        dataclasses.replace(failure, case=lambda seed: failure.case(seed)),
        dataclasses.replace(failure, window=11),
        dataclasses.replace(failure, signs=failure.signs[:1]),
        dataclasses.replace(failure, held_out=True),
    ):
        assert definition_hash(other, arm) != known
    assert definition_hash(failure, dataclasses.replace(arm, settings={"steps": 5})) != known
    assert definition_hash(failure, dataclasses.replace(arm, skip=1)) != known


def test_the_hash_covers_the_code_that_trains_and_judges_and_the_versions_below_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digest = code_digest()
    read = Path.read_text
    for module in ("training", "model", "data", "optimisation", "precision", "failure", "recipes", "config"):

        def changed(path: Path, *args: object, module: str = module, code: str = "CHANGED = 1") -> str:
            return read(path) + (f"\n{code}\n" if path.stem == module else "")

        monkeypatch.setattr(Path, "read_text", changed)
        assert code_digest.__wrapped__() != digest, module
    monkeypatch.setattr(Path, "read_text", lambda path: read(path) + "\n# a comment\n")
    assert code_digest.__wrapped__() == digest
    monkeypatch.setattr(np, "__version__", "0.1")
    assert code_digest.__wrapped__() != digest


def test_the_table_counts_and_judges(tmp_path: Path, short_catalogue: Failure) -> None:
    few = verify(seeds=2, folder=tmp_path, with_arms=False)
    assert status(short_catalogue, arm_rows(few)) == "not verified"
    many = few * 4
    rows = arm_rows(many)
    assert [(row.kind, row.wrong, row.seeds) for row in rows] == [("cause", 8, 8), ("control", 0, 8)]
    assert all(row.final == pytest.approx(3.7, abs=0.5) for row in rows if row.kind == "control")
    assert status(short_catalogue, rows) == "reproduced"
    assert len(sign_lines(short_catalogue, many)) == 4


def test_false_alarms_are_told_apart_by_the_run_they_were_seen_in() -> None:
    failure = failure_of_a_few_steps()
    well, wrong = [1.0] * 110, [0.01] * 100 + [9.0] * 10
    results = [
        assess(failure, arm, seed, trace(loss=loss, grad_norm=[1.0] * 30 + [7.0] * alarms + [1.0] * (80 - alarms)))
        for seed, (arm, loss, alarms) in enumerate([(WITH, wrong, 1), (WITH, well, 2), (WITHOUT, well, 3)])
    ]
    assert sign_lines(failure, results)[0] == (
        "grad_norm above 6: not seen in any of 1; 3 of 90 quiet steps of runs without the cause; "
        "2 of 90 quiet steps of runs with it that stayed well; 1 of 71 quiet steps of runs that went wrong"
    )
    assert failure_table.order_line(failure, results) == (
        "grad_norm above 6, told against loss above 1.25 medians of the last 100 steps, on 1 seeds: not seen in 1"
    )


def test_a_page_of_a_part_is_refused_and_the_page_before_stays(
    tmp_path: Path, short_catalogue: Failure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "SEEDS", 2)
    page, kept = tmp_path / "failures.md", ["--folder", str(tmp_path / "kept"), "--docs", str(tmp_path / "failures.md")]
    page.write_text("the page before")
    for part in (["--seeds", "1"], ["--quick", "--seeds", "2"]):
        refused = CliRunner().invoke(command_line, ["proxy", "failures", "verify", *part, *kept])
        assert refused.exit_code != 0
        assert "are not in" in str(refused.exception) + refused.output
        assert page.read_text() == "the page before"
    done = CliRunner().invoke(command_line, ["proxy", "failures", "verify", "--seeds", "2", *kept])
    assert done.exit_code == 0, done.output
    assert "| never flipped | contrast |" in page.read_text()
    assert "Signs, in the 10 steps up to the failure:" in page.read_text()
    again = CliRunner().invoke(command_line, ["proxy", "failures", "verify", "--quick", "--seeds", "1", *kept])
    assert again.exit_code == 0, "all the runs are there, whatever this call asks for"
    assert "| never flipped | contrast |" in page.read_text()


def test_the_page_has_a_row_and_a_section_for_each_failure() -> None:
    page = markdown([], "2.8")
    assert page.count("| not run | not run | not verified |") == 11
    assert all(f'id="{name}"' in page for name in failures.CATALOGUE)
    assert "*Quiet* steps are" in page
