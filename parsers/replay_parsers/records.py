"""The one vocabulary between parsers, store and everything above: what a source can tell.

A parser turns a file into :class:`Records`: what it says of the run (:class:`Run`), what happened
(:class:`Event`), what was measured (:class:`Scalars`), what could not be read (:class:`Problem`) and what was
read but cannot be right (:class:`Finding`).  Nothing here depends on replay's store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay_parsers.kinds import KINDS, EventKind, KindRule, Role

__all__ = [
    "KINDS",
    "NO_TIME",
    "BatchStage",
    "Coverage",
    "Event",
    "EventKind",
    "Evidence",
    "Finding",
    "KindRule",
    "Problem",
    "ProblemKind",
    "RecordError",
    "Records",
    "Role",
    "Run",
    "Scalars",
    "TimePrecision",
    "event_id",
    "incident_id",
]

NO_TIME = np.iinfo(np.int64).min
"""The wall time of a scalar whose time is unknown (the same bits as numpy's and Arrow's NaT)."""


class RecordError(ValueError):
    """A record lacks what its kind requires, or contradicts itself.  The message names what is missing."""


class Evidence(StrEnum):
    """How far a fact can be trusted, best first for a reader who wants to check it."""

    LOGGED = "logged"
    """A program wrote it."""
    STATED = "stated"
    """A person wrote it."""
    FIGURE = "figure"
    """Read off a plot."""
    DERIVED = "derived"
    """Computed by replay; the text says how."""
    SECOND_HAND = "second_hand"
    """Quoted by someone who was not there."""
    PROXY = "proxy"
    """Observed on the proxy transformer, not on the run itself."""


class TimePrecision(StrEnum):
    """How exactly a time is known."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStage:
    """From ``from_step`` on, one step takes ``samples`` sequences."""

    from_step: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One training run and what is known of its configuration.

    ``clock`` is the IANA zone of the times that the run's own records print (``Asia/Shanghai``), None when it is
    unknown; ``parameters`` is a count; ``sequence_length`` is in tokens; ``metadata`` holds whatever else the
    source says about the configuration, as text.
    """

    run: str
    title: str = ""
    organisation: str = ""
    parameters: float | None = None
    hardware: str = ""
    precision: str = ""
    optimizer: str = ""
    batch: str = ""
    schedule: str = ""
    clock: str | None = None
    batch_schedule: tuple[BatchStage, ...] = ()
    sequence_length: int | None = None
    seconds_per_step: float | None = None
    sources: tuple[str, ...] = ()
    metadata: Mapping[str, str] = dataclass_field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.run:
            raise RecordError("a run needs a name: `run` is empty")


def incident_id(run: str, printed_time: str, ordinal: int = 1) -> str:
    """The id of an incident: the run, and its time as the source prints it.

    ``ordinal`` numbers incidents that one source dates alike; the first carries no number.

    >>> incident_id("glm-130b", "2022-06-20T09:10")
    'glm-130b/2022-06-20T09:10'
    >>> incident_id("glm-130b", "2022-05-30T14:00", 2)
    'glm-130b/2022-05-30T14:00-2'
    """
    return f"{run}/{printed_time}" + (f"-{ordinal}" if ordinal > 1 else "")


def event_id(owner: str, kind: EventKind, ordinal: int = 1, *, step: int | None = None) -> str:
    """The id of an event: its incident (or, outside one, its run), its kind and what tells it from its like.

    Two sources that tell the same event give it the same id, which is how the store merges them.

    >>> event_id("glm-130b/2022-06-20T09:10", EventKind.ROLLBACK)
    'glm-130b/2022-06-20T09:10/rollback'
    >>> event_id("my-run", EventKind.LOSS_SCALE_DROP, step=17063)
    'my-run/loss_scale_drop@17063'
    """
    at = "" if step is None else f"@{step}"
    return f"{owner}/{kind}{at}" + (f"-{ordinal}" if ordinal > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened, flat: a row of the store's ``events`` table.

    ``step``..``step_end`` is an inclusive range; ``before`` and ``after`` are values of ``field`` in ``unit``;
    ``detail`` holds what the kind needs beyond that; ``lost_steps`` and ``lost_hours`` are as the source states
    them, never guessed; ``locator`` says where in ``source`` (section, line or byte offset).

    Raises :class:`RecordError` at construction when a field that the kind requires is missing (see
    :data:`replay_parsers.kinds.KINDS`), a time has no zone, or a range ends before it begins.
    """

    run: str
    event: str
    kind: EventKind
    role: Role
    incident: str | None = None
    time: datetime | None = None
    time_precision: TimePrecision | None = None
    step: int | None = None
    step_end: int | None = None
    field: str | None = None
    before: float | None = None
    after: float | None = None
    unit: str | None = None
    detail: Mapping[str, str] = dataclass_field(default_factory=dict)
    lost_steps: float | None = None
    lost_hours: float | None = None
    text: str = ""
    source: str = ""
    locator: str = ""
    evidence: Evidence = Evidence.STATED

    def __post_init__(self) -> None:
        for name in ("run", "event"):
            if not getattr(self, name):
                raise RecordError(f"{self.kind} event: `{name}` is empty")
        missing = [
            " or ".join(alternatives)
            for alternatives in KINDS[self.kind].required
            if not any(self._has(name) for name in alternatives)
        ]
        if missing:
            raise RecordError(f"{self.kind} event {self.event}: needs {'; and '.join(missing)}")
        if self.time is not None and self.time.tzinfo is None:
            raise RecordError(f"{self.kind} event {self.event}: time {self.time} has no zone; give it in UTC")
        if (self.time is None) != (self.time_precision is None):
            raise RecordError(f"{self.kind} event {self.event}: time and time_precision go together")
        if self.step_end is not None and (self.step is None or self.step_end < self.step):
            raise RecordError(f"{self.kind} event {self.event}: steps {self.step}..{self.step_end} are no range")

    def _has(self, name: str) -> bool:
        if "+" in name:
            return all(self._has(part) for part in name.split("+"))
        if name.startswith("detail."):
            return bool(self.detail.get(name.removeprefix("detail.")))
        return getattr(self, name) is not None

    @property
    def time_utc(self) -> datetime | None:
        """``time`` in UTC."""
        return None if self.time is None else self.time.astimezone(UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Scalars:
    """Measured values as columns, in the order in which the source wrote them.

    ``tags`` are the distinct names, shape [tags]; every other column has shape [rows]:
    ``tag`` (int32) indexes ``tags``; ``segment`` (int32) numbers the stretches of the source without a step
    back, from 0; ``step`` is int64; ``wall_time`` is int64 microseconds since 1970 UTC, :data:`NO_TIME` when
    unknown; ``value`` is float64, NaN and infinities included, since they are data.
    """

    tags: tuple[str, ...]
    tag: NDArray[np.int32]
    segment: NDArray[np.int32]
    step: NDArray[np.int64]
    wall_time: NDArray[np.int64]
    value: NDArray[np.float64]

    def __post_init__(self) -> None:
        lengths = {len(column) for column in (self.tag, self.segment, self.step, self.wall_time, self.value)}
        if len(lengths) != 1:
            raise RecordError(f"scalar columns differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.value)

    @classmethod
    def empty(cls) -> Scalars:
        """No rows and no tags."""
        return cls(
            tags=(),
            tag=np.empty(0, np.int32),
            segment=np.empty(0, np.int32),
            step=np.empty(0, np.int64),
            wall_time=np.empty(0, np.int64),
            value=np.empty(0, np.float64),
        )

    @classmethod
    def concatenate(cls, parts: Iterable[Scalars]) -> Scalars:
        """Join parts of one source in order; equal tags become one."""
        parts = [part for part in parts if len(part) or part.tags]
        if not parts:
            return cls.empty()
        codes: dict[str, int] = {}
        renumbered = []
        for part in parts:
            mapping = np.array([codes.setdefault(tag, len(codes)) for tag in part.tags], dtype=np.int32)
            renumbered.append(mapping[part.tag] if len(part) else part.tag)
        return cls(
            tags=tuple(codes),
            tag=np.concatenate(renumbered),
            segment=np.concatenate([part.segment for part in parts]),
            step=np.concatenate([part.step for part in parts]),
            wall_time=np.concatenate([part.wall_time for part in parts]),
            value=np.concatenate([part.value for part in parts]),
        )


class ProblemKind(StrEnum):
    """Why something could not be read.  Only :attr:`TRUNCATED` is a state rather than an error: the writer may
    still be at work, and the next reading begins there."""

    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    INVALID = "invalid"
    NOT_UNDERSTOOD = "not_understood"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What could not be read: where, what was expected, what to do, and what was kept all the same.

    ``line`` counts from 1, ``offset`` is in bytes from 0 of the decompressed file.
    """

    source: str
    kind: ProblemKind
    message: str
    line: int | None = None
    offset: int | None = None
    lost_bytes: int = 0
    lost_records: int = 0

    def __str__(self) -> str:
        place = "" if self.line is None else f":{self.line}"
        at = "" if self.offset is None else f" at byte {self.offset}"
        lost = f" ({self.lost_bytes} bytes lost)" if self.lost_bytes else ""
        return f"{self.source}{place}{at}: {self.message}{lost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was read but cannot be right: both readings, the likely one, and the reasons.

    ``check`` names the rule that found it (``clock``, ``flag_against_prose`` ...).
    """

    run: str
    check: str
    source: str
    locator: str
    readings: tuple[str, ...]
    likely: str | None
    reasons: str
    incident: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The ledger of one reading: how much of the source became records.

    ``bytes_read`` counts decompressed bytes; ``records`` the scalars and events kept; ``not_understood`` the
    lines or records left over, with a few ``examples``; ``other`` what was recognised but is no scalar (an
    image tag, say) with its count.
    """

    bytes_read: int = 0
    records: int = 0
    not_understood: int = 0
    lost_bytes: int = 0
    lost_records: int = 0
    examples: tuple[str, ...] = ()
    other: Mapping[str, int] = dataclass_field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What one byte range ``start``..``end`` (end exclusive) of one source says.

    A small file gives one ``Records``; a long one is read as several with adjacent ranges, in order.  ``state``
    is plain data (numbers, strings, lists, dictionaries) from which the parser resumes at ``end`` when the file
    has grown.
    """

    source: str
    format: str
    start: int = 0
    end: int = 0
    run: Run | None = None
    events: tuple[Event, ...] = ()
    scalars: Scalars = dataclass_field(default_factory=Scalars.empty)
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    coverage: Coverage = dataclass_field(default_factory=Coverage)
    state: Mapping[str, Any] = dataclass_field(default_factory=dict)
