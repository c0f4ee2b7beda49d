"""Checkpoints: complete or not there, and damage is told in words."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
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
        (
            '{"format": 1, "tensors": {"file": "a\\u0000b", "sha256": "", "bytes": 0}, "state": {}}',
            "names no tensor file",
        ),
        ('{"format": 1, "tensors": {"file": 7, "sha256": "", "bytes": 0}, "state": {}}', "names no tensor file"),
        ('{"format": 1, "tensors": {"file": "", "sha256": "", "bytes": 0}, "state": {}}', "Is a directory"),
        ("[" * 100_000, "nested thousands deep"),
    ],
)
def test_a_damaged_manifest_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / checkpoint.MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.read(tmp_path)


def test_no_bit_of_the_manifest_changes_what_it_says_without_being_told(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, example())
    path = tmp_path / checkpoint.MANIFEST
    whole, said = path.read_bytes(), checkpoint.read(tmp_path)
    refused = 0
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            found = checkpoint.read(tmp_path)
        except CheckpointError:
            refused += 1
        else:  # a space that became a tab, say
            assert found.state == said.state
            assert all(torch.equal(found.tensors[name], said.tensors[name]) for name in said.tensors)
    assert refused > 0.8 * 8 * len(whole)


@pytest.mark.parametrize(
    "change", [{"state": {"step": 2, "loss": 0.5}}, {"made_with": {"torch": "1", "threads": 1}}, {"sha256": None}]
)
def test_a_manifest_that_was_changed_is_told(tmp_path: Path, change: dict[str, object]) -> None:
    checkpoint.write(tmp_path, example())
    path = tmp_path / checkpoint.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    with pytest.raises(CheckpointError, match=r"changed since it was written \(SHA-256 differs\)"):
        checkpoint.read(tmp_path)


def test_numbers_that_json_has_no_words_for_keep_the_hash(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, Checkpoint({}, {"loss": math.inf, "small": 5e-324, "name": "Ünïcode"}))
    assert checkpoint.read(tmp_path).state == {"loss": math.inf, "small": 5e-324, "name": "Ünïcode"}


def test_a_checkpoint_of_format_1_which_had_no_hash_of_its_own_is_read(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, example())
    path = tmp_path / checkpoint.MANIFEST
    manifest = json.loads(path.read_bytes())
    del manifest["sha256"]
    path.write_text(json.dumps({**manifest, "format": 1}))
    assert checkpoint.read(tmp_path).state == example().state


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [tmp_path / f".{name}.{ended.pid}.tmp" for name in ("tensors-00ff.safetensors", "checkpoint.json")]
    kept = [tmp_path / f".checkpoint.json.{os.getppid()}.tmp", tmp_path / f".notes.{ended.pid}.tmp"]
    for path in [*left, *kept]:
        path.write_bytes(b"half")
    checkpoint.write(tmp_path, example())
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)


def test_it_tells_what_else_decides_the_bits(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, example())
    made_with = json.loads((tmp_path / checkpoint.MANIFEST).read_text())["made_with"]
    assert made_with == {"torch": torch.__version__, "threads": torch.get_num_threads()}


def test_an_empty_folder_holds_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        checkpoint.read(tmp_path)
