"""What experiments on the proxy say about the interventions of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.output import is_missing
from replay.report.reading import RunReading, records
from replay.report.words import number, spelled

CAVEAT = "A proxy shows mechanism, not magnitude: the sign of an effect may carry over, its size does not."


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectCell:
    """One effect: the difference, its interval, and what may be said of it."""

    difference: str
    interval: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectTable:
    """What one arm of a scenario changed: a row for each metric, a cell for each control (None where not measured).

    ``notes`` are those of all cells, each once.
    """

    scenario: str
    arm: str
    seeds: str
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
    return [_table(scenario, arm, rows) for (scenario, arm), rows in by_arm.items()]


def kinds_of(arm: str) -> set[str]:
    """The kinds that an arm re-enacts: its name begins with them, joined.

    >>> sorted(kinds_of("rollback+skip_batches of 300"))
    ['rollback', 'skip_batches']
    """
    return set(arm.split(" ")[0].split("+"))


def _table(scenario: str, arm: str, rows: list[dict[str, Any]]) -> EffectTable:
    controls = list(dict.fromkeys(row["control"] for row in rows))
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    cells = {(row["metric"], row["control"]): _cell(row) for row in rows}
    return EffectTable(
        scenario=scenario,
        arm=spelled(arm.replace("+", " + ")),
        seeds=number(max(row["n_seeds"] for row in rows)),
        controls=[spelled(control) for control in controls],
        rows=[(spelled(metric), [cells.get((metric, control)) for control in controls]) for metric in metrics],
        notes=list(dict.fromkeys(row["note"] for row in rows if row["note"])),
    )


def _cell(row: dict[str, Any]) -> EffectCell:
    spread = not is_missing(row["low"]) and row["low"] != row["high"]
    return EffectCell(
        difference=number(row["mean"], 3),
        interval=f"{number(row['low'], 3)} to {number(row['high'], 3)}" if spread else "",
        verdict=row["verdict"],
    )
