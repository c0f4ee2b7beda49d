"""Checkpoints: complete or not there, and damage is told in words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from replay.proxy import checkpoint
from replay.proxy.checkpoint import Checkpoint, CheckpointError


def example(value: float = 1.0) -> Checkpoint:
    return Checkpoint({"a": torch.full((3, 2), value), "b": torch.arange(4.0)[::2]}, {"step": 3, "loss": 0.5})


def test_comes_back_as_it_was(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, example())
    back = checkpoint.read(tmp_path)
    assert back.state == {"step": 3, "loss": 0.5}
    assert torch.equal(back.tensors["a"], example().tensors["a"])
    assert torch.equal(back.tensors["b"], torch.tensor([0.0, 2.0]))


def test_the_hash_follows_the_content(tmp_path: Path) -> None:
    first = checkpoint.write(tmp_path / "one", example())
    assert checkpoint.write(tmp_path / "two", example()) == first
    assert checkpoint.write(tmp_path / "two", example(2.0)) != first


def test_a_newer_one_takes_the_place_of_the_older(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, example())
    checkpoint.write(tmp_path, example(2.0))
    assert checkpoint.read(tmp_path).tensors["a"][0, 0] == 2.0
    assert len(list(tmp_path.iterdir())) == 2


def test_killed_between_the_two_files_the_older_one_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path, example())
    whole = checkpoint.write_atomically

    def die_at_the_manifest(path: Path, data: bytes) -> None:
        if path.name == checkpoint.MANIFEST:
            raise KeyboardInterrupt
        whole(path, data)

    monkeypatch.setattr(checkpoint, "write_atomically", die_at_the_manifest)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, example(2.0))
    assert checkpoint.read(tmp_path).tensors["a"][0, 0] == 1.0


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-5]), "bytes where"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x55"), "changed since"),
        (lambda path: path.unlink(), "No such file"),
    ],
)
def test_a_damaged_tensor_file_is_told(tmp_path: Path, damage: object, message: str) -> None:
    checkpoint.write(tmp_path, example())
    damage(next(tmp_path.glob("tensors-*")))  # type: ignore[operator]
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoint.read(tmp_path)
    assert "resume from another checkpoint" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "format"),
        ('{"format": 1}', "incomplete"),
        ('{"format": 1, "tensors": {"file": "../x", "sha256": "", "bytes": 0}, "state": {}}', "outside its folder"),
    ],
)
def test_a_damaged_manifest_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / checkpoint.MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.read(tmp_path)


def test_an_empty_folder_holds_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        checkpoint.read(tmp_path)
