"""Scalars: how they lie on disk, and that a query reads only what it must."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from replay.storage import parts, query
from replay.storage.layout import digest
from replay.storage.ledger import Entry, Part
from replay.storage.records_as_tables import scalar_groups
from replay.storage.row_order import sorted_rows
from replay.storage.schema import SCALARS_ON_DISK
from replay.store import EventStore, StoreError

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "", "é", "損失", "a/b", "\U0001f600"]), st.integers(-5, 5), st.floats()),
    max_size=40,
)


@given(ROWS)
def test_rows_are_sorted_by_tag_and_step_and_equal_ones_stay_as_they_came(rows: list[tuple[str, int, float]]) -> None:
    written = [row for group in scalar_groups(toy.measured(rows), "s") for row in group.to_pylist()]
    expected = sorted(enumerate(rows), key=lambda item: (item[1][0].encode(), item[1][1]))
    assert [(row["tag"], row["step"], row["segment"]) for row in written] == [
        (tag, step, number) for number, (tag, step, _) in expected
    ]
    assert [repr(row["value"]) for row in written] == [repr(value) for _, (_, _, value) in expected]
    assert [row["wall_time"] is None for row in written] == [step % 2 == 1 for _, (_, step, _) in expected]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), max_size=30))
def test_the_quick_way_of_sorting_gives_the_order_of_the_sure_one(pairs: list[tuple[int, int]]) -> None:
    ranks = np.array([rank for rank, _ in pairs], dtype=np.int32)
    step = np.array([step for _, step in pairs], dtype=np.int64)
    assert sorted_rows(ranks, step).tolist() == np.lexsort((step, ranks)).tolist()


@given(st.lists(st.integers(1, 500_000), max_size=12))
def test_row_groups_cover_all_rows_are_small_and_mix_only_whole_tags(tag_rows: list[int]) -> None:
    groups = parts.row_groups(tag_rows)
    assert [first for first, _ in groups] == [0, *(end for _, end in groups)][: len(groups)]
    assert (groups[-1][1] if groups else 0) == sum(tag_rows)
    assert all(0 < end - first <= parts.ROW_GROUP_ROWS for first, end in groups)
    bounds = np.cumsum([0, *tag_rows]).tolist()
    for first, end in groups:
        whole = first in bounds and end in bounds
        within = any(low <= first and end <= high for low, high in pairwise(bounds))
        assert whole or within


def written(path: Path, rows: list[tuple[str, int, float]]) -> pq.ParquetFile:
    path.write_bytes(parts.serialise_scalars(scalar_groups(toy.measured(rows), "/logs/a"), SCALARS_ON_DISK))
    return pq.ParquetFile(path)


def test_columns_are_packed_as_designed(tmp_path: Path) -> None:
    file = written(tmp_path / "p", [("loss", step, 1 / (step + 1)) for step in range(1000)])
    encodings = {}
    for index in range(file.metadata.num_columns):
        column = file.metadata.row_group(0).column(index)
        encodings[column.path_in_schema] = set(column.encodings)
        assert column.compression == "ZSTD"
    assert "DELTA_BINARY_PACKED" in encodings["step"]
    assert "DELTA_BINARY_PACKED" in encodings["wall_time"]
    assert "BYTE_STREAM_SPLIT" in encodings["value"]
    for name in ("step", "wall_time", "value"):
        assert not {"RLE_DICTIONARY", "PLAIN_DICTIONARY"} & encodings[name]
    assert str(file.schema_arrow.field("tag").type) == "string", "plain Parquet, no types of Arrow's own"


def test_a_row_takes_less_than_nine_bytes(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    rows = [
        (tag, step, float(np.float32(value)))
        for tag in ("loss", "grad_norm")
        for step, value in enumerate(chance.normal(2, 0.1, 20_000))
    ]
    written(tmp_path / "p", rows)
    assert (tmp_path / "p").stat().st_size / len(rows) < 9


def test_only_the_row_groups_that_can_match_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 100)
    rows = [(tag, step, 0.0) for tag in ("a", "b", "c") for step in range(1000)]
    file = written(tmp_path / "p", rows)
    assert file.metadata.num_row_groups == 30
    assert query._matching_groups(file, ["b"], (250, 349)) == [12, 13]
    assert query._matching_groups(file, ["b", "zz"], None) == list(range(10, 20))
    assert query._matching_groups(file, None, (None, 5)) == [0, 10, 20]
    assert query._matching_groups(file, ["aa"], None) == []


def test_parts_in_which_any_value_could_lack_are_read_beside_those_of_now(tmp_path: Path) -> None:
    """As they were written before their columns said that values cannot lack."""
    (new,) = scalar_groups(toy.measured([("loss", 1, 0.5), ("loss", 2, 0.25)]), "/logs/a")
    as_before = new.cast(pa.schema([one.with_nullable(True) for one in new.schema]))
    listed = []
    for table in (as_before, new):
        data = bytes(parts.serialise_scalars([table], table.schema))
        name = f"{digest(data)}.parquet"
        (tmp_path / name).write_bytes(data)
        listed.append((Entry(source="/logs/a", status="ingested"), Part(table="scalars", path=name)))
    assert listed[0][1] != listed[1][1]
    rows = query.scalars_table(tmp_path, listed, ["loss"], (2, None))
    assert rows["value"].to_pylist() == [0.25, 0.25]
    assert rows.schema.equals(SCALARS_ON_DISK)
    assert list(query.tag_counts(tmp_path / part.path for _, part in listed).values()) == [(4, 1, 2)]


def test_tag_and_steps_select_rows(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 50), *toy.losses(0, 50, tag="lr"), *toy.losses(5, 9, tag="x")))
    store.ingest([logs])
    assert list(store.scalars("a", tag="loss", steps=(10, 12))["step"]) == [10, 11, 12]
    assert list(store.scalars("a", tag=["x", "lr"], steps=(7, None))["tag"].unique()) == ["lr", "x"]
    assert list(store.scalars("a", steps=(None, 0))["tag"]) == ["loss", "lr"]
    assert store.scalars("a", tag="los").empty
    assert store.scalars("nobody").empty
    assert store.scalars("a", tag="nothing").dtypes.equals(store.scalars("a", tag="loss").dtypes)


def test_a_signal_is_found_under_its_tag(store: EventStore, logs: Path) -> None:
    rows = [*toy.losses(0, 5, tag="lm loss"), *toy.losses(0, 3, tag="my own measure")]
    (logs / "a.log").write_text(toy.log(*rows))
    store.ingest([logs])
    frame = store.scalars("a", signal="loss")
    assert list(frame["tag"].unique()) == ["lm loss"]
    assert list(frame["signal"].unique()) == ["loss"]
    assert store.scalars("a", signal="grad_norm").empty
    tags = store.tags("a")
    assert list(tags["tag"]) == ["lm loss", "my own measure"]
    assert list(tags["rows"]) == [5, 3]
    assert list(tags["last_step"]) == [4, 2]
    assert tags["signal"].isna().tolist() == [False, True]


def test_tags_are_counted_across_row_groups_and_parts(
    store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 10)
    rows = [*toy.losses(0, 25, tag="long"), *toy.losses(3, 6, tag="short"), *toy.losses(-2, 2, tag="brief")]
    (logs / "a.log").write_text(toy.log(*rows, piece=9))
    store.ingest([logs])
    tags = store.tags("a").set_index("tag")
    assert tags["rows"].to_dict() == {"brief": 4, "long": 25, "short": 3}
    assert tags["first_step"].to_dict() == {"brief": -2, "long": 0, "short": 3}
    assert tags["last_step"].to_dict() == {"brief": 1, "long": 24, "short": 5}


def test_rolled_back_rows_are_kept_and_can_be_left_out(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 100), *toy.losses(60, 150)))
    store.ingest([logs])
    assert len(store.scalars("a")) == 190
    surviving = store.scalars("a", view="surviving")
    assert list(surviving["step"]) == list(range(150))
    assert list(surviving[surviving["step"] >= 60]["attempt"].unique()) == [1]
    assert list(store.scalars("a", view="surviving", steps=(58, 61))["attempt"]) == [0, 0, 1, 1]
    attempts = store.attempts("a")
    assert attempts[["start_step", "end_step"]].to_numpy().tolist()[1][1] == 149


def test_a_wrong_question_is_answered_in_words(store: EventStore) -> None:
    with pytest.raises(StoreError, match="'all' or 'surviving'"):
        store.scalars("a", view="best")  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="not both"):
        store.scalars("a", tag="loss", signal="loss")
