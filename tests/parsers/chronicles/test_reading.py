"""What sentences say: each line is a sentence as a logbook might have it, and what must be read from it.

A word is added to the tables in `replay_parsers/chronicles/words` together with a sentence here.
"""

from __future__ import annotations

import pytest

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.reading import read_sentence
from replay_parsers.records import EventKind

K = EventKind


def read(sentence: str, *, careful: bool = False) -> list[Draft]:
    return read_sentence(sentence, line=1, careful=careful)


SAID = [
    # what was seen
    ("At 7250 step the loss explodes", K.LOSS_EXPLOSION),
    ("今天 loss 炸了", K.LOSS_EXPLOSION),
    ("Training diverged around iteration 9.1k", K.DIVERGENCE),
    ("the curve went in the wrong direction", K.DIVERGENCE),
    ("训练不收敛", K.DIVERGENCE),
    ("loss went NaN at step 3650", K.NAN_LOSS),
    ("loss 出现 nan", K.NAN_LOSS),
    ("A big loss spike", K.LOSS_SPIKE),
    ("the loss jumped from 2.4 to 7", K.LOSS_SPIKE),
    ("loss 突增", K.LOSS_SPIKE),
    ("Gradient norm spiked to 14.2", K.GRAD_NORM_SPIKE),
    ("梯度范数飙升", K.GRAD_NORM_SPIKE),
    ("the loss scale collapsed", K.LOSS_SCALE_DROP),
    ("the loss scale is at its minimum", K.LOSS_SCALE_FLOOR),
    ("a gradient overflow in every step", K.OVERFLOW_SKIP),
    ("The loss decreases too slowly", K.PLATEAU),
    ("training stagnated", K.PLATEAU),
    ("Throughput fell from 410 to 355 TFLOPs", K.THROUGHPUT_DROP),
    ("the job hung in the all-reduce", K.HANG),
    ("训练卡死", K.HANG),
    ("the process died", K.CRASH),
    ("the job ended unexpectedly, killed by the system", K.CRASH),
    ("activation norm started to drift", K.ACTIVATION_NORM_DRIFT),
    # what was found
    ("gpu0815 breaks down", K.NODE_FAILURE),
    ("two hosts went down", K.NODE_FAILURE),
    ("节点故障", K.NODE_FAILURE),
    ("node 7 has missing GPUs", K.GPU_FAILURE),
    ("uncorrectable ECC error", K.GPU_FAILURE),
    ("node-12 掉卡", K.GPU_FAILURE),
    ("NVLink error in rack 4", K.NETWORK_FAILURE),
    ("NCCL timeout", K.NETWORK_FAILURE),
    ("a fault of the file system", K.STORAGE_FAILURE),
    ("no space left on device", K.STORAGE_FAILURE),
    ("OOM on rank 17", K.MEMORY_ERROR),
    ("noise in the new data", K.DATA_DEFECT),
    ("the warm-up steps turned out to be wrong", K.CONFIG_BUG),
    ("there was a bug in the optimizer", K.SOFTWARE_BUG),
    ("the cluster was deleted accidentally", K.OPERATOR_ERROR),
    # what was done
    ("Training starts", K.START),
    ("Run launched", K.START),
    ("启动训练", K.START),
    ("training completed", K.END),
    ("planned maintenance of the cluster", K.MAINTENANCE),
    ("kicked the node out", K.NODE_REPLACEMENT),
    ("swapped in a spare", K.NODE_REPLACEMENT),
    ("换了一台机器", K.NODE_REPLACEMENT),
    ("we now log the validation loss", K.MONITORING_CHANGE),
    ("switched to the older datasets", K.DATA_CHANGE),
    ("smoothed the change of the data mix", K.DATA_MIX_RAMP),
    ("reshuffled the data", K.DATA_RESHUFFLE),
    ("reset the optimizer states", K.OPTIMIZER_RESET),
    ("restarted from scratch", K.RESTART_FROM_SCRATCH),
    ("switched to SGD", K.OPTIMIZER_SWAP),
    ("switched to bf16", K.PRECISION_CHANGE),
    ("switched GELU to ReLU", K.ACTIVATION_CHANGE),
    ("added QK-norm", K.QK_NORM),
    ("No action taken", K.WAIT),
    # what came of it
    ("(abolished)", K.ABANDONED),
    ("废除", K.ABANDONED),
    ("nothing changes", K.UNAFFECTED),
    ("it recovered on its own", K.RECOVERED_BY_ITSELF),
    ("back to normal", K.RECOVERED),
    ("the same problem happened again", K.RECURRED),
]


@pytest.mark.parametrize(("sentence", "kind"), SAID, ids=[sentence for sentence, _ in SAID])
def test_a_sentence_says(sentence: str, kind: K) -> None:
    assert kind in {draft.kind for draft in read(sentence)}


NOT_SAID = [
    ("without a single nan so far", K.NAN_LOSS),
    ("no loss spikes since", K.LOSS_SPIKE),
    ("the loss scale did not drop", K.LOSS_SCALE_DROP),
    ("before the divergence", K.DIVERGENCE),
    ("the loss explodes", K.LOSS_SPIKE),
    ("the gradient norm spikes", K.LOSS_SPIKE),
    ("this might recover by itself", K.RECOVERED_BY_ITSELF),
    ("the loss scale is stable", K.RECOVERED),
    ("the loss scale drops at 5 steps", K.LOSS_SCALE_CHANGE),
    ("skipped the noisy batches", K.DATA_DEFECT),
    ("there were 12 restarts", K.RESTART),
    ("after restart the loss is higher", K.RESTART),
    ("it takes a minute to load the checkpoint", K.RESTART),
    ("the learning rate may be too large", K.LR_CHANGE),
    ("学习率没有调整", K.LR_CHANGE),
    ("升级 lr 的实现", K.LR_CHANGE),
    ("应该可以恢复", K.RESTART),
    ("暂时无法修复", K.CODE_FIX),
    ("NVLink errors on one node", K.NODE_FAILURE),
]


@pytest.mark.parametrize(("sentence", "kind"), NOT_SAID, ids=[sentence for sentence, _ in NOT_SAID])
def test_a_sentence_does_not_say(sentence: str, kind: K) -> None:
    assert kind not in {draft.kind for draft in read(sentence)}


CHANGES = [
    ("reduced the minimum lr from 9e-6 to 3e-6", "min_learning_rate", 9e-6, 3e-6),
    ("embedding gradient shrink 0.8 → 0.4", "embedding_grad_scale", 0.8, 0.4),
    ("changed the saving interval to 200 steps (originally 800 steps)", "checkpoint_interval", 800, 200),
    ("Lowered the learning rate from 1.5e-4 to 1.2e-4", "learning_rate", 1.5e-4, 1.2e-4),
    ("dropped the learning rate to 5e-5 from 6e-5", "learning_rate", 6e-5, 5e-5),
    ("beta2 从 0.999 改为 0.95", "beta2", 0.999, 0.95),
    ("梯度裁剪由 1.0 改成 0.5", "grad_clip", 1, 0.5),
    ("保存间隔从 1000 步改为 500 步", "checkpoint_interval", 1000, 500),
    ("weight decay 0.1 -> 0.05", "weight_decay", 0.1, 0.05),
    ("clip grad to 0.5", "grad_clip", None, 0.5),
    ("Used a new seed `7`.", "seed", None, 7),
    ("set beta1 to 0", "beta1", None, 0),
    ("Moved from MBS=2 to MBS=4 at GBS=96", "micro_batch_size", 2, 4),
    ("Set to `SAVE_INTERVAL=150`", "checkpoint_interval", None, 150),
    ("scaled from 12 to 16 nodes", "nodes", 12, 16),
    ("Increased batch size from 1024 to 2048 sequences at step 14000", "batch_size", 1024, 2048),
    ("`--clip-grad 1.0` -> `--clip-grad 0.3`", "grad_clip", 1, 0.3),
    ("it was set to eval for 40 batches, then we reduced it to 8", "evaluation_steps", 40, 8),
    (
        "it remained `20480` when `FFN_HIDDEN_SIZE` should have become `65536`; fixed the setup",
        "feed_forward_size",
        20480,
        65536,
    ),
    ("upgraded PyTorch to 2.2 (from 2.1)", "version", 2.1, 2.2),
]


@pytest.mark.parametrize(("sentence", "field", "before", "after"), CHANGES, ids=[change[0] for change in CHANGES])
def test_a_change_has_its_values(sentence: str, field: str, before: float | None, after: float) -> None:
    assert (field, before, after) in {(draft.field, draft.before, draft.after) for draft in read(sentence)}


@pytest.mark.parametrize(
    ("sentence", "detail"),
    [
        ("we halved the learning rate", {"factor": "0.5"}),
        ("学习率砍半", {"factor": "0.5"}),
        ("lowered the learning rate by 10%", {"factor": "0.9"}),
        ("decayed LR by 20%", {"factor": "0.8"}),
        ("doubled the learning rate", {"factor": "2"}),
        ("reduced the learning rate by a factor of 4", {"factor": "0.25"}),
        ("lowering the LR again", {"direction": "down"}),
    ],
)
def test_a_relative_change_has_its_factor_or_direction(sentence: str, detail: dict[str, str]) -> None:
    (change,) = [draft for draft in read(sentence) if draft.kind is K.LR_CHANGE]
    assert dict(change.detail) == detail


def test_two_steps_of_one_change_are_two_changes() -> None:
    told = [
        (d.before, d.after) for d in read("the clipping went first to 0.9, and then to 0.6") if d.field == "grad_clip"
    ]
    assert told == [(None, 0.9), (0.9, 0.6)]


MOVES = [
    ("restart from 4000 step", K.RESTART, 4000),
    ("Restaring from 1600 step", K.RESTART, 1600),
    ("resumed from checkpoint step_11500", K.RESTART, 11500),
    ("Requeued from iteration 6,000.", K.RESTART, 6000),
    ("从第 2400 步重启", K.RESTART, 2400),
    ("8100 开始恢复", K.RESTART, 8100),
    ("8200 从新的配置开始训练", K.RESTART, 8200),
    ("last checkpoint before the restart: global_step448", K.RESTART, 448),
    ("from 600 step on we halved the learning rate", K.RESTART, 600),
    ("Rolled back to step 3500", K.ROLLBACK, 3500),
    ("rolled back from 4100 to 4000", K.ROLLBACK, 4000),
    ("回滚到 9000 步", K.ROLLBACK, 9000),
    ("so we return to the `global_step700` checkpoint", K.ROLLBACK, 700),
    ("Went back to checkpoint 9000", K.ROLLBACK, 9000),
]


@pytest.mark.parametrize(("sentence", "kind", "step"), MOVES, ids=[move[0] for move in MOVES])
def test_training_goes_on_from(sentence: str, kind: K, step: int) -> None:
    assert (kind, step) in {(draft.kind, draft.step) for draft in read(sentence)}


def test_what_was_rolled_back_may_be_a_number_of_steps_or_an_unnamed_checkpoint() -> None:
    (by,) = [draft for draft in read("we rolled back 90 steps") if draft.kind is K.ROLLBACK]
    assert (by.step, by.lost_steps) == (None, 90)
    (earlier,) = [draft for draft in read("Resumed from previous checkpoints twice") if draft.kind is K.ROLLBACK]
    assert earlier.detail["checkpoint"] == "previous checkpoints"


@pytest.mark.parametrize(
    ("sentence", "first", "last", "detail"),
    [
        ("skipping the data of 701-900 steps", 701, 900, {}),
        (
            "`--skip-train-iteration-range 40701-40900`",
            40701,
            40900,
            {"flag": "--skip-train-iteration-range 40701-40900"},
        ),
        ("Rollback to 3250 and skip data till 4k", 3251, 4000, {}),
        ("跳过 9001-9150 的数据", 9001, 9150, {}),
        ("skipped 200 batches", None, None, {"batches": "200"}),
    ],
)
def test_batches_are_left_out(sentence: str, first: int | None, last: int | None, detail: dict[str, str]) -> None:
    (skip,) = [draft for draft in read(sentence) if draft.kind is K.SKIP_BATCHES]
    assert (skip.step, skip.step_end, dict(skip.detail)) == (first, last, detail)


def test_several_ranges_of_one_option_are_several_events() -> None:
    told = [(d.step, d.step_end) for d in read("`--skip-train-iteration-range 11-14 16-18`")]
    assert told == [(11, 14), (16, 18)]


def test_what_is_seen_has_its_values_and_its_step() -> None:
    (spike,) = [d for d in read("Loss spike at step 41,230 (2.31 -> 4.9)") if d.kind is K.LOSS_SPIKE]
    assert (spike.step, spike.field, spike.before, spike.after) == (41230, "loss", 2.31, 4.9)
    (drop,) = [d for d in read("Throughput fell from 410 to 355 TFLOPs") if d.kind is K.THROUGHPUT_DROP]
    assert (drop.field, drop.before, drop.after, drop.unit) == ("throughput", 410, 355, "TFLOPS")


def test_a_step_that_is_only_compared_with_is_not_where_it_happened() -> None:
    (seen,) = [d for d in read("At 5250 step the loss explodes, same as in 3700 step") if d.step]
    assert seen.step == 5250


def test_hours_lost_are_attached_to_what_cost_them() -> None:
    (crash,) = [d for d in read("The job crashed, we lost 3.5h of work") if d.lost_hours]
    assert crash.lost_hours == 3.5
    assert not [d for d in read("we can lose at most 2 hours of training") if d.lost_hours]


MUSINGS = [
    "Perhaps we should lower beta2 to 0.9",
    "I would suggest going back to step 100",
    "if that fails, start again from scratch",
    "The plan was to restart from step 90",
    "We use beta2=0.999, others have 0.9",
]


@pytest.mark.parametrize("sentence", MUSINGS)
def test_in_books_that_discuss_much_plans_and_advice_are_no_events(sentence: str) -> None:
    done = [draft for draft in read(sentence, careful=True) if draft.role == "intervention" or draft.kind is K.RESTART]
    assert not done


def test_every_draft_says_where_it_was_read() -> None:
    (draft,) = read_sentence("节点故障", line=7, heading=True)
    assert (draft.line, draft.quote, draft.heading) == (7, "节点故障", True)
