"""Sums: parts against their totals, percentages against their counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from replay.history.audit.book import Entry, Notes, Telling
from replay_parsers.records import Event

_PARTS = (
    ("planned", "unexpected"),
    ("planned", "unplanned"),
    ("planned", "unplanned_interruptions"),
    ("manual_restarts", "automatic_restarts"),
)
_NUMBER = re.compile(r"\d[\d,_]*(?:\.\d+)?$")
_IN_TEXT = re.compile(
    r"(?<![\d.])(?P<part>\d[\d,]*)\s*(?:of|/|out of)\s*(?P<whole>\d[\d,]*)\s*\(\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*\)"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A row of a table: a count of some total, and the percentage printed for it."""

    entry: Entry
    name: str
    count: float
    percent: str | None

    def follows(self, total: float) -> bool:
        """Whether the percentage is the count's, to the digits that it prints."""
        return self.percent is None or percent_follows(self.count, total, self.percent)


def percent_follows(count: float, total: float, percent: str) -> bool:
    """Whether ``percent`` is ``count`` of ``total``, rounded or cut to the digits printed.

    >>> percent_follows(72, 419, "17.2"), percent_follows(148, 419, "30.1")
    (True, False)
    """
    digits = len(percent.partition(".")[2])
    return abs(100 * count / total - float(percent)) <= 10.0**-digits * 1.0000001


def check(telling: Telling, notes: Notes) -> None:
    """Test every table of counts that the entries make up, and every percentage in the text."""
    tables: dict[tuple[str, float], list[Part]] = {}
    groups: dict[tuple[str, float], float] = {}
    for entry in telling.entries:
        for event in entry.events:
            _complements(telling, entry, event, notes)
            count, total = _number(event, "count"), _number(event, "total")
            if count is None or not total:
                continue
            if (group := event.detail.get("group")) is not None:
                groups[group, total] = groups.get((group, total), 0.0) + count
            name = event.detail.get("component") or str(event.kind)
            percent = event.detail.get("percent", "").rstrip("%")
            part = Part(entry, name, count, percent if _NUMBER.match(percent) else None)
            tables.setdefault((entry.locator, total), []).append(part)
    for (_, total), parts in tables.items():
        _table(telling, total, parts, notes)
    _shares(telling, groups, notes)
    for found in _IN_TEXT.finditer(telling.text):
        _sentence(telling, found, notes)


def _number(event: Event, name: str) -> float | None:
    text = event.detail.get(name, "")
    return float(text.replace(",", "").replace("_", "")) if _NUMBER.match(text) else None


def _complements(telling: Telling, entry: Entry, event: Event, notes: Notes) -> None:
    whole = _number(event, "count")
    for names in _PARTS:
        parts = [_number(event, name) for name in names]
        if whole is None or None in parts or "approximate" in event.detail:
            continue
        total = sum(part for part in parts if part is not None)
        notes.compared["sums"] += 1
        if total != whole:
            notes.add(
                telling,
                entry,
                "total",
                (f"printed: {whole:g}", f"{' and '.join(names).replace('_', ' ')}: {total:g}"),
                None,
                "the parts do not add up to the whole",
            )


def _shares(telling: Telling, groups: Mapping[tuple[str, float], float], notes: Notes) -> None:
    """A percentage that is told for a whole group of rows, against the sum of their counts."""
    for entry in telling.entries:
        for event in entry.events:
            percent, total = event.detail.get("percent", "").rstrip("%"), _number(event, "total")
            count = groups.get((event.detail.get("group", ""), total or 0.0))
            if "count" in event.detail or not total or count is None or not _NUMBER.match(percent):
                continue
            notes.compared["percentages"] += 1
            if not percent_follows(count, total, percent):
                share = 100 * count / total
                notes.add(
                    telling,
                    entry,
                    "total",
                    (f"printed: {percent}%", f"rows of {event.detail['group']}: {count:g} of {total:g}, {share:.1f}%"),
                    f"{share:.1f}%",
                    f"the percentage of the group does not follow from its rows; {percent}% would be "
                    f"{float(percent) * total / 100:.0f}",
                )


def _table(telling: Telling, total: float, parts: Sequence[Part], notes: Notes) -> None:
    notes.compared["percentages"] += sum(part.percent is not None for part in parts)
    whole = sum(part.count for part in parts)
    complete = len(parts) >= 3 and abs(whole - total) < 0.5 * total
    wrong = [part for part in parts if not part.follows(total)]
    if complete:
        notes.compared["sums"] += 1
    for part in wrong:
        implied = float(part.percent or 0) * total / 100
        rest = total - (whole - part.count)
        # Which of the two is wrong shows in the sum: the right counts add up.
        count_wrong = complete and abs(whole - total) > 0.5 and abs(rest - implied) <= 0.006 * total
        share = 100 * part.count / total
        notes.add(
            telling,
            part.entry,
            "total",
            (f"printed: {part.percent}%", f"{part.count:g} of {total:g}: {share:.1f}%"),
            f"a count of {rest:g}" if count_wrong else f"{share:.1f}%" if not complete or whole == total else None,
            f"the percentage of {part.name} does not follow from its count"
            + (f"; {part.percent}% would be {implied:.0f}" if implied else "")
            + (f", and the counts as printed add up to {whole:g}" if complete else ""),
        )
    if complete and whole != total and not wrong:
        notes.add(
            telling,
            parts[0].entry,
            "total",
            (f"total: {total:g}", f"sum of {len(parts)} parts: {whole:g}"),
            None,
            "the parts do not add up to their total",
        )


def _sentence(telling: Telling, found: re.Match[str], notes: Notes) -> None:
    part, whole = (float(found[name].replace(",", "")) for name in ("part", "whole"))
    notes.compared["percentages"] += 1
    if whole and not percent_follows(part, whole, found["percent"]):
        notes.add(
            telling,
            None,
            "total",
            (f"printed: {found[0]}", f"{part:g} of {whole:g}: {100 * part / whole:.1f}%"),
            f"{100 * part / whole:.1f}%",
            "the percentage does not follow from the numbers beside it",
        )
        line = telling.text.count("\n", 0, found.start()) + 1
        notes.findings[-1] = replace(notes.findings[-1], locator=f"line {line}")
