"""What the report says of an experiment, in the words that the experiment's own text uses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from replay.experiment.effects import effect
from replay.experiment.metrics import METRICS
from replay.experiment.summary import caution, metric_words
from replay.report import build_report
from replay.report.effects import EffectTable, effect_tables
from replay.report.reading import read_run

from . import scenes
from .test_build import page_text

ARM = "rollback+skip_batches"


def rows(n: int) -> list[dict[str, Any]]:
    """Effects as an experiment over ``n`` seeds writes them: the loss falls a little, 110 steps are recomputed."""
    import numpy as np

    found = []
    for control, scale in (("do_nothing", 1.0), ("sham_skip", 2.0)):
        for name, metric in METRICS.items():
            difference = np.full(n, 110.0) if metric.cost else -scale * np.linspace(1, 2, n)
            one = effect(ARM, control, name, difference)
            found.append(
                {"scenario": "s", "arm": ARM, "control": control, "metric": name, "n_seeds": n, "mean": one.mean}
                | {"low": one.low, "high": one.high, "verdict": one.verdict, "note": one.note}
            )
    return found


def table_of(effect_rows: list[dict[str, Any]]) -> EffectTable:
    store = scenes.failing_run()
    store.effect_rows = effect_rows
    [found] = effect_tables(read_run(store, "small-proxy", scenes.RULES))
    return found


def test_metrics_have_the_names_of_the_experiments_text() -> None:
    names = [name for name, _ in table_of(rows(3)).rows]
    assert names == [metric_words(metric) for metric in METRICS.values()]
    assert {"failed again, of seeds", "loss at equal steps, nats"} <= set(names)


@pytest.mark.parametrize("old_verdict", ["cost", "harms"])
def test_a_cost_is_counted_and_neither_harms_nor_has_no_effect(old_verdict: str) -> None:
    """Also where an earlier version of replay kept another word for it."""
    kept = [row | ({"verdict": old_verdict, "note": "x"} if METRICS[row["metric"]].cost else {}) for row in rows(3)]
    cells = dict(table_of(kept).rows)["steps recomputed"]
    assert [(cell.difference, cell.interval, cell.verdict, cell.marks) for cell in cells if cell] == [
        ("+110", "", "cost, counted", ())
    ] * 2


def test_below_six_seeds_no_cell_has_a_verdict_but_inconclusive() -> None:
    table = table_of(rows(3))
    verdicts = {cell.verdict for _, cells in table.rows for cell in cells if cell}
    assert verdicts == {"inconclusive", "cost, counted"}
    assert table.caution == caution(3)
    assert "below 6 seeds no verdict" in table.caution
    assert "below 6 seeds" not in table_of(rows(8)).caution


def test_each_note_is_marked_at_the_cells_that_it_belongs_to() -> None:
    table = table_of(rows(8))
    by_note: dict[int, set[str]] = {}
    for name, cells in table.rows:
        for cell in cells:
            assert cell is not None
            for mark in cell.marks:
                by_note.setdefault(mark, set()).add(name)
    assert set(by_note) == set(range(1, len(table.notes) + 1))
    html = build_report(with_effects(rows(8)), "small-proxy")
    targets = set(re.findall(r'id="(effects-1-\d+)"', html))
    assert set(re.findall(r'<sup><a href="#(effects-1-\d+)"', html)) == targets
    assert len(targets) == len(table.notes)


def with_effects(effect_rows: list[dict[str, Any]]) -> Any:
    store = scenes.failing_run()
    store.effect_rows = effect_rows
    return store


def test_the_caution_stands_under_the_table() -> None:
    assert caution(3) in page_text(build_report(with_effects(rows(3)), "small-proxy"))
