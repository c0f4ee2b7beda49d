"""Tag names of every trainer find their signal, and look-alikes find none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import grows_with_its_size
from replay import signals

BY_FRAMEWORK = {
    "Megatron-LM event files": {
        "lm loss": "loss",
        "lm loss validation": "val_loss",
        "learning-rate": "learning_rate",
        "loss-scale": "loss_scale",
        "grad-norm": "grad_norm",
        "params-norm": "param_norm",
        "batch-size": "batch_size",
        "iteration-time": "step_time",
        "num-zeros": "num_zeros",
        "max_attention_logit": "attention_logit_max",
    },
    "Megatron-DeepSpeed event files": {
        "lm-loss-training/lm loss": "loss",
        "lm-loss-validation/lm loss validation": "val_loss",
        "learning-rate/learning-rate": "learning_rate",
        "loss-scale/loss-scale": "loss_scale",
        "grad-norm/grad-norm": "grad_norm",
        "iteration-time/iteration-time": "step_time",
        "iteration-time/samples per second": "throughput",
        "batch-size/batch-size": "batch_size",
    },
    "Megatron text logs": {
        "elapsed time per iteration (ms)": "step_time",
        "elapsed time per iteration (s)": "step_time",
        "global batch size": "batch_size",
        "number of skipped iterations": "skipped_batches",
        "number of nan iterations": "nan_batches",
        "consumed samples": "samples",
        "consumed tokens": "tokens",
        "samples per second": "throughput",
        "TFLOPs": "throughput",
        "throughput per GPU (TFLOP/s/GPU)": "throughput",
        "num zeros": "num_zeros",
        "z loss": "loss/z",
    },
    "GLM-130B": {
        "lm-loss-training/multitask loss": "loss/multitask",
        "lm-loss-training/gpt loss": "loss/gpt",
        "bert loss": "loss/bert",
    },
    "GPT-NeoX": {
        "train/lm_loss": "loss",
        "train/learning_rate": "learning_rate",
        "train/loss_scale": "loss_scale",
        "validation/lm_loss": "val_loss",
        "runtime/samples_per_sec": "throughput",
        "runtime/iteration_time": "step_time",
        "samples/sec": "throughput",
    },
    "DeepSpeed": {"lr": "learning_rate", "skipped": "skipped_batches_total", "CurrSamplesPerSec": "throughput"},
    "fairseq and metaseq": {
        "gnorm": "grad_norm",
        "wps": "throughput",
        "bsz": "batch_size",
        "train_inner/loss": "loss",
        "valid/loss": "val_loss",
        "actv_norm": "activation_norm",
    },
    "Hugging Face": {
        "loss": "loss",
        "train/loss": "loss",
        "eval_loss": "val_loss",
        "eval/loss": "val_loss",
        "eval_c4_loss": "val_loss/c4",
        "train/grad_norm": "grad_norm",
        "train/learning_rate": "learning_rate",
        "epoch": "epoch",
    },
    "Lightning": {
        "train_loss": "loss",
        "train_loss_step": "loss",
        "val_loss": "val_loss",
        "lr-Adam": "learning_rate",
        "lr-SGD": "learning_rate",
        "lr-AdamW": "learning_rate",
        "lr-AdamW/pg1": "learning_rate",
        "grad_2.0_norm_total": "grad_norm",
    },
    "torchtitan": {
        "loss_metrics/global_avg_loss": "loss",
        "validation_metrics/loss": "val_loss",
        "throughput(tps)": "throughput",
        "time_metrics/end_to_end(s)": "step_time",
        "n_tokens_seen": "tokens",
        "optim/learning_rate": "learning_rate",
    },
    "OLMo and OLMo-core": {
        "train/CrossEntropyLoss": "loss",
        "train/CE loss": "loss",
        "optim/total_grad_norm": "grad_norm",
        "optim/total grad norm": "grad_norm",
        "optim/LR (group 0)": "learning_rate",
        "optim/learning_rate_group0": "learning_rate",
        "optim/step skipped": "skipped_batches",
        "throughput/total_tokens": "tokens",
        "throughput/device/tokens_per_second": "throughput",
        "throughput/device/TPS": "throughput",
        "train/Z loss": "loss/z",
    },
    "NeMo": {
        "reduced_train_loss": "loss",
        "train_step_timing in s": "step_time",
        "gradient_norm": "grad_norm",
        "parameter_norm": "param_norm",
        "consumed_samples": "samples",
    },
    "nanotron": {
        "lm_loss": "loss",
        "consumed_tokens": "tokens",
        "tokens_per_sec_per_gpu": "throughput",
        "elapsed_time_per_iteration_ms": "step_time",
        "global_batch_size": "batch_size",
    },
    "nanoGPT": {"train/loss": "loss", "val/loss": "val_loss", "lr": "learning_rate", "mfu": "throughput"},
    "Composer": {
        "loss/train/total": "loss",
        "metrics/train/LanguageCrossEntropy": "loss",
        "l2_norm/grad/global": "grad_norm",
        "lr-DecoupledAdamW/group0": "learning_rate",
        "throughput/tokens_per_sec": "throughput",
    },
    "Levanter and MaxText": {
        "grad/norm/total": "grad_norm",
        "params/norm/total": "param_norm",
        "throughput/duration": "step_time",
        "learning/raw_grad_norm": "grad_norm",
        "learning/current_learning_rate": "learning_rate",
        "perf/step_time_seconds": "step_time",
    },
    "the proxy": {
        "train/loss": "loss",
        "train/grad_norm": "grad_norm",
        "train/attention_logit_max": "attention_logit_max",
        "train/embedding_grad_norm": "embedding_grad_norm",
        "train/update_rms": "update_rms",
    },
    "a plot exported from a web interface": {"earnest-sun-3 - train/loss": "loss"},
}


@pytest.mark.parametrize(
    ("tag", "signal"),
    [
        pytest.param(tag, signal, id=f"{name}: {tag}")
        for name, tags in BY_FRAMEWORK.items()
        for tag, signal in tags.items()
    ],
)
def test_tags_of_every_framework_find_their_signal(tag: str, signal: str) -> None:
    assert signals.signal_of(tag) == signal


@pytest.mark.parametrize(
    ("tag", "axis"),
    [
        ("lm-loss-training/lm loss vs samples", "samples"),
        ("lm-loss-training/lm loss vs tokens", "tokens"),
        ("lm loss vs samples", "samples"),
        ("lm_loss_vs_samples", "samples"),
        ("learning-rate/learning-rate vs tokens", "tokens"),
        ("steps-vs-tokens/y=steps,x=tokens", "tokens"),
        ("Train/Samples/train_loss", "samples"),
        ("epoch_loss", "epochs"),
    ],
)
def test_a_tag_plotted_against_something_else_is_no_signal(tag: str, axis: str) -> None:
    """GOTCHAS 7 and 24: `lm loss vs samples` is not a second run of losses at step 47,768,496."""
    assert signals.axis_of(tag) == axis
    assert signals.signal_of(tag) is None


@pytest.mark.parametrize(
    "tag",
    [
        "train/train_loss",
        "train_loss_epoch",
        "lm loss validation ppl",
        "loss_metrics/global_max_loss",
        "grad_norm/layers.3.mlp",
        "memory/max_active(%)",
        "hello",
        "",
        "///",
        " - ",
    ],
)
def test_what_only_looks_like_a_signal_is_none(tag: str) -> None:
    assert signals.signal_of(tag) is None


@pytest.mark.parametrize(
    "tag", ["loss-scale/loss-scale", "loss scale", "loss_scale", "train/loss_scale", "Loss Scaler"]
)
def test_a_loss_scale_is_no_loss(tag: str) -> None:
    """GOTCHAS 24."""
    assert signals.signal_of(tag) == "loss_scale"


@given(st.sampled_from([tag for tags in BY_FRAMEWORK.values() for tag in tags]))
def test_the_spelling_of_tensorboardx_finds_the_same_signal(tag: str) -> None:
    """GOTCHAS 6: tensorboardX replaces what is no letter, digit, `-`, `.` or `/` by `_`."""
    rewritten = "".join(character if character.isalnum() or character in "-./" else "_" for character in tag)
    if " - " not in tag:
        assert signals.signal_of(rewritten) == signals.signal_of(tag)


@given(st.text(max_size=300))
def test_any_text_is_answered(tag: str) -> None:
    signal = signals.signal_of(tag)
    assert signal is None or signals.builtin().knows(signal)


def test_of_several_tags_the_preferred_comes_first() -> None:
    tags = ["mfu(%)", "throughput(tps)", "loss", "lm loss", "lm loss vs samples"]
    assert signals.tags_for("loss", tags) == ["lm loss", "loss"]
    assert signals.tags_for("throughput", tags) == ["throughput(tps)", "mfu(%)"]
    assert signals.tags_for("grad_norm", tags) == []
    assert signals.best_tags(tags) == {"loss": "lm loss", "throughput": "throughput(tps)"}


def test_a_file_of_ones_own_goes_before_the_built_in_table(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "signals:\n"
        "  loss: {tags: [special/nats, train/train_loss]}\n"
        "  loss/*: {tags: ['cost of *']}\n"
        "not_signals: [lm loss]\n"
    )
    table = signals.load([own])
    assert table.signal_of("special/nats") == "loss"
    assert table.signal_of("cost of code") == "loss/code"
    assert table.tags_for("loss", ["train/loss", "special/nats"]) == ["special/nats", "train/loss"]
    assert table.signal_of("grad_norm") == "grad_norm"
    assert table.signal_of("train/train_loss") == "loss", "claimed by the user, whatever the built-in table says"
    assert table.signal_of("lm_loss") is None, "refused by the user, whatever the built-in table says"
    assert signals.signal_of("special/nats") is None, "the built-in table is untouched"


def test_every_fault_of_a_table_is_told_with_its_line(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "signals:\n"
        "  loss: [a]\n"
        "  grad_norm:\n"
        "    tags: ['a*b*c', 'fine', '--']\n"
        "    colour: red\n"
        "  '*/loss':\n"
        "    tags: [x]\n"
        "neutral: ['t*']\n"
        "signal: {}\n"
    )
    with pytest.raises(signals.SignalTableError) as caught:
        signals.load([own])
    faults = "\n".join(caught.value.faults)
    expected = [
        (2, "tags"),
        (4, "at most one"),
        (4, "no letter"),
        (5, "colour"),
        (6, "last component"),
        (8, "no `*`"),
        (9, "`signal`"),
    ]
    for line, word in expected:
        assert any(f"own.yaml:{line}:" in fault and word in fault for fault in caught.value.faults), faults


@pytest.mark.parametrize("content", [b"", b"- a\n", b"signals: [", b"\xff\xfe", b"signals: &a [*a]\n", b"[" * 5000])
def test_a_file_that_is_no_table_is_told_and_raises_nothing_else(tmp_path: Path, content: bytes) -> None:
    own = tmp_path / "own.yaml"
    own.write_bytes(content)
    with pytest.raises(signals.SignalTableError, match=r"own\.yaml:\d+: "):
        signals.load([own])


def test_no_pattern_and_no_tag_makes_matching_slow(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    pattern = "/".join(["a*a"] * 40)
    own.write_text(f'signals:\n  loss:\n    tags: ["{pattern}"]\n')
    table = signals.load([own])

    def matching(size: int) -> Callable[[], object]:
        tag = "/".join(["a" * size + "b"] * 40)
        return lambda: table.signal_of(tag)

    assert grows_with_its_size(matching, 5000)
    assert matching(5000)() is None


def test_a_tag_is_compared_only_with_patterns_of_as_many_components() -> None:
    """Runs with a hundred thousand tags are listed in seconds: each costs some dozen calls, not one a pattern."""
    signals.signal_of("warm up")
    calls = 0

    def count(_frame: object, what: str, _argument: object) -> None:
        nonlocal calls
        calls += what == "call"

    tags = [f"layers/{layer}/attention/dense/weight/grad_norm" for layer in range(100)]
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = [signals.signal_of(tag) for tag in tags]
    finally:
        sys.setprofile(before)
    assert found == [None] * 100
    assert calls / 100 < 70
