"""Merging parts: afterwards the store depends on its rows alone."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pandas as pd
import pytest
import toy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replay
from replay.storage import merge_scalars, parts
from replay.storage.records_as_tables import scalar_groups
from replay.storage.schema import SCALARS_ON_DISK
from replay.store import EventStore


def interesting_log() -> str:
    """A log with everything a log can hold, and steps back."""
    return toy.log(
        {"run_record": {"title": "A run", "metadata": {"layers": "2"}}},
        *toy.losses(0, 40),
        {"event": "a/hang", "kind": "hang", "incident": "a/1"},
        {"run_record": {"hardware": "a laptop", "metadata": {"width": "64"}}},
        *toy.losses(20, 60),
        *toy.losses(0, 60, tag="lr", every=7),
        {"problem": "corrupt"},
        {"finding": {"check": "clock", "locator": "line 3", "readings": ["1", "2"], "likely": "2", "reasons": "so"}},
        *toy.losses(60, 70),
        *toy.losses(-3, 2, tag="aaa"),
    )


@pytest.mark.parametrize(("piece", "pace"), [(1, 3000), (7, 2000), (1000, 1111)])
def test_a_followed_file_and_one_read_at_once_become_the_same_bytes(
    logs: Path, tmp_path: Path, piece: int, pace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 16)
    path = logs / "a.log"
    whole = interesting_log().replace('{"toy": "log"', f'{{"toy": "log", "piece": {piece}')
    followed = replay.open(tmp_path / "followed")
    for end in [*range(pace, len(whole), pace), len(whole)]:
        path.write_text(whole[:end])
        followed.ingest([logs])
    at_once = replay.open(tmp_path / "at-once")
    at_once.ingest([logs])
    rows = at_once.scalars("a")
    followed.compact()
    at_once.compact()
    assert toy.snapshot(followed.folder) == toy.snapshot(at_once.folder)
    pd.testing.assert_frame_equal(followed.scalars("a"), rows)
    assert len(list((followed.folder / "scalars").rglob("*.parquet"))) == 1
    assert [len(followed.problems()), len(followed.findings()), len(followed.events(derived=False))] == [1, 1, 1]
    (run,) = followed.runs().to_dict("records")
    assert (run["title"], run["hardware"], run["metadata"]) == ("A run", "a laptop", {"layers": "2", "width": "64"})


def test_merging_changes_no_answer_and_merging_again_changes_nothing(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(interesting_log())
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 50), piece=3))
    (logs / "unknown").write_text("?")
    (logs / "empty").touch()
    store.ingest([logs])
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([logs])

    def answers() -> list[pd.DataFrame]:
        frames = [store.scalars(run) for run in ("a", "b")] + [store.tags("a"), store.attempts("a"), store.events()]
        return [*frames, store.runs(), store.problems(), store.findings(), store.ledger().drop(columns="parts")]

    before = answers()
    store.compact()
    for old, new in zip(before, answers(), strict=True):
        pd.testing.assert_frame_equal(old, new)
    merged = toy.snapshot(store.folder)
    store.compact()
    assert toy.snapshot(store.folder) == merged
    assert [one.status for one in store.ingest([logs]).sources] == ["unchanged", "unchanged", "skipped", "skipped"]
    assert toy.snapshot(store.folder) == merged


def test_a_merged_source_can_still_grow(store: EventStore, logs: Path) -> None:
    path = logs / "a.log"
    path.write_text(toy.log(*toy.losses(0, 20), piece=4))
    store.ingest([logs])
    store.compact()
    with path.open("a") as stream:
        stream.write(toy.lines(*toy.losses(15, 25)))
    assert store.ingest([logs]).sources[0].status == "extended"
    assert store.scalars("a")["segment"].value_counts().to_dict() == {0: 20, 1: 10}


def test_a_merge_stopped_at_any_write_loses_and_doubles_nothing(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "a.log").write_text(interesting_log().replace('{"toy": "log"', '{"toy": "log", "piece": 9'))
    original = replay.open(tmp_path / "original")
    original.ingest([logs])
    rows, events = original.scalars("a"), original.events()
    for written in itertools.count():
        shutil.copytree(original.folder, tmp_path / f"stopped-{written}")
        store = replay.open(tmp_path / f"stopped-{written}")
        replace, count = Path.replace, iter(range(1000))

        def stop(self: Path, target: Path, replace=replace, count=count, limit=written) -> Path:  # type: ignore[no-untyped-def]
            if next(count) >= limit:
                raise KeyboardInterrupt
            return replace(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", stop)
            try:
                store.compact()
            except KeyboardInterrupt:
                stopped = True
            else:
                stopped = False
        pd.testing.assert_frame_equal(replay.open(store.folder).scalars("a"), rows)
        pd.testing.assert_frame_equal(replay.open(store.folder).events(), events)
        if not stopped:
            break
    assert written >= 6, "a merge writes a part a table, the ledger, and what is derived"


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-4, 4)), max_size=30)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, min_size=1, max_size=6))
def test_merged_parts_are_the_part_that_one_reading_writes(tmp_path: Path, pieces: list[list[tuple[str, int]]]) -> None:
    numbered = iter(range(1000))
    rows = [[(tag, step, float(next(numbered))) for tag, step in piece] for piece in pieces]
    paths = [tmp_path / str(number) for number in range(len(rows))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROW_GROUP_ROWS", 7)
        patch.setattr(merge_scalars, "AT_ONCE", 2)
        for path, piece in zip(paths, rows, strict=True):
            one = toy.measured(piece)
            one.segment[:] = 0
            path.write_bytes(parts.serialise_scalars(scalar_groups(one, "s"), SCALARS_ON_DISK))
        merge_scalars.merge(paths, "s", tmp_path / "merged")
        together = toy.measured([row for piece in rows for row in piece])
        together.segment[:] = 0
        whole = parts.serialise_scalars(scalar_groups(together, "s"), SCALARS_ON_DISK)
    assert (tmp_path / "merged").read_bytes() == whole
