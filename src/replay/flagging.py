"""Rules over a stored run: from the store's scalars to flags, kept in the store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from replay.rules import Evaluation, Series
    from replay.store import EventStore


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


def flag_run(store: EventStore, run: str, rule_files: Iterable[str | Path] = ()) -> Evaluation:
    """Evaluate the built-in rules, and those of ``rule_files``, on ``run`` and keep the flags in ``store``.

    Raises :class:`replay.rules.RuleFileError` for a faulty rule file and :class:`replay.store.StoreError`.
    """
    from replay import rules

    found = rules.evaluate(rules.load(rule_files), signal_series(store, run))
    store.put_flags(run, rules.flags_frame(found.flags, run))
    return found
