"""Running the commands as a program: each way in which they can end, as one line and an exit status."""

from __future__ import annotations

import os
import sys

import click

from replay.cli.commands import replay
from replay.errors import ReplayError


def run_commands() -> None:
    """Run the command that the program's arguments name.  :class:`KeyboardInterrupt` is left to the caller."""
    # A record may hold half a surrogate pair; printing must not fail on it.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        replay.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:  # click's word for Ctrl-C
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        # The reader of a pipe has gone (`replay events | head`): end without Python's own complaint, and with
        # status 1, as click does where it notices first.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ReplayError, OSError) as error:
        click.echo(f"replay: {error}", err=True)
        sys.exit(1)
