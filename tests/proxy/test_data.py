"""Batches are functions of seed and number; sources have the entropy that they claim; defects come on order."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from replay.proxy import ConfigError, DataConfig, Defect, ModelConfig, ProxyConfig, Ramp
from replay.proxy.data import Batch, Tokens, entropy_floor, held_out_batch, training_batch
from replay.proxy.text import zipf_source

CONFIG = ProxyConfig(seed=5)


def test_a_batch_depends_on_seed_and_number_alone() -> None:
    first = training_batch(CONFIG, 7)
    training_batch(CONFIG, 8)
    assert np.array_equal(training_batch(CONFIG, 7).inputs, first.inputs)
    assert not np.array_equal(training_batch(CONFIG, 8).inputs, first.inputs)
    assert not np.array_equal(training_batch(CONFIG.replace(seed=6), 7).inputs, first.inputs)
    assert not np.array_equal(held_out_batch(CONFIG, 7, 32).inputs, first.inputs)


def test_the_copy_task_repeats_its_first_half_and_counts_the_second() -> None:
    batch = training_batch(CONFIG, 0)
    assert batch.inputs.shape == batch.targets.shape == batch.weights.shape == (32, 16)
    assert np.array_equal(batch.inputs[:, :8], batch.inputs[:, 8:])
    assert np.array_equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert batch.weights[0].tolist() == [0] * 7 + [1] * 8 + [0]
    assert batch.tokens == 32 * 8


def test_the_reverse_task_is_marked() -> None:
    inputs = training_batch(CONFIG.replace(data__source="reverse"), 0).inputs
    assert np.array_equal(inputs[:, :8], inputs[:, 15:7:-1])
    assert (inputs[:, 0] == 15).all()


def test_a_ramp_of_the_batch_size_takes_the_first_sequences_of_the_whole_batch() -> None:
    ramped = CONFIG.replace(data__batch_ramp=Ramp(before=8, after=32, start=10, length=10))
    assert [len(training_batch(ramped, k).inputs) for k in (9, 15, 20)] == [8, 20, 32]
    assert np.array_equal(training_batch(ramped, 9).inputs, training_batch(CONFIG, 9).inputs[:8])


def test_a_second_source_comes_with_its_share() -> None:
    mixed = CONFIG.replace(data__second_source="reverse", data__second_ramp=Ramp(before=0, after=0.5, start=10))
    assert not training_batch(mixed, 9).second.any()
    batch = training_batch(mixed, 10)
    assert batch.second.tolist() == [False] * 16 + [True] * 16
    assert np.array_equal(batch.inputs[:16], training_batch(CONFIG, 10).inputs[:16])
    assert (batch.inputs[16:, 0] == 15).all()


@pytest.mark.parametrize("kind", ["random", "repeated", "rare", "permuted", "duplicated", "mojibake"])
def test_a_defect_spoils_its_share_of_its_batches_and_nothing_else(kind: str) -> None:
    defect = Defect(kind=kind, first=3, last=4, share=0.5)  # type: ignore[arg-type]
    spoilt = CONFIG.replace(data__defects=(defect,))
    for index in (2, 5):
        assert np.array_equal(training_batch(spoilt, index).inputs, training_batch(CONFIG, index).inputs)
    bad, good = training_batch(spoilt, 3).inputs, training_batch(CONFIG, 3).inputs
    assert np.array_equal(bad[16:], good[16:])
    assert not np.array_equal(bad[:16], good[:16])
    assert bad.min() >= 0
    assert bad.max() < 16
    looks = {
        # All 16 tokens, each about as often as any other, and no longer a copy.
        "random": bool(np.unique(bad[:16]).size == 16 and (bad[:16, :8] == bad[:16, 8:16]).mean() < 0.2),
        # Even positions as they were; at the odd ones another letter for each, always the same.
        "permuted": bool((bad[:16, ::2] == good[:16, ::2]).all() and is_a_permutation(good[:16, 1::2], bad[:16, 1::2])),
        "repeated": bool((bad[:16] == bad[:16, :1]).all()),
        "rare": bool((bad[:16] == 15).all()),
        "duplicated": bool((bad[:16] == bad[:1]).all()),
        "mojibake": bool((bad[:16] < 4).all()),
    }
    assert looks[kind]


def is_a_permutation(before: Tokens, after: Tokens) -> bool:
    pairs = set(zip(before.ravel().tolist(), after.ravel().tolist(), strict=True))
    return len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs}) > 10


def test_the_word_source_has_the_entropy_rate_it_claims() -> None:
    source = zipf_source(1)
    # No compressor can go below the entropy of the source; one that knows nothing of it stays within a factor.
    nats = len(lzma.compress(source.symbols.tobytes(), preset=9)) * 8 * np.log(2) / len(source.symbols)
    assert source.entropy_rate < nats < 3 * source.entropy_rate
    assert entropy_floor(ProxyConfig(data=DataConfig(source="zipf"), seed=1)) == source.entropy_rate
    assert entropy_floor(CONFIG) == 0.0


def test_what_is_held_out_of_a_text_is_never_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "text.bin"
    path.write_bytes(np.random.default_rng(0).bytes(20_000))
    config = ProxyConfig(
        model=ModelConfig(vocabulary=256, context=16), data=DataConfig(source="corpus", corpus=str(path))
    )

    def ends(batch: Batch) -> list[int]:
        """Where each sequence ends in the text."""
        rows = np.concatenate([batch.inputs, batch.targets[:, -1:]], axis=1).astype(np.uint8)
        return [path.read_bytes().find(row.tobytes()) + len(row) for row in rows]

    trained = [end for index in range(20) for end in ends(training_batch(config, index))]
    held_out = ends(held_out_batch(config, 0, 500))
    assert 17_000 < max(trained) <= 18_000
    assert min(held_out) >= 18_000 + 17
    assert 19_900 < max(held_out) <= 20_000


def test_the_entropy_rate_agrees_with_the_steps_of_the_text_itself() -> None:
    source = zipf_source(2)
    space, mark = 42, 43
    steps = int((source.symbols == space).sum())
    copies = (source.symbols == mark).sum() / steps
    assert copies == pytest.approx(0.1, abs=0.005)
    weights = np.array([1, 1 / 2, 1 / 3, 1 / 4])
    weights /= weights.sum()
    step_entropy = -0.1 * np.log(0.1) - 0.9 * np.log(0.9) - 0.9 * (weights * np.log(weights)).sum()
    assert source.entropy_rate == pytest.approx(step_entropy * steps / len(source.symbols), rel=0.02)


def test_a_corpus_is_read_as_bytes_and_told_when_it_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("Übung macht den Meister. ".encode() * 20)
    config = ProxyConfig(
        model=ModelConfig(vocabulary=256), data=DataConfig(source="corpus", corpus=str(path), batch_size=2)
    )
    batch = training_batch(config, 0)
    assert bytes(batch.inputs[0].astype(np.uint8)) in path.read_bytes()
    assert np.array_equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    with pytest.raises(ConfigError, match=r"vocabulary is 16; source 'corpus' needs at least"):
        training_batch(config.replace(model__vocabulary=16), 0)
    with pytest.raises(ConfigError, match="No such file"):
        training_batch(config.replace(data__corpus=str(tmp_path / "none")), 0)
    with pytest.raises(ConfigError, match="too short"):
        training_batch(config.replace(model__context=600), 0)
