"""What was checked, what could not be, and why: a report never says "clean" of what it did not understand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from replay.output import is_missing
from replay.report.reading import CHARTED_SIGNALS, RunReading, records
from replay.report.words import count, listed, number, shortened, spelled, steps

EXPECTED_SIGNALS = (*CHARTED_SIGNALS, "throughput")
"""Signals whose absence a reader should know of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """A rule, the signals it reads, and what came of it: the number of flags, or why it could not be checked."""

    name: str
    signals: list[str]
    flags: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """How much of one source became records."""

    source: str
    facts: list[tuple[str, str]]
    examples: list[str]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What the report rests on; ``masked_nan`` is empty unless the loss may hide NaN (see :func:`masked_nan`)."""

    sources: list[SourceCheck]
    signals: list[tuple[str, str]]
    checked: list[RuleCheck]
    unchecked: list[RuleCheck]
    problems: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    not_understood: int
    masked_nan: str


def check(reading: RunReading, rules: Mapping[str, Collection[str]]) -> Checks:
    """What was and what could not be checked.  ``rules`` gives the signals that each rule reads."""
    checked, unchecked = rule_checks(reading, rules)
    return Checks(
        sources=[_source(row) for row in records(reading.ledger)],
        signals=_signals(reading),
        checked=checked,
        unchecked=unchecked,
        problems=records(reading.problems),
        findings=records(reading.findings),
        not_understood=int(reading.ledger["not_understood"].sum()) if "not_understood" in reading.ledger else 0,
        masked_nan=masked_nan(reading),
    )


def rule_checks(reading: RunReading, rules: Mapping[str, Collection[str]]) -> tuple[list[RuleCheck], list[RuleCheck]]:
    """Rules whose signals the run has, and rules that had nothing to read."""
    present = set(reading.tags["signal"].dropna())
    fired = reading.flags["rule"].value_counts()
    checked, unchecked = [], []
    for name, signals in sorted(rules.items()):
        missing = [signal for signal in sorted(signals) if signal not in present]
        flags = int(fired.get(name, 0))
        if missing and not flags:
            why = f"no {listed([spelled(signal) for signal in missing], 'or')} in the logs"
            unchecked.append(RuleCheck(name=name, signals=sorted(signals), reason=why))
        else:
            checked.append(RuleCheck(name=name, signals=sorted(signals), flags=flags))
    extra = sorted(set(fired.index) - set(rules))
    checked += [RuleCheck(name=str(name), signals=[], flags=int(fired[name])) for name in extra]
    return checked, unchecked


def masked_nan(reading: RunReading) -> str:
    """A warning when the gradient norm is NaN at steps whose loss is finite, else nothing.

    Hugging Face's Trainer puts the running mean in place of a loss that is NaN unless ``logging_nan_inf_filter``
    is off, so that the curve looks healthy while the gradients tell otherwise.
    """
    loss, norm = reading.signals.get("loss"), reading.signals.get("grad_norm")
    if loss is None or norm is None:
        return ""
    keys = ["attempt", "step"]
    both = loss.rows[[*keys, "value"]].merge(norm.rows[[*keys, "value"]], on=keys, suffixes=("_loss", "_norm"))
    hidden = both[np.isfinite(both["value_loss"]) & both["value_norm"].isna()]
    if hidden.empty:
        return ""
    at = shortened([steps(step) for step in sorted(set(hidden["step"]))], 5)
    return (
        f"At {count(len(set(hidden['step'])), 'step')} ({at}) the gradient norm is NaN while the loss is a number. "
        "Some trainers put a running mean in the place of a NaN loss (Hugging Face: logging_nan_inf_filter), so the "
        "loss curve may look healthier than the run was there."
    )


def _signals(reading: RunReading) -> list[tuple[str, str]]:
    rows = []
    for signal in EXPECTED_SIGNALS:
        tags = reading.tags[reading.tags["signal"] == signal]
        found = f"{shortened(tags['tag'], 3)}: {number(tags['rows'].sum())} values" if len(tags) else "not logged"
        rows.append((spelled(signal), found))
    others = sorted(reading.tags.loc[reading.tags["signal"].isna(), "tag"])
    if others:
        rows.append(("without a known meaning", f"{count(len(others), 'tag')}: {shortened(others)}"))
    return rows


_LEDGER_WORDS = {
    "format": "format",
    "confidence": "confidence in the format",
    "bytes_read": "bytes read",
    "records": "records kept",
    "not_understood": "not understood",
    "lost_bytes": "bytes lost",
    "lost_records": "records lost",
}


def _source(row: dict[str, Any]) -> SourceCheck:
    facts = [
        (words, row[name] if isinstance(row[name], str) else number(row[name]))
        for name, words in _LEDGER_WORDS.items()
        if name in row and not is_missing(row[name])
    ]
    other = row.get("other")
    if isinstance(other, Mapping) and other:
        facts.append(("recognised, but no scalar", ", ".join(f"{key}: {n}" for key, n in sorted(other.items()))))
    examples = row.get("examples")
    left_over = [row.get(name) for name in ("not_understood", "lost_bytes", "lost_records")]
    return SourceCheck(
        source=str(row.get("source", "")),
        facts=facts,
        examples=[str(example) for example in examples] if isinstance(examples, list | tuple | np.ndarray) else [],
        whole=not any(value and pd.notna(value) for value in left_over),
    )
