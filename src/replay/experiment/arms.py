"""One seed of an experiment: the shared prefix, and each arm from where it departs.

All arms of a seed are restored from snapshots of one run, so that they are the same bits up to the intervention.
What is recorded of an arm is its surviving history, from the earliest step in which arms can differ to the end: for
an arm that rolled back, the steps that it undid are not in it, and the common steps before the checkpoint are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replay.experiment.interventions import Rollback, SkipBatches
from replay.experiment.moment import decision_step
from replay.experiment.scenario import DO_NOTHING, REFERENCE, ROLLBACK_ONLY, Arm, Scenario, ScenarioError

if TYPE_CHECKING:
    from replay.proxy.checkpoint import Checkpoint
    from replay.proxy.failure import Case
    from replay.proxy.training import Training

SIGNALS = ("loss", "grad_norm", "learning_rate")
"""Signals of the training itself that are recorded beside the held-out loss."""

Row = tuple[float, ...]
"""Held-out loss and :data:`SIGNALS` of one step; NaN where the step had none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ArmRun:
    """The surviving history of one arm on one seed.

    ``steps`` is int64 [steps], ascending without a gap; ``values`` float64 [steps, 1 + signals] holds the held-out
    loss and :data:`SIGNALS`.  ``departure`` and ``end`` are fingerprints of the whole state just before the first
    intervention that changes anything, and after the last step.
    """

    arm: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    departure: str
    end: str
    steps_recomputed: int = 0
    batches_skipped: int = 0

    def column(self, name: str) -> NDArray[np.float64]:
        """One recorded quantity, [steps]."""
        return self.values[:, ("held_out_loss", *SIGNALS).index(name)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Prefix:
    """What the arms of a seed share.

    ``snapshots`` by step; ``rows`` by step, from the earliest in which arms can differ to ``decision``, the last step
    done when someone acts.
    """

    case: Case
    decision: int
    snapshots: dict[int, Checkpoint]
    rows: dict[int, Row]


def share_prefix(scenario: Scenario, case: Case) -> Prefix:
    """Train the failing run up to the moment of action, with a snapshot wherever an arm departs."""
    from replay.proxy.training import Training

    onset = case.moment
    earliest = onset + scenario.earliest_step
    if earliest < 1:
        place = scenario.place(_farthest_back(scenario))
        raise ScenarioError(
            f"{place}: seed {case.config.seed} fails at step {onset} already, and a rollback "
            f"{-scenario.earliest_step + 1} steps before it would lie before the start"
        )
    training = Training.start(case.config)
    decision = decision_step(scenario, case)
    wanted = {earliest - 1, decision}
    wanted |= {onset + arm.rollback.step for arm in scenario.arms if arm.rollback is not None}
    snapshots: dict[int, Checkpoint] = {}
    rows: dict[int, Row] = {}
    while True:
        if training.step in wanted:
            snapshots[training.step] = training.snapshot()
        if training.step == decision:
            break
        signals = training.advance()
        if training.step >= earliest:
            rows[training.step] = _row(training, signals, scenario)
    return Prefix(case=case, decision=decision, snapshots=snapshots, rows=rows)


def _farthest_back(scenario: Scenario) -> str:
    """The arm that rolls back the farthest, as :meth:`Scenario.place` knows it."""
    steps = {f"arm {arm.name}": arm.rollback.step for arm in scenario.arms if arm.rollback is not None}
    return min(steps, key=lambda arm: steps[arm], default="")


def run_arms(scenario: Scenario, case: Case, names: Sequence[str]) -> Iterator[ArmRun]:
    """The arms called ``names`` of one seed, one after another in that order.

    :data:`REFERENCE` is the run that never met the failure, :data:`ROLLBACK_ONLY` goes back to the earliest
    checkpoint of any arm and changes nothing.
    """
    prefix = share_prefix(scenario, case)
    back = Arm(name=ROLLBACK_ONLY, control=True, interventions=(Rollback(step=scenario.earliest_step - 1),))
    known = {arm.name: arm for arm in (*scenario.all_arms, back)}
    for name in names:
        yield run_reference(scenario, prefix) if name == REFERENCE else run_arm(scenario, prefix, known[name])


def run_arm(scenario: Scenario, prefix: Prefix, arm: Arm) -> ArmRun:
    """One arm from its point of departure to the end of the horizon."""
    from replay.proxy.training import Training

    onset, decision = prefix.case.moment, prefix.decision
    start = decision if arm.rollback is None else onset + arm.rollback.step
    training = Training.restore(prefix.snapshots[start])
    departure = training.fingerprint()
    if arm.perturbation:
        training.perturb(arm.perturbation)
    left_out: set[int] = set()
    skipped = 0
    for done in arm.interventions:
        done.apply(training)
        if isinstance(done, SkipBatches):
            batches = done.batches(onset)
            skipped += len(batches)
            if done.mode == "advance":
                training.skip_steps(batches[0], batches[-1])
            else:
                left_out |= set(batches)
    rows = {step: row for step, row in prefix.rows.items() if step <= start}
    rows |= _go_on(scenario, training, decision + scenario.horizon, left_out)
    return _arm_run(arm.name, rows, departure, training, decision - start, skipped)


def run_reference(scenario: Scenario, prefix: Prefix) -> ArmRun:
    """The run that never met the failure, over the same steps.

    It is the same run before the onset, bit for bit, so that it too departs from a snapshot, under its own config.
    """
    from replay.proxy.checkpoint import Checkpoint
    from replay.proxy.training import Training

    start = prefix.case.moment + scenario.earliest_step - 1
    snapshot = prefix.snapshots[start]
    control = Checkpoint(snapshot.tensors, snapshot.state | {"config": prefix.case.control.to_dict()})
    training = Training.restore(control) if start > 0 else Training.start(prefix.case.control)
    departure = training.fingerprint()
    rows = _go_on(scenario, training, prefix.decision + scenario.horizon, set())
    return _arm_run(REFERENCE, rows, departure, training, 0, 0)


def repeats(first: ArmRun, second: ArmRun) -> bool:
    """Whether two arms have the same surviving history and the same final state, bit for bit."""
    return (
        first.end == second.end
        and np.array_equal(first.steps, second.steps)
        and first.values.tobytes() == second.values.tobytes()
    )


def arm_names(scenario: Scenario, *, with_rollback_only: bool) -> list[str]:
    """The runs of one seed in order: the reference, "do nothing", the arms, and the one that asserts exactness."""
    rolls_back = any(arm.rollback is not None for arm in scenario.arms)
    extra = [ROLLBACK_ONLY] if with_rollback_only and rolls_back else []
    return [REFERENCE, DO_NOTHING, *(arm.name for arm in scenario.arms), *extra]


def _go_on(scenario: Scenario, training: Training, last: int, left_out: set[int]) -> dict[int, Row]:
    """Train to step ``last``, without the batches of ``left_out``; a row for each step."""
    rows = {}
    while training.step < last:
        while training.step + 1 + training.data_offset in left_out:
            training.skip_batches(1)
        signals = training.advance()
        rows[training.step] = _row(training, signals, scenario)
    return rows


def _row(training: Training, signals: dict[str, float], scenario: Scenario) -> Row:
    held_out = training.evaluate(size=scenario.held_out_sequences)
    return (held_out, *(signals.get(name, float("nan")) for name in SIGNALS))


def _arm_run(
    name: str, rows: dict[int, Row], departure: str, training: Training, recomputed: int, skipped: int
) -> ArmRun:
    return ArmRun(
        arm=name,
        steps=np.array(sorted(rows), dtype=np.int64),
        values=np.array([rows[step] for step in sorted(rows)], dtype=np.float64),
        departure=departure,
        end=training.fingerprint(),
        steps_recomputed=recomputed,
        batches_skipped=skipped,
    )
