"""Where compiled code is kept: in the user's cache directory, in a folder named by what it was compiled from."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import llvmlite  # type: ignore[import-untyped]

_COMPILED = (
    "machine_code.py",
    "tensorboard/*.py",
    "trainers/json_layout.py",
    "trainers/json_numbers.py",
    "trainers/json_scanner.py",
)
"""The modules whose content decides what is compiled, and how it is kept."""


def writable(first: str | None) -> Path | None:
    """The folder for compiled code, created if need be, under ``first`` if that is given; None where there is none."""
    for folder in folders(first):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    return None


def folders(first: str | None) -> Iterator[Path]:
    """The folders in which compiled code may lie."""
    for base in _bases(first):
        yield base / "replay" / f"decoder-{sources_digest()}"


def _bases(first: str | None) -> Iterator[Path]:
    if first:
        yield Path(first)
    if sys.platform == "win32":
        named, usual = "LOCALAPPDATA", ("AppData", "Local")
    elif sys.platform == "darwin":
        named, usual = "", ("Library", "Caches")
    else:
        named, usual = "XDG_CACHE_HOME", (".cache",)
    if named and os.environ.get(named):
        yield Path(os.environ[named])
    try:
        yield Path.home().joinpath(*usual)
    except RuntimeError:  # no home directory can be told
        return


@cache
def sources_digest() -> str:
    """What stands for the modules that are compiled and the compiler, whose version follows llvmlite's."""
    digest = hashlib.sha256(llvmlite.__version__.encode())
    for module in sorted(path for pattern in _COMPILED for path in Path(__file__).parent.glob(pattern)):
        digest.update(module.read_bytes())
    return digest.hexdigest()[:16]
