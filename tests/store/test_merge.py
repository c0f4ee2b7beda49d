"""The same thing told by several sources is told once; the events of an incident are one row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from growth import grows_with_its_size
from replay.storage import merge
from replay.store import EventStore, StoreError


def row(event: str, **fields: Any) -> merge.Row:
    """A row of events: a loss spike that a person wrote down, unless told otherwise."""
    defaults = {
        "run": "r",
        "event": event,
        "incident": None,
        "role": "symptom",
        "kind": "loss_spike",
        "time": None,
        "step": None,
        "step_end": None,
        "before": None,
        "lost_steps": None,
        "lost_hours": None,
        "text": "",
        "source": "notes.md",
        "locator": "",
        "evidence": "stated",
        "format": "chronicle",
    }
    return defaults | fields


TELLINGS = st.builds(
    row,
    st.sampled_from(["r/a", "r/b"]),
    evidence=st.sampled_from(["logged", "stated", "figure", "derived", "second_hand"]),
    format=st.sampled_from(["timeline", "chronicle"]),
    source=st.sampled_from(["1", "2", "3"]),
    step=st.none() | st.integers(0, 3),
    kind=st.sampled_from(["hang", "crash"]),
)


@given(st.lists(TELLINGS, max_size=12), st.randoms(use_true_random=False))
def test_each_event_is_told_once_by_the_best_source_in_whatever_order_they_came(rows: list[merge.Row], chance) -> None:  # type: ignore[no-untyped-def]
    merged = merge.merged(rows)
    events = [one["event"] for one in merged]
    assert len(events) == len(set(events))
    assert all(one in rows for one in merged), "a telling is kept whole"
    for kept in merged:
        others = [one for one in rows if one["event"] == kept["event"]]
        assert merge.telling_rank(kept) == min(map(merge.telling_rank, others))
        assert kept["format"] == "timeline" or all(one["format"] != "timeline" for one in others)
    told = {one["event"] for one in rows}
    derived_only = {one["event"] for one in merge.merged(rows) if one["evidence"] == "derived"}
    assert {e for e in told if any(o["event"] == e and o["evidence"] != "derived" for o in rows)} <= set(events) | (
        told - set(events)
    )
    assert derived_only <= told
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert sorted(map(repr, merge.merged(shuffled))) == sorted(map(repr, merged)) or _tied(rows)


def _tied(rows: list[merge.Row]) -> bool:
    """Whether two different tellings of one event rank alike: no source tells one event twice, so that is no case."""
    ranks = [(one["event"], merge.telling_rank(one)) for one in rows]
    return len(ranks) != len(set(ranks))


def test_a_timeline_is_believed_before_notes_and_notes_before_a_log() -> None:
    log = row("r/a", evidence="logged", source="train.log", format="megatron")
    notes = row("r/a", evidence="stated", source="notes.md")
    timeline = row("r/a", evidence="figure", source="r.yaml", format="timeline")
    computed = row("r/a", evidence="derived", source="", format="derived")
    assert merge.merged([computed, log, notes, timeline]) == [timeline]
    assert merge.merged([computed, log, notes]) == [notes]
    assert merge.merged([computed, log]) == [log]
    assert merge.merged([computed]) == [computed]


@pytest.mark.parametrize(
    ("told", "computed", "kept"),
    [
        ({"step": 100}, {"step": 100}, 1),
        ({"step": 100}, {"step": 101}, 2),
        ({"step": 90, "step_end": 110}, {"step": 100}, 1),
        ({"step": 100}, {"step": 90, "step_end": 110}, 1),
        ({"step": 90, "step_end": 99}, {"step": 100, "step_end": 110}, 2),
        ({"step": None}, {"step": 100}, 2),
        ({"step": 100, "kind": "grad_norm_spike"}, {"step": 100}, 2),
        ({"step": 100, "run": "another"}, {"step": 100}, 2),
        ({"step": 100, "evidence": "derived"}, {"step": 100}, 2),
    ],
)
def test_a_derived_event_gives_way_to_its_twin(told: dict[str, Any], computed: dict[str, Any], kept: int) -> None:
    rows = [row("told", **told), row("computed", evidence="derived", **computed)]
    assert len(merge.merged(rows)) == kept
    assert rows[0] in merge.merged(rows), "what was told stays in any case"


def incident_of(*rows: merge.Row) -> merge.Row:
    (only,) = merge.incidents([{**one, "incident": "r/1"} for one in rows], apart=False)
    return only


def test_recurrence_is_counted_from_the_checkpoint_gone_back_to() -> None:
    explosion = incident_of(
        row("s", kind="loss_explosion", step=33740),
        row("b", kind="rollback", role="intervention", step=33600, before=33740),
        row("o", kind="recurred", role="outcome", step=35250),
    )
    assert explosion["recurred_after"] == 1650
    assert (explosion["step"], explosion["saw"], explosion["did"], explosion["then"]) == (
        33740,
        ["loss_explosion"],
        ["rollback"],
        ["recurred"],
    )


def on(day: int) -> datetime:
    return datetime(2024, 1, day, tzinfo=UTC)


def recurrences(*rows: merge.Row) -> dict[str, int | None]:
    return {one["incident"]: one["recurred_after"] for one in merge.incidents(rows, apart=False)}


def test_a_recurrence_without_a_step_is_looked_up_in_the_next_incident_with_the_same_symptom() -> None:
    assert recurrences(
        row("1s", incident="1", kind="loss_spike", step=100, time=on(1)),
        row("1r", incident="1", kind="restart", role="lifecycle", step=90),
        row("1o", incident="1", kind="recurred", role="outcome"),
        row("2s", incident="2", kind="hang", step=150, time=on(2)),
        row("3s", incident="3", kind="loss_spike", step=400, time=on(3)),
        row("4s", incident="4", kind="loss_spike", step=900, time=on(4)),
    ) == {"1": 310, "2": None, "3": None, "4": None}


def test_it_may_come_back_before_the_step_that_had_been_reached() -> None:
    found = recurrences(
        row("1s", incident="1", step=1000, time=on(1)),
        row("1r", incident="1", kind="rollback", role="intervention", step=500),
        row("1o", incident="1", kind="recurred", role="outcome"),
        row("2s", incident="2", step=700, time=on(2)),
    )
    assert found["1"] == 200


@pytest.mark.parametrize("time", [on(1), on(2), None])
def test_an_incident_that_is_not_known_to_be_later_is_no_recurrence(time: datetime | None) -> None:
    """One from which training was put back far lies at a later step, yet was before; experiments branch off."""
    found = recurrences(
        row("1s", incident="1", step=100, time=on(2)),
        row("1r", incident="1", kind="rollback", role="intervention", step=90),
        row("1o", incident="1", kind="recurred", role="outcome"),
        row("2s", incident="2", step=400, time=time),
    )
    assert found["1"] is None


def test_twins_are_found_among_many_events_as_among_few() -> None:
    """Many rows that lie near each other: their number, not its square, is what it takes."""

    def told_and_computed(events: int) -> list[merge.Row]:
        many = range(0, 4 * events, 4)
        told = [row(f"told/{step}", step=step, step_end=step + 1, evidence="logged") for step in many]
        return told + [row(f"computed/{step}", step=step + step % 8 // 2, evidence="derived") for step in many]

    def merging(events: int) -> Callable[[], object]:
        rows = told_and_computed(events)
        return lambda: merge.without_twins(rows)

    assert grows_with_its_size(merging, 50_000)
    assert len(merge.without_twins(told_and_computed(50_000))) == 75_000


def test_nothing_is_said_of_a_recurrence_that_no_source_tells() -> None:
    rows = [
        row("1s", incident="1", step=100),
        row("1r", incident="1", kind="rollback", role="intervention", step=90),
        row("2s", incident="2", step=200),
    ]
    assert [one["recurred_after"] for one in merge.incidents(rows, apart=False)] == [None, None]


def test_the_text_of_an_incident_tells_what_was_seen_then_what_was_done_and_what_came_of_it() -> None:
    told = incident_of(
        row("a", kind="recurred", role="outcome", text="It came back."),
        row("b", kind="rollback", role="intervention", text="Back to step 90."),
        row("c", kind="data_defect", role="cause", text="Found: bad data"),
        row("d", kind="loss_spike", text="The loss jumped."),
    )
    assert told["text"] == "The loss jumped. Found: bad data; Back to step 90. It came back."


def test_what_was_lost_is_not_counted_twice() -> None:
    back = {"kind": "rollback", "role": "intervention"}
    restart = {"kind": "restart", "role": "lifecycle"}
    assert incident_of(row("a", **back, lost_steps=100), row("b", **restart, lost_steps=100))["lost_steps"] == 100
    assert incident_of(row("a", **back, lost_steps=100), row("b", **back, lost_steps=50))["lost_steps"] == 150
    assert incident_of(row("a", **restart, lost_hours=3), row("b", **restart, lost_hours=5))["lost_hours"] == 5
    assert incident_of(row("a", **back))["lost_steps"] is None


def test_an_incident_told_by_two_sources_is_one_row_or_one_a_source(store: EventStore, logs: Path) -> None:
    seen = {"event": "r/1/hang", "kind": "hang", "incident": "r/1"}
    (logs / "a.log").write_text(toy.log({**seen, "step": 7, "text": "from the log"}, run="r"))
    (logs / "b.json").write_text(
        toy.document({**seen, "step": 8, "evidence": "stated", "text": "from the notes"}, run="r")
    )
    store.ingest([logs])
    (merged,) = store.incidents().to_dict("records")
    assert (merged["step"], merged["text"], merged["source"]) == (8, "from the notes", str(logs / "b.json"))
    apart = store.incidents(sources="all")
    assert sorted(apart["text"]) == ["from the log", "from the notes"]
    assert len(store.events()) == 1
    assert len(store.events(sources="all")) == 2


def test_incidents_are_asked_for_by_what_was_seen_and_done(store: EventStore, logs: Path) -> None:
    rows = [
        {"event": "r/1/hang", "kind": "hang", "incident": "r/1"},
        {"event": "r/1/wait", "kind": "wait", "incident": "r/1"},
        {"event": "r/2/crash", "kind": "crash", "incident": "r/2"},
        {"event": "r/2/wait", "kind": "wait", "incident": "r/2"},
        {"event": "r/3/hang", "kind": "hang", "incident": "r/3"},
        {"event": "r/hang", "kind": "hang"},
    ]
    (logs / "r.log").write_text(toy.log(*rows))
    store.ingest([logs])
    assert list(store.incidents()["incident"]) == ["r/1", "r/2", "r/3"], "an event without an incident is none"
    assert list(store.incidents(saw="hang")["incident"]) == ["r/1", "r/3"]
    assert list(store.incidents(saw=["hang", "crash"], did="wait")["incident"]) == ["r/1", "r/2"]
    assert list(store.incidents(run="nobody").columns) == list(store.incidents().columns)
    with pytest.raises(StoreError, match="did you mean 'hang'"):
        store.incidents(saw="hangs")
