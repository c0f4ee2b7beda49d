"""`plateau`, `drift`, `growth` and `changepoint`: slow conditions, judged on medians of blocks of points.

A block is a fixed number of finite points of one attempt, one after the other; its median stands for it.  A condition
is judged when a block is complete and holds until the next one is.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.rules.detectors.base import Detector, Floats, State, Verdicts, setting
from replay.rules.detectors.window import MAD_TO_SIGMA


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was made of the blocks so far."""

    firing: bool = False
    baseline: float = float("nan")
    score: float = 0.0


class BlockDetector(Detector):
    """Gathers points into blocks and judges after each."""

    def __init__(self, window: int, remembered: int | None = None) -> None:
        super().__init__()
        self._window = window
        self._remembered = remembered
        self._waiting: list[float] = []
        self.medians: list[float] = []
        self.deviations: list[float] = []
        self._ends: list[int] = []
        self._judgement = Judgement()

    @abstractmethod
    def judge(self) -> Judgement:
        """Judge :attr:`medians` (and :attr:`deviations`, median absolute deviations within blocks), oldest first."""

    def begin_attempt(self, first_step: int) -> None:
        """Forget the incomplete block and those that were rolled back."""
        self._waiting = []
        kept = int(np.searchsorted(np.array(self._ends, dtype=np.int64), first_step))
        del self.medians[kept:], self.deviations[kept:], self._ends[kept:]
        self._judgement = Judgement()

    def advance(self, step: NDArray[np.int64], value: Floats) -> Verdicts:
        """Verdicts on the finite points."""
        seen = np.flatnonzero(np.isfinite(value))
        steps, values = step[seen], value[seen]
        verdicts = Verdicts.quiet(seen)
        waited = len(self._waiting)
        gathered = np.concatenate([self._waiting, values])
        whole = len(gathered) // self._window
        blocks = gathered[: whole * self._window].reshape(whole, self._window)
        medians = np.median(blocks, axis=1)
        deviations = np.median(np.abs(blocks - medians[:, None]), axis=1)
        begin = 0
        for index in range(whole):
            end = (index + 1) * self._window - waited
            self._write(verdicts, begin, end - 1)
            self._complete(int(steps[end - 1]), float(medians[index]), float(deviations[index]))
            # The block's last point is the one at which it is judged.
            self._write(verdicts, end - 1, end)
            begin = end
        self._write(verdicts, begin, len(values))
        self._waiting = gathered[whole * self._window :].tolist()
        return verdicts

    def _write(self, verdicts: Verdicts, start: int, stop: int) -> None:
        verdicts.firing[start:stop] = self._judgement.firing
        verdicts.baseline[start:stop] = self._judgement.baseline
        verdicts.score[start:stop] = self._judgement.score

    def _complete(self, step: int, median: float, deviation: float) -> None:
        self.medians.append(median)
        self.deviations.append(deviation)
        self._ends.append(step)
        if self._remembered is not None and len(self.medians) > self._remembered:
            del self.medians[0], self.deviations[0], self._ends[0]
        self._judgement = self.judge()

    def forget_blocks(self) -> None:
        """Begin anew, keeping the last block."""
        del self.medians[:-1], self.deviations[:-1], self._ends[:-1]

    def state_dict(self) -> State:
        """Blocks, the incomplete one, and the present judgement."""
        return super().state_dict() | {
            "waiting": list(self._waiting),
            "medians": list(self.medians),
            "deviations": list(self.deviations),
            "ends": list(self._ends),
            "judgement": [self._judgement.firing, self._judgement.baseline, self._judgement.score],
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from :meth:`state_dict`."""
        super().load_state_dict(state)
        self._waiting = list(state["waiting"])
        self.medians, self.deviations = list(state["medians"]), list(state["deviations"])
        self._ends = list(state["ends"])
        self._judgement = Judgement(*state["judgement"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlateauSettings:
    """Settings of `plateau`."""

    window: int = setting(50, "points in a block", low=2, high=100_000)
    min_points: int = setting(1000, "points before the first alarm", low=4, high=10_000_000)
    fraction: float = setting(0.5, "the later share of the run in which nothing improved", low=0.05, high=0.95)
    improvement: float = setting(0.005, "a fall by less than this share is none", low=0, high=1)


class Plateau(BlockDetector):
    """No block of the later part of the run lies clearly lower than the best before.

    What is expected grows with the run's age: loss falls by a power law, so that equal progress takes ever longer.
    """

    name = "plateau"

    def __init__(self, settings: PlateauSettings) -> None:
        super().__init__(settings.window)
        self.settings = settings
        self._best = float("inf")
        self._best_at = 0

    @property
    def needs(self) -> int:
        """The settings' ``min_points``."""
        return self.settings.min_points

    def begin_attempt(self, first_step: int) -> None:
        """Forget what was rolled back, and with it any progress made there."""
        super().begin_attempt(first_step)
        self._best, self._best_at = float("inf"), 0
        for index, median in enumerate(self.medians):
            self._compare(index, median)

    def judge(self) -> Judgement:
        """How long ago the last clear progress was, as a share of the run."""
        count = len(self.medians)
        self._compare(count - 1, self.medians[-1])
        if count * self.settings.window < self.settings.min_points:
            return Judgement()
        waited = (count - 1 - self._best_at) / count
        return Judgement(waited >= self.settings.fraction, self._best, waited)

    def _compare(self, index: int, median: float) -> None:
        if median < self._best - self.settings.improvement * abs(self._best) or index == 0:
            self._best, self._best_at = median, index

    def state_dict(self) -> State:
        """The best block besides."""
        return super().state_dict() | {"best": self._best, "best_at": self._best_at}

    def load_state_dict(self, state: State) -> None:
        """Go on from :meth:`state_dict`."""
        super().load_state_dict(state)
        self._best, self._best_at = state["best"], state["best_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftSettings:
    """Settings of `drift` and `changepoint`."""

    window: int = setting(50, "points in a block", low=2, high=100_000)
    reference: int = setting(8, "blocks in the reference, an even number", low=2, high=1000)
    gap: int = setting(2, "blocks between the reference and the present one", low=0, high=1000)
    sigmas: float = setting(6.0, "robust standard deviations between present and reference", low=0, high=1000)
    change: float = setting(0.1, "least change, as a share of the reference", low=0, high=1e9)
    least_change: float = setting(0.0, "least change in the signal's own unit", low=0)
    direction: str = setting("both", "which way counts", choices=("up", "down", "both"))


class Shift(BlockDetector):
    """The present block's median lies off a reference that was itself at rest.

    A signal that is still on its way, as in warm-up, has no reference: its course is not a drift.
    """

    def __init__(self, settings: ShiftSettings, *, gap: int, once: bool) -> None:
        super().__init__(settings.window, settings.reference + gap + 1)
        self.settings = settings
        self._gap = gap
        self._once = once

    @property
    def needs(self) -> int:
        """Points for the reference, the gap and the present block."""
        return self.settings.window * (self.settings.reference + self._gap + 1)

    def judge(self) -> Judgement:
        """Compare the last block with the reference."""
        settings = self.settings
        if len(self.medians) < settings.reference + self._gap + 1:
            return Judgement()
        reference = np.array(self.medians[: settings.reference])
        normal = float(np.median(reference))
        noise = MAD_TO_SIGMA * float(np.median(self.deviations[: settings.reference])) / np.sqrt(settings.window)
        wobble = MAD_TO_SIGMA * float(np.median(np.abs(reference - normal)))
        sigma = max(noise, wobble, 0.001 * abs(normal))
        half = settings.reference // 2
        trend = abs(float(np.median(reference[half:]) - np.median(reference[:half])))
        change = self.medians[-1] - normal
        if settings.direction != "both":
            change = max(0.0, change if settings.direction == "up" else -change)
        limit = max(settings.sigmas * sigma, settings.change * abs(normal), settings.least_change)
        # On its way already: what it would have moved by now at the reference's own pace is no shift.
        pace = trend * (len(self.medians) - half) / max(1, half)
        firing = bool(sigma > 0 and abs(change) > limit + 2 * pace)
        judgement = Judgement(firing, normal, abs(change) / sigma if sigma > 0 else 0.0)
        if firing and self._once:
            self.forget_blocks()
        return judgement


class Drift(Shift):
    """Leaves its usual course slowly, and stays off it."""

    name = "drift"

    def __init__(self, settings: ShiftSettings) -> None:
        super().__init__(settings, gap=settings.gap, once=False)


class Changepoint(Shift):
    """Changes its level from one block to the next; the new level is then the reference."""

    name = "changepoint"

    def __init__(self, settings: ShiftSettings) -> None:
        super().__init__(settings, gap=0, once=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthSettings:
    """Settings of `growth`."""

    window: int = setting(20, "points in a block", low=1, high=100_000)
    blocks: int = setting(6, "blocks in a row that are looked at", low=2, high=1000)
    factor: float = setting(2.0, "growth from the first of them to the last", low=1, high=1e12)
    share: float = setting(0.8, "share of the steps between blocks that go up", low=0, high=1)
    sigmas: float = setting(
        0.0, "robust standard deviations of a block's median that it must grow by", low=0, high=1000
    )
    reference: int = setting(
        0, "blocks before them, whose wobble is noise too and whose highest it must pass", low=0, high=1000
    )
    least_change: float = setting(0.0, "least growth in the signal's own unit", low=0)


class Growth(BlockDetector):
    """Grows without rest: nearly every block lies above the one before."""

    name = "growth"

    def __init__(self, settings: GrowthSettings) -> None:
        super().__init__(settings.window, settings.reference + settings.blocks)
        self.settings = settings

    @property
    def needs(self) -> int:
        """Points for all blocks."""
        return self.settings.window * (self.settings.reference + self.settings.blocks)

    def judge(self) -> Judgement:
        """Compare the first and the last of the blocks, and count the steps up."""
        settings = self.settings
        if len(self.medians) < settings.reference + settings.blocks:
            return Judgement()
        first, last = self.medians[settings.reference], self.medians[-1]
        grown = last / first if first > 0 else 0.0
        if grown < settings.factor or last - first < settings.least_change:
            return Judgement(False, first, grown)
        reference, looked_at = np.split(np.array(self.medians), [settings.reference])
        up = float(np.mean(np.diff(looked_at) > 0))
        noise = MAD_TO_SIGMA * float(np.median(self.deviations)) / np.sqrt(settings.window)
        if len(reference):
            # Data that come in a certain order make neighbouring blocks alike, and their medians wander.
            noise = max(noise, MAD_TO_SIGMA * float(np.median(np.abs(reference - np.median(reference)))))
        highest = max(first, float(reference.max(initial=first)))
        enough = last - first >= settings.sigmas * noise and last - highest >= settings.least_change
        return Judgement(bool(enough and up >= settings.share), first, grown)
