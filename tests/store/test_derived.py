"""What follows from scalars: kept beside them, and never older than they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
import toy

import replay
from replay.storage import scalar_frames
from replay.store import EventStore, StoreError


def restart_log(**header: str) -> str:
    """A run that goes back from step 99 to 60."""
    return toy.log(*toy.losses(0, 100), *toy.losses(61, 150), **header)


def test_a_rollback_is_found_in_the_scalars_and_kept(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(restart_log())
    store.ingest([logs])
    (rollback,) = store.events(kind="rollback").to_dict("records")
    assert (rollback["step"], rollback["before"], rollback["lost_steps"]) == (60, 99, 39)
    assert rollback["evidence"] == "derived"
    assert store.events(derived=False).empty
    assert (store.folder / "events" / "run=a" / "derived.parquet").exists()
    assert len(pd.read_parquet(store.folder / "attempts")) == 2, "attempts are there for other tools"


def test_a_derived_event_gives_way_to_the_one_that_was_logged(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(restart_log(run="a"))
    (logs / "notes.json").write_text(
        toy.document(
            {"event": "a/1/rollback", "kind": "rollback", "step": 60, "lost_steps": 40, "evidence": "stated"}, run="a"
        )
    )
    store.ingest([logs])
    assert list(store.events(kind="rollback")["evidence"]) == ["stated"]
    assert sorted(store.events(kind="rollback", sources="all")["evidence"]) == ["derived", "stated"]


def test_a_file_that_comes_late_changes_what_follows(store: EventStore, logs: Path) -> None:
    (logs / "second.log").write_text(toy.log(*toy.losses(61, 150), run="a"))
    store.ingest([logs])
    assert len(store.attempts("a")) == 1
    (logs / "first.log").write_text(toy.log(*toy.losses(0, 100), run="a").replace("16000", "15900"))
    store.ingest([logs])
    assert store.attempts("a")["end_step"].tolist() == [99, 149]
    at_once = replay.open(logs.parent / "at-once")
    at_once.ingest([logs])
    pd.testing.assert_frame_equal(at_once.attempts("a"), store.attempts("a"))
    pd.testing.assert_frame_equal(at_once.events(), store.events())


def test_what_is_kept_is_not_believed_once_its_records_have_changed(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 100)))
    store.ingest([logs])
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(61, 150)))
    with monkeypatch.context() as patch:
        # As a kill after the commit, before anything was derived.
        patch.setattr(EventStore, "_derive_for", lambda *_: None)
        store.ingest([logs])
        assert len(store.attempts("a")) == 2, "computed anew for the query"
        assert store.events(kind="rollback").empty
    assert len(store.events(kind="rollback")) == 1, "the next query makes up for it, though no file has changed"


def test_a_store_that_cannot_be_written_says_that_what_follows_may_be_old(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (logs / "a.log").write_text(restart_log())
    store.ingest([logs])

    def refuse(*_: object) -> None:
        raise StoreError("read-only")

    monkeypatch.setattr("replay.storage.derived.write", refuse)
    assert store.events(kind="rollback").empty
    assert len(store.attempts("a")) == 2, "attempts are computed all the same"
    assert "may be missing or old: read-only" in caplog.text


def test_deriving_again_changes_nothing(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(restart_log())
    store.ingest([logs])
    store.derive()
    before = toy.snapshot(store.folder)
    store.write_derived("a")
    assert toy.snapshot(store.folder) == before
    shutil.rmtree(store.folder / "attempts")
    (store.folder / "events" / "run=a" / "derived.parquet").unlink()
    store.derive()
    assert toy.snapshot(store.folder) == before


def test_of_a_very_long_run_only_the_tags_that_matter_are_looked_at(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*toy.losses(0, 40, tag="loss"), *toy.losses(0, 60, tag="mine"), *toy.losses(0, 50, tag="yours")]
    (logs / "a.log").write_text(toy.log(*rows, run="a"))
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 10, tag="other"), run="a"))
    monkeypatch.setattr(scalar_frames, "ALL_TAGS_UP_TO", 100)
    store.ingest([logs])
    looked_at = scalar_frames.measurements(store.folder, store._ledger.snapshot(), "a")
    assert sorted(looked_at["tag"].unique()) == ["loss", "mine", "other"]
    assert store.attempts("a")["end_step"].max() == 59
    assert len(store.scalars("a")) == 160, "queries are not restricted"
