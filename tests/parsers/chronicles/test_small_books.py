"""Three small books in our own words, read whole: a diary with opinions in it, a Chinese one in bold lines, a chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay_parsers.chronicles import general
from replay_parsers.records import EventKind, Records

K = EventKind
FIXTURES = Path(__file__).parent / "fixtures"


def read(name: str) -> Records:
    return general.parse((FIXTURES / f"{name}.md").read_bytes(), f"{name}.md", name)


def told(records: Records) -> list[tuple[str, K, int | None]]:
    return [
        ((event.incident or "").split("/")[1], event.kind, event.step)
        for event in records.events
        if "told_by" not in event.detail
    ]


BOOKS: dict[str, list[tuple[str, K, int | None]]] = {
    "skua": [
        ("2024-09-02T10:00", K.START, 0),
        ("2024-09-04T03:20", K.NODE_FAILURE, None),
        ("2024-09-04T03:20", K.RESTART, 7600),
        ("2024-09-06T15:45", K.LOSS_SPIKE, 14020),
        ("2024-09-06T15:45", K.SKIP_BATCHES, 14000),
        ("2024-09-06T15:45", K.ROLLBACK, 13900),
        ("2024-09-09T11:10", K.GRAD_CLIP_CHANGE, 22400),
        ("2024-09-15T06:05", K.NAN_LOSS, 30011),
        ("2024-09-15T06:05", K.ROLLBACK, 29750),
        ("2024-09-15T06:05", K.LR_CHANGE, 29750),
        ("2024-09-21T23:30", K.MAINTENANCE, None),
        ("2024-09-21T23:30", K.RESTART, 41250),
        ("2024-09-24T09:00", K.END, 50000),
    ],
    "qilin": [
        ("2025-01-03T10:00", K.START, 0),
        ("2025-01-04T02:33", K.CRASH, 4120),
        ("2025-01-04T02:33", K.NODE_FAILURE, None),
        ("2025-01-04T02:33", K.RESTART, 4000),
        ("2025-01-06T13:10", K.LOSS_SPIKE, 10500),
        ("2025-01-06T13:10", K.ROLLBACK, 10400),
        ("2025-01-06T13:10", K.SKIP_BATCHES, 10450),
        ("2025-01-08T16:20", K.LR_CHANGE, 14000),
        ("2025-01-10T21:45", K.HANG, None),
        ("2025-01-10T21:45", K.RESTART, 18250),
        ("2025-01-14T19:19", K.BATCH_SIZE_CHANGE, None),
        ("2025-01-14T19:19", K.WEIGHT_DECAY_CHANGE, None),
        ("2025-01-20T12:00", K.END, None),
    ],
    "plover": [
        ("2025-02-03T09:30", K.LOSS_EXPLOSION, 40560),
        ("2025-02-03T09:30", K.ROLLBACK, 40400),
        ("2025-02-03T09:30", K.SKIP_BATCHES, 40540),
        ("2025-02-03T09:30", K.RECOVERED, None),
        ("2025-02-04T02:05", K.CRASH, 47320),
        ("2025-02-04T02:05", K.NODE_FAILURE, None),
        ("2025-02-04T02:05", K.RESTART, 47200),
        ("2025-02-05T11:00", K.LR_CHANGE, 52000),
    ],
}


@pytest.mark.parametrize("name", BOOKS)
def test_what_happened_and_nothing_else(name: str) -> None:
    assert told(read(name)) == BOOKS[name]


@pytest.mark.parametrize(("name", "clock"), [("skua", "Europe/Paris"), ("qilin", "Etc/GMT-8")])
def test_the_clock_that_a_book_states(name: str, clock: str) -> None:
    run = read(name).run
    assert run is not None
    assert run.clock == clock


def test_values_before_and_after() -> None:
    changes = {
        (event.field, event.before, event.after) for name in BOOKS for event in read(name).events if event.field
    } - {("loss", None, 8.8)}
    assert changes == {
        ("grad_clip", 1.0, 0.6),
        ("learning_rate", 2e-4, 1e-4),
        ("learning_rate", 3e-4, 2e-4),
        ("batch_size", 512, 1024),
        ("weight_decay", 0.1, 0.01),
        ("learning_rate", 1.2e-4, 9e-5),
    }
