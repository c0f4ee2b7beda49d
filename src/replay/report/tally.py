"""What can be counted of a run's incidents and attempts, each count of what it says and no more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from replay.output import is_missing
from replay.report.reading import records
from replay.report.words import count, listed, number

WELL = frozenset({"recovered", "recovered_by_itself", "completed"})
"""Outcomes that end an incident."""

_UNTOLD = {"not_stated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentTally:
    """Incidents by what they were, and those with a symptom by what came of them.

    ``faults`` have a cause and no symptom, ``changes`` neither, but something that was done, ``routine`` none of
    these: starts, restarts, maintenance.  Of those with ``symptoms``, ``recovered`` are told to have, ``untold`` have
    no outcome on record; the rest ended otherwise.  Of all, ``again`` came back, after the steps ``again_after`` where
    that is known.
    """

    symptoms: int
    faults: int
    changes: int
    routine: int
    recovered: int
    untold: int
    again: int
    again_after: tuple[int, ...]

    @property
    def all(self) -> int:
        """All incidents."""
        return self.symptoms + self.faults + self.changes + self.routine


def tally_incidents(incidents: pd.DataFrame) -> IncidentTally:
    """Count ``incidents``, a table of the store's query."""
    rows = records(incidents)
    seen = [row for row in rows if row["saw"]]
    faults = [row for row in rows if not row["saw"] and row["cause"]]
    changes = [row for row in rows if not row["saw"] and not row["cause"] and row["did"]]
    after = [int(row["recurred_after"]) for row in rows if not is_missing(row["recurred_after"])]
    again = [row for row in rows if "recurred" in row["then"] or not is_missing(row["recurred_after"])]
    return IncidentTally(
        symptoms=len(seen),
        faults=len(faults),
        changes=len(changes),
        routine=len(rows) - len(seen) - len(faults) - len(changes),
        recovered=sum(recovered(row["then"]) for row in seen),
        untold=sum(not set(row["then"]) - _UNTOLD and is_missing(row["recurred_after"]) for row in seen),
        again=len(again),
        again_after=tuple(sorted(after)),
    )


def recovered(then: Collection[str]) -> bool:
    """Whether outcomes include a recovery, and no return of the trouble.

    >>> recovered(["recovered"]), recovered(["abandoned", "recovered"]), recovered(["recovered", "recurred"])
    (True, True, False)
    """
    return bool(WELL & set(then)) and "recurred" not in then


def incidents_in_words(tally: IncidentTally) -> str:
    """How many incidents of which sort, what came of those with a symptom, and how many came back."""
    sorts = [
        (tally.symptoms, f"{tally.symptoms:,} with a symptom"),
        (tally.faults, count(tally.faults, "fault without a symptom", "faults without a symptom")),
        (tally.changes, count(tally.changes, "change without symptom or fault", "changes without symptom or fault")),
        (tally.routine, f"{tally.routine:,} of the run's course alone (starts, restarts, maintenance and the like)"),
    ]
    told = listed([words for n, words in sorts if n])
    text = f"{count(tally.all, 'incident')} on record: {told}."
    if tally.symptoms:
        otherwise = tally.symptoms - tally.recovered - tally.untold
        outcomes = [
            (tally.recovered, f"{tally.recovered:,} recovered"),
            (otherwise, f"{otherwise:,} ended otherwise"),
            (tally.untold, f"of {tally.untold:,} no outcome is told"),
        ]
        text += f" Of those with a symptom, {listed([words for n, words in outcomes if n])}."
    return f"{text} {_again_in_words(tally)}".strip()


def _again_in_words(tally: IncidentTally) -> str:
    if not tally.again:
        return ""
    known = len(tally.again_after)
    text = f"The trouble came back after {count(tally.again, 'incident')}"
    if not known:
        return f"{text}; how many steps later is not known."
    after = f"{count(tally.again_after[0], 'step')} later"
    if tally.again_after[-1] != tally.again_after[0]:
        after = f"{number(tally.again_after[0])} to {number(tally.again_after[-1])} steps later"
    if known == tally.again:
        return f"{text}, {after}."
    return f"{text}: {after} in {known:,} of them, how much later in the other {tally.again - known:,} is not known."


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTally:
    """Steps that were trained and not built upon: ``steps`` known ones, of ``attempts`` attempts.

    ``whole`` further attempts were thrown away altogether, and ``open_ended`` ones went on for a while beyond what was
    kept, or not: of neither does a source tell how many steps that were.
    """

    steps: int
    attempts: int
    whole: int
    open_ended: int

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left that could add to ``steps``."""
        return not self.whole and not self.open_ended


def tally_losses(attempts: pd.DataFrame) -> LossTally:
    """Count what ``attempts``, a table of the store's query, lost to those that took their place."""
    rows = records(attempts)
    parents = {int(row["parent"]) for row in rows if not is_missing(row["parent"])}
    known = [int(row["lost_steps"]) for row in rows if not is_missing(row["lost_steps"]) and row["lost_steps"] > 0]
    unknown = [row for row in rows if is_missing(row["lost_steps"]) and row["attempt"] in parents]
    whole = [
        row
        for row in unknown
        if not is_missing(row["kept_to"])
        and not is_missing(row["start_step"])
        and int(row["kept_to"]) <= int(row["start_step"])
    ]
    return LossTally(steps=sum(known), attempts=len(known), whole=len(whole), open_ended=len(unknown) - len(whole))


def losses_in_words(tally: LossTally) -> str:
    """What was lost: at least so much, and of what the extent is not known."""
    parts = []
    if tally.steps:
        least = "" if tally.is_complete else "at least "
        parts.append(f"{least}{number(tally.steps)} steps that had been trained were rolled back")
    if tally.whole:
        more = "more " if tally.steps else ""
        parts.append(
            f"{count(tally.whole, f'{more}attempt was', f'{more}attempts were')} thrown away whole, "
            "of a length that is not known"
        )
    if tally.open_ended:
        parts.append(
            f"how far {count(tally.open_ended, 'attempt')} had come beyond the checkpoint that the next began from "
            "is not known"
        )
    return "; ".join(parts) or "no step is known to have been trained twice"
