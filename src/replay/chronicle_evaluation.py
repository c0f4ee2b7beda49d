"""How well the raw chronicles are read: what the parsers find, against what the curated timelines say.

Four kinds of fact are counted, each with recall (of the curated facts, how many the parser found) and precision
(of the facts the parser gives, how many are curated):

``incident``
    Key: the heading.  A curated incident is found when the raw parse has an incident under the same heading (the
    same id, or the same locator) that shares at least one event kind with it; and the other way round.
``restart``
    Events of the kinds ``restart``, ``rollback`` and ``restart_from_scratch``.  Key: heading, kind, step.
``skip``
    Key: heading, first and last step left out (or their number).
``parameter``
    Events that carry a ``field``, symptoms left out.  Key: heading, kind, field, values before and after, factor.

Tolerance: numbers agree within one part in a thousand; a step marked approximate within 100 steps.  What one side
leaves open contradicts nothing in a value *before* (``before``), since a timeline may know it from elsewhere;
steps, values after and factors must agree.  Facts are paired one to one.

Only the curated facts whose source is the file itself are asked for: a parser cannot know what a paper adds.
Incidents that the timeline tells from another source alone are left out on both sides.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from replay.builtin import builtin_folder
from replay_parsers import Records, read
from replay_parsers.records import Event, EventKind, Role

CATEGORIES = ("incident", "restart", "skip", "parameter")
_MOVES = frozenset({EventKind.RESTART, EventKind.ROLLBACK, EventKind.RESTART_FROM_SCRATCH})
_RELATIVE = 1e-3
_STEPS = 100
_UPSTREAM = Path("..") / "shared" / "upstream"


@dataclass(frozen=True, slots=True)
class Book:
    """A raw chronicle: its run, the timeline it is compared with, the title of its source there, and what is asked
    of the run (recall and precision alike)."""

    run: str
    name: str
    chronicle: str
    timeline: str
    source: str
    target: float


BOOKS = (
    Book(
        "GLM-130B (English)", "GLM-130B (English)", "glm-130b/main-log-en.md", "glm-130b.yaml", "main-log-en.md", 0.95
    ),
    Book("GLM-130B (Chinese)", "GLM-130B (Chinese)", "glm-130b/main-log.md", "glm-130b.zh.yaml", "main-log.md", 0.95),
    Book(
        "BigScience 104B",
        "BigScience 104B, tr8",
        "bloom/tr8-104B-wide_chronicles.md",
        "bigscience-104b.yaml",
        "tr8-104B-wide/",
        0.85,
    ),
    Book(
        "BigScience 104B",
        "BigScience 104B, tr8b",
        "bloom/tr8b-104B_chronicles.md",
        "bigscience-104b.yaml",
        "tr8b-104B/",
        0.85,
    ),
    Book(
        "BLOOM-176B",
        "BLOOM-176B",
        "bloom/tr11-176B-ml_chronicles.md",
        "bloom-176b.yaml",
        "tr11-176B-ml/chronicles.md",
        0.9,
    ),
    Book(
        "BigScience 13B",
        "BigScience 13B",
        "bloom/tr1-13B-base_chronicles.md",
        "bigscience-13b.yaml",
        "tr1-13B-base/",
        0.8,
    ),
    Book("OPT-175B", "OPT-175B, 10%", "opt-175b/10_percent_update.md", "opt-175b.yaml", "10_percent_update.md", 0.8),
    Book("OPT-175B", "OPT-175B, 27%", "opt-175b/27_percent_update.md", "opt-175b.yaml", "27_percent_update.md", 0.8),
    Book("OPT-175B", "OPT-175B, 56%", "opt-175b/56_percent_update.md", "opt-175b.yaml", "56_percent_update.md", 0.8),
    Book("OPT-175B", "OPT-175B, final", "opt-175b/final_update.md", "opt-175b.yaml", "final_update.md", 0.8),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One countable fact: its ``category``, the ``heading`` it stands under, and the events that make it up."""

    category: str
    heading: str
    events: tuple[Event, ...]

    def __str__(self) -> str:
        if self.category == "incident":
            return f"{self.heading}: {', '.join(dict.fromkeys(str(event.kind) for event in self.events))}"
        event = self.events[0]
        parts = [str(event.kind)]
        if event.field:
            values = [f"{value:g}" if value is not None else "?" for value in (event.before, event.after)]
            parts.append(f"{event.field} {values[0]} -> {event.detail.get('factor') or values[1]}")
        if event.step is not None:
            parts.append(f"step {event.step}" + (f" to {event.step_end}" if event.step_end is not None else ""))
        return f"{self.heading}: {' '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The facts of one book: paired, missed by the parser, and given by the parser without being curated."""

    book: str
    paired: tuple[tuple[Fact, Fact], ...]
    missed: tuple[Fact, ...]
    extra: tuple[Fact, ...]

    def counts(self, category: str) -> tuple[int, int, int]:
        """How many facts of a category are paired, missed and extra."""
        return (
            sum(curated.category == category for curated, _ in self.paired),
            sum(fact.category == category for fact in self.missed),
            sum(fact.category == category for fact in self.extra),
        )


def facts(records: Records, source: str | None = None) -> list[Fact]:
    """The countable facts of a timeline or a parsed chronicle; ``source`` keeps those whose source contains it."""
    groups: dict[str, list[Event]] = {}
    for event in records.events:
        if event.incident is not None:
            groups.setdefault(event.incident, []).append(event)
    found = []
    for whole in groups.values():
        events = [event for event in whole if source is None or source in event.source]
        if 2 * len(events) < len(whole):
            continue  # told elsewhere; this source adds a detail or an outcome
        heading = _heading(events)
        found.append(Fact("incident", heading, tuple(events)))
        for event in events:
            if (category := _category(event)) is not None:
                found.append(Fact(category, heading, (event,)))
    return found


def _heading(events: Sequence[Event]) -> str:
    """The heading most of an incident's events stand under."""
    locators = [event.locator.removeprefix("§").strip() for event in events]
    heading = max(dict.fromkeys(locators), key=locators.count)
    return re.sub(r"\s+", " ", heading)


def _category(event: Event) -> str | None:
    if event.kind in _MOVES:
        return "restart"
    if event.kind is EventKind.SKIP_BATCHES:
        return "skip"
    return "parameter" if event.field and event.role is Role.INTERVENTION else None


def compare(book: str, raw: Records, curated: Records, source: str | None = None) -> Comparison:
    """Pair the facts of a raw parse with those of its timeline, one to one, the closest first."""
    wanted, given = facts(curated, source), facts(raw)
    taken: set[int] = set()
    paired, missed = [], []
    for fact in wanted:
        scores = [(_agreement(fact, other), -index) for index, other in enumerate(given) if index not in taken]
        score, place = max(scores, default=(0.0, 0))
        if score > 0:
            taken.add(-place)
            paired.append((fact, given[-place]))
        else:
            missed.append(fact)
    # What the timeline knows from another source is no mistake of the parser's, and no credit to it either.
    elsewhere = {event.incident for fact in facts(curated) for event in fact.events} if source else set()
    asked = {event.incident for fact in wanted for event in fact.events}
    extra = [
        fact
        for index, fact in enumerate(given)
        if index not in taken and fact.events[0].incident not in elsewhere - asked
    ]
    return Comparison(book, tuple(paired), tuple(missed), tuple(extra))


def _agreement(curated: Fact, raw: Fact) -> float:
    """How well two facts agree; 0 when they are not the same."""
    if curated.category != raw.category or curated.heading != raw.heading:
        return 0.0
    if curated.category == "incident":
        kinds = {event.kind for event in curated.events}
        shared = len(kinds & {event.kind for event in raw.events})
        return shared + (0.5 if curated.events[0].incident == raw.events[0].incident else 0.0) if shared else 0.0
    return _same_event(curated.events[0], raw.events[0])


def _same_event(curated: Event, raw: Event) -> float:
    if curated.kind is not raw.kind:
        return 0.0
    if curated.kind in _MOVES or curated.kind is EventKind.SKIP_BATCHES:
        near = _STEPS if "step" in curated.detail.get("approximate", "") else 0
        same = _close(curated.step, raw.step, near) and _close(curated.step_end, raw.step_end, near)
        return 1.0 if same and curated.detail.get("batches") == raw.detail.get("batches") else 0.0
    if curated.field != raw.field or curated.detail.get("factor") != raw.detail.get("factor"):
        return 0.0
    if not _close(curated.after, raw.after):
        return 0.0
    if curated.before is None or raw.before is None:
        return 0.5
    return 1.0 if _close(curated.before, raw.before) else 0.0


def _close(first: float | None, second: float | None, within: float = 0) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) <= max(within, _RELATIVE * max(abs(first), abs(second)))


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


def table(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """One row a book and category: counts, recall and precision (NaN where there is nothing to count)."""
    rows = []
    for comparison in comparisons:
        for category in CATEGORIES:
            paired, missed, extra = comparison.counts(category)
            rows.append(
                {
                    "book": comparison.book,
                    "category": category,
                    "curated": paired + missed,
                    "raw": paired + extra,
                    "both": paired,
                    "recall": paired / (paired + missed) if paired + missed else float("nan"),
                    "precision": paired / (paired + extra) if paired + extra else float("nan"),
                }
            )
    columns = ["book", "category", "curated", "raw", "both", "recall", "precision"]
    return pd.DataFrame(rows, columns=columns).astype({"book": str, "category": str})


def overall(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """One row a run: recall and precision over the four categories and all books of the run together."""
    rows = table(comparisons)
    runs = {book.name: book.run for book in BOOKS}
    rows["run"] = [runs.get(name, name) for name in rows["book"]]
    summed = rows.groupby("run", sort=False)[["curated", "raw", "both"]].sum().reset_index()
    summed["recall"] = summed["both"] / summed["curated"]
    summed["precision"] = summed["both"] / summed["raw"]
    return summed


def evaluate(upstream: Path, books: Iterable[Book] = BOOKS) -> list[Comparison]:
    """Parse every book whose chronicle is under ``upstream`` and compare it with its built-in timeline."""
    logbooks = builtin_folder()
    comparisons = []
    for book in books:
        chronicle, timeline = upstream / book.chronicle, logbooks / book.timeline
        if chronicle.is_file() and timeline.is_file():
            comparisons.append(compare(book.name, read(chronicle), read(timeline), book.source))
    return comparisons


def report(comparisons: Sequence[Comparison]) -> str:
    """The tables and every miss, as text."""
    lines = [(__doc__ or "").split("\n\n", 1)[1].strip(), ""]
    lines.append(table(comparisons).to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="-"))
    lines += ["", overall(comparisons).to_string(index=False, float_format=lambda value: f"{value:.3f}"), ""]
    for comparison in comparisons:
        lines.append(comparison.book)
        lines += [f"  missed  {fact.category:9} {fact}" for fact in comparison.missed]
        lines += [f"  extra   {fact.category:9} {fact}" for fact in comparison.extra]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the evaluation; exit 1 when a run falls short of what is asked of it, 2 when there is nothing to read."""
    parser = argparse.ArgumentParser(description="Raw chronicles against curated timelines.")
    parser.add_argument("upstream", nargs="?", type=Path, default=_UPSTREAM, help="folder of the raw chronicles")
    options = parser.parse_args(arguments)
    comparisons = evaluate(options.upstream)
    if not comparisons:
        print(
            f"no chronicle under {options.upstream}; name the folder that holds glm-130b/, bloom/ ...", file=sys.stderr
        )
        return 2
    print(report(comparisons))
    targets = {book.run: book.target for book in BOOKS}
    figures = overall(comparisons).to_dict("records")
    short = [str(row["run"]) for row in figures if min(row["recall"], row["precision"]) < targets[str(row["run"])]]
    for name in short:
        print(f"{name}: below {targets[name]:.2f}", file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
