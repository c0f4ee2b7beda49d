"""Logs at a URL: read as local ones are, copied only when they have changed, and what gives access is kept nowhere."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
import toy
from fsspec.implementations.memory import MemoryFileSystem

import replay
from replay.storage import parallel, remote
from replay.storage.candidates import Candidate
from replay.storage.follow import Memory
from replay.storage.urls import scrubbed, shown
from replay.store import EventStore, SourceReport

WORD = "pass@word"


class Bucket(MemoryFileSystem):
    """bucket://: a file system that counts what is read of it, and fails where it is told to."""

    protocol = "bucket"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    reads: ClassVar[list[tuple[str, int]]] = []
    faults: ClassVar[dict[str, Exception]] = {}
    while_read: ClassVar[list[Any]] = []
    tells: ClassVar[bool] = True

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        path = path.removeprefix("bucket://").rpartition("@")[2].strip("/")
        return "/" + path if path else ""

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if fault := self.faults.get(self._strip_protocol(path)):
            raise fault
        opened = super()._open(path, mode, **options)
        return _Counted(opened, path) if mode == "rb" else opened

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        if fault := self.faults.get("info " + self._strip_protocol(path)):
            raise fault
        return self._told(super().info(path, **options))

    def ls(self, path: str, **options: Any) -> Any:
        if fault := self.faults.get("ls " + self._strip_protocol(path)):
            raise fault
        return [self._told(one) for one in super().ls(path, **options)]

    def modified(self, path: str) -> Any:
        raise NotImplementedError

    def _told(self, one: dict[str, Any]) -> dict[str, Any]:
        if one["type"] == "file" and self.tells:
            one["ETag"] = f'"{hash(self.store[one["name"]].getvalue())}"'
        return one


class _Counted:
    def __init__(self, opened: Any, path: str) -> None:
        self.opened, self.path, self.position = opened, path, 0

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *_: object) -> None: ...

    def seek(self, position: int) -> None:
        self.position = position

    def read(self, size: int) -> bytes:
        if fault := Bucket.faults.get(f"read {self.position}"):
            raise fault
        self.opened.seek(self.position)
        data: bytes = self.opened.read(size)
        self.position += len(data)
        Bucket.reads.append((self.path, len(data)))
        if Bucket.while_read:
            Bucket.while_read.pop(0)()
        return data


@pytest.fixture
def bucket(logs: Path) -> Iterator[Bucket]:
    """An empty file system at bucket://, whose logs only the toy parsers read."""
    fsspec.register_implementation("bucket", Bucket, clobber=True)
    for one in (Bucket.store, Bucket.reads, Bucket.faults, Bucket.while_read):
        one.clear()
    Bucket.tells = True
    yield fsspec.filesystem("bucket")
    Bucket.store.clear()


def files() -> dict[str, bytes]:
    """A tree of runs, and what else lies in such."""
    return {
        "run-1/train.log": toy.log(*toy.losses(0, 40), piece=7).encode(),
        "run-2/train.log": toy.log(*toy.losses(0, 30), {"event": "x/spike", "kind": "loss_spike", "step": 3}).encode(),
        "run-2/step_100/log.gz": gzip.compress(toy.log(*toy.losses(20, 50)).encode(), mtime=0),
        "deep/er/own.log": toy.log(*toy.losses(0, 5), run="named inside").encode(),
        "notes.yaml": toy.document({"event": "x/rollback", "kind": "rollback", "step": 3}).encode(),
        "cut.log.gz": gzip.compress(toy.log(*toy.losses(0, 900)).encode(), mtime=0)[:-500],
        "broken.log": toy.log(*toy.losses(0, 5), {"problem": "unreadable"}).encode() + b'{"step": ',
        "empty.log": b"",
        "unknown.txt": b"what is this?\n",
        ".hidden.log": toy.log().encode(),
        ".git/index": b"\0",
        "store/replay-store.json": b"{}",
        "store/scalars.log": toy.log().encode(),
    }


def fill(bucket: Bucket, folder: Path | None = None, root: str = "/logs") -> None:
    for name, content in files().items():
        bucket.pipe_file(f"{root}/{name}", content)
        if folder is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def by_name(reports: list[SourceReport], root: str) -> dict[str, Any]:
    """What is said of each source, apart from where it lies."""
    said = {}
    for one in reports:
        problems = [(problem.kind, problem.message, problem.offset) for problem in one.problems]
        name = one.source.removeprefix(root).lstrip("/")
        said[name] = (one.status, one.run, one.format, one.reason, one.coverage, problems, one.tried)
    return said


def statuses(store: EventStore, *urls: str, **options: Any) -> dict[str, str]:
    return {one.source.rpartition("/")[2]: one.status for one in store.ingest(urls, **options).sources}


class TestATreeOfRuns:
    def test_what_is_read_and_said_is_that_of_the_same_tree_here(
        self, bucket: Bucket, logs: Path, tmp_path: Path
    ) -> None:
        fill(bucket, logs)
        here, there = replay.open(tmp_path / "here"), replay.open(tmp_path / "there")
        said_here = by_name(here.ingest([logs]).sources, str(logs))
        said_there = by_name(there.ingest(["bucket://logs"]).sources, "bucket://logs")
        assert said_there == said_here
        assert said_there["run-1/train.log"][:2] == ("ingested", "run-1")
        assert said_there["run-2/step_100/log.gz"][:2] == ("ingested", "run-2")
        assert said_there["deep/er/own.log"][1] == "named inside"
        assert said_there["store"][3] == "a replay store, not a log"
        assert said_there[".git"][3] == said_there[".hidden.log"][3] == "hidden"
        assert said_there["cut.log.gz"][5], "what is damaged is told"
        columns = ["run", "tag", "step", "value", "attempt"]
        for run in here.runs()["run"]:
            assert there.scalars(run)[columns].equals(here.scalars(run)[columns])
        assert len(there.events()) == len(here.events()) > 0
        assert set(there.ledger()["source"]) == {f"bucket://logs/{name}" for name in said_there}

    def test_a_file_is_the_same_source_whether_it_is_named_or_found(self, bucket: Bucket, logs: Path) -> None:
        fill(bucket)
        store = replay.open(logs / "store")
        url = "bucket://logs/run-1/train.log"
        assert [(one.source, one.run) for one in store.ingest([url]).sources] == [(url, "run-1")]
        again = store.ingest(["bucket://logs/run-1/", url, "bucket://logs/run-1"])
        assert [(one.source, one.status) for one in again.sources] == [(url, "unchanged")]

    def test_a_run_may_be_given_a_name(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 5)).encode())
        assert store.ingest(["bucket://a.log"]).sources[0].run == "a"
        assert store.ingest(["bucket://a.log"], run="b").sources[0].status == "replaced"
        assert list(store.runs()["run"]) == ["b"]

    def test_a_file_url_is_a_file_here(self, store: EventStore, logs: Path) -> None:
        log = logs / "my run.log"
        log.write_text(toy.log(*toy.losses(0, 5)))
        report = store.ingest([log.as_uri(), f"file://{log}", log, Path(f"file:/{log}")])
        assert [(one.source, one.status) for one in report.sources] == [(str(log), "ingested")]


class TestWhatChanged:
    def test_the_second_time_nothing_is_copied(self, bucket: Bucket, store: EventStore) -> None:
        fill(bucket)
        bucket.rm("/logs/cut.log.gz")  # as here, what breaks off is tried again
        store.ingest(["bucket://logs"])
        before = toy.snapshot(store.folder)
        Bucket.reads.clear()
        found = statuses(store, "bucket://logs")
        read = {path for path, _ in Bucket.reads}
        assert found["train.log"] == found["log.gz"] == found["own.log"] == found["notes.yaml"] == "unchanged"
        assert {name for name, status in found.items() if f"/logs/{name}" in read} == {"empty.log", "unknown.txt"}
        assert toy.snapshot(store.folder) == before

    @pytest.mark.parametrize(
        ("later", "status"),
        [
            (toy.log(*toy.losses(0, 25)), "extended"),
            (toy.log(*toy.losses(5, 15)), "replaced"),
            (toy.log(*toy.losses(0, 3)), "replaced"),
        ],
    )
    @pytest.mark.parametrize("tells", [True, False])
    def test_a_changed_file_is_what_it_would_be_here(
        self, bucket: Bucket, logs: Path, tmp_path: Path, later: str, status: str, tells: bool
    ) -> None:
        Bucket.tells = tells
        here, there = replay.open(tmp_path / "here"), replay.open(tmp_path / "there")
        for text in (toy.log(*toy.losses(0, 10)), later):
            bucket.pipe_file("/a.log", text.encode())
            (logs / "a.log").write_text(text)
            one, other = here.ingest([logs / "a.log"]).sources[0], there.ingest(["bucket://a.log"]).sources[0]
            assert (one.status, one.coverage) == (other.status, other.coverage)
        assert other.status == status
        columns = ["segment", "tag", "step", "value"]
        assert there.scalars("a")[columns].equals(here.scalars("a")[columns])
        assert there.ingest(["bucket://a.log"]).sources[0].status == "unchanged"

    def test_a_document_is_replaced_as_a_whole(self, bucket: Bucket, store: EventStore) -> None:
        for step in (3, 4):
            bucket.pipe_file(
                "/n.yaml", toy.document({"event": "x/rollback", "kind": "rollback", "step": step}).encode()
            )
            store.ingest(["bucket://n.yaml"])
        assert list(store.events()["step"]) == [4]

    def test_what_is_not_told_apart_is_looked_at_each_time(self, bucket: Bucket, store: EventStore) -> None:
        Bucket.tells = False
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 9)).encode())
        store.ingest(["bucket://a.log"])
        before = toy.snapshot(store.folder)
        Bucket.reads.clear()
        assert statuses(store, "bucket://a.log") == {"a.log": "unchanged"}
        assert Bucket.reads
        assert toy.snapshot(store.folder) == before

    def test_a_follower_sees_what_is_new(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/logs/a.log", toy.log(*toy.losses(0, 5)).encode())
        memory: Memory = {}
        assert [one.status for one in self.looks(store, memory)] == ["ingested"]
        Bucket.reads.clear()
        assert self.looks(store, memory) == []
        assert Bucket.reads == []
        with bucket.open("/logs/a.log", "ab") as stream:
            stream.write(toy.lines(*toy.losses(5, 9)).encode() + b'{"step": ')
        bucket.pipe_file("/logs/b.log", toy.log(*toy.losses(0, 3)).encode())
        assert [one.status for one in self.looks(store, memory)] == ["extended", "ingested"]
        Bucket.faults["ls /logs"] = ConnectionResetError(104, "Connection reset by peer")
        assert [one.reason for one in self.looks(store, memory)] == [
            "the folder cannot be opened: Connection reset by peer"
        ]
        Bucket.faults.clear()
        bucket.pipe_file("/logs/a.log", toy.log(*toy.losses(0, 2)).encode())
        assert [one.status for one in self.looks(store, memory)] == ["replaced"]
        assert len(store.scalars("a", sources="all")) == 11, "what the former file told is kept"

    @staticmethod
    def looks(store: EventStore, memory: Memory) -> list[SourceReport]:
        from replay.storage import follow, sources
        from replay.storage.ingest import ingest

        reports = follow.follow(
            lambda: sources.find(["bucket://logs"]),
            lambda found, known: ingest(store.folder, store._ledger, found, progress=None, followed=known),
            lambda _: None,
            interval=0,
            idle=0,
            stop=threading.Event(),
            memory=memory,
        )
        return [one for report in reports for one in report.sources]


class TestCopies:
    def test_memory_stays_flat_and_nothing_is_left(self, bucket: Bucket, store: EventStore) -> None:
        text = toy.log(*toy.losses(0, 40_000))
        bucket.pipe_file("/a.log", text.encode())
        assert statuses(store, "bucket://a.log") == {"a.log": "ingested"}
        assert max(size for _, size in Bucket.reads) <= 1 << 20 < len(text)
        assert [path.name for path in store.folder.iterdir() if path.name.endswith(".tmp")] == []

    def test_of_a_checkpoint_beside_the_logs_only_the_beginning_is_copied(
        self, bucket: Bucket, store: EventStore
    ) -> None:
        bucket.pipe_file("/logs/model.safetensors", b"\x10\0\0\0\0\0\0\0{}" + bytes(5 << 20))
        bucket.pipe_file("/logs/a.log", toy.log(*toy.losses(0, 5)).encode())
        found = store.ingest(["bucket://logs"]).sources
        assert [one.status for one in found] == ["ingested", "skipped"]
        assert "binary" in found[1].reason
        assert sum(size for path, size in Bucket.reads if "model" in path) == remote.LOOK_BYTES

    def test_of_a_long_unknown_text_all_is_looked_at(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/logs/story.txt", b"once upon a time\n" * 50_000)
        assert "no parser recognises it" in store.ingest(["bucket://logs"]).sources[0].reason
        assert sum(size for _, size in Bucket.reads) == 17 * 50_000

    def test_a_copy_that_fails_leaves_nothing_here_and_is_tried_again(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 40_000)).encode())
        Bucket.faults[f"read {remote.LOOK_BYTES}"] = ConnectionResetError(104, "Connection reset by peer")
        report = store.ingest(["bucket://a.log"]).sources[0]
        assert (report.status, report.reason) == ("failed", "cannot be read: Connection reset by peer")
        assert [path.name for path in store.folder.iterdir() if path.name.endswith(".tmp")] == []
        Bucket.faults.clear()
        assert statuses(store, "bucket://a.log") == {"a.log": "ingested"}
        assert len(store.scalars("a")) == 40_000

    def test_what_a_kill_leaves_is_cleared_away(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 5)).encode())
        store.ingest(["bucket://a.log"])
        left = store.folder / ".1-0123456789abcdef.tmp"
        left.mkdir()
        (left / "a.log").write_bytes(b"half of it")
        store.ingest(["bucket://a.log"])
        assert not left.exists()

    def test_what_grows_while_it_is_copied_is_kept(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 40_000)).encode())

        def grow() -> None:
            with bucket.open("/a.log", "ab") as stream:
                stream.write(toy.lines(*toy.losses(40_000, 40_010)).encode())

        Bucket.while_read.append(grow)
        assert statuses(store, "bucket://a.log") == {"a.log": "ingested"}
        assert statuses(store, "bucket://a.log") in ({"a.log": "unchanged"}, {"a.log": "extended"})
        assert len(store.scalars("a")) == 40_010

    @pytest.mark.parametrize("tells_versions", [True, False])
    def test_what_is_replaced_while_it_is_copied_is_copied_again(
        self, bucket: Bucket, store: EventStore, tells_versions: bool
    ) -> None:
        Bucket.tells = tells_versions
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 20_000)).encode())
        Bucket.while_read.append(
            lambda: bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 40_000, tag="other")).encode())
        )
        assert statuses(store, "bucket://a.log") == {"a.log": "ingested"}
        assert set(store.tags("a")["tag"]) == {"other"}, "never the beginning of one and the end of another"

    def test_what_is_cut_while_it_is_copied_is_copied_again(self, bucket: Bucket, store: EventStore) -> None:
        Bucket.tells = False
        text = toy.log(*toy.losses(0, 20_000))
        bucket.pipe_file("/a.log", text.encode())
        cut = toy.log(*toy.losses(0, 100))
        assert text.startswith(cut)

        def truncate() -> None:
            Bucket.while_read.append(lambda: bucket.pipe_file("/a.log", cut.encode()))

        Bucket.while_read.append(truncate)
        assert statuses(store, "bucket://a.log") == {"a.log": "ingested"}
        assert len(store.scalars("a")) == 100, "not the rows of what is no longer there"

    @pytest.mark.parametrize("tells", [True, False])
    def test_what_is_replaced_again_and_again_is_left_for_later(
        self, bucket: Bucket, store: EventStore, tells: bool
    ) -> None:
        Bucket.tells = tells
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 5)).encode())

        def replace(number: int) -> None:
            bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 5), number=number).encode())

        Bucket.while_read += [functools.partial(replace, number) for number in range(50)]
        report = store.ingest(["bucket://a.log"]).sources[0]
        assert report.status == "failed"
        assert "replaced while it was copied, three times" in report.reason

    def test_what_breaks_off_is_not_taken_for_the_whole(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 500)).encode())
        whole = Bucket.store["/a.log"].size
        Bucket.store["/a.log"].read = lambda _: b"x" * 10 if Bucket.store["/a.log"].tell() == 0 else b""
        reason = store.ingest(["bucket://a.log"]).sources[0].reason
        assert f"of {whole:,} bytes" in reason


class TestFaults:
    def test_each_is_one_line_and_the_rest_is_read(self, bucket: Bucket, store: EventStore) -> None:
        for name in ("good", "secret", "slow", "odd"):
            bucket.pipe_file(f"/logs/{name}.log", toy.log(*toy.losses(0, 5)).encode())
            bucket.pipe_file(f"/logs/{name}/more.log", toy.log(*toy.losses(0, 5), run=f"{name}-more").encode())
        Bucket.faults |= {
            "/logs/secret.log": PermissionError("Forbidden"),
            "/logs/slow.log": TimeoutError(),
            "/logs/odd.log": KeyError("first\nsecond"),
            "ls /logs/secret": PermissionError("AccessDenied"),
        }
        report = store.ingest(["bucket://logs", "bucket://logs/absent.log"])
        found = {one.source.removeprefix("bucket://logs/"): one for one in report.sources}
        assert {name for name, one in found.items() if one.status == "ingested"} == {
            "good.log",
            "good/more.log",
            "slow/more.log",
            "odd/more.log",
        }
        assert found["secret.log"].reason == "cannot be read: no permission to read it"
        assert found["slow.log"].reason.startswith("cannot be read: no answer in time: try again later")
        assert "KeyError" in found["odd.log"].reason
        assert found["secret"].reason == "the folder cannot be opened: no permission to read it"
        assert found["absent.log"].reason == "no such file or folder"
        assert all("\n" not in one.reason for one in report.sources)
        assert report.exit_code == 1
        assert len(store.problems()) == 4, "those that exist are on record"

    def test_what_was_stored_is_kept_when_it_can_no_longer_be_reached(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/a.log", toy.log(*toy.losses(0, 5)).encode())
        store.ingest(["bucket://a.log"])
        Bucket.faults["info /a.log"] = ConnectionRefusedError(111, "Connection refused")
        report = store.ingest(["bucket://a.log"]).sources[0]
        assert report.reason == "cannot be opened: Connection refused; what was stored of it before is kept"
        assert len(store.scalars("a")) == 5

    def test_a_missing_package_is_named(self, store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "s3fs", None)
        report = store.ingest(["s3://bucket/logs", "nonsense://x"])
        assert "training-replay[remote]" in report.sources[0].reason
        assert "s3fs" in report.sources[0].reason
        assert "nonsense" in report.sources[1].reason
        monkeypatch.setitem(sys.modules, "aiohttp", None)
        reason = store.ingest(["https://host/a.log"]).sources[0].reason
        assert reason == "web addresses are read by aiohttp: pip install 'training-replay[remote]'"
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
        reason = store.ingest(["s3://bucket/logs"]).sources[0].reason
        assert reason == "URLs are read by fsspec: pip install 'training-replay[remote]'"

    def test_odd_names_are_names(self, bucket: Bucket, store: EventStore) -> None:
        for name in ("nul\0.log", "lone \udc80.log", "long " + "ü" * 300 + ".log", "what?.log"):
            bucket.pipe_file(f"/logs/{name}", toy.log(*toy.losses(0, 5)).encode())
        assert set(statuses(store, "bucket://logs").values()) == {"ingested"}
        assert set(statuses(store, "bucket://logs").values()) == {"unchanged"}
        assert statuses(store, "bucket://logs/nul\0.log", "bucket://logs/lone \udc80.log") == {
            "nul\\0.log": "unchanged",
            "lone \\udc80.log": "unchanged",
        }

    def test_folders_without_end_end(self, bucket: Bucket, store: EventStore) -> None:
        bucket.pipe_file("/a" + "/b" * 40 + "/c.log", toy.log().encode())
        assert "folders deep" in store.ingest(["bucket://a"]).sources[0].reason


class TestPasswords:
    def test_one_is_neither_in_the_ledger_nor_in_messages(self, bucket: Bucket, store: EventStore) -> None:
        url = f"bucket://me:{WORD}@logs"
        fill(bucket)
        Bucket.faults |= {
            "/logs/run-1/train.log": OSError(f"cannot log in to {url}/run-1 as me, {WORD}"),
            "ls /logs/run-2": ValueError(f"{url} said no to me:{WORD}"),
        }
        progress: list[Any] = []
        report = store.ingest([url, f"{url}/absent"], progress=progress.append)
        candidates = [one for one in _found(url) if isinstance(one, Candidate)]
        said = [report, progress, candidates, store.ledger().to_dict(), store.problems().to_dict()]
        assert not [one for one in said if WORD in repr(one) or "word" in repr(one)]
        assert "bucket://me@logs/run-1/train.log" in set(store.ledger()["source"])
        for name, content in toy.snapshot(store.folder).items():
            assert WORD.encode() not in content, name
        assert statuses(store, url)["notes.yaml"] == "unchanged"
        assert statuses(store, "bucket://me:another@logs")["notes.yaml"] == "unchanged", "a password may change"

    @pytest.mark.parametrize(
        ("url", "name"),
        [
            ("ftp://user:word@host:21/a@b/c.log", "ftp://user@host:21/a@b/c.log"),
            ("sftp://user:w@rd@host/c.log", "sftp://user@host/c.log"),
            ("ftp://user:w/rd@host/c.log", "ftp://user@host/c.log"),
            ("s3://bucket/user@x:1/a.log", "s3://bucket/user@x:1/a.log"),
            ("http://host:8080/me@x.log", "http://host:8080/me@x.log"),
            ("https://token@host/a.log", "https://host/a.log"),
            ("https://host/a.log?X-Amz-Date=1&X-Amz-Signature=f00", "https://host/a.log"),
            ("az://box/a.log?sv=1&sig=f00", "az://box/a.log?sv=1&sig=***"),
            (
                "az://box/a.log?sv=1&accessToken=f00&AWSAccessKeyId=b",
                "az://box/a.log?sv=1&accessToken=***&AWSAccessKeyId=***",
            ),
            ("odd://box/a.log?n_tokens=300B&keys_seen=2&sigma=1", "odd://box/a.log?n_tokens=300B&keys_seen=2&sigma=1"),
            ("odd://box/a.log?author=me&authorization=f00", "odd://box/a.log?author=me&authorization=***"),
            ("abfs://box@account/a.log", "abfs://box@account/a.log"),
            ("github://org:project@main/a.log", "github://org:project@main/a.log"),
            ("zip://a.log::ftp://user:word@host/x.zip", "zip://a.log::ftp://user@host/x.zip"),
            ("http://user:word@[::1]:80/a.log?sig=f00", "http://[::1]:80/a.log"),
        ],
    )
    def test_a_url_is_shown_without_what_gives_access(self, url: str, name: str) -> None:
        assert shown(url) == name
        assert shown(name) == name

    def test_web_addresses_that_differ_in_their_query_are_told_apart_without_showing_it(self) -> None:
        first, second = shown("http://host/get?run=1"), shown("http://host/get?run=2")
        assert first != second
        assert "run" not in first + second

    def test_words_of_others_are_cleaned(self) -> None:
        url = "https://user:w%40rd@host/a.log?code=abc"
        said = f"401 of {url}\n and https://host/b?x=9, with w@rd, user:w@rd and code=abc"
        cleaned = scrubbed(said, url)
        assert "rd" not in cleaned.replace("rds", "")
        assert "abc" not in cleaned
        assert "x=9" not in cleaned
        assert "\n" not in cleaned


def _found(url: str) -> list[Any]:
    from replay.storage import sources

    return sources.find([url])


class TestManyProcesses:
    def test_the_bytes_are_those_of_reading_in_turn(
        self, bucket: Bucket, store: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parallel, "BATCH_FILES", 2)
        fill(bucket)
        expected = store.ingest(["bucket://logs"])
        other = replay.open(tmp_path / "other")
        with ThreadPoolExecutor(1) as threads:
            assert other.ingest(["bucket://logs"], executor=threads) == expected
        assert toy.snapshot(other.folder) == toy.snapshot(store.folder)

    def test_another_process_opens_the_url_itself(self, tmp_path: Path) -> None:
        lines = [{"step": step, "loss": 1 / step, "lr": 0.1} for step in range(1, 40)]
        with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
            for name in ("a/train.jsonl", "b/train.jsonl"):
                archive.writestr(zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6)), toy.lines(*lines))
        url = f"zip://::file://{tmp_path}/runs.zip"
        in_turn, at_once = replay.open(tmp_path / "in-turn"), replay.open(tmp_path / "at-once")
        expected = in_turn.ingest([url])
        assert {(one.source, one.run, one.status) for one in expected.sources} == {
            (f"zip://{name}/train.jsonl::file://{tmp_path}/runs.zip", name, "ingested") for name in "ab"
        }
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
            assert at_once.ingest([url], executor=processes) == expected
            assert {one.status for one in at_once.ingest([url], executor=processes).sources} == {"unchanged"}
        assert toy.snapshot(at_once.folder) == toy.snapshot(in_turn.folder)


class _Handler(http.server.SimpleHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str]]] = []
    over: ClassVar[threading.Event] = threading.Event()
    slow_pieces: ClassVar[int] = 10
    slow_seconds: ClassVar[float] = 0.1

    def do_GET(self) -> None:
        self.asked.append(("GET", self.path))
        if "forbidden" in self.path:
            self.send_error(403)
        elif "silent" in self.path:
            self.over.wait(60)
        else:
            super().do_GET()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # who was kept waiting has gone
            super().handle()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        if "slow" not in self.path:
            super().copyfile(source, outputfile)
            return
        content = source.read()
        size = -(-len(content) // self.slow_pieces)
        for start in range(0, len(content), size):
            time.sleep(self.slow_seconds)
            outputfile.write(content[start : start + size])

    def do_HEAD(self) -> None:
        if "silent" in self.path:
            self.over.wait(60)
        elif "forbidden" in self.path:
            self.send_error(403)
        else:
            super().do_HEAD()

    def log_message(self, *_: Any) -> None: ...


class TestTheWeb:
    @pytest.fixture
    def web(self, logs: Path) -> Iterator[str]:
        """The folder of logs on a server of the standard library."""
        pytest.importorskip("aiohttp", reason="http:// is read by aiohttp")
        fsspec.get_filesystem_class("http").clear_instance_cache()
        _Handler.over.clear()
        handler = functools.partial(_Handler, directory=str(logs))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            _Handler.over.set()
            server.shutdown()

    def test_pages_of_links_are_folders(self, store: EventStore, logs: Path, web: str) -> None:
        fill(MemoryFileSystem(), logs)
        (logs / "forbidden.log").write_text(toy.log())
        found = by_name(store.ingest([f"{web}/"]).sources, web)
        assert found["run-1/train.log"][:2] == ("ingested", "run-1")
        assert found["run-2/step_100/log.gz"][:2] == ("ingested", "run-2")
        assert found["forbidden.log"][3] == "cannot be read: no permission to read it"
        assert found[".git"][3] == "hidden"
        _Handler.asked.clear()
        again = by_name(store.ingest([web]).sources, web)
        assert again["run-1/train.log"][0] == "unchanged"
        assert ("GET", "/run-1/train.log") not in _Handler.asked

    def test_a_grown_file_is_read_on(self, store: EventStore, logs: Path, web: str) -> None:
        (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
        url = f"{web.replace('//', '//me:word@')}/a.log?key=abc"
        assert store.ingest([url]).sources[0].status == "ingested"
        with (logs / "a.log").open("a") as stream:
            stream.write(toy.lines(*toy.losses(5, 9)))
        assert store.ingest([url]).sources[0].status == "extended"
        assert len(store.scalars("a")) == 9
        assert store.ingest([url]).sources[0].status == "unchanged"
        for said in (store.ledger().to_dict(), _found(url)):
            assert "word" not in repr(said)
            assert "abc" not in repr(said)

    def test_a_server_that_gives_no_ranges_is_enough(self, store: EventStore, logs: Path, web: str) -> None:
        text = toy.log(*toy.losses(0, 80_000))
        assert len(text) > 5 << 20, "longer than what fsspec reads at once"
        (logs / "a.log").write_text(text)
        url = f"{web}/a.log"
        assert store.ingest([url]).sources[0].coverage.records == 80_000
        one = remote.find(url)
        assert one._has_ends_of(logs / "a.log")
        (logs / "b.log").write_text("another" + text)
        assert not one._has_ends_of(logs / "b.log")

    def test_a_download_may_take_longer_than_any_limit_while_it_goes_on(
        self, store: EventStore, logs: Path, web: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from aiohttp import ClientTimeout

        takes = _Handler.slow_pieces * _Handler.slow_seconds
        monkeypatch.setattr("aiohttp.client.DEFAULT_TIMEOUT", ClientTimeout(total=takes / 2))
        monkeypatch.setattr(remote, "WEB_SECONDS", takes / 2)
        (logs / "slow.log").write_text(toy.log(*toy.losses(0, 500)))
        assert statuses(store, f"{web}/slow.log") == {"slow.log": "ingested"}
        assert len(store.scalars("slow")) == 500

    def test_a_server_that_says_nothing_is_given_up(
        self, store: EventStore, web: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(remote, "WEB_SECONDS", 0.2)
        begun = time.monotonic()
        report = store.ingest([f"{web}/silent.log", f"zip://a.log::{web}/silent.zip"])
        assert time.monotonic() - begun < 20
        assert [one.status for one in report.sources] == ["failed", "failed"]
        for one in report.sources:
            assert one.reason.startswith("cannot be opened: no answer in time: try again later")

    def test_a_server_that_falls_silent_is_given_up(
        self, store: EventStore, logs: Path, web: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(remote, "WEB_SECONDS", 0.3)
        monkeypatch.setattr(_Handler, "slow_seconds", 2.0)
        (logs / "slow.log").write_text(toy.log(*toy.losses(0, 500)))
        report = store.ingest([f"{web}/slow.log"]).sources[0]
        assert report.reason.startswith("cannot be read: no answer in time: try again later")

    def test_what_is_not_there_is_told_from_who_does_not_answer(self, store: EventStore, web: str) -> None:
        absent = store.ingest([f"{web}/absent.log"]).sources[0]
        assert absent.reason == "no such file or folder"
        nobody = store.ingest(["http://127.0.0.1:1/a.log"]).sources[0]
        assert nobody.reason.startswith("cannot be opened: ")
        assert "127.0.0.1" in nobody.reason
