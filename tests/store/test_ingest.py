"""Ingesting: each source once, whatever becomes of it in between."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest
import toy

import replay
from replay.store import EventStore, StoreError
from replay_parsers.parser import Parser, Sample
from replay_parsers.records import ProblemKind


def statuses(report: replay.store.IngestReport) -> list[str]:  # type: ignore[name-defined]
    return [source.status for source in report.sources]


def test_what_a_log_says_is_there_afterwards(store: EventStore, logs: Path) -> None:
    event = {"event": "run-1/loss_spike@3", "kind": "loss_spike", "step": 3, "time": "2022-06-20T09:10+00:00"}
    (logs / "run-1.log").write_text(toy.log(*toy.losses(0, 5), event))
    report = store.ingest([logs])
    assert statuses(report) == ["ingested"]
    assert report.exit_code == 0
    assert (report.sources[0].run, report.sources[0].format) == ("run-1", "toy-log")
    assert report.sources[0].coverage.records == 6
    assert list(store.scalars("run-1")["value"]) == [1 / (1 + step * step) for step in range(5)]
    assert list(store.events()["event"]) == ["run-1/loss_spike@3"]
    assert list(store.ledger()["status"]) == ["ingested"]


def test_ingesting_twice_touches_no_file(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 50), piece=7))
    (logs / "b.txt").write_text("nobody knows this format\n")
    (logs / "empty.log").touch()
    store.ingest([logs])
    before = toy.snapshot(store.folder)
    times = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.parquet")}
    assert statuses(store.ingest([logs])) == ["unchanged", "skipped", "skipped"]
    assert statuses(replay.open(store.folder).ingest([logs, logs])) == ["unchanged", "skipped", "skipped"]
    assert toy.snapshot(store.folder) == before
    assert {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.parquet")} == times


def test_a_touched_or_copied_file_is_still_the_same(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([path])
    before = toy.snapshot(store.folder)
    os.utime(path, (1, 1))
    assert statuses(store.ingest([path])) == ["unchanged"]
    shutil.copy(path, logs / "copy")
    (logs / "copy").replace(path)
    assert statuses(store.ingest([path])) == ["unchanged"]
    assert toy.snapshot(store.folder) == before


def test_a_grown_file_is_read_on_from_where_it_ended(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([path])
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(5, 8)))
    report = store.ingest([path])
    assert statuses(report) == ["extended"]
    assert report.sources[0].coverage.records == 3, "what was there is not read again"
    assert list(store.scalars("a")["step"]) == list(range(8))
    assert store.ledger().loc[0, "records"] == 8


def test_a_file_that_grows_under_a_new_inode_is_still_read_on(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([path])
    (logs / "synchronised").write_text(path.read_text() + toy.lines(*toy.losses(5, 8)))
    (logs / "synchronised").replace(path)
    assert statuses(store.ingest([path])) == ["extended"]
    assert list(store.scalars("a")["step"]) == list(range(8))


def test_steps_back_after_the_file_grew_open_a_new_segment(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([path])
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(3, 6)))
    store.ingest([path])
    rows = store.scalars("a")
    assert sorted(zip(rows["segment"], rows["step"], strict=True)) == [(0, s) for s in range(5)] + [
        (1, 3),
        (1, 4),
        (1, 5),
    ]


def test_half_a_line_waits_for_its_end(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    whole = toy.log(*toy.losses(0, 3))
    path.write_text(whole[:-10])
    report = store.ingest([path])
    assert [problem.kind for problem in report.problems] == [ProblemKind.TRUNCATED]
    assert report.exit_code == 0, "a line still being written is a state, not an error"
    assert list(store.problems()["kind"]) == ["truncated"]
    path.write_text(whole)
    assert statuses(store.ingest([path])) == ["extended"]
    assert list(store.scalars("a")["step"]) == [0, 1, 2]
    assert store.problems().empty, "what was cut off is whole now"


def test_half_a_line_that_only_grew_is_told_once(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    whole = toy.log(*toy.losses(0, 3))
    for cut in (30, 20, 10):
        path.write_text(whole[:-cut])
        store.ingest([path])
    assert list(store.problems()["message"]) == [
        f"{len(whole.splitlines()[-1]) + 1 - 10} bytes of a line without an end"
    ]
    assert len(list((store.folder / "ledger").iterdir())) <= 2, "entries that no longer count are cleared away"


def test_a_log_begun_again_adds_to_the_former_one(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 50)))
    store.ingest([path])
    path.write_text(toy.log(*toy.losses(0, 3, tag="other")))
    report = store.ingest([path])
    assert statuses(report) == ["replaced"]
    assert "kept" in report.sources[0].reason
    rows = store.scalars("a")
    assert dict(rows.groupby("tag").size()) == {"loss": 50, "other": 3}
    assert dict(rows.groupby("tag")["segment"].min()) == {"loss": 0, "other": 1}, "segments are not shared"
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(3, 5, tag="other")))
    assert statuses(store.ingest([path])) == ["extended"]
    assert list(store.scalars("a", tag="other")["step"]) == [0, 1, 2, 3, 4]


def test_one_byte_changed_in_a_file_of_the_same_size_is_noticed(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 50)))
    store.ingest([path])
    path.write_text(path.read_text().replace('"step": 20,', '"step": 21,'))
    assert statuses(store.ingest([path])) == ["replaced"]


def test_an_edited_document_replaces_what_it_said(store: EventStore, logs: Path) -> None:
    path = logs / "book.json"
    path.write_text(toy.document({"event": "x/hang", "kind": "hang"}, {"event": "x/crash", "kind": "crash"}))
    store.ingest([path])
    path.write_text(toy.document({"event": "x/crash", "kind": "crash"}, {"event": "x/wait", "kind": "wait"}))
    assert statuses(store.ingest([path])) == ["replaced"]
    assert sorted(store.events()["kind"]) == ["crash", "wait"]
    assert len(list((store.folder / "events").rglob("book*"))) == 0
    parts = [path for path in (store.folder / "events").rglob("*.parquet") if path.name != "derived.parquet"]
    assert len(parts) == 1, "the former reading is gone from the folder, for readers without replay"


def test_a_document_that_grows_is_read_anew(store: EventStore, logs: Path) -> None:
    path = logs / "book.json"
    path.write_text(toy.document({"event": "x/hang", "kind": "hang"}))
    store.ingest([path])
    with path.open("a") as stream:
        stream.write(toy.lines({"event": "x/crash", "kind": "crash"}))
    assert statuses(store.ingest([path])) == ["replaced"]
    assert sorted(store.events()["kind"]) == ["crash", "hang"]


def test_an_emptied_file_leaves_what_was_stored(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([path])
    path.write_text("")
    report = store.ingest([path])
    assert statuses(report) == ["skipped"]
    assert "kept" in report.sources[0].reason
    assert len(store.scalars("a")) == 5
    assert list(store.ledger()["status"]) == ["ingested"]


def test_a_compressed_file_that_grew_by_a_member_is_read_on(store: EventStore, logs: Path) -> None:
    path = logs / "a.log.gz"
    path.write_bytes(gzip.compress(toy.log(*toy.losses(0, 5)).encode()))
    assert store.ingest([path]).sources[0].run == "a"
    with path.open("ab") as stream:
        stream.write(gzip.compress(toy.lines(*toy.losses(5, 8)).encode()))
    assert statuses(store.ingest([path])) == ["extended"]
    assert list(store.scalars("a")["step"]) == list(range(8))


def test_a_long_source_is_committed_on_the_way(store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.storage.reading.COMMIT_BYTES", 2000)
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 200), piece=10))
    store.ingest([logs])
    assert len(store._ledger.snapshot().readings[str(logs / "a.log")].entries) > 3
    assert list(store.scalars("a")["step"]) == list(range(200))
    assert statuses(store.ingest([logs])) == ["unchanged"]


def test_a_parser_that_fails_leaves_what_it_read_and_the_other_sources(store: EventStore, logs: Path) -> None:
    fault = {"raise": "ValueError", "message": "boom"}
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 9), fault, *toy.losses(9, 12), piece=5))
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 3)))
    report = store.ingest([logs])
    assert statuses(report) == ["ingested", "ingested"]
    assert report.exit_code == 1
    assert "boom" in report.problems[0].message
    assert "toy-log" in report.problems[0].message
    assert len(store.scalars("a")) == 9
    assert len(store.scalars("b")) == 3
    before = toy.snapshot(store.folder)
    assert store.ingest([logs]).exit_code == 1, "it is told as long as it is so"
    assert toy.snapshot(store.folder) == before
    assert len(store.problems()) == 1


def test_a_parser_that_fails_when_asked_is_no_reason_to_stop(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(sample: Sample) -> float:
        if b"dynamite" in sample.head:
            raise RuntimeError("boom")
        return 0.0

    parsers = (*toy.PARSERS, Parser(name="fragile", recognise=explode, read=toy.read))
    for module in ("replay_parsers.detection", "replay.storage.planning"):
        monkeypatch.setattr(f"{module}.all_parsers", lambda: parsers)
    (logs / "a.log").write_text("dynamite\n")
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 3)))
    report = store.ingest([logs])
    assert statuses(report) == ["failed", "ingested"]
    assert "boom" in report.problems[0].message


def test_a_file_system_that_fails_half_way_is_tried_again(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 9), piece=5))
    original = toy._piece
    monkeypatch.setattr(toy, "_piece", _failing_after(1, original))
    report = store.ingest([path])
    assert "cannot be read further" in report.problems[0].message
    assert len(store.scalars("a")) == 4
    monkeypatch.setattr(toy, "_piece", original)
    assert statuses(store.ingest([path])) == ["extended"]
    assert list(store.scalars("a")["step"]) == list(range(9))
    assert store.problems().empty
    assert store.ingest([path]).exit_code == 0


def _failing_after(good: int, original):  # type: ignore[no-untyped-def]
    calls = iter(range(1000))

    def piece(*arguments):  # type: ignore[no-untyped-def]
        if next(calls) >= good:
            raise OSError(5, "Input/output error")
        return original(*arguments)

    return piece


def test_parts_deleted_by_hand_are_written_anew(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([logs])
    before = toy.snapshot(store.folder)
    for path in (store.folder / "scalars").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(StoreError, match="missing; ingest its source again"):
        store.scalars("a")
    assert statuses(store.ingest([logs])) == ["ingested"]
    assert len(store.scalars("a")) == 5
    assert {name for name in toy.snapshot(store.folder) if name.startswith("scalars")} == {
        name for name in before if name.startswith("scalars")
    }


def test_a_damaged_part_is_named(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([logs])
    (part,) = (store.folder / "scalars").rglob("*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(StoreError, match=part.name):
        store.scalars("a")


def test_values_that_are_data_survive(store: EventStore, logs: Path) -> None:
    odd = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.797e308]
    rows = [
        {"step": -(2**63) + number, "tag": "läss 損失 </script>", "value": value} for number, value in enumerate(odd)
    ]
    (logs / "a.log").write_text(toy.log(*rows, {"step": 2**63 - 1, "tag": "läss 損失 </script>", "value": 1}))
    store.ingest([logs])
    frame = store.scalars("a", tag="läss 損失 </script>")
    assert [repr(value) for value in frame["value"]] == [repr(float(value)) for value in [*odd, 1]]
    assert frame["step"].iloc[-1] == 2**63 - 1
    assert frame["wall_time"].isna().all()


def test_a_name_that_says_nothing_is_refused(store: EventStore, logs: Path) -> None:
    with pytest.raises(StoreError, match="empty"):
        store.ingest([logs], run=" ")


def test_progress_is_told_after_each_piece(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 9), piece=5))
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 3)))
    seen = []
    store.ingest([logs], progress=seen.append)
    assert [(Path(one.source).name, one.number, one.sources) for one in seen] == [("a.log", 1, 2)] * 2 + [
        ("b.log", 2, 2)
    ]
    assert all(0 < one.bytes_read <= one.size for one in seen)
    assert seen[-1].bytes_read == seen[-1].size == (logs / "b.log").stat().st_size
