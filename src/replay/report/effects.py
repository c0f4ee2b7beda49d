"""What experiments on the proxy say about the interventions of a run."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from replay.output import is_missing
from replay.report.reading import RunReading, records
from replay.report.words import number, spelled

CAVEAT = "A proxy shows mechanism, not magnitude: the sign of an effect may carry over, its size does not."


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """One effect in words: what an arm changed in a metric, against which control, on how many seeds."""

    scenario: str
    arm: str
    control: str
    interventions: list[str]
    metric: str
    seeds: str
    effect: str
    verdict: str
    note: str


def effect_rows(reading: RunReading) -> list[EffectRow]:
    """Effects whose arm re-enacts an intervention that this run had; empty when the store holds none."""
    events = reading.events
    done = set(events.loc[events["role"] == "intervention", "kind"])
    return [
        _row(row, kinds)
        for row in records(reading.effects)
        if done & (kinds := _kinds(str(row["arm"])))
    ]


def _kinds(arm: str) -> set[str]:
    """The kinds that an arm re-enacts: its name begins with them, joined."""
    return set(arm.split(" ")[0].split("+"))


def _row(row: dict[str, object], kinds: set[str]) -> EffectRow:
    span = f"{number(row['mean'])} ({number(row['low'])} to {number(row['high'])})"
    return EffectRow(
        scenario=str(row["scenario"]),
        arm=spelled(str(row["arm"]).replace("+", " + ")),
        control=spelled(str(row["control"])),
        interventions=sorted(spelled(kind) for kind in kinds),
        metric=spelled(str(row["metric"])),
        seeds=number(row["n_seeds"]),
        effect="—" if is_missing(row["mean"]) or pd.isna(row["mean"]) else span,  # type: ignore[call-overload]
        verdict=str(row["verdict"]),
        note=str(row["note"]),
    )
