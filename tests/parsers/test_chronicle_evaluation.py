"""How raw parses are measured against timelines: what pairs, what is missed, and what is not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.chronicle_evaluation import compare, differences, evaluate, main, overall, table
from replay_parsers.records import KINDS, Event, EventKind, Records

K = EventKind


def event(incident: str, kind: K, heading: str = "A", source: str = "log.md", **fields: Any) -> Event:
    return Event(
        run="r",
        event=f"r/{incident}/{kind}/{fields.get('step', '')}{fields.get('field', '')}",
        incident=f"r/{incident}",
        kind=kind,
        role=KINDS[kind].role,
        source=source,
        locator=f"§ {heading}",
        **fields,
    )


def told(*events: Event) -> Records:
    return Records(source="x", format="test", events=events)


def test_the_same_telling_has_full_recall_and_precision() -> None:
    records = told(
        event("1", K.ROLLBACK, step=100),
        event("1", K.SKIP_BATCHES, step=101, step_end=120),
        event("1", K.LR_CHANGE, field="learning_rate", before=2e-4, after=1e-4),
    )
    comparison = compare("book", records, records)
    assert [comparison.counts(name) for name in ("incident", "restart", "skip", "parameter")] == [(1, 0, 0)] * 4
    assert not differences(records, records).size


def test_another_step_is_a_miss_and_an_extra() -> None:
    comparison = compare("book", told(event("1", K.ROLLBACK, step=110)), told(event("1", K.ROLLBACK, step=100)))
    assert comparison.counts("restart") == (0, 1, 1)
    assert comparison.counts("incident") == (1, 0, 0)


def test_a_step_said_to_be_approximate_is_not_held_to_the_last_digit() -> None:
    curated = told(event("1", K.RESTART, step=31000, detail={"approximate": "step"}))
    assert compare("book", told(event("1", K.RESTART, step=31050)), curated).counts("restart") == (1, 0, 0)


@pytest.mark.parametrize(
    ("raw", "pairs"),
    [
        ({"after": 1e-4}, 1),
        ({"before": 2e-4, "after": 1e-4}, 1),
        ({"before": 3e-4, "after": 1e-4}, 0),
        ({"before": 2e-4, "after": 2e-5}, 0),
        ({"detail": {"factor": "0.5"}}, 0),
    ],
)
def test_a_value_before_may_be_left_open_but_not_contradicted(raw: dict[str, Any], pairs: int) -> None:
    curated = told(event("1", K.LR_CHANGE, field="learning_rate", before=2e-4, after=1e-4))
    comparison = compare("book", told(event("1", K.LR_CHANGE, field="learning_rate", **raw)), curated)
    assert comparison.counts("parameter")[0] == pairs


def test_facts_are_paired_one_to_one() -> None:
    once = told(event("1", K.RESTART, step=5))
    twice = told(event("1", K.RESTART, step=5), event("2", K.RESTART, step=5))
    assert compare("book", once, twice).counts("restart") == (1, 1, 0)
    assert compare("book", twice, once).counts("restart") == (1, 0, 1)


def test_incidents_are_found_by_heading_where_ids_differ() -> None:
    comparison = compare("book", told(event("a", K.HANG, "Same")), told(event("b", K.HANG, "Same")))
    assert comparison.counts("incident") == (1, 0, 0)
    assert compare("book", told(event("a", K.HANG, "One")), told(event("a", K.HANG, "Two"))).counts("incident") == (
        0,
        1,
        1,
    )


def test_what_the_timeline_knows_from_elsewhere_is_neither_asked_nor_held_against_the_parser() -> None:
    curated = told(event("1", K.HANG), event("2", K.CRASH, "B", source="paper"))
    raw = told(event("1", K.HANG), event("2", K.CRASH, "C"))
    comparison = compare("book", raw, curated, "log.md")
    assert comparison.counts("incident") == (1, 0, 0)


def test_the_tables_say_where_there_is_nothing_to_count() -> None:
    comparison = compare("book", told(event("1", K.HANG)), told(event("1", K.HANG)))
    rows = table([comparison]).set_index("category")
    assert rows.loc["incident", ["recall", "precision"]].tolist() == [1.0, 1.0]
    assert rows.loc["skip", ["recall", "precision"]].isna().all()
    assert overall([comparison])["both"].tolist() == [1]


def test_differences_name_each_side() -> None:
    found = differences(told(event("1", K.RESTART, step=5)), told(event("1", K.ROLLBACK, step=5)))
    assert found[["told_by", "kind", "step"]].to_numpy().tolist() == [
        ["timeline", "rollback", 5],
        ["chronicle", "restart", 5],
    ]


def test_a_folder_without_chronicles_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(tmp_path) == []
    assert main([str(tmp_path)]) == 2
    assert "name the folder" in capsys.readouterr().err


def test_the_whole_report_is_printed(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(shared / "upstream")]) == 0
    out = capsys.readouterr().out
    assert "Tolerance:" in out
    assert "GLM-130B (English)" in out
    assert "missed" in out
