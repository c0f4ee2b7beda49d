"""What the tests of the incident history share: a store of the built-in logbooks."""

from __future__ import annotations

from pathlib import Path

import pytest

import replay
from replay.store import EventStore


@pytest.fixture(scope="session")
def builtin(tmp_path_factory: pytest.TempPathFactory) -> EventStore:
    """A store that holds the built-in logbooks."""
    store = replay.open(tmp_path_factory.mktemp("history") / "store")
    store.ingest_builtin()
    return store


@pytest.fixture(scope="session")
def upstream(shared: Path) -> Path:
    """The projects' own notes."""
    return shared / "upstream"
