"""Compiling the decoder: once, for one signature, and kept in the user's cache directory.

The decoder is plain Python loops over bytes, which numba turns into machine code.  Cold, that takes some
seconds, and the user is told; afterwards it is loaded from the cache in a fraction of one.  The cache lies in
the user's cache directory (or under ``NUMBA_CACHE_DIR`` where that is set) rather than beside the sources, in a
folder named by the content of all the decoder's modules, since numba itself looks only at the one module in
which an entry point stands.  Where no cache can be written, compilation still works, each time anew.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS: Any = numba.config
"""numba's settings, which environment variables set."""

LOGGER = logging.getLogger("replay_parsers.tensorboard")
TELL_AFTER_SECONDS = 1.0

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
    """A compiled function that Python calls: compiled or loaded at the first call, for ``signature`` alone."""

    def __init__(self, function: Callable[..., int], signature: str) -> None:
        self._dispatcher: Any = compiled(function)
        self._signature = signature
        self._ready = False

    def __call__(self, *arguments: int) -> int:
        if not self._ready:
            self.prepare()
        return cast(int, self._dispatcher(*arguments))

    def prepare(self) -> None:
        """Compile, or load from the cache; tells the user when it takes a while."""
        with _LOCK:
            if self._ready:
                return
            folder = writable_cache()
            timer = threading.Timer(TELL_AFTER_SECONDS, _tell, [folder])
            timer.daemon = True
            timer.start()
            try:
                self._compile(folder)
            finally:
                timer.cancel()
            self._dispatcher.disable_compile()
            self._ready = True

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


def _tell(folder: Path | None) -> None:
    global _told
    if _told:
        return
    _told = True
    kept = f"kept in {folder}" if folder else "no cache directory is writable, so it will happen again"
    LOGGER.warning("compiling the event-file decoder, which takes some seconds the first time (%s)", kept)


def writable_cache() -> Path | None:
    """The folder for compiled code, created if need be; None where none can be written."""
    for base in _cache_bases():
        folder = base / "replay" / f"decoder-{_sources_digest()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    return None


def _cache_bases() -> Iterator[Path]:
    if SETTINGS.CACHE_DIR:
        yield Path(SETTINGS.CACHE_DIR)
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


def _sources_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for module in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()[:16]
