"""Interventions are named as their events, have their fields, and do what they say to a run."""

from __future__ import annotations

from typing import Any

import pytest

from replay.experiment.interventions import REENACTED, InterventionError, SkipBatches, from_fields
from replay.proxy import Ramp, failures
from replay.proxy.training import Training
from replay_parsers.kinds import KINDS, EventKind, Role

from .toy import toy_case


@pytest.fixture
def training() -> Training:
    return Training.start(toy_case(0).control)


EXAMPLES: list[tuple[str, dict[str, Any], str, float]] = [
    ("lr_change", {"factor": 0.5}, "schedule.factor", 0.5),
    ("lr_change", {"after": 1e-4}, "schedule.learning_rate", 1e-4),
    ("lr_rewarm", {"steps": 7}, "schedule.rewarm_steps", 7),
    ("grad_clip_change", {"after": 0.3}, "optimizer.grad_clip", 0.3),
    ("weight_decay_change", {"after": 0.1}, "optimizer.weight_decay", 0.1),
    ("optimizer_betas_change", {"field": "beta2", "after": 0.95}, "optimizer.beta2", 0.95),
    ("optimizer_betas_change", {"field": "beta1", "after": 0.97}, "optimizer.beta1", 0.97),
    ("update_clip_change", {"after": 1}, "optimizer.update_clip", 1.0),
    ("skip_step_rule", {"after": 6.0}, "optimizer.skip_above", 6.0),
    ("embedding_grad_scale_change", {"after": 0.1}, "model.embedding_grad_scale", 0.1),
    ("z_loss_change", {"after": 1e-4}, "model.z_loss", 1e-4),
    ("batch_size_change", {"after": 2}, "data.batch_size", 2),
]


@pytest.mark.parametrize(("kind", "fields", "setting", "value"), EXAMPLES)
def test_each_change_reaches_its_setting_and_the_run_goes_on(
    training: Training, kind: str, fields: dict[str, Any], setting: str, value: float
) -> None:
    training.advance()
    from_fields(kind, fields).apply(training)
    part, name = setting.split(".")
    assert getattr(getattr(training.config, part), name) == value
    assert training.advance()["loss"] > 0


def test_the_rule_against_odd_steps_knows_the_norms_of_before_it() -> None:
    training = Training.start(toy_case(0).control)
    while training.step < 130:
        training.advance()
    from_fields("skip_step_rule", {"after": 1e-6}).apply(training)
    assert training.advance()["skipped_steps"] == 1


def test_a_changed_embedding_gradient_takes_hold_where_a_ramp_is_the_cause() -> None:
    case = failures.get("embedding-gradient").case(5)
    training = Training.start(case.config.replace(model__embedding_grad_ramp=Ramp(before=0.1, after=1.0, start=1)))
    training.advance()
    from_fields("embedding_grad_scale_change", {"after": 0.1}).apply(training)
    training.advance()
    assert training.embedding_grad_scale == 0.1


def test_a_changed_batch_size_takes_hold_where_there_is_a_ramp() -> None:
    ramp = Ramp(before=4, after=8, start=1)
    training = Training.start(toy_case(0).control.replace(data__batch_ramp=ramp))
    assert training.advance()["batch_size"] == 8
    from_fields("batch_size_change", {"after": 2}).apply(training)
    assert training.advance()["batch_size"] == 2


def test_a_series_of_logged_learning_rates_is_re_enacted_as_logged(training: Training) -> None:
    while training.step < 5:
        training.advance()
    for fields, rate in (
        ({"factor": 0.5}, 5e-3),
        ({"after": 1e-3}, 1e-3),
        ({"factor": 0.5}, 5e-4),
        ({"after": 2e-3}, 2e-3),
    ):
        from_fields("lr_change", fields).apply(training)
        assert training.advance()["learning_rate"] == rate


def test_a_reset_forgets_the_moments(training: Training) -> None:
    training.advance()
    from_fields("optimizer_reset", {}).apply(training)
    assert training.optimizer.updates == 0
    assert all(not moment.any() for moment in training.optimizer.moments.values())


def test_waiting_changes_nothing(training: Training) -> None:
    before = training.fingerprint()
    from_fields("wait", {}).apply(training)
    assert training.fingerprint() == before


def test_each_has_the_name_of_its_kind_of_event() -> None:
    for kind, owner in REENACTED.items():
        assert owner.kind == kind
        assert owner.__name__ == "".join(part.capitalize() for part in kind.split("_"))
        assert KINDS[kind].role == Role.INTERVENTION
        assert KINDS[kind].proxy == ""


def test_the_kinds_that_a_logbook_most_needs_are_there() -> None:
    needed = (
        "rollback skip_batches lr_change grad_clip_change optimizer_betas_change weight_decay_change "
        "embedding_grad_scale_change optimizer_reset wait"
    )
    assert {EventKind(kind) for kind in needed.split()} <= set(REENACTED)


def test_batches_count_from_the_onset() -> None:
    assert SkipBatches(step=-2, step_end=1).batches(100) == range(98, 102)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("node_replacement", {}, "the proxy cannot re-enact node_replacement: the proxy runs on one machine"),
        ("loss_spike", {}, "loss_spike is no intervention but what is symptom"),
        ("qk_norm", {}, "qk_norm is not among what the proxy re-enacts: rollback, skip_batches"),
        ("pray", {}, "no intervention 'pray'; the proxy re-enacts rollback"),
        ("rollback", {}, "rollback: needs step"),
        ("rollback", {"step": -100, "checkpoint": "x"}, "rollback: no field 'checkpoint'; it has step"),
        ("rollback", {"step": 5}, "must lie before the onset"),
        ("rollback", {"step": -1.5}, "rollback.step must be a whole number, not -1.5"),
        ("rollback", {"step": True}, "rollback.step must be a whole number, not True"),
        ("skip_batches", {"step": 4, "step_end": 2}, "steps 4..2 are no range"),
        ("skip_batches", {"step": 1, "step_end": 2, "mode": "jump"}, "shift or advance, not 'jump'"),
        ("grad_clip_change", {"after": "low"}, "grad_clip_change.after must be a number, not 'low'"),
        ("lr_change", {}, "after or factor, one of the two"),
        ("lr_change", {"after": 1.0, "factor": 0.5}, "after or factor, one of the two"),
        ("optimizer_betas_change", {"field": "beta3", "after": 0.9}, "beta1 or beta2, not 'beta3'"),
        ("optimizer_betas_change", {"field": 2, "after": 0.9}, "field must be a word, not 2"),
        ("wait", {"steps": 3}, "wait: no field 'steps'; it has none"),
    ],
)
def test_what_cannot_be_done_is_told_with_the_reason(kind: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InterventionError) as caught:
        from_fields(kind, fields)
    assert message in str(caught.value)
