"""Fixtures of the tests of trainer logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_reading import ReadText, read_path

from replay_parsers.parser import Parser
from replay_parsers.records import Records


@pytest.fixture
def read_text(tmp_path: Path) -> ReadText:
    """Write text (or bytes) to a file and read it with a parser."""

    def read(parser: Parser, text: str | bytes, name: str = "train.log") -> Records:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_path(parser, path)

    return read
