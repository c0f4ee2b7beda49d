"""Compiled functions: from machine code that an earlier process kept, else compiled.

Importing the compiler takes several times as long as decoding a million scalars.  So the process that compiles the
functions of a module also keeps their bare machine code, which llvmlite alone can load.  Only code that calls nothing
outside itself is kept; it lies beside numba's own cache, named by the processor, and is not believed unless its digest
holds.  Where none is kept, or the user's settings ask numba for another processor, the module itself is imported,
which compiles.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay_parsers import cache_folder

NUMBA_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DISABLE_JIT", "NUMBA_OPT")
"""Environment variables that ask for other code than what is kept."""

NEVER = "none"
"""The ending of a file that says that no code can be kept, so that no process tries again."""

LOGGER = logging.getLogger("replay_parsers.machine_code")

Function = Callable[..., int]

_LOCK = threading.RLock()
_engines: list[Any] = []


@dataclass(frozen=True)
class Code:
    """One entry point: the name of its symbol, and the object file that defines it."""

    symbol: str
    content: bytes


class EntryPoints:
    """The compiled functions of one module that Python calls, loaded or compiled at the first use.

    ``module`` defines an :class:`~replay_parsers.tensorboard.compilation.Entry` of each name in ``arguments``, which
    says how many int64 it takes; each returns one.  ``name`` tells the files of kept code apart.
    """

    def __init__(self, name: str, module: str, arguments: Mapping[str, int]) -> None:
        self.arguments = dict(arguments)
        self._name = name
        self._module = module
        self._loaded: dict[str, Function] = {}
        self._looked_for = False

    def function(self, name: str) -> Function:
        """One of the functions."""
        found = self._loaded.get(name)
        if found is not None:
            return found
        with _LOCK:
            if name not in self._loaded:
                self._loaded.update(self.kept() or self.compiled())
            return self._loaded[name]

    def at_hand(self) -> bool:
        """Whether the functions are there without being compiled in every process.

        That is where their machine code is kept, or can be: it is then compiled now, at most once for all processes.
        """
        with _LOCK:
            if not self._looked_for:
                self._looked_for = True
                self._loaded.update(self.kept() or (self.compiled() if self._can_keep() else {}))
            return bool(self._loaded)

    def _can_keep(self) -> bool:
        folder = None if _other_code_is_asked_for() else cache_folder.writable(_first_folder())
        return folder is not None and not self._file(folder, NEVER).exists()

    def compiled(self) -> dict[str, Function]:
        """The functions as numba compiles them, and their machine code kept for the next process."""
        module = importlib.import_module(self._module)
        entries: dict[str, Any] = {name: getattr(module, name) for name in self.arguments}
        folder = None if _other_code_is_asked_for() else cache_folder.writable(_first_folder())
        if folder is not None and not self._file(folder, NEVER).exists():
            try:
                for entry in entries.values():
                    entry.prepare()
                self.keep(folder, {name: entry.machine_code() for name, entry in entries.items()})
            except (OSError, MemoryError) as error:  # a full disk may have room another day
                LOGGER.debug("the machine code of %s is not kept now: %s", self._module, error)
            except Exception as error:  # noqa: BLE001 - without it the next process only starts more slowly
                LOGGER.debug("the machine code of %s is not kept: %s", self._module, error)
                with suppress(OSError):
                    self._file(folder, NEVER).touch()
        return entries

    def kept(self) -> dict[str, Function] | None:
        """The functions from kept machine code, None where there is none that can be used."""
        if _other_code_is_asked_for():
            return None
        for folder in cache_folder.folders(_first_folder()):
            with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError):
                return load(self.read_kept(folder), self.arguments)
        return None

    def keep(self, folder: Path, codes: dict[str, Code]) -> None:
        """Keep ``codes`` for other processes.  Raises :class:`OSError`."""
        body = b"".join(code.content for code in codes.values())
        header = {
            "digest": hashlib.sha256(body).hexdigest(),
            "entries": [[name, code.symbol, len(code.content)] for name, code in codes.items()],
        }
        path = self._file(folder)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            temporary.write_bytes(json.dumps(header).encode() + b"\n" + body)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def read_kept(self, folder: Path) -> dict[str, Code]:
        """What :meth:`keep` wrote.  Raises :class:`OSError`, and :class:`ValueError` when it is damaged."""
        path = self._file(folder)
        header, _, body = path.read_bytes().partition(b"\n")
        told = json.loads(header)
        if hashlib.sha256(body).hexdigest() != told["digest"]:
            raise ValueError(f"{path}: damaged")
        codes = {}
        position = 0
        for name, symbol, length in told["entries"]:
            codes[name] = Code(symbol, body[position : position + length])
            position += length
        if codes.keys() != self.arguments.keys():
            raise ValueError(f"{path}: other entry points")
        return codes

    def _file(self, folder: Path, ending: str = "code") -> Path:
        """The file for this processor."""
        return folder / f"{self._name}-{_processor()}.{ending}"


def _other_code_is_asked_for() -> bool:
    return any(os.environ.get(name) for name in NUMBA_SETTINGS)


def _first_folder() -> str | None:
    return os.environ.get("NUMBA_CACHE_DIR")


def _processor() -> str:
    """What stands for the processor that code is compiled for."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    processor = [llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    return hashlib.sha256(repr(processor).encode()).hexdigest()[:16]


def load(codes: Mapping[str, Code], arguments: Mapping[str, int]) -> dict[str, Function]:
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
    return {name: _function(engine.get_function_address(code.symbol), arguments[name]) for name, code in codes.items()}


def _function(address: int, arguments: int) -> Function:
    """A function compiled by numba, by its calling convention: a place for the result, one for an error, arguments."""
    if not address:
        raise RuntimeError("the machine code lacks an entry point")
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * arguments)
    native = kind(address)

    def call(*given: int) -> int:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        if native(ctypes.addressof(result), ctypes.addressof(error), *given) != 0:
            raise RuntimeError("compiled code failed, which is a fault of its own: please report it")
        return result.value

    return call
