"""replay: training logbooks and logs as data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.store import EventStore

__all__ = ["EventStore", "open"]


def open(folder: str | Path) -> EventStore:
    """The event store in ``folder``, which need not exist yet.

    Raises :class:`replay.store.StoreError` when the folder holds something else, or a store of a newer version.
    """
    from replay.store import EventStore

    return EventStore(folder)


def __getattr__(name: str) -> Any:
    # Loaded when first used: `import replay` stays light.
    if name == "EventStore":
        from replay.store import EventStore

        return EventStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
