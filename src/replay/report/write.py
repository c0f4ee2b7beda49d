"""Putting a report where it is wanted, whole or not at all."""

from __future__ import annotations

import tempfile
from pathlib import Path

from replay.errors import ReplayError
from replay.target_files import TargetFileError, prepare_target, write_target


def prepare_report(path: Path) -> Path:
    """Make the folder of ``path``, and find out before the work whether a report can be written there.

    Raises :class:`replay.errors.ReplayError` when it cannot.
    """
    try:
        prepare_target(path)
        if not path.exists():
            # Some folders say that they can be written to and take no file all the same (/proc).
            with tempfile.TemporaryFile(dir=path.resolve().parent):
                pass
    except TargetFileError as error:
        raise ReplayError(f"{path}: the report cannot be written: {error.reason}") from error
    except OSError as error:
        raise ReplayError(f"{path}: the report cannot be written: {error.strerror or error}") from error
    return path


def write_report(html: str, path: Path) -> Path:
    """Write a report to ``path``, whose folder is made if need be; an older one there goes only when this is whole.

    Raises :class:`replay.errors.ReplayError` when it cannot be written.
    """
    try:
        write_target(path, html.encode("utf-8"))
    except TargetFileError as error:
        raise ReplayError(f"{path}: the report cannot be written: {error.reason}") from error
    return path
