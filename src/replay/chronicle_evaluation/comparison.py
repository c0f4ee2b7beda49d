"""A raw parse beside its timeline, fact by fact and event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from replay.builtin import builtin_folder
from replay.chronicle_evaluation.agreement import agreement
from replay.chronicle_evaluation.books import BOOKS, Book
from replay.chronicle_evaluation.facts import Fact, facts, told_elsewhere
from replay_parsers import Records, read
from replay_parsers.records import Event


@dataclass(frozen=True, slots=True)
class Comparison:
    """The facts of one book: paired, missed by the parser, and given by the parser without being curated.

    ``strict_incidents`` are the numbers of incidents in the timeline, in the parse and in both, where at least half of
    what either is about must be told by the other.
    """

    book: str
    paired: tuple[tuple[Fact, Fact], ...]
    missed: tuple[Fact, ...]
    extra: tuple[Fact, ...]
    strict_incidents: tuple[int, int, int]

    def counts(self, category: str) -> tuple[int, int, int]:
        """How many facts of a category are paired, missed and extra."""
        return (
            sum(curated.category == category for curated, _ in self.paired),
            sum(fact.category == category for fact in self.missed),
            sum(fact.category == category for fact in self.extra),
        )


def compare(book: str, raw: Records, curated: Records, source: str | None = None) -> Comparison:
    """Pair the facts of a raw parse with those of its timeline, one to one, the closest first."""
    wanted, given = facts(curated, source), facts(raw)
    if source is not None:
        # What the timeline knows from another source is no mistake of the parser's, and no credit to it either.
        asked = {event.incident for fact in wanted for event in fact.events}
        elsewhere = {event.incident for fact in facts(curated) for event in fact.events} - asked
        given = [fact for fact in given if fact.events[0].incident not in elsewhere or _any_agrees(wanted, fact)]
    paired, missed, extra = _pair(wanted, given)
    _, _, extra = _pair(told_elsewhere(curated, source), extra)
    incidents = [[fact for fact in side if fact.category == "incident"] for side in (wanted, given)]
    both = len(_pair(*incidents, strict=True)[0])
    strict = (len(incidents[0]), len(incidents[1]), both)
    return Comparison(book, tuple(paired), tuple(missed), tuple(extra), strict)


def _any_agrees(wanted: list[Fact], fact: Fact) -> bool:
    return any(agreement(other, fact) > 0 for other in wanted)


def _pair(
    wanted: list[Fact], given: list[Fact], *, strict: bool = False
) -> tuple[list[tuple[Fact, Fact]], list[Fact], list[Fact]]:
    scores = [
        (agreement(fact, other, strict=strict), -place, -number)
        for place, fact in enumerate(wanted)
        for number, other in enumerate(given)
        if fact.heading == other.heading
    ]
    partner: dict[int, int] = {}
    taken: set[int] = set()
    for score, place, number in sorted(scores, reverse=True):
        if score > 0 and -place not in partner and -number not in taken:
            partner[-place] = -number
            taken.add(-number)
    paired = [(fact, given[partner[place]]) for place, fact in enumerate(wanted) if place in partner]
    missed = [fact for place, fact in enumerate(wanted) if place not in partner]
    return paired, missed, [fact for number, fact in enumerate(given) if number not in taken]


def evaluate(upstream: Path, books: Iterable[Book] = BOOKS) -> list[Comparison]:
    """Parse every book whose chronicle is under ``upstream`` and compare it with its built-in timeline."""
    logbooks = builtin_folder()
    comparisons = []
    for book in books:
        chronicle, timeline = upstream / book.chronicle, logbooks / book.timeline
        if chronicle.is_file() and timeline.is_file():
            comparisons.append(compare(book.name, read(chronicle), read(timeline), book.source))
    return comparisons


def differences(raw: Records, curated: Records) -> pd.DataFrame:
    """Every event that one telling has and the other lacks, one row each: columns ``told_by`` (``timeline`` or
    ``chronicle``), incident, kind, step, step_end, field, before, after.

    Events are the same when all of these agree exactly; the same event twice counts twice.
    """
    counts = [Counter(_key(event) for event in records.events) for records in (curated, raw)]
    rows = [
        (told_by, *key)
        for told_by, mine, other in (("timeline", counts[0], counts[1]), ("chronicle", counts[1], counts[0]))
        for key in (mine - other).elements()
    ]
    order = {event.incident: place for place, event in reversed(list(enumerate((*curated.events, *raw.events))))}
    rows.sort(key=lambda row: (order[row[1]], row[0] == "chronicle", row[2]))
    columns = ["told_by", "incident", "kind", "step", "step_end", "field", "before", "after"]
    return pd.DataFrame(rows, columns=columns)


def _key(event: Event) -> tuple[str | None, str, int | None, int | None, str | None, float | None, float | None]:
    return (event.incident, str(event.kind), event.step, event.step_end, event.field, event.before, event.after)
