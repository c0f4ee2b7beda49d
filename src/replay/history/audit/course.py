"""A course of training: where it stood and when, on which clock, and what lies within reach of what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from replay.history.audit.book import Moment
from replay.history.audit.clashes import NEAR
from replay.history.audit.clock_model import Anchor, ClockModel, anchors, clock_models
from replay.history.audit.strands import Strand

SLACK = 60
"""A step may be told so many steps early or late."""
LATE = timedelta(hours=1)
"""People write an entry up to so long after what it tells."""


@dataclass(frozen=True, slots=True)
class Course:
    """A strand's points and the clocks of its stretches of one speed."""

    strand: Strand
    points: Sequence[Anchor]
    models: Mapping[int, ClockModel]

    def model_at(self, place: int) -> ClockModel | None:
        """The clock that holds from a point on, or where training only came to a point, up to it."""
        point = self.points[place]
        regime = self.strand.going_on_at if point.going_on else self.strand.reached_at
        return self.models.get(regime(point.entry))

    def between(self, earlier: Anchor, later: Anchor) -> ClockModel | None:
        """The clock that holds from one point to another; None where the speed may have changed."""
        regime = self.strand.going_on_at(earlier.entry)
        return self.models.get(regime) if regime == self.strand.reached_at(later.entry) else None

    def clash(self, earlier: int, later: int) -> bool:
        """Whether training cannot have come from one point to the other in the time between."""
        model = self.between(self.points[earlier], self.points[later])
        return model is not None and not reachable(self.points[earlier], self.points[later], model)

    def beside(self, place: int, wrong: Collection[int]) -> list[tuple[int, Anchor, ClockModel]]:
        """The points near one, of other entries and not among the ``wrong`` ones, with the clock between the two."""
        point = self.points[place]
        found = []
        for number in range(max(place - 2 * NEAR, 0), min(place + 2 * NEAR, len(self.points))):
            other = self.points[number]
            if number in wrong or other.entry.number == point.entry.number:
                continue
            model = self.between(other, point) if number < place else self.between(point, other)
            if model is not None:
                found.append((number, other, model))
        return found


def course(strand: Strand, moments: Mapping[int, Moment | None], offset: timedelta | None) -> Course:
    """The points and clocks of a strand."""
    points = anchors(strand, moments, offset)
    return Course(strand, points, clock_models(strand, points))


def reachable(earlier: Anchor, later: Anchor, model: ClockModel) -> bool:
    """Whether training can have come from one to the other in the time between."""
    if not earlier.going_on or earlier.step < model.from_step or later.step <= earlier.step:
        return True
    if later.entry.number == earlier.entry.number:
        # An entry tells what was seen and what was done about it, in any order.
        return True
    time = max(later.latest - earlier.earliest, timedelta()) + (timedelta() if earlier.dated else LATE)
    return later.step - earlier.step <= model.steps_in(time) + SLACK
