"""Queries: the same columns and types however few rows there are, and filters that mean what they say."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import toy

import replay
from replay.store import EventStore, StoreError

TIME = "datetime64[us, UTC]"
COLUMNS: dict[str, dict[str, str]] = {
    "events": {
        **dict.fromkeys(["run", "event", "incident", "role", "kind"], "str"),
        "time": TIME,
        "time_precision": "str",
        "step": "Int64",
        "step_end": "Int64",
        "field": "str",
        "before": "float64",
        "after": "float64",
        "unit": "str",
        "detail": "object",
        "lost_steps": "float64",
        "lost_hours": "float64",
        **dict.fromkeys(["text", "source", "locator", "evidence"], "str"),
    },
    "incidents": {
        "run": "str",
        "incident": "str",
        "time": TIME,
        "step": "Int64",
        **dict.fromkeys(["saw", "cause", "did", "then"], "object"),
        "recurred_after": "Int64",
        "lost_steps": "float64",
        "lost_hours": "float64",
        **dict.fromkeys(["text", "source", "evidence"], "str"),
    },
    "runs": {
        "run": "str",
        "title": "str",
        "organisation": "str",
        "parameters": "float64",
        **dict.fromkeys(["hardware", "precision", "optimizer", "batch", "schedule", "clock"], "str"),
        "sources": "object",
        "metadata": "object",
        "n_events": "int64",
        "n_scalars": "int64",
        "first_step": "Int64",
        "last_step": "Int64",
        "batch_schedule": "object",
        "sequence_length": "Int64",
        "seconds_per_step": "float64",
    },
    "scalars": {
        "run": "str",
        "source": "str",
        "segment": "int64",
        "tag": "str",
        "step": "int64",
        "wall_time": TIME,
        "value": "float64",
        "attempt": "Int64",
    },
    "tags": {"tag": "str", "signal": "str", "rows": "int64", "first_step": "int64", "last_step": "int64"},
    "attempts": {
        "run": "str",
        **dict.fromkeys(["attempt", "parent", "start_step", "end_step", "kept_to", "lost_steps"], "Int64"),
        "start_time": TIME,
        "end_time": TIME,
        "end_cause": "str",
    },
    "flags": {
        **dict.fromkeys(["run", "rule", "signal"], "str"),
        "step": "Int64",
        "step_end": "Int64",
        "time": TIME,
        "severity": "str",
        **dict.fromkeys(["value", "baseline", "score"], "float64"),
        "message": "str",
        "attempt": "Int64",
    },
    "effects": {
        **dict.fromkeys(["scenario", "arm", "control", "metric"], "str"),
        "n_seeds": "Int64",
        **dict.fromkeys(["mean", "low", "high"], "float64"),
        "verdict": "str",
        "note": "str",
    },
    "problems": {
        **dict.fromkeys(["source", "kind", "message"], "str"),
        "line": "Int64",
        "offset": "Int64",
        "lost_bytes": "int64",
        "lost_records": "int64",
    },
    "findings": {
        **dict.fromkeys(["run", "check", "source", "locator"], "str"),
        "readings": "object",
        **dict.fromkeys(["likely", "reasons", "incident"], "str"),
    },
    "ledger": {
        "source": "str",
        "run": "str",
        "format": "str",
        "confidence": "float64",
        "status": "str",
        "reason": "str",
        **dict.fromkeys(["bytes_read", "records", "not_understood", "lost_bytes", "lost_records"], "int64"),
        "examples": "object",
        "other": "object",
        "parts": "int64",
    },
}


def ask(store: EventStore, query: str) -> pd.DataFrame:
    """The answer to a query about the run ``a``."""
    frame: pd.DataFrame = getattr(store, query)(*(["a"] if query in ("scalars", "tags", "attempts", "flags") else []))
    return frame


@pytest.fixture
def full(store: EventStore, logs: Path) -> EventStore:
    """A store in which every query has rows."""
    event = {"event": "a/1/hang", "kind": "hang", "incident": "a/1", "step": 3, "time": "2022-06-20T09:10+08:00"}
    finding = {"check": "clock", "locator": "line 3", "readings": ["1", "2"], "likely": "2", "reasons": "so"}
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 9), event, {"finding": finding}, {"problem": "corrupt"}))
    store.ingest([logs])
    store.put_flags("a", pd.DataFrame({"rule": ["spike"], "step": [3], "value": [np.nan], "message": ["<b>"]}))
    store.put_effects("s", pd.DataFrame({"arm": ["skip"], "n_seeds": [3], "mean": [0.5], "verdict": ["helps"]}))
    return store


@pytest.mark.parametrize("query", COLUMNS)
def test_columns_and_types_are_the_same_with_rows_without_and_without_a_store(
    full: EventStore, tmp_path: Path, query: str
) -> None:
    absent = replay.open(tmp_path / "absent")
    empty = replay.open(tmp_path / "empty")
    empty.ingest([])
    assert (len(ask(full, query)) > 0, len(ask(empty, query)), len(ask(absent, query))) == (True, 0, 0)
    for store in (full, empty, absent):
        assert {str(name): str(kind) for name, kind in ask(store, query).dtypes.items()} == COLUMNS[query]
        assert list(ask(store, query).columns) == list(COLUMNS[query])
    assert not absent.exists, "asking creates nothing"
    assert not (tmp_path / "absent").exists()


def test_what_is_written_comes_back(full: EventStore) -> None:
    (event,) = full.events(derived=False).to_dict("records")
    assert event["time"] == pd.Timestamp("2022-06-20T01:10Z"), "times are in UTC"
    assert (event["step"], event["detail"], event["evidence"]) == (3, {}, "logged")
    (flag,) = full.flags("a").to_dict("records")
    assert (flag["run"], flag["rule"], flag["step"], flag["message"]) == ("a", "spike", 3, "<b>")
    assert np.isnan(flag["value"])
    assert pd.isna(flag["step_end"])
    (effect,) = full.effects().to_dict("records")
    assert (effect["scenario"], effect["arm"], effect["n_seeds"], effect["mean"]) == ("s", "skip", 3, 0.5)
    (finding,) = full.findings().to_dict("records")
    assert (finding["readings"], finding["likely"]) == (["1", "2"], "2")


def test_flags_and_effects_replace_those_before_and_equal_ones_change_nothing(full: EventStore) -> None:
    before = toy.snapshot(full.folder)
    flags = full.flags("a")
    full.put_flags("a", flags)
    full.put_effects("s", full.effects())
    assert toy.snapshot(full.folder) == before
    full.put_flags("a", flags.head(0))
    full.put_flags("b/../c", flags)
    assert list(full.flags()["run"]) == ["b/../c"]
    assert full.flags("a").empty
    with pytest.raises(StoreError, match="no column nonsense"):
        full.put_flags("a", pd.DataFrame({"nonsense": [1]}))
    with pytest.raises(StoreError, match="cannot be stored"):
        full.put_flags("a", pd.DataFrame({"step": ["twelve"]}))


@pytest.fixture
def dated(store: EventStore, logs: Path) -> EventStore:
    """Events with and without times and steps, of two runs."""
    rows: list[dict[str, Any]] = [
        {"event": "early", "kind": "hang", "time": "2022-06-19T23:59+00:00", "step": 10},
        {"event": "noon", "kind": "crash", "time": "2022-06-20T12:00+00:00", "step": 20, "step_end": 30},
        {"event": "timeless", "kind": "rollback", "step": 15, "evidence": "stated"},
        {"event": "nowhere", "kind": "wait", "time": "2022-06-20T08:00+00:00"},
        {"event": "elsewhere", "kind": "hang", "run": "b", "step": 1},
    ]
    (logs / "a.log").write_text(toy.log(*rows))
    store.ingest([logs])
    return store


@pytest.mark.parametrize(
    ("wanted", "events"),
    [
        ({}, ["early", "nowhere", "noon", "timeless", "elsewhere"]),
        ({"run": "a"}, ["early", "nowhere", "noon", "timeless"]),
        ({"run": ["b", "c"]}, ["elsewhere"]),
        ({"run": []}, []),
        ({"kind": "hang"}, ["early", "elsewhere"]),
        ({"kind": ["hang", "wait"]}, ["early", "nowhere", "elsewhere"]),
        ({"role": "intervention"}, ["nowhere", "timeless"]),
        ({"evidence": "stated"}, ["timeless"]),
        ({"since": "2022-06-20"}, ["nowhere", "noon"]),
        ({"until": "2022-06-20"}, ["early"]),
        ({"since": datetime(2022, 6, 20, 12, tzinfo=UTC)}, ["noon"]),
        ({"until": datetime(2022, 6, 20, 12, tzinfo=UTC)}, ["early", "nowhere"]),
        ({"since": "2022-06-20T16:00+08:00", "until": date(2022, 6, 21)}, ["nowhere", "noon"]),
        ({"steps": (15, 20)}, ["noon", "timeless"]),
        ({"steps": (25, None)}, ["noon"]),
        ({"steps": (None, 10)}, ["early", "elsewhere"]),
    ],
)
def test_filters(dated: EventStore, wanted: dict[str, Any], events: list[str]) -> None:
    assert list(dated.events(derived=False, **wanted)["event"]) == events


def test_a_word_that_is_none_is_pointed_out(dated: EventStore) -> None:
    with pytest.raises(StoreError, match="no kind of event is called 'loss_spikes'; did you mean 'loss_spike'"):
        dated.events(kind="loss_spikes")
    with pytest.raises(StoreError, match="no role is called 'villain'"):
        dated.events(role="villain")
    with pytest.raises(StoreError, match="'soon' is no date"):
        dated.events(since="soon")
    with pytest.raises(StoreError, match="merged"):
        dated.events(sources="some")  # type: ignore[arg-type]


def test_what_several_sources_say_of_a_run_adds_up(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(
        toy.log({"run_record": {"title": "From the log", "metadata": {"x": "1", "y": "1"}}}, *toy.losses(5, 9), run="r")
    )
    (logs / "b.log").write_text(
        toy.log({"run_record": {"parameters": 176e9, "clock": "UTC", "metadata": {"y": "2", "z": "2"}}}, run="r")
    )
    store.ingest([logs])
    (run,) = store.runs().to_dict("records")
    assert (run["title"], run["parameters"], run["clock"]) == ("From the log", 176e9, "UTC")
    assert run["metadata"] == {"x": "1", "y": "1", "z": "2"}
    assert run["sources"] == [str(logs / "a.log"), str(logs / "b.log")]
    assert (run["n_events"], run["n_scalars"], run["first_step"], run["last_step"]) == (0, 4, 5, 8)


def test_of_several_checkpoints_the_furthest_says_how_far_the_run_came(store: EventStore, logs: Path) -> None:
    for step in (900, 1_000, 90):
        known = {"global_step": str(step), "max_steps": "2000"}
        (logs / f"checkpoint-{step}.log").write_text(toy.log({"run_record": {"metadata": known}}, run="r"))
    store.ingest([logs])
    (run,) = store.runs().to_dict("records")
    assert run["metadata"] == {"global_step": "1000", "max_steps": "2000"}
