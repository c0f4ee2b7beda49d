"""What was checked, what could not be, and why: a report never says "clean" of what it did not understand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from replay.output import is_missing
from replay.report.doubts import Doubt, doubts
from replay.report.drawn import is_constant
from replay.report.reading import CHARTED_SIGNALS, RunReading, records
from replay.report.words import count, number, shortened, spelled, steps
from replay.rules import Checked, Rule, Unchecked
from replay.signals import STEP_AXIS, axis_of

EXPECTED_SIGNALS = CHARTED_SIGNALS
"""Signals whose absence a reader should know of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """A rule, what it looks for, what it could look at, and what it could not with the reason.

    ``judged`` is empty for a rule that could not be checked at all.  Such a one had ``too_few`` values, and ``lack``
    then says how many of how many, or none.
    """

    name: str
    summary: str
    judged: list[str]
    missing: list[str]
    flags: int
    advice: str
    too_few: bool = False
    lack: str = ""


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
    doubts: list[Doubt]
    not_understood: int
    masked_nan: str

    @property
    def without_data(self) -> list[RuleCheck]:
        """Rules of whose signals there is not one measurement."""
        return [rule for rule in self.unchecked if not rule.too_few]

    @property
    def too_few(self) -> list[RuleCheck]:
        """Rules whose signals were measured, but not often enough to judge by."""
        return [rule for rule in self.unchecked if rule.too_few]


def check(reading: RunReading) -> Checks:
    """What was and what could not be checked of a run."""
    rules = rule_checks(reading)
    return Checks(
        sources=[_source(row) for row in records(reading.ledger)],
        signals=_signals(reading),
        checked=[rule for rule in rules if rule.judged],
        unchecked=[rule for rule in rules if not rule.judged],
        problems=records(reading.problems),
        doubts=doubts(reading.findings),
        not_understood=int(reading.ledger["not_understood"].sum()) if "not_understood" in reading.ledger else 0,
        masked_nan=masked_nan(reading),
    )


def rule_checks(reading: RunReading) -> list[RuleCheck]:
    """Each rule with what it could look at; rules of the user's that only the store's flags know come last."""
    fired = reading.flags["rule"].value_counts()
    found = reading.evaluation
    checks = [
        _rule_check(
            rule,
            [one for one in found.checked if one.rule == rule.name],
            [one for one in found.unchecked if one.rule == rule.name],
            int(fired.get(rule.name, 0)),
        )
        for rule in reading.rules
    ]
    known = {rule.name for rule in reading.rules}
    checks += [
        RuleCheck(name=str(name), summary="", judged=["not told"], missing=[], flags=int(fired[name]), advice="")
        for name in sorted(set(fired.index) - known)
    ]
    return checks


def _rule_check(rule: Rule, checked: Sequence[Checked], unchecked: Sequence[Unchecked], flags: int) -> RuleCheck:
    measured = [one for one in unchecked if one.points]
    nearest = min(measured, key=lambda one: one.needs - one.points) if measured and not checked else None
    return RuleCheck(
        name=rule.name,
        summary=rule.summary,
        judged=[
            f"{spelled(one.signal)}: {one.judged:,} of {count(one.points, 'point')}, "
            f"steps {steps(one.first_step, one.last_step)}" + (f"; {one.reservation}" if one.reservation else "")
            for one in checked
        ],
        missing=[one.reason for one in unchecked],
        flags=flags,
        advice=rule.advice,
        too_few=nearest is not None,
        lack=""
        if nearest is None or nearest.points >= nearest.needs
        else f"{nearest.points:,} of {nearest.needs:,} values",
    )


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
        if signal in reading.signals and is_constant(reading, signal):
            found += f", {number(reading.signals[signal].rows['value'].iloc[0])} throughout"
        rows.append((spelled(signal), found))
    others: dict[str, list[str]] = {}
    for tag in sorted(str(tag) for tag in reading.tags.loc[reading.tags["signal"].isna(), "tag"]):
        others.setdefault(axis_of(tag), []).append(tag)
    for axis, over in others.items():
        what = "without a known meaning" if axis == STEP_AXIS else f"over {axis}, not steps, so not judged by rules"
        rows.append((what, f"{count(len(over), 'tag')}: {shortened(over)}"))
    return rows


_LEDGER_WORDS = {
    "status": "status",
    "reason": "because",
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
        if name in row and not is_missing(row[name]) and row[name] != ""
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
        whole=row.get("status") not in {"skipped", "failed"}
        and not any(value and pd.notna(value) for value in left_over),
    )
