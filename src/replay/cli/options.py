"""What the commands share: their options, their types of argument, and how they find a store and a run in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import pandas as pd

    from replay.store import EventStore

Command = TypeVar("Command", bound=Callable[..., Any])


def source(value: str | Path) -> str | Path:
    """A path on this machine or a URL; the empty text, which an unset shell variable leaves, is neither."""
    if not str(value).strip():
        raise click.BadParameter("an empty path: is a variable of the shell unset?")
    return value if "://" in str(value) else Path(value)


def local_path(value: str | Path) -> Path:
    """A path on this machine."""
    source(value)
    if "://" in str(value):
        from replay.storage.urls import shown

        raise click.BadParameter(f"{shown(str(value))}: only local files and folders; copy it here first")
    return Path(value)


STORE_OPTION = click.option(
    "--store",
    "folder",
    type=local_path,
    metavar="DIR",
    default="replay-store",
    show_default=True,
    help="Folder of the event store.",
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of text.")


def common(command: Command) -> Command:
    """The options that every command takes."""
    return STORE_OPTION(JSON_OPTION(command))


LEAST, LARGEST = -(2**63), 2**63 - 1


def steps(value: str) -> tuple[int, int]:
    """A range of steps, ``A:B`` with both ends included; either may be left out."""
    first, colon, last = value.partition(":")
    try:
        start, end = int(first or LEAST), int(last or LARGEST) if colon else int(first)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no range of steps; write A:B, A: or :B") from None
    if start < LEAST or end < LEAST or start > LARGEST or end > LARGEST:
        raise click.BadParameter(f"{value!r} lies beyond any step: steps are 64-bit numbers")
    if end < start:
        raise click.BadParameter(f"{value!r} ends before it begins")
    return start, end


def moment(value: str) -> datetime:
    """A date or time in ISO 8601, taken as UTC when it names no zone."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no date; write 2022-06-20 or 2022-06-20T09:10+08:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def kinds(role: str | None = None) -> click.Choice[str]:
    from replay_parsers.kinds import KINDS

    return click.Choice([str(kind) for kind, rule in KINDS.items() if role is None or rule.role == role])


OPENED = "replay.cli.stores"
"""Under which name a command's context holds the stores that it opened."""


def open_store(folder: Path, *, partial: bool = False) -> EventStore:
    """The store in ``folder``; what it leaves out of its answers makes the exit status 1."""
    from replay.store import EventStore

    store = EventStore(folder, partial=partial)
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault(OPENED, []).append(store)
    return store


def store_to_query(folder: Path) -> EventStore:
    """As :func:`open_store`; that there is no store yet, which a mistyped name is the cause of, is told."""
    store = open_store(folder)
    if not store.exists:
        click.echo(f"there is no store in {folder} yet: `replay ingest` makes one, --store names another", err=True)
    return store


def known_run(store: EventStore, run: str) -> str:
    """``run`` if the store holds it; else a usage error that names what it does hold."""
    names = store.names()
    if run in names:
        return run
    if not store.exists:
        raise click.UsageError(f"no run {run!r}: there is no store in {store.folder} yet; begin with `replay ingest`")
    if store.left_out:
        raise click.ClickException(f"no run {run!r} in what can be read of {store.folder}")
    near = close_to(run, names)
    hint = f"; it holds {near}" if near else "; it is empty, so begin with `replay ingest`"
    raise click.UsageError(f"no run {run!r} in {store.folder}{hint}")


def close_to(name: str, names: Sequence[str]) -> str:
    """Those of ``names`` that are written much like ``name``, else the first few, safe to print."""
    from difflib import get_close_matches

    from replay.output import visible

    return visible(", ".join(get_close_matches(name, names, n=3) or names[:5]))


def show(frame: pd.DataFrame, as_json: bool, *, empty: str, columns: list[str] | None = None) -> None:
    from replay import output

    if as_json:
        output.print_json(output.frame_as_json(frame, data=("value",)))
    else:
        output.print_table(frame, columns, empty=empty, data=("value",))
