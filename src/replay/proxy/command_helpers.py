"""What the proxy's commands share: options, progress on standard error, results on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from replay.errors import MissingProxyError

Advance = Callable[..., None]
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of text.")
FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)


def _folder_made(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    # Before minutes of training, not behind them.
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{path.parent}: {error.strerror}; name a file in a folder") from error
    if not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"{path.parent} cannot be written into; name a file in another folder")
    return path


DOCS = click.option(
    "--docs", type=FILE, callback=_folder_made, help="Write the tables into this file, as a page of markdown."
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
    """JSON, or a table of rows, or one thing field by field."""
    import pandas as pd

    from replay.output import plain, print_json, print_table

    if as_json:
        print_json(plain(value))
    elif isinstance(value, list):
        print_table(pd.DataFrame(value), empty="nothing to show")
    elif isinstance(value, dict):
        frame = pd.DataFrame({"field": list(value), "value": [_short(item) for item in value.values()]})
        print_table(frame, empty="nothing to show")


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
