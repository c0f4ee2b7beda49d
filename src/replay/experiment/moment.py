"""When someone acts: so many steps behind the onset, or when a rule fires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replay.experiment.scenario import Scenario, ScenarioError

if TYPE_CHECKING:
    from replay.proxy.failure import Case


def decision_step(scenario: Scenario, case: Case) -> int:
    """The last step done when someone acts on the failing run.

    With a rule, the run is trained once to see when the rule can first tell of something that began at the onset or
    later: the rules decide at each step by what is known there, so that nobody acts on what is still to come.

    Raises:
        ScenarioError: there is no such rule, or it does not fire within ``noticed.after_onset`` steps.
    """
    noticed = scenario.noticed
    last = case.moment + noticed.after_onset
    if not noticed.rule:
        return last
    from replay import rules
    from replay.proxy.training import Training

    chosen = [rule for rule in rules.load() if rule.name == noticed.rule]
    if not chosen:
        there_are = ", ".join(rule.name for rule in rules.load())
        raise ScenarioError(f"{scenario.place('noticed')}: no rule {noticed.rule!r}; there are {there_are}")
    training = Training.start(case.config)
    seen: dict[str, list[float]] = {signal: [] for signal in chosen[0].signals}
    while training.step < last:
        signals = training.advance()
        for name, values in seen.items():
            values.append(signals.get(name, np.nan))
    series = {name: rules.Series.of(values, attempt=1) for name, values in seen.items()}
    told = [flag.known_at for flag in rules.evaluate(chosen, series).flags if flag.step_end >= case.moment]
    if not told:
        raise ScenarioError(
            f"{scenario.place('noticed')}: seed {case.config.seed}: the rule {noticed.rule} did not fire within "
            f"{noticed.after_onset} steps of the onset at step {case.moment}"
        )
    return max(min(told), case.moment)
