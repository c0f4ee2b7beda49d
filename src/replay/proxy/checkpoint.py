"""Checkpoints on disk: a safetensors file and a JSON file in one folder, without pickle.

``tensors-<sha256>.safetensors`` holds all tensors; ``checkpoint.json`` names it, with its hash and size, and holds the
numbers and a hash of itself. Both are written under a temporary name, flushed to the disk and renamed; the JSON comes
last, so that a folder always holds either the old checkpoint or the new one, and a process killed in between harms
neither; what it leaves under a temporary name the next one removes.

``made_with`` in the JSON tells torch's version and the number of threads: with others a run goes on, with other bits.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from replay.errors import ReplayError
from replay.proxy.settings import shown

FORMAT = 2
"""Format 1 was the same without the manifest's own hash, and is read still."""
MANIFEST = "checkpoint.json"


class CheckpointError(ReplayError, ValueError):
    """A checkpoint that cannot be read: the message names the file, what is wrong with it, and what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """``tensors`` by name; ``state``: numbers, texts, lists and mappings, as JSON takes them."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write(folder: str | Path, checkpoint: Checkpoint) -> str:
    """Write a checkpoint, in the place of an older one if the folder holds one; returns its content hash (SHA-256)."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_leavings(folder)
    # Clones: contiguous, and of nothing but the tensor, where the live ones are views of one long vector.
    data = safetensors.torch.save({name: tensor.detach().clone() for name, tensor in checkpoint.tensors.items()})
    digest = hashlib.sha256(data).hexdigest()
    name = f"tensors-{digest[:16]}.safetensors"
    manifest = {
        "format": FORMAT,
        "tensors": {"file": name, "sha256": digest, "bytes": len(data)},
        "state": checkpoint.state,
        "made_with": {"torch": torch.__version__, "threads": torch.get_num_threads()},
    }
    text = json.dumps({**manifest, "sha256": _own_hash(manifest)}, sort_keys=True, indent=1).encode()
    write_atomically(folder / name, data)
    write_atomically(folder / MANIFEST, text)
    for other in folder.glob("tensors-*.safetensors"):
        if other.name != name:
            other.unlink(missing_ok=True)
    return hashlib.sha256(text).hexdigest()


def _own_hash(manifest: dict[str, Any]) -> str:
    """SHA-256 of what a manifest says but for this hash: of its JSON with sorted keys and without spaces."""
    told = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _remove_leavings(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote here."""
    for path in folder.glob(".*.tmp"):
        found = re.fullmatch(r"\.(?:tensors-[0-9a-f]+\.safetensors|checkpoint\.json)\.(\d{1,9})\.tmp", path.name)
        if found and not _is_running(int(found[1])):
            path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return process != os.getpid()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, and give it its own name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    # The rename itself is on the disk only once the folder is.
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(folder: str | Path) -> Checkpoint:
    """Read a checkpoint back.

    Raises:
        CheckpointError: there is none, a file is missing, cut off or changed, or it is of another format.
    """
    folder = Path(folder)
    manifest = _manifest(folder)
    path = folder / manifest["tensors"]["file"]
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}; resume from another checkpoint") from error
    except MemoryError as error:
        raise CheckpointError(f"{path}: does not fit into this machine's memory") from error
    expected = manifest["tensors"]["bytes"]
    if len(data) != expected:
        raise CheckpointError(
            f"{path}: {len(data)} bytes where {shown(expected)} were written; resume from another checkpoint"
        )
    if hashlib.sha256(data).hexdigest() != manifest["tensors"]["sha256"]:
        raise CheckpointError(f"{path}: changed since it was written (SHA-256 differs); resume from another checkpoint")
    try:
        tensors = safetensors.torch.load(data)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path}: not a safetensors file: {error}") from error
    return Checkpoint(tensors, manifest["state"])


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        if isinstance(manifest, dict) and manifest.get("format") == FORMAT:
            changed = manifest.get("sha256") != _own_hash(manifest)
        else:
            changed = False
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder}: no checkpoint here ({MANIFEST} is missing)") from error
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); resume from another checkpoint") from error
    except RecursionError as error:
        raise CheckpointError(f"{path}: nested thousands deep; resume from another checkpoint") from error
    if not isinstance(manifest, dict) or manifest.get("format") not in (1, FORMAT):
        raise CheckpointError(f"{path}: not a checkpoint of format {FORMAT} or 1; resume from another checkpoint")
    if changed:
        raise CheckpointError(f"{path}: changed since it was written (SHA-256 differs); resume from another checkpoint")
    tensors = manifest.get("tensors")
    if not isinstance(tensors, dict) or not {"file", "sha256", "bytes"} <= set(tensors):
        raise CheckpointError(f"{path}: incomplete: 'tensors' is missing; resume from another checkpoint")
    if not isinstance(manifest.get("state"), dict):
        raise CheckpointError(f"{path}: incomplete: 'state' is missing; resume from another checkpoint")
    name = tensors["file"]
    if not isinstance(name, str) or Path(name).name != name or not name.isprintable() or len(name) > 255:
        raise CheckpointError(f"{path}: names no tensor file, or one outside its folder: {shown(name)}")
    return manifest
