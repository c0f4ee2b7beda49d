"""The decoder's entry points: from machine code that an earlier process kept, else compiled.

Importing the compiler takes several times as long as decoding a million scalars.  So the process that compiles the
decoder also keeps its bare machine code, which llvmlite alone can load.  Only code that calls nothing outside itself
is kept; it lies beside numba's own cache, named by the processor, and is not believed unless its digest holds.  Where
none is kept, or the user's settings ask numba for another processor, :mod:`~replay_parsers.tensorboard.decoder` is
used, which compiles.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay_parsers.tensorboard import cache_folder

ARGUMENTS = {"decode": 1, "find_record": 3, "extend_checksum": 3, "mask_checksum": 1}
"""The entry points, and how many int64 each takes; each returns one."""

NUMBA_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DISABLE_JIT", "NUMBA_OPT")
"""Environment variables that ask for other code than what is kept."""

NEVER = "none"
"""The ending of a file that says that no code can be kept, so that no process tries again."""

LOGGER = logging.getLogger("replay_parsers.tensorboard")

Function = Callable[..., int]

_LOCK = threading.RLock()
_loaded: dict[str, Function] = {}
_engines: list[Any] = []


@dataclass(frozen=True)
class Code:
    """One entry point: the name of its symbol, and the object file that defines it."""

    symbol: str
    content: bytes


def decode(job: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._decode`."""
    return _entry("decode")(job)


def find_record(begin: int, filled: int, whole: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._find_record`."""
    return _entry("find_record")(begin, filled, whole)


def extend_checksum(checksum: int, begin: int, length: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._extend_checksum`."""
    return _entry("extend_checksum")(checksum, begin, length)


def mask_checksum(checksum: int) -> int:
    """See :func:`replay_parsers.tensorboard.decoder._mask_checksum`."""
    return _entry("mask_checksum")(checksum)


def _entry(name: str) -> Function:
    found = _loaded.get(name)
    if found is not None:
        return found
    with _LOCK:
        if name not in _loaded:
            _loaded.update(kept_entries() or compiled_entries())
        return _loaded[name]


def compiled_entries() -> dict[str, Function]:
    """The entry points as numba compiles them, and their machine code kept for the next process."""
    from replay_parsers.tensorboard import decoder

    entries: dict[str, Any] = {name: getattr(decoder, name) for name in ARGUMENTS}
    folder = None if _other_code_is_asked_for() else cache_folder.writable(_first_folder())
    if folder is not None and not (folder / _file_name(NEVER)).exists():
        try:
            for entry in entries.values():
                entry.prepare()
            keep(folder, {name: entry.machine_code() for name, entry in entries.items()})
        except Exception as error:  # noqa: BLE001 - without it the next process only starts more slowly
            LOGGER.debug("the decoder's machine code is not kept: %s", error)
            with suppress(OSError):
                (folder / _file_name(NEVER)).touch()
    return entries


def kept_entries() -> dict[str, Function] | None:
    """The entry points from kept machine code, None where there is none that can be used."""
    if _other_code_is_asked_for():
        return None
    for folder in cache_folder.folders(_first_folder()):
        with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError):
            return load(read_kept(folder / _file_name()))
    return None


def _other_code_is_asked_for() -> bool:
    return any(os.environ.get(name) for name in NUMBA_SETTINGS)


def _first_folder() -> str | None:
    return os.environ.get("NUMBA_CACHE_DIR")


def _file_name(ending: str = "code") -> str:
    """The file for this processor."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    processor = [llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    return f"{hashlib.sha256(repr(processor).encode()).hexdigest()[:16]}.{ending}"


def keep(folder: Path, codes: dict[str, Code]) -> None:
    """Keep ``codes`` for other processes.  Raises :class:`OSError`."""
    body = b"".join(code.content for code in codes.values())
    header = {
        "digest": hashlib.sha256(body).hexdigest(),
        "entries": [[name, code.symbol, len(code.content)] for name, code in codes.items()],
    }
    path = folder / _file_name()
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_bytes(json.dumps(header).encode() + b"\n" + body)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_kept(path: Path) -> dict[str, Code]:
    """What :func:`keep` wrote.  Raises :class:`OSError`, and :class:`ValueError` when it is damaged."""
    header, _, body = path.read_bytes().partition(b"\n")
    told = json.loads(header)
    if hashlib.sha256(body).hexdigest() != told["digest"]:
        raise ValueError(f"{path}: damaged")
    codes = {}
    position = 0
    for name, symbol, length in told["entries"]:
        codes[name] = Code(symbol, body[position : position + length])
        position += length
    if codes.keys() != ARGUMENTS.keys():
        raise ValueError(f"{path}: other entry points")
    return codes


def load(codes: dict[str, Code]) -> dict[str, Function]:
    """Machine code as functions.  Raises :class:`RuntimeError` when it cannot be loaded."""
    import llvmlite.binding as llvm

    with suppress(RuntimeError):  # newer versions do this by themselves, and say so
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for code in codes.values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    _engines.append(engine)  # the code lives as long as its engine
    return {name: _function(engine.get_function_address(code.symbol), ARGUMENTS[name]) for name, code in codes.items()}


def _function(address: int, arguments: int) -> Function:
    """A function compiled by numba, by its calling convention: a place for the result, one for an error, arguments."""
    if not address:
        raise RuntimeError("the machine code lacks an entry point")
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * arguments)
    native = kind(address)

    def call(*given: int) -> int:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        if native(ctypes.addressof(result), ctypes.addressof(error), *given) != 0:
            raise RuntimeError("the decoder failed, which is a fault of its own: please report it")
        return result.value

    return call
