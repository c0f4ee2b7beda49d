"""What people do about what they see, and how often it comes back all the same.

These are observations, not experiments: people try mild means first, several at once, and write down what was
remarkable.  A share here says what happened in the runs on record, not what a means is worth; for that see
:mod:`replay.experiment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from replay.history.follow_up import CAME_BACK, STAYED_AWAY, UNAFFECTED, follow_up
from replay.history.reliability import Runs
from replay.intervals import share_interval

if TYPE_CHECKING:
    from replay.store import EventStore


def interventions(
    store: EventStore, run: Runs = None, *, within: int = 1_000, saw: str | None = None, pooled: bool = True
) -> pd.DataFrame:
    """How often each kind of intervention was tried, and how often what it answered came back ``within`` so many steps.

    Only incidents count in which something had been seen (``saw``: this symptom) or whose outcome is told.  Each kind
    that was done in an incident counts, so that an incident in which three things were done is in three rows.

    Columns: run (``all`` when pooled), kind, tried, came_back (at any time), unaffected (nothing changed), within
    (came back within that many steps), not_within (known to have stayed away for so long), unknown (the rest: the
    record ends before, or does not say when), share (within of within and not_within; NaN when none is known), low,
    high (its 95% interval).

    Raises :class:`ValueError` when ``within`` is not positive.
    """
    if within <= 0:
        raise ValueError(f"within how many steps: {within} is no number of steps")
    known = follow_up(store, run)
    if saw is not None:
        known = known[[saw in kinds for kinds in known["saw"]]]
    each = known.explode("did").rename(columns={"did": "kind"})
    each["run"] = "all" if pooled else each["run"]
    back = each["outcome"] == CAME_BACK
    each["within"] = back & (each["recurred_after"] <= within).fillna(False).astype(bool)
    later = back & (each["recurred_after"] > within).fillna(False).astype(bool)
    away = (each["outcome"] == STAYED_AWAY) & (each["followed_for"] >= within).fillna(False).astype(bool)
    each["not_within"] = later | away
    each["came_back"], each["unaffected"] = back, each["outcome"] == UNAFFECTED
    groups = each.groupby(["run", "kind"], as_index=False)
    table = groups[["came_back", "unaffected", "within", "not_within"]].sum()
    table["tried"] = groups.size()["size"]
    table["unknown"] = table["tried"] - table["within"] - table["not_within"]
    decided = table["within"] + table["not_within"]
    table["share"] = (table["within"] / decided.where(decided > 0)).astype("float64")
    bounds = [share_interval(int(part), int(whole)) for part, whole in zip(table["within"], decided, strict=True)]
    table["low"], table["high"] = [low for low, _ in bounds], [high for _, high in bounds]
    numbers = ["tried", "came_back", "unaffected", "within", "not_within", "unknown"]
    table = table[["run", "kind", *numbers, "share", "low", "high"]]
    types = {"run": "str", "kind": "str", **dict.fromkeys(numbers, "int64"), "low": "float64", "high": "float64"}
    return table.astype(types).sort_values(["run", "tried", "kind"], ascending=[True, False, True], ignore_index=True)
