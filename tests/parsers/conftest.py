"""Fixtures that the tests of several parsers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay_parsers.detection import join
from replay_parsers.parser import Request
from replay_parsers.records import Records
from replay_parsers.tensorboard import PARSER


@pytest.fixture
def read_event_file(tmp_path: Path) -> Callable[..., Records]:
    """Write bytes to a file (or take a path) and read it as an event file, from ``start`` with ``state``."""

    def read(content: bytes | Path, *, start: int = 0, state: dict[str, Any] | None = None) -> Records:
        path = content if isinstance(content, Path) else tmp_path / "events.out.tfevents.1600000000.host"
        if isinstance(content, bytes):
            path.write_bytes(content)
        request = Request(path=path, source=path.name, run="run", start=start, state=state or {})
        return join(list(PARSER.read(request)))

    return read
