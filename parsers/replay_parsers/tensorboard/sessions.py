"""SessionLog messages (event.proto) to events: what TensorFlow 1 wrote when it started, saved and stopped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from replay_parsers.kinds import KINDS
from replay_parsers.records import Event, EventKind, Evidence, TimePrecision, event_id
from replay_parsers.tensorboard.layout import BYTES, FIXED64, VARINT
from replay_parsers.tensorboard.messages import fields, signed

START, STOP, CHECKPOINT = 1, 2, 3


class Sessions:
    """Turns session logs into events, and numbers those that are alike."""

    def __init__(self, run: str, source: str, state: Mapping[str, Any]) -> None:
        self._run = run
        self._source = source
        self._seen: dict[str, int] = {str(key): int(count) for key, count in state.items()}

    def read(self, event: bytes | memoryview, offset: int, reached: int | None) -> Event | None:
        """The event that an Event message with a session log tells of; None when it tells nothing.

        ``offset`` is where its record stands; ``reached`` is the highest step before it, None if there is none.
        A START before any scalar and at step 0 begins every file, so it says nothing.

        Raises :class:`~replay_parsers.tensorboard.messages.MalformedMessageError`.
        """
        wall_time, step, status, checkpoint, message = 0.0, 0, 0, "", ""
        for field in fields(event):
            if field.number == 1 and field.kind == FIXED64:
                wall_time = field.double
            elif field.number == 2 and field.kind == VARINT:
                step = signed(field.value)
            elif field.number == 7 and field.kind == BYTES:
                for part in fields(field.content):
                    if part.number == 1 and part.kind == VARINT:
                        status = part.value
                    elif part.number == 2 and part.kind == BYTES:
                        checkpoint = part.text
                    elif part.number == 3 and part.kind == BYTES:
                        message = part.text
        kind = {START: EventKind.RESTART, STOP: EventKind.END, CHECKPOINT: EventKind.CHECKPOINT_SAVE}.get(status)
        if kind is None or (status == START and step <= 0 and reached is None):
            return None
        time = _time(wall_time)
        return Event(
            run=self._run,
            event=event_id(self._run, kind, self._ordinal(kind, step), step=step),
            kind=kind,
            role=KINDS[kind].role,
            time=time,
            time_precision=None if time is None else TimePrecision.SECOND,
            step=step,
            before=float(reached) if status == START and reached is not None else None,
            unit="step" if status == START and reached is not None else None,
            detail={"checkpoint": checkpoint} if checkpoint else {},
            text=_text(status, step, reached, message),
            source=self._source,
            locator=f"byte {offset}",
            evidence=Evidence.LOGGED,
        )

    def _ordinal(self, kind: EventKind, step: int) -> int:
        key = f"{kind}@{step}"
        self._seen[key] = self._seen.get(key, 0) + 1
        return self._seen[key]

    def state(self) -> dict[str, int]:
        """What has been numbered, as plain data."""
        return dict(self._seen)


def _text(status: int, step: int, reached: int | None, message: str) -> str:
    said = f": {message[:200]}" if message else ""
    if status == STOP:
        return f"session ends at step {step}{said}"
    if status == CHECKPOINT:
        return f"checkpoint written at step {step}{said}"
    after = "" if reached is None else f", after step {reached} had been reached"
    return f"session starts at step {step}{after}{said}"


def _time(seconds: float) -> datetime | None:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None
