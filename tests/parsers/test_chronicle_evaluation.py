"""How raw parses are measured against timelines: what pairs, what is missed, and what is not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.chronicle_evaluation import (
    BOOKS,
    compare,
    differences,
    evaluate,
    main,
    overall,
    standing,
    story_table,
    strict_incidents,
    table,
)
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


# An incident is the same when it is about the same and did not end in contradiction


@pytest.mark.parametrize(
    ("curated", "raw", "hit", "strictly"),
    [
        ([K.LOSS_SPIKE, K.NAN_LOSS], [K.NAN_LOSS], True, True),  # half of what was seen
        ([K.LOSS_SPIKE, K.NAN_LOSS, K.HANG], [K.HANG], True, False),  # a third
        ([K.HANG], [K.HANG, K.CRASH, K.GPU_FAILURE], True, False),  # two of three were made up
        ([K.LOSS_SPIKE, K.CODE_FIX], [K.CODE_FIX], True, False),  # what it was about is missing
        ([K.LOSS_SPIKE, K.CODE_FIX], [K.HANG, K.CODE_FIX], False, False),  # it was about something else
        ([K.QK_NORM, K.CODE_FIX], [K.QK_NORM, K.WAIT], True, True),  # nothing seen or found: what was done
        ([K.LOSS_SPIKE, K.UNKNOWN_CAUSE], [K.LOSS_SPIKE], True, True),
        ([K.END, K.COMPLETED], [K.END, K.ABANDONED], False, False),
        ([K.CODE_FIX, K.RECURRED], [K.CODE_FIX, K.UNAFFECTED], True, True),  # neither says that it helped
        ([K.HANG, K.RECOVERED], [K.HANG, K.RECURRED], False, False),
        ([K.HANG, K.RECURRED], [K.HANG, K.DELAYED], True, True),
        ([K.HANG, K.RECURRED], [K.HANG, K.ABANDONED], True, True),  # it came back, and was given up
        ([K.HANG, K.RECOVERED], [K.HANG, K.ABANDONED], False, False),
        ([K.HANG, K.RECOVERED], [K.HANG], True, True),
        ([K.HANG, K.RECOVERED, K.RECURRED], [K.HANG, K.RECOVERED], True, True),
    ],
)
def test_an_incident_is_a_hit_by_its_main_kinds_and_outcomes(
    curated: list[K], raw: list[K], hit: bool, strictly: bool
) -> None:
    comparison = compare("b", told(*(event("1", kind) for kind in raw)), told(*(event("1", kind) for kind in curated)))
    assert comparison.counts("incident") == ((1, 0, 0) if hit else (0, 1, 1))
    assert comparison.strict_incidents == (1, 1, int(strictly))


def test_symptoms_causes_and_outcomes_are_counted_by_heading_and_kind() -> None:
    curated = told(event("1", K.HANG), event("1", K.GPU_FAILURE), event("1", K.RECOVERED), event("1", K.WAIT))
    raw = told(event("1", K.HANG), event("1", K.NODE_FAILURE), event("2", K.RECOVERED, "B"), event("1", K.WAIT))
    rows = story_table([compare("book", raw, curated)]).set_index("category")[["curated", "raw", "both"]]
    assert rows.loc["symptom"].tolist() == [1, 1, 1]
    assert rows.loc["cause"].tolist() == [1, 1, 0]
    assert rows.loc["outcome"].tolist() == [1, 1, 0]
    assert rows.loc["other"].tolist() == [1, 1, 1]


def test_what_another_source_adds_to_an_incident_is_neither_asked_nor_held_against_the_parser() -> None:
    seen = event("1", K.GRAD_NORM_SPIKE, "figure 1", source="picture")
    curated = told(seen, event("1", K.LR_CHANGE, field="learning_rate", after=1e-4), event("1", K.RECOVERED))
    raw = told(
        event("1", K.GRAD_NORM_SPIKE),
        event("1", K.LR_CHANGE, field="learning_rate", after=1e-4),
        event("1", K.RECOVERED),
        event("1", K.HANG),
    )
    comparison = compare("book", raw, curated, "log.md")
    assert comparison.counts("incident") == (1, 0, 0)
    assert comparison.counts("symptom") == (0, 0, 1)  # the hang alone


def test_each_category_is_judged_and_all_together() -> None:
    name = next(book.name for book in BOOKS if book.run == "BLOOM-176B")
    many = [event(str(number), K.RESTART, step=10_000 * number) for number in range(1, 20)]
    raw = told(*many, event("a", K.ROLLBACK, step=5), event("a", K.LR_CHANGE, field="learning_rate", after=1e-4))
    curated = told(*many, event("a", K.ROLLBACK, step=5), event("a", K.LR_CHANGE, field="learning_rate", after=2e-4))
    rows = standing([compare(name, raw, curated)]).set_index("category")
    assert rows["verdict"].to_dict() == {
        "incident": "met",
        "restart": "met",
        "skip": "nothing to count",
        "parameter": "below",
        "all four": "met",
    }
    assert rows.loc["all four", "recall"] > 0.9
    nothing = standing(
        [compare(name, told(event("1", K.HANG)), told(event("1", K.HANG), event("1", K.ROLLBACK, step=5)))]
    )
    assert nothing.set_index("category").loc["restart", "verdict"] == "below"  # no restart was read at all


def test_the_command_fails_where_a_run_falls_short_and_says_in_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "glm-130b").mkdir()
    (tmp_path / "glm-130b" / "main-log-en.md").write_text("# Log\n\n## 2022-05-06 04:00 Training starts\n\nx\n")
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "below its limit of 0.95: GLM-130B (English), incident: recall 0.0" in printed.out
    assert "below its limit of 0.95: GLM-130B (English), restart:" in printed.out
    assert main([str(tmp_path), "--page"]) == 0
    assert "- below its limit of 0.95: GLM-130B (English), skip:" in capsys.readouterr().out


def test_the_whole_report_is_printed(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(shared / "upstream")]) == 0
    printed = capsys.readouterr().out
    for words in ("Tolerance:", "GLM-130B (English)", "missed", "by the stricter key", "outcome"):
        assert words in printed


def test_the_stricter_key_finds_no_more_incidents(shared: Path) -> None:
    comparisons = evaluate(shared / "upstream")
    strict = strict_incidents(comparisons).set_index(["run", "category"])
    usual = standing(comparisons).set_index(["run", "category"])
    for run in {book.run for book in BOOKS}:
        for category in ("incident", "all four"):
            assert strict.loc[(run, category), "both"] <= usual.loc[(run, category), "both"]
            assert strict.loc[(run, category), "curated"] == usual.loc[(run, category), "curated"]


def test_the_page_of_the_documentation_is_what_the_command_writes(
    root: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(shared / "upstream"), "--page"]) == 0
    assert (root / "docs" / "chronicles.md").read_text(encoding="utf-8") == capsys.readouterr().out, (
        "out of date: `python -m replay.chronicle_evaluation --page UPSTREAM > docs/chronicles.md`"
    )
