"""Reading in many processes: the same bytes in the store as when sources are read in turn."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import toy

import replay
from replay.storage import parallel
from replay.store import EventStore


def megatron_log(first: int, last: int) -> str:
    return "".join(
        f" iteration {step:8d}/ 100000 | consumed samples: {step * 16:12d} | elapsed time per iteration (ms): 100.0 | "
        f"learning rate: 1.000E-04 | global batch size: 16 | lm loss: {5 - math.log(step):.6E} | grad norm: 1.000 |\n"
        for step in range(first, last)
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of logs of several runs, and of what else lies there."""
    folder = tmp_path / "tree"
    for number in range(70):
        (folder / f"run-{number}").mkdir(parents=True)
        (folder / f"run-{number}" / "main.log").write_text(megatron_log(1 + number, 40 + number))
    (folder / "empty.log").touch()
    (folder / "notes.txt").write_text("nobody knows\n")
    (folder / "broken").symlink_to("nowhere")
    return folder


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_the_bytes_are_those_of_reading_in_turn(
    tree: Path, tmp_path: Path, processes: Executor, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(parallel, "BATCH_FILES", batch)
    in_turn, at_once = replay.open(tmp_path / "in-turn"), replay.open(tmp_path / "at-once")
    expected = in_turn.ingest([tree])
    report = at_once.ingest([tree], executor=processes)
    assert report == expected
    assert toy.snapshot(at_once.folder) == toy.snapshot(in_turn.folder)
    assert {one.status for one in at_once.ingest([tree], executor=processes).sources} == {
        "unchanged",
        "skipped",
        "failed",
    }
    with (tree / "run-3" / "main.log").open("a") as stream:
        stream.write(megatron_log(43, 60))
    assert at_once.ingest([tree], executor=processes) == in_turn.ingest([tree])
    assert toy.snapshot(at_once.folder) == toy.snapshot(in_turn.folder)


class Backwards(Executor):
    """Runs what it was given only when its results are asked for, the last first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future, object, tuple]] = []  # type: ignore[type-arg]

    def submit(self, task, /, *arguments):  # type: ignore[no-untyped-def]
        future = _Late(self)
        self.waiting.append((future, task, arguments))
        return future

    def run(self) -> None:
        while self.waiting:
            future, task, arguments = self.waiting.pop()
            future.set_result(task(*arguments))  # type: ignore[operator]


class _Late(Future):  # type: ignore[type-arg]
    def __init__(self, executor: Backwards) -> None:
        super().__init__()
        self._executor = executor

    def result(self, timeout: float | None = None):  # type: ignore[no-untyped-def]
        self._executor.run()
        return super().result(timeout)


def test_the_order_in_which_batches_are_done_does_not_show(
    store: EventStore, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "BATCH_FILES", 3)
    for number in range(10):
        (logs / f"{number}.log").write_text(toy.log(*toy.losses(0, 5 + number), piece=2))
    store.ingest([logs])
    other = replay.open(tmp_path / "other")
    seen: list[int] = []
    other.ingest([logs], executor=Backwards(), progress=lambda progress: seen.append(progress.number))
    assert toy.snapshot(other.folder) == toy.snapshot(store.folder)
    assert seen == list(range(1, 11))
    with ThreadPoolExecutor(4) as threads:
        third = replay.open(tmp_path / "third")
        third.ingest([logs], executor=threads)
    assert toy.snapshot(third.folder) == toy.snapshot(store.folder)


def test_processes_are_begun_only_where_they_pay(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (logs / f"{number}.log").write_text(toy.log(*toy.losses(0, 5)))
    begun: list[int] = []

    def own_processes(workers: int) -> Executor:
        begun.append(workers)
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr("replay.storage.ingest.own_processes", own_processes)
    store.ingest([logs / "0.log", logs / "1.log"], workers=8)
    assert begun == []
    monkeypatch.setattr(parallel, "WORTH_A_PROCESS", 300_000)
    store.ingest([logs / "0.log", logs / "1.log"], workers=8)
    assert begun == [], "they are unchanged"
    assert {one.status for one in store.ingest([logs], workers=8).sources} == {"unchanged", "ingested"}
    assert begun == [8]


def test_a_store_that_cannot_be_written_is_told_by_another_process(
    tree: Path, tmp_path: Path, processes: Executor
) -> None:
    store = replay.open(tmp_path / "store")
    store.ingest([tree / "run-0"])
    (store.folder / "scalars" / "run=run-1").write_text("in the way")
    with pytest.raises(replay.store.StoreError, match="cannot be written"):
        store.ingest([tree], executor=processes)
    assert set(store.runs()["run"]) == {"run-0"}


@pytest.mark.slow
def test_a_dask_cluster_reads_the_same_bytes(tree: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    in_turn = replay.open(tmp_path / "in-turn")
    in_turn.ingest([tree])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        program = [sys.executable, "-c", "from replay.cli import main; main()"]
        command = [*program, "ingest", str(tree), "--store", str(tmp_path / "s")]
        done = subprocess.run([*command, "--cluster", cluster.scheduler_address], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "nowhere" in done.stderr
    assert toy.snapshot(tmp_path / "s") == toy.snapshot(in_turn.folder)
