"""Putting a report where it is wanted, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from replay.errors import ReplayError
from replay.storage.files import write_atomically


def write_report(html: str, path: Path) -> Path:
    """Write a report to ``path``, whose folder is made if need be; an older one there goes only when this is whole.

    Raises :class:`replay.errors.ReplayError` when it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, html.encode("utf-8"))
    except OSError as error:
        raise ReplayError(f"{path}: the report cannot be written: {error.strerror or error}") from error
    return path
