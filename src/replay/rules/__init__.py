"""Rules: named conditions on signals that announce trouble, in the spirit of Prometheus alert rules.

    from replay import rules
    found = rules.evaluate(rules.load(), rules.from_scalars(scalars))
    found.flags, found.unchecked

A rule names a condition over one or more signals, for how long it must hold, how bad it is, what it announces, what
to do, and who says so.  Detectors are a closed vocabulary; they are causal, robust, and resumable, so that a live
tail (:class:`Watch`) gives the flags that the whole store gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from replay.rules.engine import Watch, evaluate
from replay.rules.faults import RuleFileError
from replay.rules.model import Checked, Evaluation, Flag, Rule, Severity, Unchecked
from replay.rules.preparation import from_scalars
from replay.rules.reading import builtin_files, read_rules
from replay.rules.series import Series
from replay.rules.series_tests import run as run_test

__all__ = [
    "FLAG_COLUMNS",
    "Checked",
    "Evaluation",
    "Flag",
    "Rule",
    "RuleFileError",
    "Series",
    "Severity",
    "Unchecked",
    "Watch",
    "evaluate",
    "flags_frame",
    "from_scalars",
    "lint",
    "load",
    "run_test",
]

FLAG_COLUMNS = {
    "run": "str",
    "rule": "str",
    "signal": "str",
    "step": "Int64",
    "step_end": "Int64",
    "time": "datetime64[us, UTC]",
    "severity": "str",
    "value": "float64",
    "baseline": "float64",
    "score": "float64",
    "message": "str",
    "attempt": "Int64",
}
"""Columns of :func:`flags_frame` and their types: those of the store's ``flags`` table."""


def load(paths: Iterable[str | Path] | None = None, *, with_builtin: bool = True) -> list[Rule]:
    """The built-in rules, and those of the files ``paths``.

    Raises :class:`RuleFileError` that lists every fault as ``file:line: message``.
    """
    files = (builtin_files() if with_builtin else []) + [Path(path) for path in paths or ()]
    return read_rules(files)


def lint(paths: Iterable[str | Path]) -> list[str]:
    """What is wrong with rule files: faults, and embedded tests that fail, as ``file:line: message``."""
    files = [Path(path) for path in paths]
    try:
        rules = read_rules(files)
    except RuleFileError as error:
        return list(error.faults)
    return [
        f"{rule.file}:{rule.line}: {wrong}"
        for rule in rules
        for test in rule.tests
        if (wrong := run_test(rule, test)) is not None
    ]


def flags_frame(flags: Iterable[Flag], run: str = "") -> pd.DataFrame:
    """Flags as a table with :data:`FLAG_COLUMNS`."""
    rows = list(flags)
    columns: dict[str, list[object]] = {
        name: [getattr(flag, name) for flag in rows] for name in FLAG_COLUMNS if name not in ("run", "time", "severity")
    }
    columns["run"] = [run] * len(rows)
    columns["severity"] = [str(flag.severity) for flag in rows]
    columns["time"] = [None if flag.time is None else pd.Timestamp(flag.time, unit="us", tz="UTC") for flag in rows]
    return pd.DataFrame({name: pd.Series(columns[name], dtype=dtype) for name, dtype in FLAG_COLUMNS.items()})
