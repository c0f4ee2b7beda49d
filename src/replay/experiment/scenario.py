"""A scenario: a failure, the moment at which someone acts, and the arms that are compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from replay.errors import ReplayError
from replay.experiment.interventions import Intervention, Rollback, SkipBatches
from replay.experiment.metrics import METRICS

if TYPE_CHECKING:
    from replay.proxy.failure import Case

DO_NOTHING = "do_nothing"
"""The arm that every experiment has: the run goes on as it is."""

ROLLBACK_ONLY = "rollback_only"
"""Roll back and change nothing: asserted once per experiment to repeat "do nothing" bit for bit."""


class FailureLike(Protocol):
    """What a scenario needs of a failure; each entry of the proxy's catalogue has it.

    ``case`` makes a seed's configs, that of the failing run and that of the same run without the cause; arms on
    other processes need it to be a function of a module.
    """

    @property
    def name(self) -> str: ...
    @property
    def case(self) -> Callable[..., Case]: ...


class ScenarioError(ReplayError):
    """A scenario that cannot be run; the message says what is wrong and, for a file, in which line."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One thing to try.  ``interventions`` happen in their order, at the moment of the scenario.

    ``perturbation`` multiplies each weight by 1 + perturbation x a standard normal number after a rollback: the
    stand-in for clusters that do not reproduce bits.  A ``control`` is there to be compared with, not recommended.
    The name of any other arm begins with the kinds of what it does, joined by "+" (``rollback+skip_batches``, or
    ``rollback+skip_batches of 300``), so that an effect tells what it is the effect of.
    """

    name: str
    interventions: tuple[Intervention, ...] = ()
    perturbation: float = 0.0
    control: bool = False

    def __post_init__(self) -> None:
        rollbacks = [done for done in self.interventions if isinstance(done, Rollback)]
        _require(bool(self.name), "an arm needs a name")
        _require(len(rollbacks) <= 1, f"arm {self.name}: one rollback at most, not {len(rollbacks)}")
        kinds = "+".join(self.kinds)
        _require(
            self.control or (bool(kinds) and self.name.split(" ")[0] == kinds),
            f"arm {self.name}: its name must begin with what it does ({kinds or 'nothing'}), or it is a control",
        )
        _require(self.perturbation >= 0, f"arm {self.name}: perturbation must not be negative")

    @property
    def rollback(self) -> Rollback | None:
        """The arm's rollback, if it has one."""
        return next((done for done in self.interventions if isinstance(done, Rollback)), None)

    @property
    def kinds(self) -> list[str]:
        """The kinds of what is done, in order."""
        return [str(done.kind) for done in self.interventions]


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """When someone acts: ``after_onset`` steps behind the first bad step or, with ``rule``, when that built-in rule
    first fires, which must be within ``after_onset`` steps of the onset."""

    after_onset: int
    rule: str = ""

    def __post_init__(self) -> None:
        _require(self.after_onset >= 0, f"noticed.after_onset must not be negative, not {self.after_onset}")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A failure, when it is noticed, and what is tried.

    ``failure`` is an entry of the proxy's catalogue, by name or as it is; ``settings`` are keyword arguments of its
    case.  ``horizon`` steps are run after the moment of action, at equal step counts for all arms.  A seed counts
    as having failed again when its held-out loss exceeds that of the run that never met the failure by more than
    ``recurs_above`` nats, and as healthy below ``healthy_below``.  ``primary`` is the metric named in advance by
    which the arms are judged first; ``seeds`` are those to run when no others are asked for.  "Do nothing" is always
    among the arms and need not be listed.
    """

    name: str
    title: str = ""
    source: str = ""
    failure: str | FailureLike
    settings: dict[str, Any] = field(default_factory=dict)
    noticed: Noticed
    horizon: int
    held_out_sequences: int = 128
    recurs_above: float = 0.5
    healthy_below: float = 0.1
    primary: str = "peak_excess_loss"
    seeds: tuple[int, ...] = (0, 1, 2)
    arms: tuple[Arm, ...]

    def __post_init__(self) -> None:
        _require(self.horizon > 0, f"horizon must be positive, not {self.horizon}")
        _require(bool(self.seeds) and min(self.seeds) >= 0, f"seeds: at least one, none negative, not {self.seeds}")
        _require(self.held_out_sequences > 0, f"held_out_sequences must be positive, not {self.held_out_sequences}")
        _require(
            0 < self.healthy_below <= self.recurs_above,
            f"healthy_below {self.healthy_below} must lie above 0 and not above recurs_above {self.recurs_above}",
        )
        _require(self.primary in METRICS, f"primary: no metric {self.primary!r}; there are {', '.join(METRICS)}")
        names = [arm.name for arm in self.arms]
        _require(bool(names), "a scenario needs at least one arm beside do_nothing")
        doubles = sorted({name for name in names if names.count(name) > 1})
        _require(not doubles, f"two arms are called {', '.join(doubles)}")
        reserved = sorted({DO_NOTHING, ROLLBACK_ONLY, REFERENCE} & set(names))
        _require(not reserved, f"the arm {', '.join(reserved)} is there by itself and is not to be listed")
        for arm in self.arms:
            self._check_skips(arm)

    def _check_skips(self, arm: Arm) -> None:
        """Batches that have been seen by then can be left out only after a rollback to before them."""
        seen_to = self.noticed.after_onset if arm.rollback is None else arm.rollback.step
        for done in arm.interventions:
            if isinstance(done, SkipBatches):
                _require(
                    done.step > seen_to,
                    f"arm {arm.name}: step {done.step} has been taken already when batches are skipped; "
                    f"skip from step {seen_to + 1} on, or roll back further",
                )

    @property
    def all_arms(self) -> tuple[Arm, ...]:
        """The arms, "do nothing" first."""
        return (Arm(name=DO_NOTHING, control=True), *self.arms)

    @property
    def earliest_step(self) -> int:
        """The first step, from the onset, in which arms can differ: behind the earliest checkpoint gone back to."""
        rollbacks = [arm.rollback.step for arm in self.arms if arm.rollback is not None]
        return min([*rollbacks, -1]) + 1

    def case(self, seed: int) -> Case:
        """The failure's configs for a seed.

        Raises:
            ScenarioError: the failure refuses the settings, or its seed cannot be prepared.
        """
        failure = self.catalogued
        try:
            return failure.case(seed, **self.settings)
        except TypeError as error:
            raise ScenarioError(f"{self.name}: failure {failure.name} does not take these settings: {error}") from error
        except (ValueError, RuntimeError) as error:
            raise ScenarioError(f"{self.name}: seed {seed} cannot be prepared: {error}") from error

    @property
    def catalogued(self) -> FailureLike:
        """The failure, looked up where it is given by name.

        Raises:
            ScenarioError: the catalogue has no such failure.
        """
        if not isinstance(self.failure, str):
            return self.failure
        from replay.proxy import failures

        if self.failure not in failures.CATALOGUE:
            there_are = ", ".join(failures.CATALOGUE)
            raise ScenarioError(f"{self.name}: no failure {self.failure!r}; the catalogue has {there_are}")
        return failures.CATALOGUE[self.failure]

    @cached_property
    def content_hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of all that decides the result, titles left out."""
        values = {
            item.name: getattr(self, item.name)
            for item in dataclasses.fields(self)
            if item.name not in {"title", "source", "failure", "arms", "noticed", "seeds"}
        }
        values["failure"] = self.failure if isinstance(self.failure, str) else self.failure.name
        values["noticed"] = dataclasses.asdict(self.noticed)
        values["arms"] = [arm_fields(arm) for arm in self.arms]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


REFERENCE = "never_met"
"""The run that never met the failure; what the others lose is counted from it."""


def arm_fields(arm: Arm) -> dict[str, Any]:
    """An arm as plain values, the same for equal arms."""
    done = [{"kind": str(one.kind), **dataclasses.asdict(one)} for one in arm.interventions]
    return {"name": arm.name, "interventions": done, "perturbation": arm.perturbation}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ScenarioError(message)
