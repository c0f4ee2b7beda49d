"""Rules over a stored run: from the store's scalars to flags, kept in the store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.rules import Evaluation
    from replay.store import EventStore


def flag_run(store: EventStore, run: str, rule_files: Iterable[str | Path] = ()) -> Evaluation:
    """Evaluate the built-in rules, and those of ``rule_files``, on ``run`` and keep the flags in ``store``.

    Raises :class:`replay.rules.RuleFileError` for a faulty rule file and :class:`replay.store.StoreError`.
    """
    from replay import rules

    found = rules.evaluate(rules.load(rule_files), rules.from_scalars(store.scalars(run)))
    store.put_flags(run, rules.flags_frame(found.flags, run))
    return found
