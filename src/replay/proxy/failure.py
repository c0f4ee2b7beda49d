"""What a failure of the catalogue is, and how a run is judged to have gone wrong.

A :class:`Failure` makes, for each seed, a :class:`Case`: a config that goes wrong and a control. :class:`Arm` changes
a case into another run (a cure, a contrast). A :class:`Trace` is what a run showed; a judge finds in it the step at
which it went wrong, and each :class:`Sign` how long before that it could be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from replay.proxy.config import ProxyConfig

Column = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One seed of a failure: ``config`` goes wrong at step ``moment``, ``control`` is the same run without the cause.

    The two are identical, bit for bit, before ``moment``; where the cause lasts from the first step, ``moment`` is 1.
    """

    config: ProxyConfig
    control: ProxyConfig
    moment: int


@dataclass(frozen=True)
class Trace:
    """The signals of a run, step by step: ``columns`` are float64 [steps], NaN where a step showed nothing.

    ``moment`` is the step at which the cause sets in. The column "held_out" is the loss on clean data not seen in
    training, after each step from ``moment`` - 5 on, where the failure asks for it.
    """

    columns: Mapping[str, Column]
    moment: int

    def __getitem__(self, signal: str) -> Column:
        return self.columns[signal]

    @property
    def steps(self) -> int:
        """Number of steps done."""
        return len(self.columns["loss"])


Judge = Callable[[Trace], int | None]
"""The step at which a run went wrong; None when it did not."""


@dataclass(frozen=True)
class Sign:
    """A condition on one signal that may announce a failure.

    ``above`` and ``below`` compare with ``threshold``; ``times_median`` and ``part_of_median`` with ``threshold`` times
    the median of the 100 steps before (from the 20th step on); ``not_finite`` needs no threshold.
    """

    signal: str
    condition: Literal["above", "below", "times_median", "part_of_median", "not_finite"]
    threshold: float = 0.0

    def __str__(self) -> str:
        words = {
            "above": f"{self.signal} above {self.threshold:g}",
            "below": f"{self.signal} below {self.threshold:g}",
            "times_median": f"{self.signal} above {self.threshold:g} medians of the last 100 steps",
            "part_of_median": f"{self.signal} at most {self.threshold:g} of the median of the last 100 steps",
            "not_finite": f"{self.signal} not finite",
        }
        return words[self.condition]

    def holds(self, trace: Trace) -> npt.NDArray[np.bool_]:
        """At which steps it holds, [steps]."""
        values = trace[self.signal]
        if self.condition == "not_finite":
            return ~np.isfinite(values)
        if self.condition == "above":
            return values > self.threshold
        if self.condition == "below":
            return values < self.threshold
        medians = moving_median(values, 100)
        if self.condition == "times_median":
            return values > self.threshold * medians
        return values <= self.threshold * medians


def moving_median(values: Column, window: int, least: int = 20) -> Column:
    """Median of the finite values among the ``window`` before each step; NaN with fewer than ``least``."""
    medians = np.full(len(values), np.nan)
    for i in range(least, len(values)):
        before = values[max(0, i - window) : i]
        finite = before[np.isfinite(before)]
        if len(finite) >= least:
            medians[i] = np.median(finite)
    return medians


def moving_mean(values: Column, window: int) -> Column:
    """Mean of each step and those before it, ``window`` in all; NaN for the first ones."""
    means = np.full(len(values), np.nan)
    means[window - 1 :] = np.convolve(values, np.ones(window) / window, "valid")
    return means


def first_step(condition: npt.NDArray[np.bool_], after: int = 0) -> int | None:
    """The first step (1 .. ) behind step ``after`` at which a condition [steps] holds."""
    where = np.flatnonzero(condition[after:])
    return int(where[0]) + after + 1 if len(where) else None


LAG = Sign("second_moment_lag", "above", 2.3)
"""The second moment lags: some tensor's RMS of g^2/v is above 2.3 (it is 1 when v is up to date)."""
HIGH_LAG = Sign("second_moment_lag", "above", 4.0)
"""The second moment lags far."""
NORM = Sign("grad_norm", "times_median", 4.0)
"""The gradient norm exceeds four medians."""
LOSS_SIGNS = tuple(Sign("loss", "times_median", threshold) for threshold in (2.0, 1.5, 1.25))
"""The loss's own signs, from dull to keen; they need no other signal, and what any other tells earlier is told against
the keenest of them that gives no more false alarms."""


# -- Judges ----------------------------------------------------------------------------------------------------------


def loss_returns(learned: float, to: float, kept: int = 100) -> Judge:
    """The mean loss of five steps has been below ``learned`` for ``kept`` steps on end and comes back above ``to``.

    The step is the first of those five whose own loss is above ``to``: the mean comes later than the loss, and a sign
    must not lead because of that.
    """

    def judge(trace: Trace) -> int | None:
        loss = trace["loss"]
        mean = moving_mean(loss, 5)
        low = np.flatnonzero(moving_mean((mean < learned).astype(np.float64), kept) >= 1.0 - 0.5 / kept)
        back = first_step(~(mean <= to), after=int(low[0]) + 1) if len(low) else None
        return None if back is None else first_step(~(loss <= to), after=back - 5)

    return judge


def held_out_rises(by: float, within: int) -> Judge:
    """Within so many steps of the cause, the held-out loss stands more than ``by`` above what it was before it.

    It is taken behind a step's update, and a step's training loss before it. The failure is therefore dated by the step
    behind: the first whose training loss could show the harm.
    """

    def judge(trace: Trace) -> int | None:
        held_out, start = trace["held_out"], trace.moment - 1
        risen = ~(held_out <= np.nanmean(held_out[max(0, start - 5) : start]) + by)
        risen[start + within + 1 :] = False
        step = first_step(risen, after=start)
        return None if step is None else min(step + 1, trace.steps)

    return judge


def ends_above(signal: str, threshold: float, last: int = 20) -> Judge:
    """The mean of the last steps is above a threshold; the step is the first from which such a mean stayed above."""

    def judge(trace: Trace) -> int | None:
        values = trace[signal]
        if np.mean(values[-last:]) <= threshold:
            return None
        below = np.flatnonzero(moving_mean(values, last) <= threshold)
        return int(below[-1]) + 2 if len(below) else last

    return judge


def still_above(signal: str, threshold: float, by: int, last: int = 20) -> Judge:
    """The mean of the last steps is above a threshold, and so was that of the last ones at step ``by``.

    The step is ``by``, when a healthy run has long been below it: a run that never learns goes wrong at no step of its
    own.
    """

    def judge(trace: Trace) -> int | None:
        values = trace[signal]
        return by if min(np.mean(values[by - last : by]), np.mean(values[-last:])) > threshold else None

    return judge


def ends_not_finite(least: int = 15, last: int = 20) -> Judge:
    """At least so many of the last losses are not finite; the step is the first that was not finite.

    The loss flickers between numbers and none before it is gone for good; that flicker is the failure, not a time
    ahead of it, and a single number among the last is no recovery.
    """

    def judge(trace: Trace) -> int | None:
        finite = np.isfinite(trace["loss"])
        return first_step(~finite) if np.count_nonzero(~finite[-last:]) >= least else None

    return judge


def exceeds(signal: str, threshold: float) -> Judge:
    """A signal exceeds a threshold at or behind the moment of the cause."""
    return lambda trace: first_step(~(trace[signal] <= threshold), after=trace.moment - 1)


def falls_below(signal: str, threshold: float) -> Judge:
    """A signal falls below a threshold at or behind the moment of the cause."""
    return lambda trace: first_step(trace[signal] < threshold, after=trace.moment - 1)


def both(one: Judge, other: Judge) -> Judge:
    """Both judges find it wrong; the step is the second's."""
    return lambda trace: None if one(trace) is None else other(trace)


# -- Arms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A run that changes once: ``config`` to step ``switch``, ``then`` behind it; ``skip`` batches left out there.

    ``reload``: what was changed is undone by loading the checkpoint of that step over it.
    """

    config: ProxyConfig
    moment: int
    switch: int = 0
    then: ProxyConfig | None = None
    skip: int = 0
    reload: bool = False


@dataclass(frozen=True)
class Arm:
    """Another run of a case: a cure (``source`` says who found it) is meant to prevent the failure, a contrast shows
    what it depends on.

    ``settings`` (as in :meth:`ProxyConfig.replace`) hold from the first step or, when ``ahead`` is given, from so many
    steps before the moment of the cause; there ``skip`` batches are left out. ``of`` is the config that it changes.
    """

    name: str
    source: str = ""
    settings: Mapping[str, object] | None = None
    ahead: int | None = None
    skip: int = 0
    of: Literal["config", "control"] = "config"
    plan_of: Callable[[Case], Plan] | None = None
    kind: Literal["cure", "contrast"] = "contrast"

    def plan(self, case: Case) -> Plan:
        """What it does in one case."""
        if self.plan_of is not None:
            return self.plan_of(case)
        before = case.config if self.of == "config" else case.control
        after = before.replace(**(self.settings or {}))
        if self.ahead is None:
            return Plan(after, case.moment)
        return Plan(before, case.moment, case.moment - 1 - self.ahead, after, self.skip)


@dataclass(frozen=True)
class Failure:
    """One entry of the catalogue.

    ``case`` makes its configs for a seed (and may train a little to find the moment). ``judge`` says whether a run
    went wrong; ``criterion`` says it in words. ``signs`` may announce it, within ``window`` steps ahead and not before
    the cause: the leading signal's first, the loss's own (:data:`LOSS_SIGNS`) among them. ``arms`` are cures and
    contrasts.
    ``search`` records what was tried and seen on the way, and what was not obtained.
    """

    number: int
    name: str
    title: str
    source: str
    mechanism: str
    settings: str
    signature: str
    leading_signal: str
    criterion: str
    case: Callable[[int], Case]
    judge: Judge
    signs: tuple[Sign, ...] = ()
    window: int = 60
    held_out: bool = False
    arms: tuple[Arm, ...] = ()
    search: str = ""
    first_seed: int = 5000
    """First seed of the verification: moved on when a criterion or an arm is changed after a look at its results."""
    harmless: bool = False
    """True when only the signal was obtained and no harm to the loss: it then does not count as reproduced."""
    lead_note: str = ""
    """What the leads told of its signs do not say by themselves."""
