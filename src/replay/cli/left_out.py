"""What sources held beside the records that were kept, in words: nothing that was left out looks as if it were kept.

Parsers count it by kind (:attr:`replay_parsers.records.Coverage.other`).  A kind that is not named here, as a parser
of another package may count it, is taken for left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from replay.output import visible
from replay_parsers.records import Coverage

MOST_KINDS = 10

# Records and lines that should have been numbers, but were not understood as such: told of each source by name.
_NOT_UNDERSTOOD = ("records without a step or a loss", "fields cut off", "record over ")

# Parsed, and in the records or the run's settings, so that nothing is left out.
_KEPT = frozenset(
    [
        "curve record",
        "edit or setting",
        "event file",
        "file name",
        "launch name",
        "log line",
        "sentence understood",
        "setting",
    ]
)
_SETTINGS = {"hparams": "", "text": ", the first of each tag"}

# Said again what is kept, or says nothing that anyone would look for in the store.
_NOTHING_NEW = frozenset(
    [
        "copies of the console",
        "events told again by other ranks",
        "header repeated",
        "link",
        "records repeated by other ranks",
        "timers, rules and progress bars",
    ]
)


def kinds(others: Iterable[Mapping[str, int]]) -> Counter[str]:
    """How many of each kind there are in all: of ``histogram: weights`` the kind is ``histogram``."""
    found: Counter[str] = Counter()
    for other in others:
        for name, count in other.items():
            found[name.partition(": ")[0]] += count
    return found


def not_understood(coverage: Coverage) -> list[str]:
    """The kinds of one source that should have been understood, each with its count."""
    found = kinds([coverage.other])
    return [f"{found[kind]:,} {visible(kind)}" for kind in sorted(found) if kind.startswith(_NOT_UNDERSTOOD)]


def closing_lines(others: Iterable[Mapping[str, int]]) -> list[str]:
    """What all sources held beside what was kept: what was left out, and what is no loss."""
    found = kinds(others)
    settings = {kind: count for kind, count in found.items() if kind in _SETTINGS}
    nothing_new = {kind: count for kind, count in found.items() if kind in _NOTHING_NEW}
    rest = {kind: found[kind] for kind in found.keys() - _KEPT - settings.keys() - nothing_new.keys()}
    told = {"left out": rest, "kept as the run's settings": settings, "nothing to keep": nothing_new}
    return [f"{word}: {_listed(counts)}" for word, counts in told.items() if counts]


def _listed(counts: Mapping[str, int]) -> str:
    largest_first = sorted(counts, key=lambda kind: (-counts[kind], kind))
    words = [f"{visible(kind)} ({counts[kind]:,}{_SETTINGS.get(kind, '')})" for kind in largest_first[:MOST_KINDS]]
    more = len(largest_first) - MOST_KINDS
    return ", ".join([*words, f"{more} more kinds, which --json lists"] if more > 0 else words)
