"""Compiling the decoder: once, for one signature, and kept in the user's cache directory.

The decoder is plain Python loops over bytes, which numba turns into machine code.  Cold, that takes some
seconds, and the user is told; afterwards it is loaded from the cache in a fraction of one.  The cache lies in
the user's cache directory (or under ``NUMBA_CACHE_DIR`` where that is set) rather than beside the sources, in a
folder named by the content of all the decoder's modules, since numba itself looks only at the one module in
which an entry point stands.  Where no cache can be written, compilation still works, each time anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
from numba.core import event

from replay_parsers import cache_folder
from replay_parsers.machine_code import Code

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS: Any = numba.config
"""numba's settings, which environment variables set."""

LOGGER = logging.getLogger("replay_parsers.tensorboard")
TELL_AFTER_SECONDS = 1.0

_IN_EVERY_PROCESS = frozenset({"memcpy", "memmove", "memset"})

_LOCK = threading.RLock()
_told = False


@contextmanager
def _settings(**changes: Any) -> Iterator[None]:
    """Change numba's global settings for a moment, without touching what the user's own code compiles."""
    with _LOCK:
        before = {name: getattr(SETTINGS, name) for name in changes}
        for name, value in changes.items():
            setattr(SETTINGS, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(SETTINGS, name, value)


def compiled(function: Function) -> Function:
    """A function for use inside the decoder: compiled into whatever calls it.

    ``error_model="numpy"`` leaves out the checks for division by zero, ``nogil`` lets threads decode in parallel.
    """
    return _compiled(function, always_inline=False)


def inlined(function: Function) -> Function:
    """As :func:`compiled`, for a small function on the path of every event, where a call would cost more than it."""
    return _compiled(function, always_inline=True)


def _compiled(function: Function, *, always_inline: bool) -> Function:
    # The decoder works on addresses, which Python itself cannot dereference, so it is compiled in any case.
    with _settings(DISABLE_JIT=0):
        compile_later = numba.njit(error_model="numpy", nogil=True, forceinline=always_inline)
        return cast(Function, compile_later(function))


class Entry:
    """A compiled function that Python calls: compiled or loaded at the first call, for ``signature`` alone.

    ``part`` is what the user is told is being compiled.
    """

    def __init__(self, function: Callable[..., int], signature: str, part: str = "the event-file decoder") -> None:
        self._part = part
        self._dispatcher: Any = compiled(function)
        self._signature = signature
        self._ready = False

    def __call__(self, *arguments: int) -> int:
        if not self._ready:
            self.prepare()
        return cast(int, self._dispatcher(*arguments))

    def prepare(self) -> None:
        """Compile, or load from the cache; tells the user when compiling takes a while."""
        with _LOCK:
            if self._ready:
                return
            folder = writable_cache()
            notice = _Notice(folder, self._part)
            try:
                # numba compiles functions of its own along the way, which NUMBA_DISABLE_JIT would leave as they are.
                with _settings(DISABLE_JIT=0), event.install_listener("numba:compile", notice):
                    self._compile(folder)
            finally:
                notice.cancel()
            self._dispatcher.disable_compile()
            self._ready = True

    def machine_code(self) -> Code:
        """The code of the prepared function, bare of what Python needs to call it.

        Raises :class:`ValueError` when it calls anything outside itself.
        """
        (result,) = self._dispatcher.overloads.values()
        module = llvm.parse_bitcode(result.library._final_module.as_bitcode())
        symbol = str(result.fndesc.llvm_func_name)
        if not _defines(module, symbol):
            # It came from numba's cache, which does not hold it in this form.
            return self._compiled_anew().machine_code()
        _leave_only(module, symbol, result.library.codegen._tm)
        outside = [one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")]
        if set(outside) - _IN_EVERY_PROCESS:
            raise ValueError(f"{symbol} needs {', '.join(outside)}")
        return Code(symbol, bytes(result.library.codegen._tm.emit_object(module)))

    def _compiled_anew(self) -> Entry:
        entry = Entry(self._dispatcher.py_func, self._signature, self._part)
        entry._dispatcher.compile(self._signature)
        return entry

    def _compile(self, folder: Path | None) -> None:
        if folder is not None:
            try:
                with _settings(CACHE_DIR=str(folder)):
                    self._dispatcher.enable_caching()
                self._dispatcher.compile(self._signature)
                return
            except Exception as error:  # noqa: BLE001
                # A full disk or a damaged cache must not stop the reading, and what a damaged cache raises cannot
                # be foretold.  A fault of the code itself comes again below.
                LOGGER.debug("compiling without the cache in %s: %s", folder, error)
                self._dispatcher = compiled(self._dispatcher.py_func)
        self._dispatcher.compile(self._signature)


def _defines(module: Any, symbol: str) -> bool:
    return any(function.name == symbol and not function.is_declaration for function in module.functions)


def _leave_only(module: Any, symbol: str, machine: Any) -> None:
    """Remove from ``module`` all that ``symbol`` does not use."""
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


class _Notice(event.Listener):
    """Tells the user when compiling takes a while.  Loading is not compiling, however slow the machine."""

    def __init__(self, folder: Path | None, part: str) -> None:
        self._timer = threading.Timer(TELL_AFTER_SECONDS, _tell, [folder, part])
        self._timer.daemon = True

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        """numba begins to compile: this function, or one that it calls."""
        if self._timer.ident is None:
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """numba has compiled one of the functions."""

    def cancel(self) -> None:
        """All is compiled."""
        self._timer.cancel()


def _tell(folder: Path | None, part: str) -> None:
    global _told
    if _told:
        return
    _told = True
    kept = f"kept in {folder}" if folder else "no cache directory is writable, so it will happen again"
    LOGGER.warning("compiling %s, which takes some seconds the first time (%s)", part, kept)


def writable_cache() -> Path | None:
    """The folder for compiled code, created if need be; None where none can be written."""
    return cache_folder.writable(SETTINGS.CACHE_DIR)
