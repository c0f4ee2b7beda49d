"""Re-enacting interventions on the proxy: arms x seeds, shams, and effects with their uncertainty.

>>> from replay.experiment import load_scenario, run_experiment
>>> scenario = load_scenario("palm-rollback-skip")
>>> [arm.name for arm in scenario.all_arms]
['do_nothing', 'rollback+skip_batches', 'sham_skip', 'perturbed_rollback']
>>> print(run_experiment(scenario, seeds=range(3)).summary())           # doctest: +SKIP
"""

from replay.experiment.interventions import REENACTED, Intervention, InterventionError, from_fields
from replay.experiment.loader import BUILT_IN, load_scenario
from replay.experiment.run import ExperimentResult, run_experiment
from replay.experiment.scenario import Arm, Noticed, Scenario, ScenarioError

__all__ = [
    "BUILT_IN",
    "REENACTED",
    "Arm",
    "ExperimentResult",
    "Intervention",
    "InterventionError",
    "Noticed",
    "Scenario",
    "ScenarioError",
    "from_fields",
    "load_scenario",
    "run_experiment",
]
