"""What a checkpoint says is checked before a run goes on from it: state, tensors, and the text that it learned from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from replay.proxy import ConfigError, DataConfig, ModelConfig, OptimizerConfig, PrecisionConfig, ProxyConfig, text
from replay.proxy.checkpoint import Checkpoint, CheckpointError
from replay.proxy.hope import Hope
from replay.proxy.training import Training

CONFIG = ProxyConfig(
    seed=4,
    model=ModelConfig(width=16, depth=1, heads=2),
    data=DataConfig(batch_size=4),
    optimizer=OptimizerConfig(skip_above=3.0),
    precision=PrecisionConfig(mode="fp16_gradients"),
)


HOPE = Hope(16).state_dict()


@pytest.fixture(scope="module")
def saved() -> Checkpoint:
    training = Training.start(CONFIG)
    for _ in range(5):
        training.advance()
    return training.snapshot()


def with_state(saved: Checkpoint, **changes: object) -> Checkpoint:
    return Checkpoint(saved.tensors, json.loads(json.dumps(saved.state | changes)))


def test_a_state_that_went_through_json_is_accepted(saved: Checkpoint) -> None:
    assert Training.restore(with_state(saved)).fingerprint() == Training.restore(saved).fingerprint()


@pytest.mark.parametrize("value", [None, True, -6, 1.5, "x", [], {}, 2**70, float("nan")])
@pytest.mark.parametrize("name", ["step", "data_offset", "schedule_start", "tokens", "samples", "updates"])
def test_a_count_that_is_none_is_told(saved: Checkpoint, name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=rf"the checkpoint's {name}: a whole number .* resume from another"):
        Training.restore(with_state(saved, **{name: value}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_offset": -6}, "data_offset: a whole number from -5"),
        ({"schedule_start": 6}, "schedule_start: a whole number from 0 to 5"),
        ({"skipped_steps": 3}, "skipped_steps: a list"),
        ({"skipped_steps": [0]}, "skipped_steps: a whole number from 1"),
        ({"norm_history": None}, "norm_history: a list"),
        ({"norm_history": [1.0] * 129}, "norm_history: a list of at most 128"),
        ({"norm_history": [float("nan")]}, "norm_history: a number"),
        ({"norm_history": ["x"]}, "norm_history: a number"),
        ({"scaler": [1]}, "scaler: a mapping"),
        ({"scaler": {"scale": 1.0}}, "scaler: a mapping of scale, growth_factor"),
        ({"hope": 1}, "hope: a mapping of last, steps"),
        ({"hope": {"last": []}}, "hope: a mapping of last, steps"),
        ({"hope": HOPE | {"last": [1.0] * 21}}, "hope.last: a list of at most 20"),
        ({"hope": HOPE | {"last": [float("nan")]}}, "hope.last: a finite number"),
        ({"hope": HOPE | {"last": [1]}}, "hope.last: a finite number"),
        ({"hope": HOPE | {"stuck": -1}}, "hope.stuck: a whole number from 0"),
        ({"hope": HOPE | {"learned_at": 2.5}}, "hope.learned_at: a whole number from 0"),
        ({"config": []}, "config: config: a mapping"),
        ({"config": {"model": {"width": -1}}}, "config: model.width"),
    ],
)
def test_a_state_that_no_run_has_is_told(saved: Checkpoint, changes: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        Training.restore(with_state(saved, **changes))


@pytest.mark.parametrize(("name", "value"), [("scale", [1]), ("scale", 2**70), ("_growth_tracker", -1)])
def test_a_loss_scaler_that_is_none_is_told(saved: Checkpoint, name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=f"scaler.{name}"):
        Training.restore(with_state(saved, scaler=saved.state["scaler"] | {name: value}))


@pytest.mark.parametrize("missing", ["config", "step", "skipped_steps", "norm_history", "scaler", "updates"])
def test_a_state_that_lacks_something_is_told(saved: Checkpoint, missing: str) -> None:
    state = {name: value for name, value in saved.state.items() if name != missing}
    with pytest.raises(CheckpointError, match=f"lacks '{missing}'"):
        Training.restore(Checkpoint(saved.tensors, state))


@pytest.mark.parametrize(
    ("name", "tensor", "found"),
    [
        ("second/final.head", torch.zeros(1), r"float32 \[1\] where its config makes float32 \[16, 16\]"),
        ("first/final.head", torch.zeros(16, 16, dtype=torch.int64), r"int64 \[16, 16\]"),
        ("model/final.head", torch.zeros(16, 17), r"float32 \[16, 17\]"),
        ("model/final.head", torch.zeros(16, 16, dtype=torch.bfloat16), r"bfloat16 \[16, 16\]"),
        ("model/final.tail", torch.zeros(16, 16), "has no place"),
    ],
)
def test_a_tensor_that_does_not_fit_is_not_made_to_fit(
    saved: Checkpoint, name: str, tensor: Tensor, found: str
) -> None:
    with pytest.raises(CheckpointError, match=f"tensor {name}.*{found}"):
        Training.restore(Checkpoint(saved.tensors | {name: tensor}, saved.state))


def test_moments_that_are_left_out_are_not_asked_for(saved: Checkpoint) -> None:
    weights = {name: tensor for name, tensor in saved.tensors.items() if name.startswith("model/")}
    with pytest.raises(CheckpointError, match="lacks 'first/"):
        Training.restore(Checkpoint(weights, saved.state))
    assert Training.restore(Checkpoint(weights, saved.state), without=["optimizer"]).step == 5


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    write_corpus(path, "the same text again and again. " * 40)
    return path


def write_corpus(path: Path, content: str) -> None:
    """Write a text as another process would find it: this one has nothing of it in memory."""
    path.write_text(content)
    text.corpus.cache_clear()
    text.corpus_digest.cache_clear()


def run_on(corpus: Path, folder: Path) -> Training:
    training = Training.start(CONFIG.replace(data__source="corpus", data__corpus=str(corpus), model__vocabulary=128))
    for _ in range(3):
        training.advance()
    training.save(folder)
    return training


def test_another_text_in_the_place_of_the_corpus_is_not_learned_from(corpus: Path, tmp_path: Path) -> None:
    run_on(corpus, tmp_path / "checkpoint")
    write_corpus(corpus, "quite another text, however often. " * 40)
    with pytest.raises(CheckpointError, match=r"text\.txt: not the text that this run learned from"):
        Training.resume(tmp_path / "checkpoint")
    assert Training.resume(tmp_path / "checkpoint", without=["data"]).advance()["loss"] > 0


def test_a_corpus_that_was_moved_is_found_where_it_is_said_to_be(corpus: Path, tmp_path: Path) -> None:
    training = run_on(corpus, tmp_path / "checkpoint")
    corpus.rename(tmp_path / "moved.txt")
    text.corpus.cache_clear()
    text.corpus_digest.cache_clear()
    with pytest.raises(ConfigError, match="No such file"):
        Training.resume(tmp_path / "checkpoint")
    resumed = Training.resume(tmp_path / "checkpoint", corpus=str(tmp_path / "moved.txt"))
    write_corpus(corpus, "the same text again and again. " * 40)
    assert resumed.advance() == training.advance()


def test_a_corpus_is_looked_for_even_where_the_path_cannot_be_one() -> None:
    training = Training.start(CONFIG.replace(data__source="corpus", data__corpus="a\0b", model__vocabulary=128))
    with pytest.raises(ConfigError, match="is no path of a file"):
        training.advance()
