"""The command line, ``replay``: the library with words around it.

Nothing is imported here that takes a while, so that Ctrl-C ends in one line while the rest is.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.cli.commands import replay

__all__ = ["main", "replay"]


def main() -> None:
    """The console script: a user's mistake ends in one line, never in a traceback."""
    # A shell can close an output; what is said then is lost, which is no reason to fail.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    try:
        from replay.cli.running import run_commands

        run_commands()
    except KeyboardInterrupt:
        print("stopped; what was stored before stays stored", file=sys.stderr)
        sys.exit(130)


def __getattr__(name: str) -> Any:
    if name == "replay":
        from replay.cli.commands import replay

        return replay
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
