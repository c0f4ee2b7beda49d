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
    for number in range(200):
        path = chance.choice(list(originals))
        data = bytearray(originals[path])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(data))
        # A quick machine changes the file, and back, within one tick of the file system's clock.
        os.utime(path, (number, number))
        store = replay.open(full.folder)
        for name in chance.sample(sorted(EVERYTHING), 3):
            answer = told_or_answered(EVERYTHING[name], store)
            if isinstance(answer, str):
                assert path.name in answer
                told += 1
            elif path.name in "".join(store.problems()["message"]):
                told += 1
            else:
                assert answer.equals(expected[name])
        path.write_bytes(originals[path])
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


@pytest.fixture
def two(store: EventStore, logs: Path) -> EventStore:
    """Two runs, of which each has scalars and an event."""
    for run in "ab":
        (logs / f"{run}.log").write_text(
            toy.log(*toy.losses(0, 9), {"event": f"{run}/hang", "kind": "hang", "step": 3}, run=run)
        )
        store.ingest([logs / f"{run}.log"])
    return store


def part_of(store: EventStore, table: str, run: str) -> Path:
    """The one part of what sources say of ``run``."""
    (path,) = [p for p in (store.folder / table / f"run={run}").glob("*.parquet") if p.name != "derived.parquet"]
    return path


def flip(path: Path) -> None:
    """Change one byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("harm", [flip, Path.unlink])
def test_a_harmed_part_of_one_run_blocks_no_other_and_reading_its_source_again_mends_it(
    two: EventStore, logs: Path, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    before, everything = toy.snapshot(two.folder), two.events(derived=False)
    harmed = part_of(two, "events", "a")
    harm(harmed)
    store = replay.open(two.folder)
    assert len(store.events(run="b")) == len(store.scalars("b")["step"].unique()) - 8
    assert list(store.events(derived=False)["run"]) == ["b"]
    assert harmed.name in caplog.text
    assert list(store.runs()["run"]) == ["a", "b"]
    with pytest.raises(StoreError, match=harmed.name):
        store.events(run="a")
    report = store.ingest([logs])
    assert [one.status for one in report.sources] == ["ingested", "unchanged"]
    assert store.events(derived=False).equals(everything)
    after = toy.snapshot(two.folder)
    assert {name: before[name] for name in before if not name.startswith("ledger")}.items() <= after.items()


def test_a_harmed_part_of_a_document_that_was_edited_or_grew_is_mended(store: EventStore, logs: Path) -> None:
    book, log = logs / "book.json", logs / "a.log"
    for number in (1, 2, 3):
        book.write_text(toy.document(*[{"event": f"x/{number}", "kind": "hang"}] * number, run="x"))
        log.write_text(toy.log(*toy.losses(0, 10 * number)))
        store.ingest([logs])
    for path in (store.folder / "events" / "run=x").glob("*-g2-*.parquet"):
        flip(path)
    sorted((store.folder / "scalars").rglob("*.parquet"))[0].unlink()
    store.ingest([logs])
    assert set(store.events(run="x")["event"]) == {"x/3"}
    assert list(store.scalars("a")["step"]) == list(range(30))
    for path in (store.folder / "events" / "run=x").glob("*-g2-*.parquet"):
        flip(path)
    book.write_text(toy.document({"event": "x/4", "kind": "hang"}, run="x"))
    store.ingest([logs])
    assert set(store.events(run="x")["event"]) == {"x/4"}, "edited and damaged at once"


def test_what_was_computed_is_computed_again_when_it_is_damaged(full: EventStore) -> None:
    events, attempts = full.events(run="a"), full.attempts("a")
    before = toy.snapshot(full.folder)
    for name in ("events/run=a/derived.parquet", "attempts/run=a/attempts.parquet"):
        flip(full.folder / name)
        store = replay.open(full.folder)
        assert store.attempts("a").equals(attempts)
        assert store.events(run="a").equals(events)
    assert toy.snapshot(full.folder) == before


@pytest.mark.parametrize("harm", [flip, lambda path: path.write_bytes(b"")])
def test_a_damaged_file_of_the_ledger_is_a_problem_and_the_rest_answers(
    two: EventStore, logs: Path, harm: Callable[[Path], None]
) -> None:
    first = next(name for name, entry in two._ledger.entries() if entry.source.endswith("a.log"))
    expected = {run: two.scalars(run) for run in "ab"}
    harm(two.folder / "ledger" / first)
    store = replay.open(two.folder)
    assert list(store.runs()["run"]) == ["b"]
    assert store.scalars("b").equals(expected["b"])
    (problem,) = store.problems().to_dict("records")
    assert first in problem["source"]
    assert "64 sources" in problem["message"]
    with pytest.raises(StoreError, match=first):
        store.compact()
    parts_before = {name for name in toy.snapshot(two.folder) if name.startswith("scalars")}
    (logs / "c.log").write_text(toy.log(*toy.losses(0, 3)))
    store.ingest([logs / "c.log"])
    assert parts_before < {name for name in toy.snapshot(two.folder) if name.startswith("scalars")}
    store.ingest([logs])
    assert store.scalars("a").equals(expected["a"])


def test_parts_whose_ledger_file_was_deleted_stay_until_their_source_is_read_again(two: EventStore, logs: Path) -> None:
    two.compact()
    before, expected = toy.snapshot(two.folder), two.scalars("a")
    for path in (two.folder / "ledger").iterdir():
        path.unlink()
    store = replay.open(two.folder)
    (logs / "c.log").write_text(toy.log(*toy.losses(0, 3)))
    store.ingest([logs / "c.log"])
    stored = {name: data for name, data in before.items() if name.startswith(("scalars", "events/run=a/"))}
    assert stored.items() <= toy.snapshot(two.folder).items()
    store.ingest([logs])
    assert stored.items() <= toy.snapshot(two.folder).items(), "taken over as they are"
    assert store.scalars("a").equals(expected)


def test_a_source_whose_first_entries_were_lost_is_read_from_its_beginning(store: EventStore, logs: Path) -> None:
    for end in (10, 20, 30):
        (logs / "a.log").write_text(toy.log(*toy.losses(0, end)))
        store.ingest([logs])
    first = next(name for name, entry in store._ledger.entries() if entry.start == 0)
    (store.folder / "ledger" / first).unlink()
    store = replay.open(store.folder)
    assert store.ingest([logs]).sources[0].status == "ingested"
    assert list(store.scalars("a")["step"]) == list(range(30))
