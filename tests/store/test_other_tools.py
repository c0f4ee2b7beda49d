# ruff: noqa: S608 - the names in these queries are the tests' own
"""The folder is plain Parquet: DuckDB, Polars, Dask, pandas and PyArrow open it without replay."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.dataset
import pytest
import toy

from replay.store import EventStore

RUNS = {"a/b <c>": 30, "glm-130b": 20, "損失": 10}


@pytest.fixture
def folder(store: EventStore, logs: Path) -> Path:
    """A store of three runs whose names need care, in several parts, with events and derived tables."""
    for run, steps in RUNS.items():
        event = {"event": f"{run}/hang", "kind": "hang", "step": 3, "detail": {"n": "1"}}
        rows = [*toy.losses(0, steps), *toy.losses(0, 5, tag=f"only {run}"), event]
        (logs / f"{steps}.log").write_text(toy.log(*rows, run=run, piece=12))
    store.ingest([logs])
    store.derive()
    return store.folder


EXPECTED = {run: steps + 5 for run, steps in RUNS.items()}


def test_duckdb(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    scalars = f"read_parquet('{folder}/scalars/*/*.parquet', hive_partitioning = true)"
    assert dict(duckdb.sql(f"select run, count(*) from {scalars} group by run").fetchall()) == EXPECTED
    query = f"select min(wall_time), sum(value), max(step), any_value(source) from {scalars} where tag = 'loss'"
    (start, total, last, source) = duckdb.sql(query).fetchall()[0]
    assert start.isoformat().startswith("2020-09-13T")
    assert total == pytest.approx(sum(1 / (1 + step * step) for steps in RUNS.values() for step in range(steps)))
    assert last == 29
    assert source.endswith(".log")
    events = f"read_parquet('{folder}/events/*/*.parquet', hive_partitioning = true)"
    assert duckdb.sql(f"select count(*), any_value(detail['n']) from {events} where kind = 'hang'").fetchall()[0] == (
        3,
        "1",
    )
    assert duckdb.sql(f"select count(*) from '{folder}/ledger/*.parquet' where status = 'ingested'").fetchall()[0] == (
        3,
    )


def test_polars(folder: Path) -> None:
    polars = pytest.importorskip("polars")
    scalars = polars.scan_parquet(folder / "scalars")
    counts = scalars.group_by("run").agg(polars.len()).collect()
    assert dict(counts.iter_rows()) == EXPECTED
    wanted = (polars.col("run") == "損失") & (polars.col("tag") == "loss") & (polars.col("step") > 6)
    one = scalars.filter(wanted).collect()
    assert one["step"].to_list() == [7, 8, 9]
    assert str(one.schema["wall_time"]) == "Datetime(time_unit='us', time_zone='UTC')"
    assert polars.scan_parquet(folder / "events").filter(polars.col("kind") == "hang").collect().height == 3


def test_dask(folder: Path) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    scalars = dataframe.read_parquet(folder / "scalars")
    assert scalars.groupby("run")["value"].count().compute().to_dict() == EXPECTED
    chosen = scalars[(scalars["run"] == "a/b <c>") & (scalars["tag"] == "only a/b <c>")].compute()
    assert sorted(chosen["step"]) == [0, 1, 2, 3, 4]
    assert dataframe.read_parquet(folder / "events").compute()["kind"].value_counts()["hang"] == 3


def test_pandas_and_pyarrow(folder: Path) -> None:
    frame = pd.read_parquet(folder / "scalars")
    assert frame.groupby("run", observed=True).size().to_dict() == EXPECTED
    table = pyarrow.dataset.dataset(folder / "scalars", partitioning="hive").to_table()
    assert set(table.column("run").to_pylist()) == set(RUNS)
    for name in ("runs", "ledger", "attempts", "events"):
        assert len(pd.read_parquet(folder / name)) > 0


def test_tools_see_no_row_twice_after_a_kill_a_growing_file_and_an_edited_document(
    store: EventStore, logs: Path
) -> None:
    duckdb = pytest.importorskip("duckdb")
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 20))[:-7])
    (logs / "book.json").write_text(toy.document({"event": "x/hang", "kind": "hang"}, run="x"))
    store.ingest([logs])
    part = next((store.folder / "scalars" / "run=a").glob("*.parquet"))
    leftover = part.with_name(f"{part.name.split('-')[0]}-g0-0-99-{'1' * 16}.parquet")
    leftover.write_bytes(part.read_bytes())
    (leftover.parent / ".1-2.tmp").write_bytes(b"half a part")
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 30)))
    (logs / "book.json").write_text(toy.document({"event": "x/crash", "kind": "crash"}, run="x"))
    store.ingest([logs])
    assert duckdb.sql(f"select count(*) from '{store.folder}/scalars/*/*.parquet'").fetchall()[0] == (30,)
    assert duckdb.sql(f"select kind from '{store.folder}/events/*/*.parquet'").fetchall() == [("crash",)]
    assert not list(store.folder.rglob("*.tmp"))
