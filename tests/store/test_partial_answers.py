"""What is left of a run whose parts are partly damaged: answered, with what was left out told."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import toy
from test_damage import flip

import replay
from replay.storage import parts
from replay.storage.errors import DamagedPartError
from replay.store import EventStore, StoreError

HARM = pytest.mark.parametrize("harm", [flip, Path.unlink], ids=["damaged", "missing"])


@pytest.fixture
def told_twice(store: EventStore, logs: Path) -> EventStore:
    """A run that two logs tell of, with an event and scalars each, and another run."""
    for name, first in (("one", 0), ("two", 20)):
        (logs / f"{name}.log").write_text(
            toy.log(*toy.losses(first, first + 9), {"event": f"a/{name}", "kind": "hang", "step": first}, run="a")
        )
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 9), {"event": "b/hang", "kind": "hang", "step": 3}, run="b"))
    store.ingest([logs])
    store.derive()
    return store


def parts_of(store: EventStore, table: str, run: str, source: str = "") -> list[Path]:
    """The parts of what sources say of ``run``, of one source only, if given."""
    return [
        store.folder / part.path
        for entry, part in store._ledger.snapshot().parts(table, run)
        if entry.source.endswith(source)
    ]


@HARM
def test_of_two_tellings_the_whole_one_is_answered(
    told_twice: EventStore, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    (harmed,) = parts_of(told_twice, "events", "a", "two.log")
    scalars = told_twice.scalars("a")
    harm(harmed)
    store = replay.open(told_twice.folder)
    assert store.left_out == {}
    assert list(store.events(run="a", derived=False)["event"]) == ["a/one"]
    assert harmed.name in caplog.text
    assert list(store.left_out) == [str(harmed)]
    assert store.scalars("a").equals(scalars)
    assert store.events(run="a", kind="rollback").empty
    assert caplog.text.count("left out: ") == 1, "each is told once"


@HARM
def test_scalars_of_one_source_are_answered_without_those_of_another(
    told_twice: EventStore, harm: Callable[[Path], None]
) -> None:
    (harmed,) = parts_of(told_twice, "scalars", "a", "two.log")
    harm(harmed)
    store = replay.open(told_twice.folder)
    assert sorted(set(store.scalars("a")["step"])) == list(range(9))
    assert list(store.tags("a")["last_step"]) == [8]
    assert store.attempts("a").equals(told_twice.attempts("a")), "they were computed while all was whole"
    assert list(store.left_out) == [str(harmed)]


@HARM
@pytest.mark.parametrize("table", ["events", "scalars"])
def test_where_nothing_of_what_is_asked_is_left_the_query_raises(
    told_twice: EventStore, harm: Callable[[Path], None], table: str
) -> None:
    for path in parts_of(told_twice, table, "a"):
        harm(path)
    store = replay.open(told_twice.folder)
    ask = {"events": lambda one: one.events(run="a"), "scalars": lambda one: one.scalars("a")}
    with pytest.raises(StoreError, match=r"\.parquet is (missing|damaged)"):
        ask[table](store)
    assert len(store.events(run=["a", "b"], derived=False)) == (1 if table == "events" else 3), "b's is left"
    assert ask[table](EventStore(told_twice.folder, partial=True)).empty or table == "events"


def test_a_run_of_which_nothing_is_whole_is_still_known_by_name(told_twice: EventStore) -> None:
    for table in ("events", "scalars", "runs", "findings", "problems"):
        for path in parts_of(told_twice, table, "a"):
            path.unlink()
    store = replay.open(told_twice.folder)
    assert list(store.runs()["run"]) == ["b"]
    assert store.names() == ["a", "b"]


def test_damage_in_one_run_is_not_told_of_another(told_twice: EventStore) -> None:
    flip(parts_of(told_twice, "events", "b")[0])
    flip(parts_of(told_twice, "events", "a", "two.log")[0])
    store = replay.open(told_twice.folder)
    store.events(run="a")
    assert list(store.left_out) == [str(parts_of(told_twice, "events", "a", "two.log")[0])]


def test_a_large_part_whose_damage_only_reading_shows_is_left_out_too(
    told_twice: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "VERIFIED_WHOLE", 0)
    (harmed,) = parts_of(told_twice, "scalars", "a", "two.log")
    column = parts.open_part(harmed).metadata.row_group(0).column(3)
    data = bytearray(harmed.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    harmed.write_bytes(bytes(data))
    store = replay.open(told_twice.folder)
    assert sorted(set(store.scalars("a")["step"])) == list(range(9))
    assert list(store.left_out) == [str(harmed)]


def test_a_damaged_part_is_a_problem_of_the_source_that_it_tells_of(told_twice: EventStore) -> None:
    (harmed,) = parts_of(told_twice, "events", "a", "two.log")
    flip(harmed)
    (problem,) = replay.open(told_twice.folder).problems().to_dict("records")
    assert problem["source"].endswith("two.log")
    assert harmed.name in problem["message"]


def test_ingesting_again_leaves_nothing_out(told_twice: EventStore, logs: Path) -> None:
    flip(parts_of(told_twice, "events", "a", "two.log")[0])
    store = replay.open(told_twice.folder)
    store.events(run="a")
    store.ingest([logs])
    assert len(store.events(run="a", derived=False)) == 2
    assert store.left_out == {}


def test_effects_of_other_scenarios_are_answered(store: EventStore) -> None:
    columns = store.effects().columns
    for scenario in ("x", "y"):
        store.put_effects(scenario, pd.DataFrame([{"scenario": scenario, "arm": "z"}]).reindex(columns=columns))
    harmed = store.folder / "effects" / "scenario=x" / "effects.parquet"
    flip(harmed)
    store = replay.open(store.folder)
    assert list(store.effects()["scenario"]) == ["y"]
    assert list(store.left_out) == [str(harmed)]


def test_what_is_wrong_with_a_part_can_be_sent_between_processes() -> None:
    error = pickle.loads(pickle.dumps(DamagedPartError(Path("x.parquet"), "x.parquet is damaged")))  # noqa: S301
    assert (type(error), error.path, str(error)) == (DamagedPartError, Path("x.parquet"), "x.parquet is damaged")
