"""What one line of a log says happened, before it is known at which step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from replay_parsers.records import EventKind


@dataclass(frozen=True, slots=True)
class Seen:
    """An event as a line tells it.

    ``step`` is the step that the line itself names, None when it names none.  ``rank`` is the rank that says so
    (DeepSpeed numbers its overflow lines).  ``same`` is equal for lines that tell of one thing.
    """

    kind: EventKind
    text: str
    step: int | None = None
    field: str | None = None
    before: float | None = None
    after: float | None = None
    detail: dict[str, str] = dataclass_field(default_factory=dict)
    rank: str = ""
    same: str = ""


Recogniser = tuple[str, Callable[[str], Seen | None]]
"""Words that such a line contains, and how to read it."""
