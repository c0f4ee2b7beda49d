"""The chart and the table of attempts: none is left out without a word."""

from __future__ import annotations

from typing import Any

from replay.report import build_report
from replay.report.attempts import attempts_chart
from replay.report.charts import step_domain
from replay.report.reading import read_run
from replay.report.tables import attempt_rows

from .fake_store import FakeStore
from .test_build import page_text


def store_with(*attempts: dict[str, Any]) -> FakeStore:
    store = FakeStore({"run": "r"})
    store.attempt_rows = [{"run": "r", "attempt": n, **attempt} for n, attempt in enumerate(attempts)]
    return store


def told() -> FakeStore:
    """Five attempts: one known, one known only by what was kept, two of which nothing was, one without a beginning."""
    return store_with(
        {"start_step": 0, "end_step": 900, "kept_to": 800, "lost_steps": 100},
        {"parent": 0, "start_step": 800, "kept_to": 4000},
        {"parent": 1, "start_step": 4000, "kept_to": 4000},
        {"parent": 2, "start_step": 4000},
        {"parent": 3, "end_step": 5000},
    )


def test_an_attempt_whose_end_no_source_tells_is_drawn_to_what_was_kept() -> None:
    reading = read_run(told(), "r")
    chart = attempts_chart(reading, step_domain(reading))
    assert chart is not None
    bars, ticks = chart.spec["datasets"]["attempts"], chart.spec["datasets"]["begun"]
    assert [(bar["attempt"], bar["from"], bar["last"], bar["branch"]) for bar in bars] == [
        (0, 1, 800, "kept"),
        (0, 801, 900, "rolled back"),
        (1, 801, 4000, "kept"),
    ]
    assert [(tick["attempt"], tick["first"]) for tick in ticks] == [(2, 4000), (3, 4000)]


def test_what_is_not_drawn_in_full_is_counted_with_the_reason() -> None:
    reading = read_run(told(), "r")
    chart = attempts_chart(reading, step_domain(reading))
    assert chart is not None
    assert chart.notes == [
        "No source tells how far 1 attempt came: drawn to the step that was kept.",
        "2 attempts of unknown length: a tick where training began.",
        "1 attempt without a first step on record: not drawn, see the table.",
    ]


def test_the_tables_steps_say_what_is_known_and_no_more() -> None:
    assert [row.span for row in attempt_rows(read_run(told(), "r"))] == [
        "1–900", "801–4,000 at least", "from 4,001", "from 4,001", "to 5,000",
    ]  # fmt: skip
    assert "801–4,000 at least" in page_text(build_report(told(), "r"))
