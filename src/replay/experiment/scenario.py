"""A scenario: a failure, the moment at which someone acts, and the arms that are compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
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


MOST_STEPS = 100_000
"""A longer experiment is a slip of the pen: it would take days."""

MOST_HELD_OUT_SEQUENCES = 10_000
MOST_SEEDS = 10_000
MOST_ARMS = 100


class ScenarioError(ReplayError):
    """A scenario that cannot be run; the message says what is wrong and, for a file, in which line.

    ``fields`` names the fields of a :class:`Scenario` that are at fault, ``arm`` the position of the arm.
    """

    def __init__(self, message: str, *fields: str, arm: int | None = None) -> None:
        super().__init__(message)
        self.fields = fields
        self.arm = arm


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
        _require(
            0 <= self.perturbation < math.inf,
            f"arm {self.name}: perturbation must be 0 or more, not {self.perturbation}",
        )

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
        _require(
            0 <= self.after_onset <= MOST_STEPS,
            f"noticed.after_onset must lie between 0 and {MOST_STEPS:,}, not {self.after_onset}",
            "after_onset",
        )


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A failure, when it is noticed, and what is tried.

    ``failure`` is an entry of the proxy's catalogue, by name or as it is; ``settings`` are keyword arguments of its
    case.  ``horizon`` steps are run after the moment of action, at equal step counts for all arms.  A seed counts
    as having failed again when its held-out loss exceeds that of the run that never met the failure by more than
    ``recurs_above`` nats, and as healthy below ``healthy_below``.  ``primary`` is the metric named in advance by
    which the arms are judged first; ``seeds`` are those to run when no others are asked for.  "Do nothing" is always
    among the arms and need not be listed.  ``places`` says where in its file (``file:line``) each field stands, and
    each arm, as ``arm NAME``, so that a fault which only shows when the scenario is run can be told with its place.
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
    places: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_size("horizon", self.horizon, MOST_STEPS)
        self._check_size("held_out_sequences", self.held_out_sequences, MOST_HELD_OUT_SEQUENCES)
        _require(
            0 < len(self.seeds) <= MOST_SEEDS, f"seeds: from 1 to {MOST_SEEDS:,}, not {len(self.seeds):,}", "seeds"
        )
        _require(min(self.seeds) >= 0, f"seeds: none may be negative, as is {min(self.seeds)}", "seeds")
        _require(
            0 < self.healthy_below <= self.recurs_above < math.inf,
            f"healthy_below {self.healthy_below} must lie above 0 and not above recurs_above {self.recurs_above}",
            "healthy_below",
            "recurs_above",
        )
        known = ", ".join(METRICS)
        _require(self.primary in METRICS, f"primary: no metric {self.primary!r}; there are {known}", "primary")
        _require(bool(self.arms), "a scenario needs at least one arm beside do_nothing", "arms")
        _require(len(self.arms) <= MOST_ARMS, f"more than {MOST_ARMS} arms", "arms")
        seen: set[str] = set()
        for position, arm in enumerate(self.arms):
            _require(arm.name not in seen, f"two arms are called {arm.name}", "arms", arm=position)
            reserved = arm.name in (DO_NOTHING, ROLLBACK_ONLY, REFERENCE)
            _require(
                not reserved, f"the arm {arm.name} is there by itself and is not to be listed", "arms", arm=position
            )
            self._check_skips(arm, position)
            seen.add(arm.name)

    def _check_size(self, name: str, size: int, most: int) -> None:
        _require(size > 0, f"{name} must be positive, not {size}", name)
        _require(size <= most, f"{name} must be at most {most:,}, not {size:,}", name)

    def _check_skips(self, arm: Arm, position: int) -> None:
        """Batches that have been seen by then can be left out only after a rollback to before them."""
        seen_to = self.noticed.after_onset if arm.rollback is None else arm.rollback.step
        for done in arm.interventions:
            if isinstance(done, SkipBatches):
                _require(
                    done.step > seen_to,
                    f"arm {arm.name}: step {done.step} has been taken already when batches are skipped; "
                    f"skip from step {seen_to + 1} on, or roll back further",
                    "arms",
                    arm=position,
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
            wrong = f"failure {failure.name} does not take these settings: {error}"
            raise ScenarioError(f"{self.place('settings')}: {wrong}") from error
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
            raise ScenarioError(f"{self.place('failure')}: no failure {self.failure!r}; the catalogue has {there_are}")
        return failures.CATALOGUE[self.failure]

    def place(self, name: str) -> str:
        """Where a field or ``arm NAME`` stands, as ``file:line``; the scenario's name when it is of no file."""
        return self.places.get(name, self.name)

    @cached_property
    def content_hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of all that decides the result, titles left out."""
        values = {
            item.name: getattr(self, item.name)
            for item in dataclasses.fields(self)
            if item.name not in {"title", "source", "failure", "arms", "noticed", "seeds", "places"}
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


def _require(condition: bool, message: str, *fields: str, arm: int | None = None) -> None:
    if not condition:
        raise ScenarioError(message, *fields, arm=arm)
