"""Each value stands with the setting, the step or the loss that it belongs to, in the notations people use."""

from __future__ import annotations

import pytest

from replay_parsers.chronicles import general
from replay_parsers.records import Event, EventKind, Role

K = EventKind
MOVES = (K.RESTART, K.ROLLBACK, K.RESTART_FROM_SCRATCH)


def told(sentence: str) -> list[Event]:
    book = f"# Petrel\n\n## 2024-03-01 09:00\nQuiet.\n\n## 2024-03-02 09:00\n{sentence}\n\n## 2024-03-03\nQuiet.\n"
    return [event for event in general.parse(book.encode(), "b.md", "b").events if "told_by" not in event.detail]


@pytest.mark.parametrize(
    ("sentence", "changes"),
    [
        (
            "Cut weight decay to 0.02 (was 0.08) and doubled the save interval from 200 to 400 steps.",
            {("weight_decay", 0.08, 0.02), ("checkpoint_interval", 200, 400)},
        ),
        ("Lowered lr to 2e-5, wd to 0.03 (was 0.2).", {("learning_rate", None, 2e-5), ("weight_decay", 0.2, 0.03)}),
        ("batch size 从 768 增大到 1536", {("batch_size", 768, 1536)}),
        ("学习率由 4e-4 下调到 3e-4，clip 从 0.9 收紧到 0.7", {("learning_rate", 4e-4, 3e-4), ("grad_clip", 0.9, 0.7)}),
        ("Loosened the clip threshold from 0.2 to 0.6.", {("grad_clip", 0.2, 0.6)}),
        ("LR is down to 7e-5 (9e-5 before).", {("learning_rate", 9e-5, 7e-5)}),
        ("Learning rate decay starts, 8e-4 to 8e-5 by step 9,000.", {("learning_rate", 8e-4, 8e-5)}),
        ("z-loss coefficient 2e-3 → 5e-4", {("z_loss", 2e-3, 5e-4)}),
        ("Zero stage changed from 2 to 3.", {("zero_stage", 2, 3)}),
    ],
)
def test_values_stay_with_their_setting(sentence: str, changes: set[tuple[str, float | None, float]]) -> None:
    found = {(e.field, e.before, e.after) for e in told(sentence) if e.field and e.role is Role.INTERVENTION}
    assert found == changes
    assert [e.kind for e in told(sentence) if e.kind in MOVES] == []


@pytest.mark.parametrize(
    ("sentence", "factors"),
    [
        ("Halved the LR and doubled the batch size.", {("learning_rate", "0.5"), ("batch_size", "2")}),
        ("Dropped the LR to 70%.", {("learning_rate", "0.7")}),
    ],
)
def test_factors_stay_with_their_setting(sentence: str, factors: set[tuple[str, str]]) -> None:
    assert {(e.field, e.detail.get("factor")) for e in told(sentence) if e.field} == factors


@pytest.mark.parametrize(
    ("sentence", "field", "step"),
    [
        ("从 21000 步起 batch size 由 256 改为 512", "batch_size", 21000),
        ("LR 5e-4 → 4e-4 @ 62k", "learning_rate", 62000),
        ("LR from 5e-4 to 4e-4 starting now (step 62,100)", "learning_rate", 62100),
        ("Warmed up the learning rate again over 300 steps from step 7200.", "learning_rate", 7200),
    ],
)
def test_a_setting_that_holds_from_a_step_restarts_nothing(sentence: str, field: str, step: int) -> None:
    assert [(e.field, e.step) for e in told(sentence)] == [(field, step)]


@pytest.mark.parametrize(
    ("sentence", "kind", "step"),
    [
        ("Went back to 2.3k.", K.ROLLBACK, 2300),
        ("Restart at 41k5.", K.RESTART, 41500),
        ("Resumed @ 5600", K.RESTART, 5600),
        ("Restarted from 17_250 its after node 31 crashed.", K.RESTART, 17250),
        ("从 3.7 万步重启", K.RESTART, 37000),
        ("Restored the checkpoint of step 8,800.", K.RESTART, 8800),
        ("Picked up again from 9,450.", K.RESTART, 9450),
        ("Back to iteration 6100 with another seed.", K.ROLLBACK, 6100),
    ],
)
def test_where_training_went_on_from(sentence: str, kind: K, step: int) -> None:
    assert [(e.kind, e.step) for e in told(sentence) if e.kind in MOVES] == [(kind, step)]


def test_a_node_did_not_fail_at_the_step_that_was_gone_back_to() -> None:
    (failure,) = [e for e in told("Restarted from 17,250 after node n3107 died.") if e.role is Role.CAUSE]
    assert failure.step is None


@pytest.mark.parametrize(
    ("sentence", "first", "last"),
    [
        ("Batches 7,120 to 7,160 are skipped.", 7120, 7160),
        ("Batches [300, 350) were skipped.", 300, 349),
        ("Skipped batches (300, 350].", 301, 350),
        ("Dropped the data between steps 640 and 720.", 640, 720),
        ("skip_steps: 8100..8150", 8100, 8150),
        ("Excluded batches 90 through 99.", 90, 99),
    ],
)
def test_ranges_left_out(sentence: str, first: int, last: int) -> None:
    assert [(e.step, e.step_end) for e in told(sentence) if e.kind is K.SKIP_BATCHES] == [(first, last)]


@pytest.mark.parametrize(
    ("sentence", "lost_steps", "lost_hours"),
    [
        ("Restarted from 6400, throwing away 270 steps.", 270, None),
        ("Restarted from 6400; about 270 steps had to be redone.", 270, None),
        ("The job crashed. Lost 3h20m.", None, 3 + 1 / 3),
        ("从 6400 步重启，白跑了 270 步", 270, None),
    ],
)
def test_what_was_lost(sentence: str, lost_steps: float | None, lost_hours: float | None) -> None:
    steps = [e.lost_steps for e in told(sentence) if e.lost_steps is not None]
    lost = [e.lost_hours for e in told(sentence) if e.lost_hours is not None]
    assert steps == ([] if lost_steps is None else [lost_steps])
    assert lost == ([] if lost_hours is None else [pytest.approx(lost_hours)])


def test_a_warm_up_that_was_repeated_lost_nothing() -> None:
    assert [e.lost_steps for e in told("The warm-up was repeated over 250 steps.")] == [None]


@pytest.mark.parametrize(
    ("sentence", "kind", "step", "field", "before", "after"),
    [
        ("Grad norm went from 0.4 to 27.", K.GRAD_NORM_SPIKE, None, "grad_norm", 0.4, 27),
        ("Skipped batches 5-9 after a spike at 7,050.", K.LOSS_SPIKE, 7050, None, None, None),
        ("Diverged again, a bit later, at 6,240.", K.DIVERGENCE, 6240, None, None, None),
    ],
)
def test_what_was_seen_where(
    sentence: str, kind: K, step: int | None, field: str | None, before: float | None, after: float | None
) -> None:
    (seen,) = [e for e in told(sentence) if e.kind is kind]
    assert (seen.step, seen.field, seen.before, seen.after) == (step, field, before, after)


@pytest.mark.parametrize(
    "text",
    [
        "Started from step 0 with `--lr 2e-4`.",
        "Kicked off the run from scratch.",
        "开始训练\n\n从头开始训练，学习率 2e-4。",
        "Start of training",
    ],
)
def test_a_beginning_is_no_restart(text: str) -> None:
    kinds = [e.kind for e in told(text)]
    assert K.START in kinds
    assert not set(kinds) & set(MOVES)


def test_a_restart_from_the_beginning_is_one() -> None:
    assert [e.kind for e in told("Restarted from scratch.")] == [K.RESTART_FROM_SCRATCH]


def test_what_came_back_within_an_entry_is_no_recovery() -> None:
    (attempt,) = [
        event
        for event in general.parse(
            b"## Attempt 1\nDiverged at step 900.\n\n## Attempt 2\nLowered lr from 2e-4 to 1e-4.\n\n"
            b"## Attempt 3\nRolled back to 500 and halved the lr.\n\nDiverged again at 1,300.\n\n"
            b"## Attempt 4\nClip 1.0 -> 0.4. Smooth to 9k.\n",
            "b.md",
            "b",
        ).events
        if event.incident == "b/attempt-3" and event.role is Role.OUTCOME
    ]
    assert (attempt.kind, attempt.step) == (K.RECURRED, 1300)


@pytest.mark.parametrize(
    ("sentence", "kind", "step"),
    [
        ("Loss scale dropped from 32768 to 2 at 21,400.", K.LOSS_SCALE_DROP, 21400),
        ("Gradient norm shot up from 12 to 2600 @ 18,250.", K.GRAD_NORM_SPIKE, 18250),
        ("Grad norm spiked to 3300 at step 9,750.", K.GRAD_NORM_SPIKE, 9750),
        ("Loss spiked from 27,000 to 27,200.", K.LOSS_SPIKE, 27000),
        ("在 11,600 步梯度范数从 20 涨到 3700。", K.GRAD_NORM_SPIKE, 11600),
    ],
)
def test_the_values_of_a_quantity_are_no_steps(sentence: str, kind: K, step: int) -> None:
    assert [e.step for e in told(sentence) if e.kind is kind] == [step]


def test_steps_lost_are_counted_from_where_the_trouble_was() -> None:
    (back,) = [e for e in told("Loss scale fell from 16384 to 1 at 8,420. Rolled back to 8,000.") if e.kind in MOVES]
    assert (back.kind, back.step, back.before) == (K.ROLLBACK, 8000, 8420)
    assert back.text == "Training was put back to step 8000."


def test_a_rollback_from_one_step_to_another_names_both() -> None:
    (back,) = [e for e in told("Rolled back from 19,600 to 19,250.") if e.kind in MOVES]
    assert back.step == 19250


@pytest.mark.parametrize(
    ("sentence", "kind", "step"),
    [
        ("restarted @ 16:45, step 33,150", K.RESTART, 33150),
        ("Crashed at 02:20, step 33,150", K.CRASH, 33150),
        ("Loss spike around 7:08 UTC, step 33,150", K.LOSS_SPIKE, 33150),
        ("Loss spike at 7:08", K.LOSS_SPIKE, None),
        ("The loss spiked at 4 pm", K.LOSS_SPIKE, None),
        ("grad norm spike at 13:01", K.GRAD_NORM_SPIKE, None),
        ("LR 3e-4 -> 2e-4 @ 16:45, step 33,150", K.LR_CHANGE, 33150),
        ("Rolled back at 16:45 to 32,750", K.ROLLBACK, 32750),
        ("Resumed 16:45, step 33,150", K.RESTART, 33150),
    ],
)
def test_a_time_of_day_is_neither_step_nor_value(sentence: str, kind: K, step: int | None) -> None:
    (event,) = [e for e in told(sentence) if e.kind is kind]
    assert event.step == step
    assert kind is K.LR_CHANGE or (event.before, event.after) == (None, None)
    assert event.detail["quote"] == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "beta1 0.9→0.88, eps 1e-8→1e-7, weight decay 0.2→0.1 from step 7400",
        "From step 7400 on: beta1 0.9→0.88, eps 1e-8→1e-7, weight decay 0.2→0.1",
        "Starting at step 7400: beta1 0.9→0.88, eps 1e-8→1e-7, weight decay 0.2→0.1",
    ],
)
def test_a_step_told_once_dates_all_changes_of_a_list(sentence: str) -> None:
    changes = {(e.field, e.step) for e in told(sentence) if e.role is Role.INTERVENTION}
    assert changes == {("beta1", 7400), ("adam_eps", 7400), ("weight_decay", 7400)}


def test_changes_one_after_the_other_have_a_step_each() -> None:
    changes = {e.field: e.step for e in told("Clip 1.0→0.6, then weight decay 0.2→0.1 from step 7400")}
    assert changes == {"grad_clip": None, "weight_decay": 7400}


@pytest.mark.parametrize(
    "sentence",
    [
        "The process did not crash this time.",
        "There is no sign of a faulty node.",
    ],
)
def test_what_did_not_happen_is_not_told(sentence: str) -> None:
    assert [e.kind for e in told(sentence) if e.role in (Role.SYMPTOM, Role.CAUSE)] == []


@pytest.mark.parametrize(
    "sentence",
    ["The loss climbed slowly from 1.95 to 2.04 between 6000 and 8000.", "Loss gradually increased from 1.9 to 2.1."],
)
def test_a_slow_rise_is_no_spike(sentence: str) -> None:
    assert K.LOSS_SPIKE not in [e.kind for e in told(sentence)]
    assert K.LOSS_SPIKE in [e.kind for e in told("The loss climbed from 1.95 to 4.02 at step 6000.")]


def test_a_setting_that_holds_from_a_step_is_no_restart() -> None:
    (change,) = told("Starting from step 12,500 we use batch size 3072.")
    assert (change.kind, change.step, change.after) == (K.BATCH_SIZE_CHANGE, 12500, 3072)


def test_the_first_entry_starts_nothing_anew() -> None:
    book = "# Tern\n\n## 2024-07-01\n\nTrained from scratch with LR 3e-4.\n\n## 2024-07-04\n\n{}\n"
    again = "Diverged. Trained again from scratch."
    events = general.parse(book.format(again).encode(), "b.md", "b").events
    assert [(e.kind, e.step) for e in events if e.role is not Role.OUTCOME] == [
        (K.START, 0),
        (K.DIVERGENCE, None),
        (K.RESTART_FROM_SCRATCH, None),
    ]
