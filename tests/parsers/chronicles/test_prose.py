"""Running prose: what a sentence tells in passing, what it only sums up, and what came of it."""

from __future__ import annotations

import pytest

from replay_parsers.chronicles.reading import read_sentence
from replay_parsers.records import EventKind

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
