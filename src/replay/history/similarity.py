"""How alike two situations are, in a number and in words.

The score is a weighted mean of likenesses between 0 and 1, over those that both sides know:

* *seen* (weight 0.6): symptoms in common, of all that either saw; rare symptoms count more, and kin (a loss spike for
  a loss explosion) half, each sign as the kin of one other;
* *order* (0.1): pairs of common symptoms that came in the same order;
* *speed* (0.1): steps from the first symptom, or its onset where that is told, to the last, by ratio;
* *run* (0.2): precision, and the number of parameters by ratio; where these are asked for and not known of the other,
  they count half, and it is said.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from replay_parsers.kinds import EventKind as Kind

_WEIGHTS = {"seen": 0.6, "order": 0.1, "speed": 0.1, "run": 0.2}
_KIN_COUNTS = 0.5
_UNKNOWN_COUNTS = 0.5
_KIN = (
    {Kind.LOSS_SPIKE, Kind.DIVERGENCE, Kind.LOSS_EXPLOSION, Kind.NAN_LOSS},
    {Kind.LOSS_SCALE_DROP, Kind.LOSS_SCALE_FLOOR, Kind.OVERFLOW_SKIP},
    {Kind.GRAD_NORM_SPIKE, Kind.ACTIVATION_NORM_DRIFT, Kind.ATTENTION_LOGIT_GROWTH},
    {Kind.HANG, Kind.CRASH, Kind.GAP},
    {Kind.PLATEAU, Kind.DIVERGENCE},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is seen: ``saw`` holds kinds of symptoms in their order, ``steps`` where each showed, None if unknown.

    ``onset`` is the step at which the first of them is said to have begun; ``precision`` (``fp16`` ...) and
    ``parameters`` describe the run; ``incident`` is the one it was taken from, and ``note`` says how.
    """

    saw: tuple[str, ...]
    steps: tuple[int | None, ...] = ()
    onset: int | None = None
    precision: str = ""
    parameters: float | None = None
    run: str = ""
    incident: str = ""
    note: str = ""

    @property
    def span(self) -> int | None:
        """Steps from the onset, else the first symptom, to the last; None unless two are known."""
        known = [step for step in (*self.steps, self.onset) if step is not None]
        return max(known) - min(known) if len(known) > 1 else None


def in_words(situation: Situation) -> str:
    """What was seen, in its order as far as that is known, and within how many steps."""
    told = words(situation.saw[0]) if situation.saw else "nothing"
    for pair in pairwise(situation.saw):
        told += f"{', then ' if _ordered(situation, pair) else ' and '}{words(pair[1])}"
    if situation.span is None:
        return told
    return f"{told} ({f'within {situation.span:,} steps' if situation.span else 'at one step'})"


def compare(sought: Situation, other: Situation, weights: dict[str, float]) -> tuple[float, list[str], list[str]]:
    """How alike two situations are, from 0 to 1, and what is alike and unlike in words."""
    alike: list[str] = []
    unlike: list[str] = []
    seen = _seen(sought, other, weights, alike, unlike)
    if seen == 0:
        return 0.0, alike, unlike
    parts = {
        "seen": seen,
        "order": _order(sought, other, alike, unlike),
        "speed": _speed(sought, other, alike, unlike),
        "run": _run(sought, other, alike, unlike),
    }
    known = {name: value for name, value in parts.items() if value is not None}
    total = sum(_WEIGHTS[name] for name in known)
    return sum(_WEIGHTS[name] * value for name, value in known.items()) / total, alike, unlike


def _seen(a: Situation, b: Situation, weights: dict[str, float], alike: list[str], unlike: list[str]) -> float:
    ours, theirs = set(a.saw), set(b.saw)
    both = [kind for kind in a.saw if kind in theirs]
    rest_ours, rest_theirs = ours - theirs, theirs - ours
    kin = _pairs_of_kin(sorted(rest_ours), sorted(rest_theirs))
    if both:
        alike.append(f"saw {_list(both)} as well")
    alike += [f"{words(other)} is kin to {words(one)}" for one, other in kin]
    akin = {one for one, _ in kin} | {other for _, other in kin}
    if rest_theirs - akin:
        unlike.append(f"it also saw {_list(sorted(rest_theirs - akin))}")
    if rest_ours - akin:
        unlike.append(f"it did not see {_list(sorted(rest_ours - akin))}")
    common = sum(weights.get(kind, 1.0) for kind in both)
    common += sum(_KIN_COUNTS * max(weights.get(one, 1.0), weights.get(other, 1.0)) for one, other in kin)
    total = sum(weights.get(kind, 1.0) for kind in ours | theirs)
    # A pair of kin stands for one symptom, not for two.
    total -= sum(min(weights.get(one, 1.0), weights.get(other, 1.0)) for one, other in kin)
    return min(common / total, 1.0) if total > 0 else 0.0


def _pairs_of_kin(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[str, str]]:
    """As many pairs of kin as there can be, each sign in one of them (augmenting paths; Kuhn 1955)."""
    partner: dict[str, str] = {}

    def place(one: str, tried: set[str]) -> bool:
        for other in theirs:
            if other in tried or not any({one, other} <= {str(kind) for kind in group} for group in _KIN):
                continue
            tried.add(other)
            if other not in partner or place(partner[other], tried):
                partner[other] = one
                return True
        return False

    for one in ours:
        place(one, set())
    return sorted((one, other) for other, one in partner.items())


def _order(a: Situation, b: Situation, alike: list[str], unlike: list[str]) -> float | None:
    both = [kind for kind in dict.fromkeys(a.saw) if kind in b.saw]
    pairs = [pair for pair in combinations(both, 2) if _ordered(a, pair) and _ordered(b, pair)]
    if not pairs:
        return None
    same = [pair for pair in pairs if _first_of(a, pair) == _first_of(b, pair)]
    ordered = [kind for kind in both if any(kind in pair for pair in pairs)]
    if len(same) < len(pairs):
        told = "in another order"
    elif len(pairs) == math.comb(len(ordered), 2):
        told = f"in the same order: {', then '.join(words(kind) for kind in ordered)}"
    else:
        told = f"in the same order, as far as it is known: {', '.join(words(kind) for kind in ordered)}"
    (alike if len(same) * 2 >= len(pairs) else unlike).append(told)
    return len(same) / len(pairs)


def _first_of(one: Situation, pair: tuple[str, str]) -> str:
    return min(pair, key=one.saw.index)


def _ordered(one: Situation, pair: tuple[str, str]) -> bool:
    """Whether it is known which of two symptoms came first."""
    if not one.incident:
        return True  # Told by whoever asks, in their order.
    steps = dict(zip(reversed(one.saw), reversed(one.steps), strict=False))
    first, second = steps.get(pair[0]), steps.get(pair[1])
    return first is not None and second is not None and first != second


def _speed(a: Situation, b: Situation, alike: list[str], unlike: list[str]) -> float | None:
    if a.span is None or b.span is None:
        return None
    ratio = abs(math.log10((a.span + 1) / (b.span + 1)))
    theirs = f"from first to last sign {b.span:,} steps" if b.span else "all signs at one step"
    ours = f"{a.span:,}" if b.span else f"{a.span:,} steps"
    (alike if ratio <= 0.5 else unlike).append(f"{theirs} (here {ours})")
    return math.exp(-ratio)


def _run(a: Situation, b: Situation, alike: list[str], unlike: list[str]) -> float | None:
    """Likeness of the runs, in what is known of the one that is asked about."""
    parts = []
    ours, theirs = number_format(a.precision), number_format(b.precision)
    if ours and theirs:
        same = ours == theirs
        (alike if same else unlike).append(f"{theirs} as here" if same else f"{theirs}, here {ours}")
        parts.append(1.0 if ours == theirs else 0.0)
    elif ours:
        unlike.append(f"its number format is not known (here {ours})")
        parts.append(_UNKNOWN_COUNTS)
    if a.parameters and b.parameters:
        ratio = abs(math.log10(a.parameters / b.parameters))
        (alike if ratio <= 0.5 else unlike).append(f"{_size(b.parameters)} parameters (here {_size(a.parameters)})")
        parts.append(math.exp(-ratio))
    elif a.parameters:
        unlike.append(f"its number of parameters is not known (here {_size(a.parameters)})")
        parts.append(_UNKNOWN_COUNTS)
    return sum(parts) / len(parts) if parts else None


_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}


def number_format(precision: str) -> str:
    """The number format that training computes in: the first one named; empty where none is known."""
    found = re.search(r"bf16|fp16|fp8|fp32|tf32|bfloat16|float16|float32|half", precision.lower())
    return _FORMATS.get(found[0], found[0]) if found else ""


def rarity(saw: Iterable[list[str]]) -> dict[str, float]:
    """How much each symptom counts: the logarithm of how seldom it is seen among incidents."""
    lists = [kinds for kinds in saw if kinds]
    counts = Counter(kind for kinds in lists for kind in set(kinds))
    return {kind: math.log1p(len(lists) / count) for kind, count in counts.items()}


def words(kind: str) -> str:
    return kind.replace("_", " ")


def _list(kinds: Sequence[str]) -> str:
    return ", ".join(words(kind) for kind in kinds)


def _size(parameters: float) -> str:
    return f"{parameters / 1e9:g}B"
