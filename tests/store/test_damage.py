"""Damage on disk: told in words, never answered around, and mended by reading the source again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import toy

import replay
from replay.storage import parts
from replay.store import EventStore, StoreError

Query = Callable[[EventStore], pd.DataFrame]

EVERYTHING: dict[str, Query] = {
    "runs": lambda store: store.runs(),
    "events": lambda store: store.events(run="a"),
    "scalars": lambda store: store.scalars("a"),
    "tags": lambda store: store.tags("a"),
    "attempts": lambda store: store.attempts("a"),
    "flags": lambda store: store.flags("a"),
    "problems": lambda store: store.problems(),
    "findings": lambda store: store.findings(),
}


def told_or_answered(query: Query, store: EventStore) -> str | pd.DataFrame:
    """What ``query`` answers, or what it says of why it cannot."""
    try:
        return query(store)
    except StoreError as error:
        return str(error)


@pytest.fixture
def full(store: EventStore, logs: Path) -> EventStore:
    """A store with something in every table."""
    (logs / "a.log").write_text(
        toy.log(
            *toy.losses(0, 40),
            *toy.losses(20, 60),
            {"event": "a/hang", "kind": "hang", "step": 7},
            {"finding": {"check": "clock", "locator": "line 1", "readings": ["x"], "likely": None, "reasons": "odd"}},
            {"problem": "corrupt"},
            run="a",
        )
    )
    store.ingest([logs])
    flag = {"run": "a", "rule": "spike", "signal": "loss", "step": 3, "severity": "high", "value": 2.0, "message": "!"}
    store.put_flags("a", pd.DataFrame([flag]).reindex(columns=store.flags("a").columns))
    store.derive()
    return store


def test_of_two_hundred_flipped_bits_none_is_a_traceback_or_another_answer(full: EventStore, logs: Path) -> None:
    expected = {name: query(full) for name, query in EVERYTHING.items()}
    originals = {path: path.read_bytes() for path in sorted(full.folder.rglob("*.parquet"))}
    chance = random.Random(42)
    told = 0
    for _ in range(200):
        path = chance.choice(list(originals))
        data = bytearray(originals[path])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(data))
        store = replay.open(full.folder)
        for name, query in EVERYTHING.items():
            answer = told_or_answered(query, store)
            if isinstance(answer, str):
                assert path.name in answer
                told += 1
            else:
                assert answer.equals(expected[name])
        for other, original in originals.items():
            other.write_bytes(original)
    assert told > 50


@pytest.mark.parametrize("table", ["scalars", "events", "flags"])
def test_a_page_with_another_content_is_noticed_in_parts_too_large_to_be_held_against_their_digest(
    full: EventStore, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr(parts, "VERIFIED_WHOLE", 0)
    (path,) = [one for one in (full.folder / table).rglob("*.parquet") if one.name != "derived.parquet"]
    column = parts.open_part(path).metadata.row_group(0).column(0)
    data = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    data[start + column.total_compressed_size - 1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="damaged"):
        parts.read_table(path)


def test_what_may_not_be_read_is_not_called_damaged(full: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (full.folder / "scalars").rglob("*.parquet")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(parts, "VERIFIED_WHOLE", 0)
    monkeypatch.setattr(pa, "OSFile", refuse)
    with pytest.raises(StoreError, match=f"{path.name}.*Permission denied") as raised:
        parts.open_part(path)
    assert "damaged" not in str(raised.value)
    assert "delete" not in str(raised.value)


@pytest.mark.skipif(os.name == "nt", reason="Windows allows no colon in a name")
@pytest.mark.parametrize("name", ["run-10:30", "exp:1", "file:x", "s3:x"])
def test_a_store_may_have_a_colon_in_its_name(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 3)))
    monkeypatch.chdir(tmp_path)
    store = replay.open(name)
    store.ingest([logs])
    assert len(store.scalars("a")) == 3
    store.compact()
    assert len(store.scalars("a")) == 3
