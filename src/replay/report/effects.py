"""What experiments on the proxy say about the interventions of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from replay.experiment.effects import COST
from replay.experiment.metrics import METRICS
from replay.experiment.summary import arm_words, caution, difference_text, metric_words
from replay.output import is_missing
from replay.report.reading import RunReading, records
from replay.report.words import number, spelled

CAVEAT = "A proxy shows mechanism, not magnitude: the sign of an effect may carry over, its size does not."


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectCell:
    """One effect: the difference, its interval, and what may be said of it; ``marks`` number the table's notes."""

    difference: str
    interval: str
    verdict: str
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectTable:
    """What one arm of a scenario changed: a row for each metric, a cell for each control (None where not measured).

    ``notes`` are those of all cells, each once, counted from 1; ``caution`` says what so many seeds cannot show.
    """

    order: int
    scenario: str
    arm: str
    seeds: int
    caution: str
    controls: list[str]
    rows: list[tuple[str, list[EffectCell | None]]]
    notes: list[str]


def effect_tables(reading: RunReading) -> list[EffectTable]:
    """Effects of arms that re-enact an intervention which this run had; empty when the store holds none."""
    events = reading.events
    done = set(events.loc[events["role"] == "intervention", "kind"])
    by_arm: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records(reading.effects):
        if done & kinds_of(row["arm"]):
            by_arm.setdefault((row["scenario"], row["arm"]), []).append(row)
    return [_table(order, scenario, arm, rows) for order, ((scenario, arm), rows) in enumerate(by_arm.items(), start=1)]


def kinds_of(arm: str) -> set[str]:
    """The kinds that an arm re-enacts: its name begins with them, joined.

    >>> sorted(kinds_of("rollback+skip_batches of 300"))
    ['rollback', 'skip_batches']
    """
    return set(arm.split(" ")[0].split("+"))


def _table(order: int, scenario: str, arm: str, rows: list[dict[str, Any]]) -> EffectTable:
    controls = list(dict.fromkeys(row["control"] for row in rows))
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    notes = list(dict.fromkeys(_note(row) for row in rows if _note(row)))
    cells = {(row["metric"], row["control"]): _cell(row, notes) for row in rows}
    seeds = int(max(row["n_seeds"] for row in rows))
    return EffectTable(
        order=order,
        scenario=scenario,
        arm=arm_words(arm),
        seeds=seeds,
        caution=caution(seeds),
        controls=[arm_words(control) for control in controls],
        rows=[(_metric_words(metric), [cells.get((metric, control)) for control in controls]) for metric in metrics],
        notes=notes,
    )


def _metric_words(name: str) -> str:
    """The name that the experiment's own text gives the metric."""
    return metric_words(METRICS[name]) if name in METRICS else spelled(name)


def _is_cost(row: dict[str, Any]) -> bool:
    return row["metric"] in METRICS and METRICS[row["metric"]].cost


def _note(row: dict[str, Any]) -> str:
    return "" if _is_cost(row) else str(row["note"])


def _cell(row: dict[str, Any], notes: list[str]) -> EffectCell:
    spread = not _is_cost(row) and not is_missing(row["low"]) and row["low"] != row["high"]
    note = _note(row)
    return EffectCell(
        difference=_difference(row["metric"], row["mean"]),
        interval=f"{_difference(row['metric'], row['low'])} to {_difference(row['metric'], row['high'])}"
        if spread
        else "",
        verdict=f"{COST}, counted" if _is_cost(row) else row["verdict"],
        marks=(notes.index(note) + 1,) if note else (),
    )


def _difference(metric: str, value: float) -> str:
    finite = not is_missing(value) and math.isfinite(value)
    return difference_text(METRICS[metric], value) if metric in METRICS and finite else number(value, 3)
