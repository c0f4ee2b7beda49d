"""The command line, ``replay``: the library with words around it."""

from replay.cli.main import main, replay

__all__ = ["main", "replay"]
