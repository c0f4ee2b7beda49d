"""Names in the store's folder: the format file, one folder a table, one ``run=<run>`` folder a run."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from urllib.parse import quote

from replay.storage.errors import StoreError
from replay.storage.files import is_temporary, write_atomically

FORMAT_FILE = "replay-store.json"
FORMAT_NAME = "replay-store"
FORMAT_VERSION = 1

LOCK_FILE = ".lock"

# Tables whose parts lie in one folder a run.  The folder's name is the column `run`, as Hive, DuckDB, Polars,
# Spark, Dask and pandas read it; a second copy of the column inside the files would make some of them refuse.
BY_RUN = frozenset({"events", "scalars", "attempts", "flags"})
# What replay finds in the scalars of a run lies beside what its sources say.
DERIVED_EVENTS = "derived.parquet"
SOURCE_TABLES = ("runs", "events", "scalars", "findings", "problems")

# File systems allow 255 bytes a name, and a percent-encoded character outside ASCII takes up to 12.
_LONGEST_VALUE = 200


def partition(column: str, value: str) -> str:
    """The folder name ``column=value`` with ``value`` percent-encoded, so that any text is a safe name.

    A name too long for a file system is cut and ended by a digest of the whole.

    >>> partition("run", "a/b <c>")
    'run=a%2Fb%20%3Cc%3E'
    """
    encoded = _encode(value)
    if len(encoded) > _LONGEST_VALUE:
        kept = value[:_LONGEST_VALUE]
        while len(_encode(kept)) > _LONGEST_VALUE:
            kept = kept[:-1]
        encoded = f"{_encode(kept)}~{digest(value)}"
    return f"{column}={encoded}"


def _encode(value: str) -> str:
    return quote(value, safe="", errors="backslashreplace")


def table_folder(table: str, run: str | None = None) -> str:
    """The folder of a table's parts, relative to the store."""
    return f"{table}/{partition('run', run)}" if table in BY_RUN and run is not None else table


def digest(text: str | bytes | memoryview) -> str:
    """Sixteen hexadecimal digits that stand for ``text`` in file names."""
    data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def digest_of_file(path: Path) -> str:
    """As :func:`digest`, of the content of ``path``."""
    hasher = hashlib.blake2b(digest_size=8)
    with path.open("rb") as stream:
        while data := stream.read(1 << 20):
            hasher.update(data)
    return hasher.hexdigest()


_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a URL; of one that was taken for a path only one slash is left.

    >>> is_url("s3://bucket/store"), is_url(Path("s3://bucket/store")), is_url("run-10:30"), is_url("C:/store")
    (True, True, False, False)
    """
    return _URL.match(os.fspath(path)) is not None


def check(folder: Path) -> bool:
    """Whether ``folder`` holds a store (True), or nothing yet (False).

    Raises :class:`StoreError` when it holds something else, a newer store, or cannot be looked into.
    """
    marker = folder / FORMAT_FILE
    try:
        content = json.loads(marker.read_bytes())
        version = content["version"] if content["format"] == FORMAT_NAME else None
    except FileNotFoundError:
        return _nothing_there_yet(folder)
    except NotADirectoryError:
        raise StoreError(f"{folder} is a file; a store is a folder") from None
    except OSError as error:
        raise StoreError(f"{folder}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
    if type(version) is not int or version < 1:  # True is an int, too
        raise StoreError(f"{marker} is not the format file of a replay store; restore it or choose another folder")
    if version > FORMAT_VERSION:
        raise StoreError(
            f"{folder} is a store of version {version}, and this replay reads versions up to {FORMAT_VERSION}: "
            "upgrade it (pip install --upgrade training-replay)"
        )
    return True


def _nothing_there_yet(folder: Path) -> bool:
    try:
        if not folder.exists():
            return False
        others = [path.name for path in folder.iterdir() if not is_temporary(path.name) and path.name != LOCK_FILE]
    except NotADirectoryError:
        raise StoreError(f"{folder} is a file; a store is a folder") from None
    except OSError as error:
        raise StoreError(f"{folder}: cannot be read: {error.strerror or error}") from error
    if others:
        raise StoreError(
            f"{folder} is not a replay store: it has no {FORMAT_FILE}, but holds {sorted(others)[0]!r}; "
            "choose another folder, or an empty one"
        )
    return False


def create(folder: Path) -> None:
    """Make ``folder`` an empty store, unless it is one already.

    Raises :class:`StoreError` as :func:`check` does, and when the folder cannot be written.
    """
    if check(folder):
        return
    text = json.dumps({"format": FORMAT_NAME, "version": FORMAT_VERSION}, indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FORMAT_FILE, text.encode())
    except OSError as error:
        raise StoreError(f"{folder}: a store cannot be made there: {error.strerror or error}") from error
