"""Rules, and what they say: flags, and what was and was not checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from replay_parsers.kinds import EventKind


class Severity(StrEnum):
    """How bad it is: look when there is time, look today, look now."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Condition:
    """A detector on one signal.  ``settings`` is an instance of the detector's own settings."""

    signal: str
    detector: str
    settings: Any


@dataclass(frozen=True, slots=True)
class Combination:
    """Several conditions: ``any`` of them, ``all`` of them within ``within`` steps of each other, or each ``then``
    the next, the last at most ``within`` steps after the first."""

    how: str
    parts: tuple[Condition | Combination, ...]
    within: int = 0

    def conditions(self) -> Iterator[Condition]:
        """The conditions, in order, of all levels."""
        for part in self.parts:
            if isinstance(part, Condition):
                yield part
            else:
                yield from part.conditions()


@dataclass(frozen=True, slots=True)
class SeriesTest:
    """A test embedded in a rule: made-up series by signal, and how many flags they must raise, at which steps.

    ``flags`` None: at least one; ``steps`` bounds the first flag's beginning.
    """

    name: str
    series: dict[str, list[float]]
    fires: bool
    flags: int | None = None
    steps: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named condition, for how long it must hold, how bad it is, what it announces, what to do, and who says so.

    ``for_points`` points or ``for_steps`` steps in a row; ``tolerate`` points in between may be quiet;
    ``single_severity`` is the severity of an alarm that is over after one point.
    """

    name: str
    summary: str
    when: Condition | Combination
    severity: Severity
    announces: EventKind
    advice: str
    source: str
    for_points: int = 1
    for_steps: int = 0
    tolerate: int = 0
    single_severity: Severity | None = None
    tests: tuple[SeriesTest, ...] = ()
    file: str = ""
    line: int = 0

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Every condition, in order."""
        return (self.when,) if isinstance(self.when, Condition) else tuple(self.when.conditions())

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals it reads, each once."""
        return tuple(dict.fromkeys(condition.signal for condition in self.conditions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A rule's condition held from ``step`` to ``step_end``, both inclusive, of one attempt.

    ``time`` is that of ``step`` in microseconds since 1970 UTC, None when unknown; ``value`` the farthest one,
    ``baseline`` what it is compared with, ``score`` how far off in robust sigmas (detectors that know none use
    their own measure).  ``known_at`` is the step at which the rule could first say so; ``lead_steps`` how many
    steps that was before the symptom it announced showed in the loss, None when none followed.
    """

    rule: str
    signal: str
    detector: str
    announces: EventKind
    severity: Severity
    attempt: int
    step: int
    step_end: int
    time: int | None
    value: float
    baseline: float
    score: float
    points: int
    known_at: int
    message: str
    advice: str = ""
    lead_steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One rule looked at one signal: how many points it could judge, of how many, at which steps.

    Of ``cautious`` points it was quiet after a history too short to know the noise by, so that an alarm asked for
    more than elsewhere: ``caution`` says for what.
    """

    rule: str
    signal: str
    points: int
    judged: int
    first_step: int
    last_step: int
    cautious: int = 0
    caution: str = ""

    @property
    def reservation(self) -> str:
        """What the quiet of a short history is worth, in words; empty where it is under a tenth of what was judged,
        as at the beginning of any long run."""
        if not self.cautious or 10 * self.cautious < self.judged:
            return ""
        return f"{self.cautious:,} of them quiet on a short history, which asks for {self.caution}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """What a rule could not look at, and why: of its signal there were ``points`` measurements, and at least ``needs``
    usable ones are called for (0 where there are none at all)."""

    rule: str
    signal: str
    reason: str
    points: int = 0
    needs: int = 0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``flags`` in order of steps; ``recurrences``: the same rule at the same steps in a later attempt, as when a
    rollback runs into the same batches again; what was ``checked``, and what was not."""

    flags: tuple[Flag, ...] = ()
    recurrences: tuple[Flag, ...] = ()
    checked: tuple[Checked, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
