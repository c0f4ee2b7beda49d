"""Fingerprints of files, and that bytes which were read anyway are not read again for them."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from replay.storage import fingerprint, reading
from replay.storage.ledger import Ledger
from replay.store import EventStore
from replay_parsers.files import open_bytes

CONTENT = bytes(range(251)) * 4
BLOCK = 100


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(reading, "BLOCK_BYTES", BLOCK)


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes are read for each digest of a block."""
    lengths: list[int] = []
    digest_of = fingerprint._digest_of

    def counted(stream: Any, length: int) -> str | None:
        lengths.append(length)
        return digest_of(stream, length)

    monkeypatch.setattr(fingerprint, "_digest_of", counted)
    return lengths


@given(st.lists(st.integers(0, len(CONTENT)), max_size=20))
def test_whole_blocks_are_digested_alike_however_they_are_read(cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "BLOCK_BYTES", BLOCK)
        blocks = fingerprint.WholeBlocks()
        bounds = [0, *sorted(cuts), len(CONTENT)]
        for start, end in pairwise(bounds):
            blocks.watch(start, memoryview(CONTENT)[start:end])
        assert blocks.digests == whole_blocks()


@given(st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 300)), max_size=20))
def test_reading_with_gaps_and_twice_gives_no_digest_that_is_wrong(pieces: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "BLOCK_BYTES", BLOCK)
        blocks = fingerprint.WholeBlocks()
        reached = 0
        for start, length in pieces:
            blocks.watch(start, memoryview(CONTENT)[start : start + length])
            if start <= reached:
                reached = max(reached, min(start + length, len(CONTENT)))
        assert blocks.digests == whole_blocks()[: reached // BLOCK]


def whole_blocks() -> list[str]:
    digests = []
    for start in range(0, len(CONTENT) - BLOCK + 1, BLOCK):
        block = fingerprint.Block()
        block.update(CONTENT[start : start + BLOCK])
        digests.append(block.digest())
    return digests


@pytest.mark.parametrize("compressed", [False, True])
def test_of_a_file_that_is_read_only_the_last_block_is_read_again(
    store: EventStore, logs: Path, digested: list[int], compressed: bool
) -> None:
    path = logs / "a.log"
    text = toy.log(*toy.losses(0, 400)).encode()
    path.write_bytes(gzip.compress(text) if compressed else text)
    size = path.stat().st_size
    assert size > 5 * BLOCK
    store.ingest([path])
    assert digested == [size % BLOCK]
    assert kept_fingerprint(store) == fingerprint.fingerprint(path, size)


def test_what_a_file_grew_by_is_added_to_its_fingerprint(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 50)))
    store.ingest([path])
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(50, 90)))
    store.ingest([path])
    assert kept_fingerprint(store) == fingerprint.fingerprint(path, path.stat().st_size)


def test_a_file_that_is_watched_reads_as_any_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(CONTENT)
    seen: list[tuple[int, bytes]] = []
    with open_bytes(path, lambda start, data: seen.append((start, bytes(data)))) as stream:
        assert stream.read(7) == CONTENT[:7]
        assert stream.seek(900) == 900
        assert stream.read() == CONTENT[900:]
    assert seen
    assert all(data == CONTENT[start : start + len(data)] for start, data in seen)


def kept_fingerprint(store: EventStore) -> tuple[str, ...]:
    (reading,) = Ledger(store.folder).snapshot().readings.values()
    return reading.last.fingerprint
