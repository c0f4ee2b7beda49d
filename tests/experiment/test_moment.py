"""When someone acts: after so many steps, or when a rule can first tell."""

from __future__ import annotations

import pytest

from replay.experiment import Noticed, ScenarioError
from replay.experiment.moment import decision_step
from replay.proxy.failure import Case
from replay.proxy.failures import copy_task, odd_batch

from .toy import ONSET, scenario, toy_case

LEARNED = 320


def learned_case() -> Case:
    """An odd batch after the copy task has been learned: its own loss stands out at once."""
    return Case(odd_batch(copy_task(0), LEARNED), copy_task(0), LEARNED)


def test_without_a_rule_it_is_so_many_steps_behind_the_onset() -> None:
    assert decision_step(scenario(noticed=Noticed(after_onset=7)), toy_case(0)) == ONSET + 7


def test_with_a_rule_it_is_the_step_at_which_the_rule_first_tells_of_the_failure() -> None:
    step = decision_step(scenario(noticed=Noticed(after_onset=10, rule="loss-spike")), learned_case())
    assert LEARNED <= step <= LEARNED + 2


def test_a_rule_that_stays_silent_is_told() -> None:
    quiet = scenario(noticed=Noticed(after_onset=5, rule="loss-not-finite"))
    with pytest.raises(
        ScenarioError, match="the rule loss-not-finite did not fire within 5 steps of the onset at step 30"
    ):
        decision_step(quiet, toy_case(0))


def test_an_unknown_rule_is_answered_with_those_there_are() -> None:
    with pytest.raises(ScenarioError, match=r"no rule 'intuition'; there are .*loss-spike"):
        decision_step(scenario(noticed=Noticed(after_onset=5, rule="intuition")), toy_case(0))
