"""A kill at any moment, and other writers at the same time, do no harm."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import toy

import replay
from replay.store import EventStore

SCRIPT = Path(__file__).parent / "ingest_apart.py"


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


class Ingest:
    """An ingest in a process of its own, past its imports; ``how`` it goes is told in ``ingest_apart``."""

    def __init__(self, how: str, store: Path, logs: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), how, str(store), str(logs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SCRIPT.parent)},
        )
        assert self.says() == "ready"

    def says(self) -> str:
        """The next line that it prints, nothing once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def go_on(self) -> None:
        """Let one that goes step by step do the next."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Let it go on to its end without a stop: what it still says.  That it was killed is told by its status."""
        said, _ = self.process.communicate()
        return said


@pytest.fixture
def ingest() -> Iterator[Callable[[str, Path, Path], Ingest]]:
    """Begin an ingest; none outlives the test."""
    begun: list[Ingest] = []

    def begin(how: str, store: Path, logs: Path) -> Ingest:
        begun.append(Ingest(how, store, logs))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()


Begin = Callable[[str, Path, Path], Ingest]


def undisturbed(ingest: Begin, store: Path, logs: Path) -> dict[str, bytes]:
    """Ingest undisturbed, and what the store then is."""
    one = ingest("freely", store, logs)
    one.end()
    assert one.process.returncode == 0
    return toy.snapshot(store)


def test_an_ingest_killed_again_and_again_ends_as_one_undisturbed(
    ingest: Begin, many_logs: Path, tmp_path: Path
) -> None:
    calls = int(ingest("counting", tmp_path / "undisturbed", many_logs).end())
    whole = replay.open(tmp_path / "undisturbed")
    whole.derive()
    chance = random.Random(20220620)
    store = tmp_path / "killed"
    kills, known = 0, set()
    for _ in range(7):
        one = ingest(str(chance.randrange(calls // 3)), store, many_logs)
        one.end()
        kills += one.process.returncode == -signal.SIGKILL
        for query in (EventStore.runs, EventStore.events, EventStore.ledger, EventStore.problems):
            query(replay.open(store))
        known.add(len(replay.open(store).ledger()))
    assert kills >= 3, "the kills must fall into the ingest, or nothing is tested"
    assert any(0 < sources < len(whole.ledger()) for sources in known), "and between what it commits"
    undisturbed(ingest, store, many_logs)
    replay.open(store).derive()
    assert toy.snapshot(store) == toy.snapshot(whole.folder)


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


def test_writers_at_the_same_time_end_as_one(ingest: Begin, many_logs: Path, tmp_path: Path) -> None:
    alone = undisturbed(ingest, tmp_path / "undisturbed", many_logs)
    writers = [ingest("step by step", tmp_path / "shared", many_logs) for _ in range(3)]
    rounds, at_work = 0, writers
    while at_work := [writer for writer in at_work if writer.says() == "piece"]:
        rounds += 1
        for writer in at_work:
            writer.go_on()
    assert rounds > 30, "each reads all, since none has done before the others"
    for writer in writers:
        writer.end()
    assert [writer.process.returncode for writer in writers] == [0, 0, 0]
    store = replay.open(tmp_path / "shared")
    assert store.scalars("run-0").equals(replay.open(tmp_path / "undisturbed").scalars("run-0"))
    store.compact()
    replay.open(tmp_path / "undisturbed").compact()
    assert toy.snapshot(tmp_path / "shared") == toy.snapshot(tmp_path / "undisturbed") != alone


@pytest.mark.parametrize("pieces", [1, 5, 12])
def test_writers_that_see_a_file_at_different_lengths_tell_no_row_twice(
    ingest: Begin, logs: Path, tmp_path: Path, pieces: int
) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 120), piece=10))
    slow = ingest("step by step", tmp_path / "store", logs)
    for _ in range(pieces - 1):
        assert slow.says() == "piece"
        slow.go_on()
    assert slow.says() == "piece"
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(120, 150)))
    quick = ingest("freely", tmp_path / "store", logs)
    quick.end()
    slow.end()
    assert (quick.process.returncode, slow.process.returncode) == (0, 0)
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
