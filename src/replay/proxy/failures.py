"""The catalogue of failures: ways to make the proxy go wrong that are known from large runs.

Each names its source, what goes wrong, the settings that bring it about, what to expect and which signal leads.
``replay proxy failures verify`` trains each over fresh seeds with and without its cause, and with its cures, and writes
what came of it into docs/failures.md. The seeds of the search (below 1,000) are not used there.
"""

from __future__ import annotations

from replay.errors import ReplayError
from replay.proxy.catalogue import accidents, growth, states
from replay.proxy.catalogue.states import ODD_BATCH_DELAY, data_and_state
from replay.proxy.failure import Arm, Case, Failure
from replay.proxy.recipes import CONVERGED_LOSS, converged_step, copy_task, language_task, odd_batch

__all__ = [
    "CATALOGUE",
    "CONVERGED_LOSS",
    "ODD_BATCH_DELAY",
    "Arm",
    "Case",
    "Failure",
    "UnknownFailureError",
    "converged_step",
    "copy_task",
    "data_and_state",
    "get",
    "language_task",
    "odd_batch",
]

CATALOGUE: dict[str, Failure] = {
    failure.name: failure
    for failure in (
        growth.ATTENTION_LOGITS,
        growth.OUTPUT_LOGITS,
        growth.FP16,
        states.SECOND_MOMENT,
        states.DATA_AND_STATE,
        states.DATA_SWITCH,
        accidents.EMBEDDING,
        accidents.OPTIMIZER_STATE,
        accidents.INITIALISATION,
        accidents.CORRUPTION,
        growth.LOSS_SCALE,
    )
}


class UnknownFailureError(ReplayError, KeyError):
    """There is no failure of that name; the message lists those that there are."""

    def __str__(self) -> str:
        return str(self.args[0])


def get(name: str) -> Failure:
    """The failure of a name.

    Raises:
        UnknownFailureError: there is none.
    """
    if name not in CATALOGUE:
        raise UnknownFailureError(f"no failure {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]
