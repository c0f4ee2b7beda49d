"""One kind of event and the words that tell it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from replay_parsers.records import EventKind


@dataclass(frozen=True, slots=True)
class Term:
    """``says`` tells ``kind`` in a clause unless ``unless`` is there too; ``hides`` are kinds that the same words
    would wrongly tell as well ("the loss explodes" is no loss spike)."""

    kind: EventKind
    says: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    hides: frozenset[EventKind] = frozenset()

    def found(self, clause: str) -> re.Match[str] | None:
        """Where ``clause`` tells the kind, None when it does not."""
        # Most clauses tell nothing of most kinds: what speaks against it is looked for only where it is told.
        said = self.says.search(clause)
        return None if said is None or (self.unless is not None and self.unless.search(clause)) else said


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """One pattern of alternatives, without regard to case.  ``..N..`` stands for up to N characters of the clause."""
    return re.compile("|".join(f"(?:{_gaps(pattern)})" for pattern in patterns), re.IGNORECASE)


def _gaps(pattern: str) -> str:
    return re.sub(r"\.\.(\d+)\.\.", r"[^;；]{0,\1}?", pattern)


def term(kind: EventKind, *says: str, unless: Iterable[str] = (), hides: Iterable[EventKind] = ()) -> Term:
    """A :class:`Term` from alternatives."""
    barred = tuple(unless)
    return Term(kind, any_of(says), any_of(barred) if barred else None, frozenset(hides))
