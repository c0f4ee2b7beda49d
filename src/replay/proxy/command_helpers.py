"""What the proxy's commands share: options, progress on standard error, results on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from replay.errors import MissingProxyError, ReplayError
from replay.proxy.settings import ConfigError
from replay.target_files import TargetFileError, prepare_target

Advance = Callable[..., None]
Option = Callable[[Callable[..., Any]], Callable[..., Any]]
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of text.")


class _NamedPath(click.Path):
    """A path of at least one character: the empty text, which an unset shell variable leaves, is no folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail("an empty path: is a variable of the shell unset?", param, ctx)
        return super().convert(value, param, ctx)


FOLDER = _NamedPath(path_type=Path, file_okay=False)
FILE = _NamedPath(path_type=Path, dir_okay=False)


def _can_be_written(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a folder that is, or would be made in, one that cannot be written into."""
    if path is None:
        return None
    there = next(above for above in (path, *path.absolute().parents) if os.path.lexists(above))
    if not there.is_dir():
        raise click.BadParameter(f"{there} is a file; name another folder")
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise click.BadParameter(f"{there} cannot be written into; name another folder")
    return path


def written_folder(*names: str, help: str, default: Path | None = None, required: bool = False) -> Option:
    """The option of a folder that a command writes into, looked at before anything is trained."""
    # A default of None that is given counts for click as a value, and nothing is missing then.
    known: dict[str, Any] = {} if default is None else {"default": default, "show_default": True}
    return click.option(*names, type=FOLDER, help=help, required=required, callback=_can_be_written, **known)


def known_failure(
    _context: click.Context, _parameter: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    """Refuse a name, or one of several, that no failure of the catalogue has."""
    if not value:
        return value
    needs_torch()
    from replay.proxy.failures import UnknownFailureError, get

    for name in (value,) if isinstance(value, str) else value:
        try:
            get(name)
        except UnknownFailureError as error:
            raise click.BadParameter(str(error)) from error
    return value


@contextmanager
def settings_given() -> Iterator[None]:
    """Settings that cannot be are wrong usage, wherever they prove to be so."""
    try:
        yield
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Tell in words when a folder takes no more: it is full, or was taken away meanwhile."""
    try:
        yield
    except OSError as error:
        where = folder if error.filename is None else error.filename
        raise ReplayError(f"{where}: {error.strerror or error}; make room, or name another folder") from error


def _can_be_a_page(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    # Before minutes of training, not behind them.
    if path is None:
        return None
    try:
        prepare_target(path)
    except TargetFileError as error:
        raise click.BadParameter(f"{error}; name a file in another folder") from error
    return path


DOCS = click.option(
    "--docs", type=FILE, callback=_can_be_a_page, help="Write the tables into this file, as a page of markdown."
)
JOBS = click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")


def needs_torch() -> None:
    """Tell in words when the extra [proxy] is not installed."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingProxyError(error.name or "torch") from error


@contextmanager
def progress_bar(what: str, total: int, done: int = 0) -> Iterator[Advance]:
    """A bar on standard error when it is a terminal; call what it gives with the number done (and the total)."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total or None, completed=done)

        def advance(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total) if total else bar.update(task, completed=done)

        yield advance


def print_result(value: object, as_json: bool) -> None:
    """JSON, or a table of rows, or one thing field by field.

    What is NaN was measured so; what is missing is None.
    """
    import pandas as pd

    from replay.output import plain, print_json, print_table

    if as_json:
        print_json(plain(value, data=True))
    elif isinstance(value, list):
        print_table(pd.DataFrame(value), empty="nothing to show")
    elif isinstance(value, dict):
        frame = pd.DataFrame({"field": list(value), "value": [_short(item) for item in value.values()]})
        print_table(frame, empty="nothing to show")


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
