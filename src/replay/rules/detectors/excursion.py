"""`spike` and `drop`: a value that leaves the range of the points before it, suddenly.

The range is the running median, widened by the larger of a number of robust standard deviations and a share of the
median itself: a flat series, whose deviation is 0, then gives no alarm for a change in its last digit.  The points of
an excursion stay out of the baseline; one that lasts longer than the window becomes the new normal.

While history is short the range is wider: one value cannot be told from the noise that has not been seen yet.
Several in a row can, if all of them lie clearly beyond all that came before (``lasting``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.rules.detectors.base import Detector, Floats, State, Verdicts, setting
from replay.rules.detectors.settling import Settling
from replay.rules.detectors.window import History, running_medians, spread

# How many windows are remembered, so that a rollback leaves a baseline.
_MEMORY = 8
# Fewer points than this are no level from which others could lie apart.
_LEAST_LEVEL = 2
# The step to a new level is this many times as high as what is usual within either.
_APART = 1.5
# Limits are wider by 1 + _CAUTION / n sigmas while only n points are known.
_CAUTION = 9
_SMALLEST_BLOCK, _LARGEST_BLOCK = 64, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcursionSettings:
    """Settings of `spike` and `drop`."""

    window: int = setting(64, "points in the baseline", low=4, high=10_000)
    min_points: int = setting(3, "points before the first alarm", low=2, high=10_000)
    sigmas: float = setting(5.0, "robust standard deviations beyond the median", low=0, high=1000)
    change: float = setting(0.1, "least change, as a share of the median", low=0, high=1e9)
    short: int = setting(16, "fewer points than this are a short history", low=0, high=10_000)
    change_when_short: float = setting(-1.0, "least change while history is short; -1: as `change`", low=-1, high=1e9)
    lasting: int = setting(
        0, "while history is short: so many points in a row, all clearly beyond all before; 0: off", low=0, high=100
    )
    change_when_lasting: float = setting(0.5, "least step to such points, as a share of all before", low=0, high=1e9)
    least_change: float = setting(0.0, "least change in the signal's own unit", low=0)
    spread_floor: float = setting(0.01, "least standard deviation, as a share of the median", low=0, high=1)
    exit: float = setting(0.2, "the excursion ends below this share of the way to the limit", low=0, high=1)
    scale: str = setting("linear", "compare values, or their logarithms", choices=("linear", "log"))
    settle: bool = setting(False, "wait until the signal's first fall has come to rest (a loss scale's calibration)")


class Excursion(Detector):
    """A sudden rise (``direction`` 1) or fall (-1)."""

    def __init__(self, settings: ExcursionSettings, direction: int) -> None:
        super().__init__()
        self.settings = settings
        self.direction = direction
        self._history = History(_MEMORY * settings.window)
        self._settling = Settling() if settings.settle else None
        self._inside = False
        self._normal = self._back = self._sigma = 0.0
        self._joining = 0
        self._steps: list[int] = []
        self._values: list[float] = []

    @property
    def needs(self) -> int:
        """The settings' ``min_points`` and one to compare."""
        return self.settings.min_points + 1

    @property
    def caution(self) -> str:
        """The change that is asked for while history is short."""
        settings = self.settings
        if settings.change_when_short <= settings.change:
            return ""
        short, long, lasting = (
            f"{1 + self.direction * change:.4g}"
            for change in (settings.change_when_short, settings.change, settings.change_when_lasting)
        )
        text = f"a {'rise' if self.direction > 0 else 'fall'} to {short} times the median, not {long} times"
        if not settings.lasting:
            return text
        extreme = "the highest" if self.direction > 0 else "the lowest"
        return f"{text}, or {settings.lasting} points in a row at {lasting} times {extreme} before or beyond"

    def begin_attempt(self, first_step: int) -> None:
        """Forget an excursion and the points that were rolled back; the baseline before them stays."""
        self._history.take_back(first_step)
        self._leave()
        if self._settling is not None:
            self._settling.begin_attempt(scale_known=len(self._history) >= self.settings.min_points)

    def advance(self, step: NDArray[np.int64], value: Floats) -> Verdicts:
        """Verdicts on the finite points (with ``scale: log``, the positive ones)."""
        usable = np.isfinite(value) & (value > 0) if self.settings.scale == "log" else np.isfinite(value)
        seen = np.flatnonzero(usable)
        steps, levels = step[seen], self._level(value[seen])
        verdicts = Verdicts.quiet(seen)
        index = 0
        if self._settling is not None:
            index = self._settling.settle(steps, levels)
            rest_steps, rest_levels = self._settling.resting_points()
            self._history.extend(rest_steps, rest_levels)
        block = _SMALLEST_BLOCK
        while index < len(levels):
            if self._inside:
                index = self._go_on(steps, levels, index, verdicts)
                block = _SMALLEST_BLOCK
                continue
            part = levels[index : index + block]
            medians = running_medians(self._history.last(self.settings.window), part, self.settings.window)
            beyond = self._first_beyond(part, medians)
            quiet = len(part) if beyond is None else beyond
            first = min(max(self.settings.min_points - len(self._history), 0), quiet)
            verdicts.baseline[index + first : index + quiet] = self._shown(medians[first:quiet])
            short = max(self.settings.short - len(self._history), 0) if self.caution else 0
            verdicts.cautious[index + first : index + min(max(short, first), quiet)] = True
            self._history.extend(steps[index : index + quiet], part[:quiet])
            index += quiet
            if self._joining:
                # What went before turns out to have been the excursion's beginning.
                self._steps, self._values = self._history.withdraw(self._joining)
                self._joining = 0
            block = min(block * 4, _LARGEST_BLOCK)
        return verdicts

    def _level(self, value: Floats) -> Floats:
        """Values so that an excursion is upward."""
        scaled = np.log2(value) if self.settings.scale == "log" else value
        return self.direction * scaled

    def _shown(self, level: Floats) -> Floats:
        """Levels as values again."""
        scaled = self.direction * level
        return np.exp2(scaled) if self.settings.scale == "log" else scaled

    def _least(self, share: float, median: Floats) -> Floats:
        """The change of level that a change of value by ``share`` of the median makes."""
        if self.settings.scale == "linear":
            return np.maximum(share * np.abs(median), self.settings.least_change)
        factor = 1 + share if self.direction > 0 else 1 / max(1 - share, 1e-12)
        return np.full(len(median), np.log2(factor))

    def _first_beyond(self, levels: Floats, medians: Floats) -> int | None:
        """The first point beyond its limit; enters the excursion there."""
        settings = self.settings
        with np.errstate(invalid="ignore"):
            candidate = levels - medians > self._least(settings.change, medians)
        known = self._history.last(settings.window)
        if settings.lasting:
            candidate[: max(settings.short - len(known), 0)] = True
        for index in np.flatnonzero(candidate).tolist():
            points = np.concatenate([known, levels[:index]])[-settings.window :]
            if len(points) < settings.min_points:
                continue
            short = len(points) < settings.short
            if self._is_beyond(levels[index], points, short=short):
                return index
            before = points[: max(len(points) - settings.lasting + 1, 0)]
            latest = np.append(points, levels[index])[len(before) :]
            lasts = short and bool(settings.lasting) and self._stands_apart(before, latest)
            if lasts and self._is_beyond(np.inf, before, short=True):
                self._joining = min(settings.lasting, settings.window) - 1
                return index
        return None

    def _stands_apart(self, before: Floats, latest: Floats) -> bool:
        """Whether the ``latest`` levels all lie so far beyond all ``before`` that no noise of either explains it."""
        if len(before) < _LEAST_LEVEL:
            return False
        highest = float(np.max(before))
        if np.min(latest) < highest + float(self._least(self.settings.change_when_lasting, np.array([highest]))[0]):
            return False
        values = self._shown(before), self._shown(latest)
        if min(np.min(values[0]), np.min(values[1])) > 0:
            # Positive values vary by factors: those of a gradient norm by several.
            before, latest = (self.direction * np.log2(each) for each in values)
        return bool(np.min(latest) - np.max(before) >= _APART * max(np.ptp(before), np.ptp(latest)))

    def _is_beyond(self, level: float, points: Floats, *, short: bool) -> bool:
        """Whether ``level`` lies beyond the limit that ``points`` set; enters the excursion if so."""
        settings = self.settings
        median = float(np.median(points))
        share = settings.change_when_short if short and settings.change_when_short >= 0 else settings.change
        sigma = max(spread(points), self._floor(median))
        widened = settings.sigmas * (1 + _CAUTION / len(points)) * sigma
        limit = median + max(widened, float(self._least(share, np.array([median]))[0]))
        if not (level > limit and sigma > 0):
            return False
        self._inside = True
        self._normal, self._sigma = median, sigma
        self._back = median + settings.exit * (limit - median)
        return True

    def _floor(self, median: float) -> float:
        settings = self.settings
        if settings.scale == "log":
            return float(np.log2(1 + settings.spread_floor))
        return max(settings.spread_floor * abs(median), settings.least_change / max(settings.sigmas, 1))

    def _go_on(self, steps: NDArray[np.int64], levels: Floats, index: int, verdicts: Verdicts) -> int:
        """Follow the excursion from ``index``; returns the first point after it or after the batch."""
        room = self.settings.window - len(self._steps)
        part = levels[index : index + room]
        back = np.flatnonzero(part < self._back)
        length = int(back[0]) if len(back) else len(part)
        stop = index + length
        verdicts.firing[index:stop] = True
        verdicts.baseline[index:stop] = self._shown(np.array([self._normal]))[0]
        verdicts.score[index:stop] = (part[:length] - self._normal) / self._sigma
        self._steps += steps[index:stop].tolist()
        self._values += part[:length].tolist()
        if len(back):
            self._leave()
        elif len(self._steps) >= self.settings.window:
            self._history.extend(np.array(self._steps, dtype=np.int64), np.array(self._values))
            self._leave()
        return stop

    def _leave(self) -> None:
        self._inside = False
        self._steps, self._values = [], []

    def state_dict(self) -> State:
        """History, the present excursion, and how far the signal has settled."""
        return super().state_dict() | {
            "history": self._history.state(),
            "inside": self._inside,
            "normal": self._normal,
            "back": self._back,
            "sigma": self._sigma,
            "steps": list(self._steps),
            "values": list(self._values),
            "settling": None if self._settling is None else self._settling.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from :meth:`state_dict`."""
        super().load_state_dict(state)
        self._history.load(state["history"])
        self._inside = state["inside"]
        self._normal, self._back, self._sigma = state["normal"], state["back"], state["sigma"]
        self._steps, self._values = list(state["steps"]), list(state["values"])
        if self._settling is not None:
            self._settling.load_state_dict(state["settling"])


class Spike(Excursion):
    """A sudden rise."""

    name = "spike"

    def __init__(self, settings: ExcursionSettings) -> None:
        super().__init__(settings, 1)


class Drop(Excursion):
    """A sudden fall."""

    name = "drop"

    def __init__(self, settings: ExcursionSettings) -> None:
        super().__init__(settings, -1)
