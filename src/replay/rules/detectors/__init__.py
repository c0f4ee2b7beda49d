"""The closed vocabulary of detectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from replay.rules.detectors.base import Detector, Verdicts
from replay.rules.detectors.blocks import (
    Changepoint,
    Drift,
    Growth,
    GrowthSettings,
    Plateau,
    PlateauSettings,
    ShiftSettings,
)
from replay.rules.detectors.excursion import Drop, ExcursionSettings, Spike
from replay.rules.detectors.level import Ceiling, Floor, LevelSettings, Nonfinite, NonfiniteSettings

__all__ = ["DETECTORS", "Detector", "DetectorKind", "Verdicts"]


@dataclass(frozen=True, slots=True)
class DetectorKind:
    """One word of the vocabulary: its settings' type and how a detector is made from them."""

    settings: type[Any]
    build: Callable[[Any], Detector]
    required: tuple[str, ...] = ()


DETECTORS: Mapping[str, DetectorKind] = {
    "spike": DetectorKind(ExcursionSettings, Spike),
    "drop": DetectorKind(ExcursionSettings, Drop),
    "drift": DetectorKind(ShiftSettings, Drift),
    "floor": DetectorKind(LevelSettings, Floor, required=("at",)),
    "ceiling": DetectorKind(LevelSettings, Ceiling, required=("at",)),
    "nonfinite": DetectorKind(NonfiniteSettings, Nonfinite),
    "plateau": DetectorKind(PlateauSettings, Plateau),
    "growth": DetectorKind(GrowthSettings, Growth),
    "changepoint": DetectorKind(ShiftSettings, Changepoint),
}
