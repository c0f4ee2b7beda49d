"""Putting a report where it is wanted, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from replay.errors import ReplayError
from replay.target_files import TargetFileError, write_target


def write_report(html: str, path: Path) -> Path:
    """Write a report to ``path``, whose folder is made if need be; an older one there goes only when this is whole.

    Raises :class:`replay.errors.ReplayError` when it cannot be written.
    """
    try:
        write_target(path, html.encode("utf-8"))
    except TargetFileError as error:
        raise ReplayError(f"{path}: the report cannot be written: {error.reason}") from error
    return path
