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
    ("The loss explodes at 35250 step", K.LOSS_EXPLOSION),
    ("loss 炸了", K.LOSS_EXPLOSION),
    ("Training diverged around iteration 9.1k", K.DIVERGENCE),
    ("it went in the wrong direction around iteration 5k", K.DIVERGENCE),
    ("训练不收敛", K.DIVERGENCE),
    ("loss went NaN at step 3650", K.NAN_LOSS),
    ("loss 出现 nan", K.NAN_LOSS),
    ("A huge lm loss spike", K.LOSS_SPIKE),
    ("lm loss jumped from 6.4 to 14", K.LOSS_SPIKE),
    ("loss 突增", K.LOSS_SPIKE),
    ("Gradient norm spiked to 14.2", K.GRAD_NORM_SPIKE),
    ("梯度范数飙升", K.GRAD_NORM_SPIKE),
    ("the loss-scale reduces drastically", K.LOSS_SCALE_DROP),
    ("loss scale hitting the minimum threshold", K.LOSS_SCALE_FLOOR),
    ("gradient overflow errors all week", K.OVERFLOW_SKIP),
    ("The loss decreases slowly", K.PLATEAU),
    ("training stagnated", K.PLATEAU),
    ("Throughput fell from 410 to 355 TFLOPs", K.THROUGHPUT_DROP),
    ("the job hung in the all-reduce", K.HANG),
    ("训练卡死", K.HANG),
    ("the process died", K.CRASH),
    ("Unexpected termination of the training", K.CRASH),
    ("activation norm started to drift", K.ACTIVATION_NORM_DRIFT),
    # what was found
    ("n30041 breaks down", K.NODE_FAILURE),
    ("two hosts went down", K.NODE_FAILURE),
    ("节点故障", K.NODE_FAILURE),
    ("one node reports missing GPUs", K.GPU_FAILURE),
    ("uncorrectable ECC error", K.GPU_FAILURE),
    ("n30039 掉卡", K.GPU_FAILURE),
    ("Unexpected NVLink Error", K.NETWORK_FAILURE),
    ("NCCL timeout", K.NETWORK_FAILURE),
    ("an error of the Lustre file system", K.STORAGE_FAILURE),
    ("no space left on device", K.STORAGE_FAILURE),
    ("OOM on rank 17", K.MEMORY_ERROR),
    ("too much noise in the Chinese data", K.DATA_DEFECT),
    ("the warm-up steps turned out to be wrong", K.CONFIG_BUG),
    ("there was a bug in the optimizer", K.SOFTWARE_BUG),
    ("the cluster was deleted accidentally", K.OPERATOR_ERROR),
    # what was done
    ("Training starts", K.START),
    ("Run launched", K.START),
    ("启动训练", K.START),
    ("training completed", K.END),
    ("planned maintenance of the cluster", K.MAINTENANCE),
    ("kicking it out", K.NODE_REPLACEMENT),
    ("swapped in a spare", K.NODE_REPLACEMENT),
    ("换了一台机器", K.NODE_REPLACEMENT),
    ("we print the multitask loss", K.MONITORING_CHANGE),
    ("switch to vanilla T0 training datasets", K.DATA_CHANGE),
    ("smooth the distribution shift", K.DATA_MIX_RAMP),
    ("with data reshuffle", K.DATA_RESHUFFLE),
    ("reset the optimizer states", K.OPTIMIZER_RESET),
    ("restarted from scratch", K.RESTART_FROM_SCRATCH),
    ("switched to vanilla SGD", K.OPTIMIZER_SWAP),
    ("switched to bf16", K.PRECISION_CHANGE),
    ("hot-swapped in ReLU", K.ACTIVATION_CHANGE),
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
    ("without a single nan", K.NAN_LOSS),
    ("no loss spikes since", K.LOSS_SPIKE),
    ("the loss scale did not drop", K.LOSS_SCALE_DROP),
    ("before the divergence", K.DIVERGENCE),
    ("the loss explodes", K.LOSS_SPIKE),
    ("the gradient norm spikes", K.LOSS_SPIKE),
    ("it might recover automatically", K.RECOVERED_BY_ITSELF),
    ("the loss-scale seems stable", K.RECOVERED),
    ("the loss scale drops at 5 steps", K.LOSS_SCALE_CHANGE),
    ("skip the noisy data", K.DATA_DEFECT),
    ("we have had 40+ restarts", K.RESTART),
    ("after restart the loss is higher", K.RESTART),
    ("only need 1 minute to load the checkpoint now", K.RESTART),
    ("the learning rate may be too large", K.LR_CHANGE),
    ("学习率没有调整", K.LR_CHANGE),
    ("升级了一下 lr 的逻辑", K.LR_CHANGE),
    ("推测应该可以恢复", K.RESTART),
    ("工程师无法修复", K.CODE_FIX),
    ("NVLink error on a node", K.NODE_FAILURE),
]


@pytest.mark.parametrize(("sentence", "kind"), NOT_SAID, ids=[sentence for sentence, _ in NOT_SAID])
def test_a_sentence_does_not_say(sentence: str, kind: K) -> None:
    assert kind not in {draft.kind for draft in read(sentence)}


CHANGES = [
    ("reducing minimum lr from 8e-6 to 4e-6", "min_learning_rate", 8e-6, 4e-6),
    ("shrink embedding gradient 1 → 0.5", "embedding_grad_scale", 1, 0.5),
    ("changing saving interval to 100 steps (originally 500 steps, too long)", "checkpoint_interval", 500, 100),
    ("Lowered the learning rate from 1.5e-4 to 1.2e-4", "learning_rate", 1.5e-4, 1.2e-4),
    ("dropped the learning rate to 5e-5 from 6e-5", "learning_rate", 6e-5, 5e-5),
    ("beta2 从 0.999 改为 0.95", "beta2", 0.999, 0.95),
    ("梯度裁剪由 1.0 改成 0.5", "grad_clip", 1, 0.5),
    ("保存间隔从 1000 步改为 500 步", "checkpoint_interval", 1000, 500),
    ("weight decay 0.1 -> 0.05", "weight_decay", 0.1, 0.05),
    ("clip grad to 0.5", "grad_clip", None, 0.5),
    ("New seed `43`.", "seed", None, 43),
    ("set beta1 to 0", "beta1", None, 0),
    ("Switched from MBS=1 to MBS=2 at GBS=784", "micro_batch_size", 1, 2),
    ("Switched to `SAVE_INTERVAL=100`", "checkpoint_interval", None, 100),
    ("switched from 48 to 24 nodes", "nodes", 48, 24),
    ("Increased batch size from 1024 to 2048 sequences at step 14000", "batch_size", 1024, 2048),
    ("`--clip-grad 1.0` -> `--clip-grad 0.3`", "grad_clip", 1, 0.3),
    ("it was configured to run eval for 100 iterations, later reduced it to 5", "evaluation_steps", 100, 5),
    (
        "it remained `20480` when `FFN_HIDDEN_SIZE` should have become `65536`; fixed the setup",
        "feed_forward_size",
        20480,
        65536,
    ),
    ("upgraded Megatron to 2.6 (from 2.4)", "version", 2.4, 2.6),
]


@pytest.mark.parametrize(("sentence", "field", "before", "after"), CHANGES, ids=[change[0] for change in CHANGES])
def test_a_change_has_its_values(sentence: str, field: str, before: float | None, after: float) -> None:
    assert (field, before, after) in {(draft.field, draft.before, draft.after) for draft in read(sentence)}


@pytest.mark.parametrize(
    ("sentence", "detail"),
    [
        ("we half the learning rate", {"factor": "0.5"}),
        ("学习率砍半", {"factor": "0.5"}),
        ("lowered our learning rate by 10%", {"factor": "0.9"}),
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
        (d.before, d.after) for d in read("we lowered clipping first to 1.5, and then to 1.0") if d.field == "grad_clip"
    ]
    assert told == [(None, 1.5), (1.5, 1.0)]


MOVES = [
    ("restart from 4000 step", K.RESTART, 4000),
    ("Restaring from 33600 step", K.RESTART, 33600),
    ("resumed from checkpoint step_11500", K.RESTART, 11500),
    ("Requeued from iteration 6,000.", K.RESTART, 6000),
    ("从第 2400 步重启", K.RESTART, 2400),
    ("23100 开始恢复", K.RESTART, 23100),
    ("48100 从原先配置开始训练", K.RESTART, 48100),
    ("last good checkpoint before restart with the sync: global_step20448", K.RESTART, 20448),
    ("from 26000 step, we half the learning rate", K.RESTART, 26000),
    ("Rolled back to step 3500", K.ROLLBACK, 3500),
    ("rolled back from 4100 to 4000", K.ROLLBACK, 4000),
    ("回滚到 9000 步", K.ROLLBACK, 9000),
    ("going to switch to a recent `global_step12000` checkpoint", K.ROLLBACK, 12000),
    ("Went back to checkpoint 9000", K.ROLLBACK, 9000),
]


@pytest.mark.parametrize(("sentence", "kind", "step"), MOVES, ids=[move[0] for move in MOVES])
def test_training_goes_on_from(sentence: str, kind: K, step: int) -> None:
    assert (kind, step) in {(draft.kind, draft.step) for draft in read(sentence)}


def test_what_was_rolled_back_may_be_a_number_of_steps_or_an_unnamed_checkpoint() -> None:
    (by,) = [draft for draft in read("we rolled back 100 steps") if draft.kind is K.ROLLBACK]
    assert (by.step, by.lost_steps) == (None, 100)
    (earlier,) = [
        draft for draft in read("We restarted from previous checkpoints a couple of times") if draft.kind is K.ROLLBACK
    ]
    assert earlier.detail["checkpoint"] == "previous checkpoints"


@pytest.mark.parametrize(
    ("sentence", "first", "last", "detail"),
    [
        ("skipping the noisy data in 40701-40900 steps", 40701, 40900, {}),
        (
            "`--skip-train-iteration-range 40701-40900`",
            40701,
            40900,
            {"flag": "--skip-train-iteration-range 40701-40900"},
        ),
        ("Rollback to 13250 and skip data till 14k", 13251, 14000, {}),
        ("跳过 9001-9150 的数据", 9001, 9150, {}),
        ("skipped 200 batches", None, None, {"batches": "200"}),
    ],
)
def test_batches_are_left_out(sentence: str, first: int | None, last: int | None, detail: dict[str, str]) -> None:
    (skip,) = [draft for draft in read(sentence) if draft.kind is K.SKIP_BATCHES]
    assert (skip.step, skip.step_end, dict(skip.detail)) == (first, last, detail)


def test_several_ranges_of_one_option_are_several_events() -> None:
    told = [(d.step, d.step_end) for d in read("`--skip-train-iteration-range 13251-14000 16652-18500`")]
    assert told == [(13251, 14000), (16652, 18500)]


def test_what_is_seen_has_its_values_and_its_step() -> None:
    (spike,) = [d for d in read("Loss spike at step 41,230 (2.31 -> 4.9)") if d.kind is K.LOSS_SPIKE]
    assert (spike.step, spike.field, spike.before, spike.after) == (41230, "loss", 2.31, 4.9)
    (drop,) = [d for d in read("Throughput fell from 410 to 355 TFLOPs") if d.kind is K.THROUGHPUT_DROP]
    assert (drop.field, drop.before, drop.after, drop.unit) == ("throughput", 410, 355, "TFLOPS")


def test_a_step_that_is_only_compared_with_is_not_where_it_happened() -> None:
    (seen,) = [d for d in read("At 35250 step, the loss explodes again; almost the same as in 33700 step") if d.step]
    assert seen.step == 35250


def test_hours_lost_are_attached_to_what_cost_them() -> None:
    (crash,) = [d for d in read("The job crashed, we lost 7.3h of work") if d.lost_hours]
    assert crash.lost_hours == 7.3
    assert not [d for d in read("we lose at most 3 hours of training") if d.lost_hours]


MUSINGS = [
    "Perhaps we should lower beta2 to 0.95",
    "I would suggest going back to a checkpoint before 4.7K steps",
    "if it doesn't work, rerun from scratch with beta2=0.95",
    "Initially the plan was to restart from step 6900",
    "We are using beta2=0.999, while others used 0.95",
]


@pytest.mark.parametrize("sentence", MUSINGS)
def test_in_books_that_discuss_much_plans_and_advice_are_no_events(sentence: str) -> None:
    done = [draft for draft in read(sentence, careful=True) if draft.role == "intervention" or draft.kind is K.RESTART]
    assert not done


def test_every_draft_says_where_it_was_read() -> None:
    (draft,) = read_sentence("节点故障", line=7, heading=True)
    assert (draft.line, draft.quote, draft.heading) == (7, "节点故障", True)
