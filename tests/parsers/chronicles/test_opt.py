"""The style of OPT's updates: running prose, on an update of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay_parsers.chronicles import opt
from replay_parsers.parser import Sample
from replay_parsers.records import EventKind, Records

K = EventKind

UPDATE = """\
# Update on 175B Training Run: 5% through
**Written by:** The Example Team

**Posted on:** October 1, 2021

## Experiment 3.xx Lineage - September 5, 2021
We began this experiment lineage with the following settings:
* Weight decay of 0.05, LR of 3e-4, clipping of 2.5

In the first runs the loss exploded, so we lowered the clipping first to 1.5, and then to 1.0. There was also an ECC
failure, which led to another restart.

From experiment 3.4 onward we saw nans after each restart. We increased weight decay to 0.1 and lowered Adam beta2 to
0.95. Finally on run 3.9 we hot-swapped in ReLU.

## Stability

On run 3.12 the grad norm started to spike. In response, we lowered our learning rate by 10%. This happened again on
run 3.15.2, where training began to diverge. We lowered our learning rate again.

## Thoughts

Perhaps we should use a smaller beta2. It would be nice to have more nodes.
"""


@pytest.fixture(scope="module")
def records() -> Records:
    return opt.parse(UPDATE.encode(), "update.md", "update")


def under(records: Records, heading: str) -> list[list[K]]:
    incidents: dict[str, list[K]] = {}
    for event in records.events:
        if heading in event.locator and event.incident and "told_by" not in event.detail:
            incidents.setdefault(event.incident, []).append(event.kind)
    return list(incidents.values())


def test_it_is_recognised_by_title_and_posting_line() -> None:
    assert opt.recognise(Sample(path=Path("x.md"), head=UPDATE.encode(), whole=True)) > 0.9
    assert opt.recognise(Sample(path=Path("x.md"), head=b"# Notes\n175B Training Run\n", whole=True)) == 0.0


def test_a_trouble_told_after_something_was_done_is_a_further_incident(records: Records) -> None:
    told = under(records, "Lineage")
    assert [kinds[0] for kinds in told] == [K.START, K.LOSS_EXPLOSION, K.MEMORY_ERROR, K.NAN_LOSS, K.ACTIVATION_CHANGE]


def test_a_heading_with_a_date_at_its_end_dates_its_incidents(records: Records) -> None:
    incidents = {event.incident for event in records.events if "Lineage" in event.locator}
    assert incidents == {"opt-175b/2021-09-05"} | {f"opt-175b/2021-09-05-{number}" for number in range(2, 6)}


def test_changes_that_go_on_in_one_sentence_are_told_apart(records: Records) -> None:
    clips = [(event.before, event.after) for event in records.events if event.field == "grad_clip"]
    assert clips == [(None, 1.5), (1.5, 1.0)]


def test_another_run_opens_another_incident(records: Records) -> None:
    first, second = under(records, "Stability")
    assert K.GRAD_NORM_SPIKE in first
    assert K.DIVERGENCE in second
    factors = [event.detail.get("factor") for event in records.events if event.kind is K.LR_CHANGE]
    assert factors == ["0.9", None]


def test_musings_are_no_events(records: Records) -> None:
    assert not under(records, "Thoughts")
    assert records.coverage.not_understood > 0
