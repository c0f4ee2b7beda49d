"""Running the commands as a program: each way in which they can end, as one line and an exit status."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from replay import output
from replay.cli.commands import replay
from replay.cli.options import OPENED
from replay.errors import ReplayError


@replay.result_callback()
@click.pass_context
def _end(context: click.Context, _result: object, /, **_options: Any) -> None:
    """Where a store left out of its answers what it could not read, the status is 1; it was told as it was found."""
    if any(store.left_out for store in context.meta.get(OPENED, ())):
        sys.stdout.flush()
        sys.exit(1)


def run_commands() -> None:
    """Run the command that the program's arguments name.  :class:`KeyboardInterrupt` is left to the caller."""
    before = output.json_documents()
    # A record may hold half a surrogate pair; printing must not fail on it.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        replay.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        _end_with(error.format_message(), error.exit_code, before)
    except click.Abort:  # click's word for Ctrl-C
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        # The reader of a pipe has gone (`replay events | head`): end without Python's own complaint, and with
        # status 1, as click does where it notices first.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ReplayError, OSError) as error:
        click.echo("replay: " + "\n".join(map(output.visible, str(error).split("\n"))), err=True)
        _end_with(str(error), 1, before)


def _end_with(message: str, status: int, before: int) -> None:
    """End with ``status``; who asked for JSON gets a document in any case, which says why there is no other.

    ``before`` is how many had been written when the command began.
    """
    options = sys.argv[1:]
    if "--json" in options[: options.index("--") if "--" in options else None] and output.json_documents() == before:
        try:
            output.print_json({"error": message}, indent=None)
            sys.stdout.flush()
        except OSError:
            # Nobody reads it, or the disk is full: what was said on standard error must do.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
