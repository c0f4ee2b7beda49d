"""A kill at any moment, and other writers at the same time, do no harm."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy

import replay
from replay.store import EventStore

SCRIPT = Path(__file__).parent / "ingest_slowly.py"


@pytest.fixture
def many_logs(logs: Path) -> Path:
    """Logs of several kinds: some in many pieces, one with a fault, a document, and files that are no logs."""
    for number in range(3):
        (logs / f"run-{number}.log").write_text(
            toy.log(
                *toy.losses(0, 150), {"event": f"run-{number}/hang", "kind": "hang"}, *toy.losses(100, 180), piece=20
            )
        )
    (logs / "faulty.log").write_text(toy.log(*toy.losses(0, 30), {"raise": "ValueError", "message": "boom"}, piece=10))
    (logs / "cut-off.log").write_text(toy.log(*toy.losses(0, 30))[:-5])
    (logs / "book.json").write_text(toy.document({"event": "x/hang", "kind": "hang"}, run="x"))
    (logs / "empty").touch()
    (logs / "unknown.txt").write_text("?\n")
    return logs


def start(store: Path, logs: Path, pause: float) -> subprocess.Popen[str]:
    """An ingest in a process of its own, past its imports."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(store), str(pause), str(logs)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(store: Path, logs: Path) -> dict[str, bytes]:
    """Ingest undisturbed, and what the store then is."""
    process = start(store, logs, 0)
    assert process.wait(60) == 0
    return toy.snapshot(store)


def test_an_ingest_killed_again_and_again_ends_as_one_undisturbed(many_logs: Path, tmp_path: Path) -> None:
    undisturbed = finish(tmp_path / "undisturbed", many_logs)
    chance = random.Random(20220620)
    store = tmp_path / "killed"
    kills = 0
    for _ in range(7):
        process = start(store, many_logs, 0.01)
        try:
            process.wait(chance.uniform(0.0, 0.3))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        process.wait()
        for query in (EventStore.runs, EventStore.events, EventStore.ledger, EventStore.problems):
            query(replay.open(store))
    assert kills >= 3, "the kills must fall into the ingest, or nothing is tested"
    assert finish(store, many_logs) == undisturbed


def test_an_ingest_that_stops_after_any_number_of_writes_is_completed(
    many_logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = tmp_path / "undisturbed"
    replay.open(undisturbed).ingest([many_logs])
    runs, expected = set(replay.open(undisturbed).runs()["run"]), toy.snapshot(undisturbed)
    original = Path.replace
    for written in (1, 3, 9, 14, 18, 20, 22):
        store, count = tmp_path / f"stopped-{written}", iter(range(10_000))

        def replace_until_killed(self: Path, target: Path, count=count, written=written) -> Path:  # type: ignore[no-untyped-def]
            if next(count) >= written:
                # As a kill between the writing of the temporary file and its renaming: it stays where it is.
                self.rename(self.with_name(self.name.replace(".tmp", "-left.tmp")))
                raise KeyboardInterrupt
            return original(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace_until_killed)
            with pytest.raises(KeyboardInterrupt):
                replay.open(store).ingest([many_logs])
        assert set(replay.open(store).runs()["run"]) <= runs
        replay.open(store).ingest([many_logs])
        replay.open(store).derive()
        assert toy.snapshot(store) == expected


def test_writers_at_the_same_time_end_as_one(many_logs: Path, tmp_path: Path) -> None:
    undisturbed = finish(tmp_path / "undisturbed", many_logs)
    writers = [start(tmp_path / "shared", many_logs, pause) for pause in (0.002, 0.003, 0.0)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    store = replay.open(tmp_path / "shared")
    assert store.scalars("run-0").equals(replay.open(tmp_path / "undisturbed").scalars("run-0"))
    store.compact()
    replay.open(tmp_path / "undisturbed").compact()
    assert toy.snapshot(tmp_path / "shared") == toy.snapshot(tmp_path / "undisturbed") != undisturbed


def test_writers_that_see_a_file_at_different_lengths_tell_no_row_twice(logs: Path, tmp_path: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 120), piece=10))
    slow = start(tmp_path / "store", logs, 0.02)
    time.sleep(0.05)
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(120, 150)))
    quick = start(tmp_path / "store", logs, 0)
    assert (quick.wait(60), slow.wait(60)) == (0, 0)
    store = replay.open(tmp_path / "store")
    assert list(store.scalars("a")["step"]) == list(range(150))
    store.ingest([logs])
    parts = [name for name in toy.snapshot(tmp_path / "store") if name.startswith("scalars")]
    assert list(store.scalars("a")["step"]) == list(range(150))
    assert len(parts) == len(set(parts)) == len(store._ledger.snapshot().parts("scalars", "a")), "leftovers are cleared"


def test_a_reader_is_not_disturbed_by_a_merge(logs: Path, tmp_path: Path) -> None:
    path = logs / "a.log"
    store, other = replay.open(tmp_path / "store"), replay.open(tmp_path / "store")
    for end in range(10, 60, 10):
        path.write_text(toy.log(*toy.losses(0, end)))
        store.ingest([path])
    assert len(other.scalars("a")) == 50
    store.compact()
    assert len(other.scalars("a")) == 50, "the parts that the other knew are gone, those that replace them are found"
