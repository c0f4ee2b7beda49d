"""The failures of the catalogue go wrong, and the same runs without the cause stay well."""

from __future__ import annotations

import pytest

from replay.proxy import failures
from replay.proxy.checkpoint import Checkpoint
from replay.proxy.config import ProxyConfig
from replay.proxy.training import Training


def held_out(snapshot: Checkpoint, config: ProxyConfig, until: int, **change: object) -> list[float]:
    training = Training.restore(snapshot)
    training.config = config
    if change:
        training.change(**change)  # type: ignore[arg-type]
    losses = []
    while training.step < until:
        training.advance()
        losses.append(training.evaluate())
    return losses


def test_one_odd_batch_harms_a_long_converged_model_and_clipping_cures_it() -> None:
    case = failures.get("data-and-state").case(100)
    training = Training.start(case.control)
    while training.step < case.moment - 1:
        training.advance()
    before = training.snapshot()
    until = case.moment + 50
    never_saw_it = held_out(before, case.control, until)
    saw_it = held_out(before, case.config, until)
    clipped = held_out(before, case.config, until, grad_clip=0.3)
    assert max(never_saw_it) < 0.05
    assert max(saw_it) > 0.5
    assert saw_it[-1] < 0.1, "the harm passes"
    assert max(clipped) < 0.05


def test_a_failure_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(KeyError, match="data-and-state"):
        failures.get("gremlins")
