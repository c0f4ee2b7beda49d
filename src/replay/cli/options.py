"""What the commands share: their options, their types of argument, and how they find a store and a run in it."""

from __future__ import annotations

from collections.abc import Callable
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


def open_store(folder: Path) -> EventStore:
    from replay.store import EventStore

    return EventStore(folder)


def known_run(store: EventStore, run: str) -> str:
    """``run`` if the store holds it; else a usage error that names what it does hold."""
    names = list(store.runs()["run"])
    if run in names:
        return run
    from difflib import get_close_matches

    near = get_close_matches(run, names, n=3) or names[:5]
    hint = f"; it holds {', '.join(near)}" if near else "; it is empty, so begin with `replay ingest`"
    raise click.UsageError(f"no run {run!r} in {store.folder}{hint}")


def show(frame: pd.DataFrame, as_json: bool, *, empty: str, columns: list[str] | None = None) -> None:
    from replay import output

    if as_json:
        output.print_json(output.frame_as_json(frame, data=("value",)))
    else:
        output.print_table(frame, columns, empty=empty)
