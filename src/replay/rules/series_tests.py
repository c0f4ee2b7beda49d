"""The tests that a rule carries: read from YAML, and run.

    tests:
      - name: one spike
        series:
          loss:
            - {value: 2.5, noise: 0.01, points: 200}
            - 6.0
            - {from: 2.6, to: 2.5, points: 50}
        fires: {flags: 1, steps: [201, 201]}

Steps count from 1.  `fires` may also be `true` or `false`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from replay.rules.engine import evaluate
from replay.rules.faults import Faults
from replay.rules.model import Rule, SeriesTest
from replay.rules.notation import MAXIMUM_POINTS, Piece, values
from replay.rules.series import Series
from replay_parsers.timeline_document import Listing, Mapping, Node, Text

_FIELDS = ("name", "series", "fires")
_PIECE = ("value", "from", "to", "points", "noise")


def read(node: Node, faults: Faults) -> tuple[SeriesTest, ...]:
    """The tests without a fault."""
    if not isinstance(node, Listing):
        faults.add(node.line, "`tests` is a list of tests")
        return ()
    return tuple(test for item in node.items if (test := _test(item, faults)) is not None)


def run(rule: Rule, test: SeriesTest) -> str | None:
    """What is wrong with the outcome of ``test``; None when it is as expected."""
    flags = evaluate([rule], {signal: Series.of(points) for signal, points in test.series.items()}).flags
    if bool(flags) != test.fires:
        return f"{rule.name}, {test.name}: expected {'a flag' if test.fires else 'none'}, got {len(flags)}"
    if test.flags is not None and len(flags) != test.flags:
        return f"{rule.name}, {test.name}: expected {test.flags} flags, got {len(flags)}"
    if test.steps is not None and not test.steps[0] <= flags[0].step <= test.steps[1]:
        return f"{rule.name}, {test.name}: expected steps {test.steps[0]} to {test.steps[1]}, got {flags[0].step}"
    return None


def _test(node: Node, faults: Faults) -> SeriesTest | None:
    if not isinstance(node, Mapping) or any(name not in node.entries for name in _FIELDS):
        faults.add(node.line, f"a test has {', '.join(_FIELDS)}")
        return None
    faults.keys(node, _FIELDS)
    series = node.entries["series"]
    if not isinstance(series, Mapping) or not series.entries:
        faults.add(series.line, "`series` maps signals to values")
        return None
    columns = {signal: _values(entry, faults) for signal, entry in series.entries.items()}
    fires, flags, steps = _expected(node.entries["fires"], faults)
    return SeriesTest(faults.text(node.entries["name"], "name"), columns, fires, flags, steps)


def _expected(node: Node, faults: Faults) -> tuple[bool, int | None, tuple[int, int] | None]:
    if isinstance(node, Text):
        if node.value not in ("true", "false"):
            faults.add(node.line, "`fires` is true, false, or a mapping with flags and steps")
        return node.value == "true", None, None
    if not isinstance(node, Mapping):
        faults.add(node.line, "`fires` is true, false, or a mapping with flags and steps")
        return True, None, None
    faults.keys(node, ("flags", "steps"))
    flags = steps = None
    if "flags" in node.entries:
        flags = int(faults.number(node.entries["flags"], "flags", low=1, high=10_000, whole=True) or 1)
    if "steps" in node.entries:
        bounds = node.entries["steps"]
        if isinstance(bounds, Listing) and len(bounds.items) == 2:
            low, high = (
                int(faults.number(item, "steps", low=1, high=MAXIMUM_POINTS, whole=True) or 1) for item in bounds.items
            )
            steps = (low, high)
        else:
            faults.add(bounds.line, "`steps` is a list of two")
    return True, flags, steps


def _values(node: Node, faults: Faults) -> list[float]:
    if not isinstance(node, Listing):
        faults.add(node.line, "expected a list of numbers and pieces such as {value: 2.5, points: 100}")
        return []
    pieces = [piece for item in node.items if (piece := _piece(item, faults)) is not None]
    if sum(piece.points for piece in pieces) > MAXIMUM_POINTS:
        faults.add(node.line, f"more than {MAXIMUM_POINTS} points")
        return []
    return values(pieces)


def _piece(node: Node, faults: Faults) -> Piece | None:
    if isinstance(node, Text):
        if node.value in ("nan", "inf", "-inf"):
            return Piece(float(node.value), float(node.value), 1)
        number = faults.number(node, "value", low=-math.inf, high=math.inf)
        return None if number is None else Piece(number, number, 1)
    if not isinstance(node, Mapping):
        faults.add(node.line, "expected a number or a piece such as {value: 2.5, points: 100}")
        return None
    faults.keys(node, _PIECE)
    found = _numbers(node, ("value", "from", "to", "noise"), faults)
    points = 1
    if "points" in node.entries:
        points = int(faults.number(node.entries["points"], "points", low=0, high=MAXIMUM_POINTS, whole=True) or 0)
    start = found.get("value", found.get("from"))
    if start is None:
        faults.add(node.line, "a piece needs `value`, or `from` and `to`")
        return None
    return Piece(start, found.get("to", start), points, found.get("noise", 0.0))


def _numbers(node: Mapping, names: Sequence[str], faults: Faults) -> dict[str, float]:
    found = {}
    for name in names:
        if name in node.entries:
            number = faults.number(node.entries[name], name, low=-math.inf, high=math.inf)
            if number is not None:
                found[name] = number
    return found
