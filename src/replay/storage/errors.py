"""What can go wrong with a store that its user can mend."""

from __future__ import annotations

from replay.errors import ReplayError


class StoreError(ReplayError):
    """The folder is no store, of a newer version, damaged, or cannot be written.  The message says what to do."""


class PartVanishedError(StoreError):
    """A part that the ledger names is not there: another process merged or replaced it meanwhile, or it was deleted."""


class DamagedPartError(StoreError):
    """The content of a part is not what was written."""
