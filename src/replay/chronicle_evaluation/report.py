"""The evaluation as text, and as a command."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import replay.chronicle_evaluation as package
from replay.chronicle_evaluation.comparison import Comparison, evaluate
from replay.chronicle_evaluation.tables import ALL, standing, story_table, strict_incidents, table

_UPSTREAM = Path("..") / "shared" / "upstream"


def report(comparisons: Sequence[Comparison]) -> str:
    """The tables and every miss, as text."""
    parts = [
        (package.__doc__ or "").split("\n\n", 1)[1].strip(),
        "By book\n" + _text(table(comparisons)),
        "By run, against its limit, which holds for all four together; each category by itself is judged, too\n"
        + _text(standing(comparisons)),
        *below(comparisons),
        "Incidents by the stricter key, half of what either is about (decides nothing)\n"
        + _text(strict_incidents(comparisons)),
        "Symptoms, causes, outcomes and other events by heading and kind (no limit)\n"
        + _text(story_table(comparisons)),
    ]
    for comparison in comparisons:
        misses = [f"  missed  {fact.category:9} {fact}" for fact in comparison.missed]
        misses += [f"  extra   {fact.category:9} {fact}" for fact in comparison.extra]
        parts.append("\n".join([comparison.book, *misses]))
    return "\n\n".join(parts)


def page(comparisons: Sequence[Comparison]) -> str:
    """The figures as a page of documentation."""
    key = (package.__doc__ or "").split("\n\n", 1)[1].strip().replace("``", "`")
    key = re.sub(r"^(`\w+`)\n    ", r"- \1: ", key, flags=re.MULTILINE)
    key = re.sub(r"^    ", "  ", key, flags=re.MULTILINE)
    head = (
        "# How well raw chronicles are read\n\n"
        "This page is written by a command; no number in it was typed:\n\n"
        "```console\n$ python -m replay.chronicle_evaluation --page UPSTREAM > docs/chronicles.md\n```\n\n"
        "`make eval-chronicles` prints the same with every miss and fails where a run stays below its limit. UPSTREAM "
        "is a folder\n"
        "with the projects' own notes (`glm-130b/main-log-en.md`, `bloom/tr11-176B-ml_chronicles.md` ...).\n"
    )
    short = below(comparisons)
    standings = (
        "\n".join(f"- {line}" for line in short)
        or "Each run reaches its limit, and each of its categories by itself does, too."
    )
    return "\n".join(
        [
            head,
            "## What counts as the same\n",
            key + "\n",
            "## Against the limits\n",
            _markdown(standing(comparisons)) + "\n",
            standings + "\n",
            "## Incidents by the stricter key\n",
            "At least half of what either incident is about is told by the other: it says how well an incident was\n"
            "understood, and decides nothing.\n",
            _markdown(strict_incidents(comparisons)) + "\n",
            "## Symptoms, causes, outcomes and other events\n",
            "By heading and kind; without a limit.\n",
            _markdown(story_table(comparisons)),
            "",
        ]
    )


def _markdown(frame: pd.DataFrame) -> str:
    def cell(value: object) -> str:
        if isinstance(value, float):
            return "–" if pd.isna(value) else f"{value:.2f}"
        return str(value)

    rows = [list(frame.columns), *([cell(value) for value in row] for row in frame.itertuples(index=False))]
    rows.insert(1, ["---", "---" if "category" in frame else "---:", *["---:"] * (len(frame.columns) - 2)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def below(comparisons: Sequence[Comparison]) -> list[str]:
    """One line for each category of a run that does not reach its limit."""
    rows = standing(comparisons)
    return [
        f"below its limit of {row['limit']:.2f}: {row['run']}, {row['category']}: recall {_share(row['recall'])}, "
        f"precision {_share(row['precision'])} ({row['both']} of {row['curated']} curated and {row['raw']} read)"
        for row in rows[rows["verdict"] == "below"].to_dict("records")
    ]


def _share(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.3f}"


def _text(frame: pd.DataFrame) -> str:
    return frame.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the evaluation; exit 1 when a run falls short of its limit, 2 with nothing to read."""
    parser = argparse.ArgumentParser(description="Raw chronicles against curated timelines.")
    parser.add_argument("upstream", nargs="?", type=Path, default=_UPSTREAM, help="folder of the raw chronicles")
    parser.add_argument("--page", action="store_true", help="write the page of documentation instead")
    options = parser.parse_args(arguments)
    comparisons = evaluate(options.upstream)
    if not comparisons:
        print(
            f"no chronicle under {options.upstream}; name the folder that holds glm-130b/, bloom/ ...", file=sys.stderr
        )
        return 2
    if options.page:
        print(page(comparisons), end="")
        return 0
    print(report(comparisons))
    rows = standing(comparisons)
    return int(((rows["category"] == ALL) & (rows["verdict"] == "below")).any())
