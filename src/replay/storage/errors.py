"""What can go wrong with a store that its user can mend."""

from __future__ import annotations

from pathlib import Path

from replay.errors import ReplayError


class StoreError(ReplayError):
    """The folder is no store, of a newer version, damaged, or cannot be written.  The message says what to do."""


class UnsoundPartError(StoreError):
    """A part of the store, ``path``, is not as it was written."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> tuple[type[UnsoundPartError], tuple[Path, str]]:
        # Workers send it to the process that asked.
        return type(self), (self.path, str(self))


class PartVanishedError(UnsoundPartError):
    """A part that the ledger names is not there: another process merged or replaced it meanwhile, or it was deleted."""


class DamagedPartError(UnsoundPartError):
    """The content of a part is not what was written."""
