"""Finding what to read: everything that lies in real folders is named, and nothing stops the rest."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
import toy

import replay
from replay.storage import sources
from replay.store import EventStore, SourceReport
from replay_parsers.records import ProblemKind

LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d7a2146' * 8}\nsize 12345\n"


def reports(store: EventStore, *paths: Path, run: str | None = None) -> dict[str, SourceReport]:
    """What became of each source, by its file's name."""
    return {Path(report.source).name: report for report in store.ingest(paths, run=run).sources}


def test_a_file_is_read_once_however_often_it_is_reached(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 5)))
    (logs / "latest").symlink_to("a.log")
    (logs / "again").symlink_to(logs)
    report = store.ingest([logs, logs, path, logs / "latest", logs / ".." / "logs"])
    assert [(Path(one.source).name, one.status) for one in report.sources if one.status != "skipped"] == [
        ("a.log", "ingested")
    ]
    assert len(store.scalars("a")) == 5


def test_links_that_lead_back_are_named_and_end(store: EventStore, logs: Path) -> None:
    inner = logs / "inner"
    inner.mkdir()
    (inner / "up").symlink_to(logs)
    (inner / "self").symlink_to(inner)
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    (logs / "ouroboros").symlink_to("ouroboros")
    found = reports(store, logs)
    assert found["a.log"].status == "ingested"
    assert "leads back" in found["up"].reason
    assert "leads back" in found["self"].reason
    assert found["ouroboros"].status == "failed"
    assert "cannot be opened" in found["ouroboros"].reason


def test_a_folder_behind_a_link_is_read(store: EventStore, logs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.log").write_text(toy.log(*toy.losses(0, 5)))
    (logs / "linked").symlink_to(elsewhere)
    assert reports(store, logs)["b.log"].status == "ingested"


def test_what_is_no_log_is_named_but_no_error(store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (logs / "zero.log").touch()
    (logs / "zero.log.gz").write_bytes(bytes.fromhex("1f8b0800000000000003030000000000 00000000".replace(" ", "")))
    (logs / "events.out.tfevents.1.host").write_text(LFS)
    (logs / "annexed").write_text("/annex/objects/SHA256E-s1--0123456789abcdef.log\n")
    (logs / ".git").mkdir()
    (logs / ".git" / "index").write_bytes(b"\0")
    (logs / ".hidden.log").write_text(toy.log())
    (logs / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}" + bytes(1000))
    os.mkfifo(logs / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(logs)  # the name of a socket must be short
        server.bind("socket")
        report = store.ingest([logs])
    reasons = {Path(one.source).name: one.reason for one in report.sources}
    assert {one.status for one in report.sources} == {"skipped"}
    assert report.exit_code == 0
    assert reasons["zero.log"] == reasons["zero.log.gz"] == "empty: it holds no bytes yet"
    assert "Git LFS" in reasons["events.out.tfevents.1.host"]
    assert "git-annex" in reasons["annexed"]
    assert reasons[".git"] == reasons[".hidden.log"] == "hidden"
    assert "binary" in reasons["model.safetensors"]
    assert "a pipe" in reasons["pipe"]
    assert "a socket" in reasons["socket"]
    assert dict(zip(store.ledger()["status"], store.ledger()["reason"], strict=True)).keys() == {"skipped"}
    assert len(store.ledger()) == len(report.sources), "the ledger names each"


def test_a_log_that_begins_like_a_pointer_is_none(store: EventStore, logs: Path) -> None:
    (logs / "a.txt").write_text("version https://git-lfs.github.com/spec/v1\nbut then a story\n")
    report = reports(store, logs)["a.txt"]
    assert "no parser recognises it" in report.reason
    assert sources.pointer(LFS.encode() + b"x" * 10) is not None, "a pointer may have further lines"


def test_a_pointer_that_was_fetched_is_read(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(LFS)
    store.ingest([logs])
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    assert reports(store, logs)["a.log"].status == "ingested"
    assert list(store.ledger()["status"]) == ["ingested"]


def test_what_should_have_been_readable_is_an_error_and_the_rest_is_kept(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "good.log").write_text(toy.log(*toy.losses(0, 5)))
    (logs / "unknown.txt").write_text("what is this?\n")
    (logs / "events.out.tfevents.7.host").write_bytes(bytes(range(256)))
    (logs / "broken").symlink_to("nowhere")
    (logs / "half.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xff\xff\xff\xff\xff\xff")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    found = reports(store, logs, logs / "absent", Path("s3://bucket/run"), Path("nul\0character"))
    assert found["good.log"].status == "ingested"
    unread = {name: one.status for name, one in found.items() if name not in ("good.log", "unknown.txt")}
    assert set(unread.values()) == {"failed"}, unread
    assert "no parser recognises it" in found["events.out.tfevents.7.host"].reason, "its name says it should be read"
    assert "nowhere" in found["broken"].reason
    assert "damaged" in found["half.gz"].reason or "cannot be read" in found["half.gz"].reason
    assert "no such file" in found["absent"].reason
    assert "training-replay[remote]" in found["run"].reason, "the package that reads S3 is not installed here"
    assert len(store.problems()) == 3, "those that exist are on record"


def test_an_unknown_file_is_an_error_only_where_it_was_named(store: EventStore, logs: Path) -> None:
    (logs / "unknown.txt").write_text("what is this?\n")
    in_folder = store.ingest([logs])
    assert [(one.status, one.tried) for one in in_folder.sources] == [("skipped", ("toy-log", "toy-document"))]
    assert in_folder.exit_code == 0
    assert "no parser recognises it (2 formats tried)" in in_folder.sources[0].reason
    assert list(store.ledger()["status"]) == ["skipped"], "it is on record all the same"
    named = store.ingest([logs / "unknown.txt"])
    assert named.sources[0].status == "failed"
    assert named.sources[0].problems[0].kind is ProblemKind.NOT_UNDERSTOOD
    assert named.exit_code == 1


def test_binary_junk_that_was_asked_for_is_an_error(store: EventStore, logs: Path) -> None:
    (logs / "model.bin").write_bytes(bytes(1000))
    assert reports(store, logs / "model.bin")["model.bin"].status == "failed"
    os.mkfifo(logs / "pipe")
    assert "save its content to a file" in reports(store, logs / "pipe")["pipe"].reason


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_files_and_folders_without_permission_are_named(store: EventStore, logs: Path) -> None:
    (logs / "secret.log").write_text(toy.log())
    (logs / "secret.log").chmod(0)
    (logs / "closed").mkdir(mode=0)
    found = reports(store, logs)
    assert "Permission denied" in found["secret.log"].reason
    assert "Permission denied" in found["closed"].reason


def test_permission_denied_is_a_problem_of_that_file_alone(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "good.log").write_text(toy.log(*toy.losses(0, 5)))
    (logs / "secret.log").write_text(toy.log())
    (logs / "closed").mkdir()
    original_open, original_scan = Path.open, os.scandir

    def guarded_open(self: Path, *arguments, **options):  # type: ignore[no-untyped-def]
        if self.name == "secret.log":
            raise PermissionError(13, "Permission denied")
        return original_open(self, *arguments, **options)

    def guarded_scan(path):  # type: ignore[no-untyped-def]
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return original_scan(path)

    monkeypatch.setattr(Path, "open", guarded_open)
    monkeypatch.setattr(os, "scandir", guarded_scan)
    found = reports(store, logs)
    assert "Permission denied" in found["secret.log"].reason
    assert "the folder cannot be opened: Permission denied" in found["closed"].reason
    assert found["good.log"].status == "ingested"


def test_the_store_itself_is_no_source(logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    store = replay.open(logs / "replay-store")
    store.ingest([logs])
    found = reports(store, logs)
    assert found["a.log"].status == "unchanged"
    assert "a replay store" in found["replay-store"].reason


def test_names_that_are_not_utf8_are_spelled_out(store: EventStore, logs: Path) -> None:
    name = os.fsdecode(b"caf\xe9.log")
    (logs / name).write_text(toy.log(*toy.losses(0, 5)))
    (report,) = store.ingest([logs]).sources
    assert report.run == "caf\\xe9"
    assert len(store.scalars("caf\\xe9")) == 5


def test_a_log_that_names_its_run_is_believed_before_the_user(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5), run="its-own"))
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([logs], run="given")
    assert list(store.runs()["run"]) == ["given", "its-own"]
    with (logs / "a.log").open("a") as stream:
        stream.write(toy.lines(*toy.losses(5, 9)))
    assert reports(store, logs, run="given")["b.log"].status == "unchanged"
    assert len(store.scalars("its-own")) == 9


def test_a_run_can_be_renamed_by_ingesting_it_under_another_name(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([logs])
    assert reports(store, logs, run="better")["a.log"].status == "replaced"
    assert list(store.runs()["run"]) == ["better"]
    assert reports(store, logs)["a.log"].status == "unchanged", "the name given stays without being repeated"


def test_event_files_are_named_by_their_folder(store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.storage.planning.EVENT_FILES", "toy-log")
    for folder in ("", "one", "two/train"):
        (logs / folder).mkdir(parents=True, exist_ok=True)
        (logs / folder / "events.log").write_text(toy.log(*toy.losses(0, 3)))
    store.ingest([logs])
    assert list(store.runs()["run"]) == ["logs", "one", "two/train"]
    other = replay.open(logs.parent / "other")
    other.ingest([logs / "two" / "train", logs / "one" / "events.log"])
    assert list(other.runs()["run"]) == ["one", "train"]


@pytest.mark.parametrize(
    ("path", "run"),
    [
        ("tr8-104b.log", "tr8-104b"),
        ("one/tr8.txt.gz", "tr8"),
        ("train.log", "logs"),
        ("one/train.log", "one"),
        ("one/two/Log.txt", "one/two"),
        ("one/trainer_state.json", "one"),
        ("one/checkpoint-500/trainer_state.json", "one"),
        ("checkpoint-500/trainer_state.json", "logs"),
        ("one/checkpoint-500.log", "checkpoint-500"),
    ],
)
def test_a_log_is_named_by_itself_or_by_its_folder_where_its_name_is_anyones(
    store: EventStore, logs: Path, path: str, run: str
) -> None:
    (logs / path).parent.mkdir(parents=True, exist_ok=True)
    (logs / path).write_text(toy.log(*toy.losses(0, 3)))
    store.ingest([logs])
    assert list(store.runs()["run"]) == [run]
    assert replay.open(logs.parent / "other").ingest([logs / path]).sources[0].run == Path(run).name


@pytest.mark.parametrize(
    "run",
    [
        "<script>alert(1)</script>",
        "a/b",
        "..",
        ".",
        "損失 ü",
        "a=b&c%41",
        "x" * 300,
        "損" * 100,
        "\n\t'\"",
        "CON",
        "2022",
    ],
)
def test_any_text_is_a_name_for_a_run(store: EventStore, logs: Path, run: str) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 3), {"event": "e/hang", "kind": "hang"}))
    store.ingest([logs], run=run)
    again = replay.open(store.folder)
    assert list(again.runs()["run"]) == [run]
    assert list(again.events(run=run)["run"]) == [run]
    assert list(again.scalars(run)["run"]) == [run] * 3
    assert {path.parent for path in store.folder.parent.rglob("*.parquet")} <= {
        path.parent for path in store.folder.rglob("*.parquet")
    }, "no name leads out of the store"


def test_names_too_long_for_a_folder_stay_apart(store: EventStore, logs: Path) -> None:
    for number in range(2):
        (logs / f"{number}.log").write_text(toy.log(*toy.losses(0, 3 + number), run="損" * 100 + str(number)))
    store.ingest([logs])
    assert list(store.runs()["n_scalars"]) == [3, 4]
    assert len(list((store.folder / "scalars").iterdir())) == 2


def test_two_folders_that_share_a_name_are_pointed_out(store: EventStore, logs: Path) -> None:
    for folder in ("one", "two"):
        (logs / folder).mkdir()
        (logs / folder / "bert.log").write_text(toy.log(*toy.losses(0, 3)))
    (note,) = store.ingest([logs]).notes
    assert "'bert'" in note
    assert str(logs / "one") in note
    assert "--run" in note
    assert store.ingest([logs / "one"], run="one").notes == []


def test_histories_in_the_checkpoints_of_one_run_are_one_run(store: EventStore, logs: Path) -> None:
    for folder in ("one", "one/checkpoint-500", "one/checkpoint-1000"):
        (logs / folder).mkdir()
        (logs / folder / "trainer_state.json").write_text(toy.document(*toy.losses(0, 3)))
    report = store.ingest([logs])
    assert {one.run for one in report.sources} == {"one"}
    assert report.notes == []


def test_the_built_in_logbooks_are_the_same_bytes_wherever_they_lie(
    store: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay import builtin

    report = store.ingest_builtin()
    assert report.exit_code == 0
    assert {one.status for one in report.sources} == {"ingested"}
    assert {"glm-130b", "bloom-176b", "palm-540b"} <= set(store.runs()["run"])
    assert {one.status for one in store.ingest_builtin().sources} == {"unchanged"}
    copies = tmp_path / "copies"
    copies.mkdir()
    for path in builtin.builtin_folder().glob("*.yaml"):
        (copies / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(builtin, "_FOLDERS", (copies,))
    other = replay.open(tmp_path / "other")
    other.ingest_builtin()
    other.derive()
    assert toy.snapshot(other.folder) == toy.snapshot(store.folder)
