"""A store in an empty folder, and the toy parsers in place of the real ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import replay
from replay.store import EventStore

sys.path.insert(0, str(Path(__file__).parent))
import toy


@pytest.fixture
def store(tmp_path: Path) -> EventStore:
    """A store that does not exist yet, in a folder of its own."""
    return replay.open(tmp_path / "store")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for logs; only the toy parsers read them."""
    for module in ("replay_parsers.detection", "replay.storage.planning"):
        monkeypatch.setattr(f"{module}.all_parsers", lambda: toy.PARSERS)
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder
