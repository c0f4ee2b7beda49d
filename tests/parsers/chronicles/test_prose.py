"""Running prose: what a sentence tells in passing, what it only sums up, and what came of it."""

from __future__ import annotations

import pytest

from replay_parsers.chronicles import bloom, opt
from replay_parsers.chronicles.reading import read_sentence
from replay_parsers.records import EventKind, Records

K = EventKind


def kinds(sentence: str) -> list[K]:
    return [draft.kind for draft in read_sentence(sentence, line=1, careful=True)]


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        # A fault of memory, and one that is told of a GPU or a machine.
        ("Two ECC errors this night stopped us.", K.MEMORY_ERROR),
        ("An uncorrectable ECC error stopped us.", K.GPU_FAILURE),
        ("GPU 3 shows ECC errors.", K.GPU_FAILURE),
        ("Node b-12 left us with an ECC error.", K.GPU_FAILURE),
        ("Seven hosts did not pass the acceptance tests.", K.NODE_FAILURE),
        ("The gradient norm and the embedding norm began to spike.", K.GRAD_NORM_SPIKE),
        # What came of it.
        ("After the patch we managed to keep training.", K.RECOVERED),
        ("We were able to quickly recover.", K.RECOVERED),
        ("The cluster was fully restored by noon.", K.RECOVERED),
        ("The smaller step was enough to stabilise the norms.", K.RECOVERED),
        ("Spare hosts reduced the mean recovery time by half.", K.RECOVERED),
        # What was done.
        ("We aborted from this configuration and adopted the recipe of the small model.", K.RESTART_FROM_SCRATCH),
        ("We switched the output initialization to a plain normal one.", K.INIT_CHANGE),
    ],
)
def test_what_prose_tells(sentence: str, kind: K) -> None:
    assert kind in kinds(sentence)


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The fleet came back with nine machines missing their disks.", K.RECURRED),
        ("The hosts seemed to be on a winter break.", K.NODE_FAILURE),
        ("We meet them weekly to raise hardware issues.", K.NODE_FAILURE),
        ("Spares stand by for a node once it goes down.", K.NODE_FAILURE),
        ("Whether it helps we shall see on the next node failure.", K.NODE_FAILURE),
        ("The trial covered the new launcher and not the NCCL issue.", K.NETWORK_FAILURE),
        ("We had no time to launch the long run.", K.START),
        ("We kicked off a small ablation run beside it.", K.START),
        ("The perplexity drops after a second pass over the dataset.", K.DATA_CHANGE),
        ("We had added per-corpus validation to the nightly data report.", K.DATA_CHANGE),
    ],
)
def test_what_it_does_not(sentence: str, kind: K) -> None:
    assert kind not in kinds(sentence)


def test_a_number_of_billions_is_no_step() -> None:
    (end,) = (draft for draft in read_sentence("The run finished on 420B tokens.", line=1) if draft.kind is K.END)
    assert end.step is None


@pytest.mark.parametrize(
    "sentence",
    [
        "All in all, broken machines cost us half of the month.",
        "To sum up, the loss exploded in every other week.",
        "June 4th update: hardware issues nearly every day.",
    ],
)
def test_what_only_sums_up_is_no_event(sentence: str) -> None:
    assert kinds(sentence) == []


def test_a_plan_that_was_gone_through_with_was_done() -> None:
    plan = "where we would abort from this setup and adopt that of the pilot."
    assert kinds(f"We decided to go ahead with the fallback, {plan}") == [K.RESTART_FROM_SCRATCH]
    assert kinds(f"We talked about the fallback, {plan}") == []


def test_what_was_done_until_something_else_finally_was_had_not_helped() -> None:
    told = kinds("We raised weight decay to 0.2, lowered LR, until finally we switched to SGD.")
    assert told == [K.WEIGHT_DECAY_CHANGE, K.LR_CHANGE, K.RECURRED, K.OPTIMIZER_SWAP]


def test_the_trouble_stands_before_what_came_of_it() -> None:
    assert kinds("We managed to overcome the deadlock.") == [K.HANG, K.RECOVERED]


def test_a_setting_is_compared_with_that_of_an_earlier_run() -> None:
    (draft,) = read_sentence("A weight decay of 0.2 - in the pilot used 0.05", line=1, careful=True)
    assert (draft.field, draft.before, draft.after) == ("weight_decay", 0.05, 0.2)
    assert draft.detail["compared_with"] == "pilot"
    (start,) = read_sentence("A gentle init `sqrt(0.5/WIDTH)` - in pilot-2 had `sqrt(0.8/WIDTH)`", line=1, careful=True)
    assert (start.field, start.before, start.after) == ("init_coefficient", 0.8, 0.5)


def test_a_step_told_of_another_time_is_not_that_of_this() -> None:
    hang, *_ = read_sentence("Same as the deadlock at 12k we are stuck at 14k", line=1)
    assert (hang.kind, hang.step) == (K.HANG, 14_000)


UPDATE = """\
# Update on 175B Training Run: 60% through

**Posted on:** October 20, 2021

So far:

* We launched experiment 4.0 on October 2 on all machines.
* We found corrupt data, which was of two kinds:
  * corrupt shards
  * corrupt samples

## Experiment 4 - October 2, 2021

We launched experiment 4.0 with the settings of the pilot.

## Stability

On run 4.3 the grad norm started to spike. We lowered our learning rate by 20%. This happened again on run 4.5, where
training began to diverge after a grad norm spike. We lowered our learning rate and managed to continue training.

## Upgrade

By accident we upgraded our Megatron dependency to 9.6 (from 9.4). The activation norm changed at once.
"""


@pytest.fixture(scope="module")
def incidents() -> dict[str, list[K]]:
    told: dict[str, list[K]] = {}
    for event in opt.parse(UPDATE.encode(), "update.md", "update").events:
        told.setdefault(str(event.incident).split("/")[1], []).append(event.kind)
    return told


def test_a_summary_above_the_dated_entries_tells_no_second_start(incidents: dict[str, list[K]]) -> None:
    assert [name for name, told in incidents.items() if K.START in told] == ["2021-10-02"]


def test_a_list_belongs_to_the_sentence_that_opens_it(incidents: dict[str, list[K]]) -> None:
    assert [told for told in incidents.values() if K.DATA_DEFECT in told] == [[K.DATA_DEFECT]]


def test_that_it_happened_again_is_what_came_of_the_first_time(incidents: dict[str, list[K]]) -> None:
    assert incidents["stability"] == [K.GRAD_NORM_SPIKE, K.LR_CHANGE, K.RECURRED]
    assert incidents["stability-2"] == [K.DIVERGENCE, K.GRAD_NORM_SPIKE, K.LR_CHANGE, K.RECOVERED]


def test_what_was_seen_of_a_mistake_belongs_to_it(incidents: dict[str, list[K]]) -> None:
    assert incidents["upgrade"] == [K.ACTIVATION_NORM_DRIFT, K.OPERATOR_ERROR, K.SOFTWARE_CHANGE]


CHRONICLE = """\
# Chronicle

### 2023-01-02 stuck at evaluation

The job got stuck at iteration 900. We upgraded NCCL.

### 2023-01-09 stuck at evaluation

The deadlock is still there. We set `num_workers=0` and were able to overcome it.

### 2023-02-01 half the nodes

We switched the training to 16 nodes.

1. converted the checkpoint `global_step7300` to the other layout

2. resumed training normally

### 2023-06-30 Training completed

We reached the last token and stopped the training a day later.

### What makes it so stable?

We passed the first third without a single spike. It may be:

1. A gentle init `sqrt(0.5/WIDTH)` - in pilot-2 used `sqrt(0.8/WIDTH)`
"""


@pytest.fixture(scope="module")
def chronicle() -> Records:
    return bloom.parse(CHRONICLE.encode(), "chronicle.md", "mill")


def of(records: Records, name: str) -> list[tuple[K, int | None]]:
    return [(event.kind, event.step) for event in records.events if event.incident == f"mill/{name}"]


def test_that_it_is_still_there_is_what_came_of_the_last_try(chronicle: Records) -> None:
    assert (K.RECURRED, None) in of(chronicle, "2023-01-02")
    outcomes = [kind for kind, _ in of(chronicle, "2023-01-09") if kind in (K.RECURRED, K.RECOVERED)]
    assert outcomes == [K.RECOVERED]


def test_a_restart_goes_on_from_the_checkpoint_that_was_converted_for_it(chronicle: Records) -> None:
    assert of(chronicle, "2023-02-01") == [(K.TOPOLOGY_CHANGE, None), (K.RESTART, 7300)]


def test_what_a_run_owes_its_stability_to_is_an_entry_of_its_own(chronicle: Records) -> None:
    assert of(chronicle, "what-makes-it-so-stable") == [(K.INIT_CHANGE, None), (K.RECOVERED, None)]


def test_a_run_that_was_completed_was_not_given_up_by_stopping_it(chronicle: Records) -> None:
    assert of(chronicle, "2023-06-30") == [(K.END, None)]
