"""Rules over a stored run: from the store's scalars to flags."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from replay.rules import Evaluation, Series


class Measured(Protocol):
    """The queries of a store that say what was measured."""

    def tags(self, run: str) -> pd.DataFrame: ...
    def scalars(self, run: str, *, tag: list[str]) -> pd.DataFrame: ...


def signal_series(store: Measured, run: str) -> dict[str, Series]:
    """What rules read of ``run``: one series for every signal that its tags carry."""
    from replay.rules import from_scalars

    tags = store.tags(run)
    named = tags[tags["signal"].notna()]
    if named.empty:
        return {}
    scalars = store.scalars(run, tag=[str(tag) for tag in named["tag"]])
    signals = dict(zip(named["tag"], named["signal"], strict=True))
    return from_scalars(scalars.assign(signal=scalars["tag"].map(signals)))


def evaluate_run(store: Measured, run: str, rule_files: Iterable[str | Path] = ()) -> Evaluation:
    """What the built-in rules, and those of ``rule_files``, say of ``run``.

    Raises :class:`replay.rules.RuleFileError` for a faulty rule file and :class:`replay.store.StoreError`.
    """
    from replay import rules

    return rules.evaluate(rules.load(rule_files), signal_series(store, run))
