"""Recall and precision as tables, and whether they reach what is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from replay.chronicle_evaluation.books import BOOKS
from replay.chronicle_evaluation.comparison import Comparison
from replay.chronicle_evaluation.facts import CATEGORIES, STORY

ALL = "all four"


def table(comparisons: Iterable[Comparison], categories: Sequence[str] = CATEGORIES) -> pd.DataFrame:
    """One row a book and category: counts, recall and precision (NaN where there is nothing to count)."""
    rows = []
    for comparison in comparisons:
        for category in categories:
            paired, missed, extra = comparison.counts(category)
            rows.append((comparison.book, category, paired + missed, paired + extra, paired))
    frame = pd.DataFrame(rows, columns=["book", "category", "curated", "raw", "both"])
    return _shares(frame.astype({"book": str, "category": str}))


def story_table(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """As :func:`table`, of symptoms, causes, outcomes, and other events, by run."""
    return _by_run(table(comparisons, STORY), ["category"])


def overall(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """One row a run: recall and precision over the four categories and all books of the run together."""
    return _by_run(table(comparisons), [])


def strict_incidents(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """Incidents by the stricter key, half of what either is about, and all four categories together with them.

    One row a run and category (``incident``, ``all four``), as :func:`overall`.
    """
    told = list(comparisons)
    rows = [(comparison.book, "incident", *comparison.strict_incidents) for comparison in told]
    strict = pd.DataFrame(rows, columns=["book", "category", "curated", "raw", "both"])
    whole = pd.concat([strict, table(told, CATEGORIES[1:])[strict.columns]]).assign(category=ALL)
    return _by_run(pd.concat([strict, whole], ignore_index=True), ["category"])


def standing(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """Each category of each run, and all four together, against the run's limit.

    Columns: run, category, curated, raw, both, recall, precision, limit, verdict (``met``, ``below``, or ``nothing to
    count``).
    """
    told = list(comparisons)
    rows = pd.concat([_by_run(table(told), ["category"]), overall(told).assign(category=ALL)], ignore_index=True)
    order = {name: place for place, name in enumerate(dict.fromkeys(book.run for book in BOOKS))}
    rows = rows.sort_values("run", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    limits = {book.run: book.target for book in BOOKS}
    rows["limit"] = rows["run"].map(limits)
    # Where one side tells nothing, what the other tells is missed, or is one too many.
    lowest = rows[["recall", "precision"]].min(axis=1)
    rows["verdict"] = [
        "nothing to count" if pd.isna(low) else "met" if low >= limit else "below"
        for low, limit in zip(lowest, rows["limit"], strict=True)
    ]
    return rows[["run", "category", "curated", "raw", "both", "recall", "precision", "limit", "verdict"]]


def _by_run(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    runs = {book.name: book.run for book in BOOKS}
    rows = rows.assign(run=[runs.get(name, name) for name in rows["book"]])
    summed = rows.groupby(["run", *keys], sort=False)[["curated", "raw", "both"]].sum().reset_index()
    return _shares(summed)


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    for name, whole in (("recall", "curated"), ("precision", "raw")):
        counted = rows[whole].where(rows[whole] > 0)
        rows[name] = (rows["both"] / counted).astype("float64")
    return rows
