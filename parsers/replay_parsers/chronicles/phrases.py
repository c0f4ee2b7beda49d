"""Small recognisers of what logbook sentences are made of: numbers, steps, ranges, nodes, flags, changes, durations.

Each works on one clause or sentence and knows nothing of the logbook it came from.  English and Chinese.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"(?:\d[\d_,]*(?:\.\d+)?(?:\s?[eE][-+]?\d+)?|\.\d+)(?:\s?[kKM](?![A-Za-z]))?"
_STEP_WORD = r"(?:global[ _-]?)?(?:steps?|iterations?|iters?|updates?)(?![A-Za-z])|步"

# "global_step23200", "step 4000", "iteration 7000"; then "4000 step", "25800steps", "第 4000 步"
_STEP = re.compile(
    rf"(?P<named>(?:global[ _-]?)?(?:steps?|iterations?|iters?|updates?)[ _#:]*(?:no\.?\s*)?)(?P<after>{NUMBER})(?![\d.]*\s*[-–~—]\s*\d)"
    rf"|(?P<before>(?<![\w.]){NUMBER})\s*(?:-?th\s+|-?st\s+)?(?P<unit>{_STEP_WORD})",
    re.IGNORECASE,
)
_BARE_POSITION = re.compile(
    rf"(?:\b(?:from|at|around|near|till|until|to|before|after|past|by)\b|从|在|于|到|回滚至|回退到)\s*(?:the\s+|about\s+|~\s*)?(?P<n>{NUMBER})(?![\w%.]*\d|\s*(?:%|hours?|hrs?|h\b|min|days?|小时|分钟|天|点|月|年|号|TFLOP|nodes?|gpus?|节点|卡|am\b|pm\b))"
    rf"|(?<![\w.-])(?P<zh>{NUMBER})\s*(?:steps?\s*)?(?:左右|附近|处|时|开始)",
    re.IGNORECASE,
)
_COUNT_BEFORE = re.compile(
    r"(?:\b(?:for|within|by|every|each|of|over|instead\s+of|last|next|about|some|another|additional|extra|first|"
    r"lost|lose|losing|than|another|interval\s+to|whole|total|saving\s+interval\s+to)|间隔\S{0,4}|每|共|了)\s*(?:the\s+|an?\s+)?$",
    re.IGNORECASE,
)
_COUNT_AFTER = re.compile(
    r"^\s*(?:later|earlier|sooner|ago|after|before|of\s+(?:warm|work|training)|long|instead|per\b|to\s+(?:recover|warm)|以后|之后|后|内)",
    re.IGNORECASE,
)
_POSITION_BEFORE = re.compile(
    r"(?:\b(?:from|at|around|near|in|till|until|to|before|after|past|since|on|reached|between|@)|从|在|于|到|第|至)\s*(?:the\s+|about\s+|~\s*)?$",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"(?<![\w.-])(?P<a>{NUMBER})\s*(?:-|–|—|~|～|\bto\b|\bthrough\b|\btill\b|至|到)\s*(?P<b>{NUMBER})(?![\w.])",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?<![\w-])--(?P<name>[A-Za-z][\w-]*)(?P<rest>(?:[ =]+(?!--)[^\s`\\|]+)*)")
_NODE = re.compile(
    r"\b(?:[a-z]{1,12}(?:[-_]?[a-z0-9]+)*?[-_]?\d{2,6}|(?:node|host|rank|gpu)[-_ ]?\d{1,6})\b", re.IGNORECASE
)
_DURATION = re.compile(
    rf"(?:~|about\s+|around\s+|approx\.?\s+|大约|约)?(?<![\w.])(?P<n>{NUMBER})\s*(?:more\s+)?"
    r"(?P<unit>hours?|hrs?|h(?![A-Za-z])|minutes?|mins?|days?|seconds?|secs?|小时|个小时|分钟|天|秒)",
    re.IGNORECASE,
)
_HOURS = {
    "h": 1.0,
    "m": 1 / 60,
    "d": 24.0,
    "s": 1 / 3600,
    "小": 1.0,
    "个": 1.0,
    "分": 1 / 60,
    "天": 24.0,
    "秒": 1 / 3600,
}
_SCALE = {"k": 1e3, "m": 1e6}


@dataclass(frozen=True, slots=True)
class StepMention:
    """A step number in a text: ``position`` tells a point of the run from a count of steps; ``word`` whether the
    text itself says that it is a step."""

    value: int
    position: bool
    word: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line option as written: its name without dashes and its values."""

    name: str
    values: tuple[str, ...]
    start: int

    def __str__(self) -> str:
        return " ".join((f"--{self.name}", *self.values))


def number(text: str) -> float | None:
    """The value of a printed number, with separators, exponent or a k/M suffix; None when it is none.

    >>> number("300_000"), number("15k"), number("8e-6"), number("1,024")
    (300000.0, 15000.0, 8e-06, 1024.0)
    """
    cleaned = text.strip().replace("_", "").replace(",", "").replace(" ", "")
    scale = _SCALE.get(cleaned[-1:].lower(), 1.0)
    if scale != 1.0:
        cleaned = cleaned[:-1]
    try:
        return float(cleaned) * scale
    except ValueError:
        return None


def _whole(text: str) -> int | None:
    value = number(text)
    return int(value) if value is not None and value == int(value) and value < 2**62 else None


def steps(text: str) -> list[StepMention]:
    """Every step number in ``text`` that is named as one ("4000 step", "iteration 7000", "第 4000 步").

    >>> [(m.value, m.position) for m in steps("warm up for 2000 steps, restart from 4000 step")]
    [(2000, False), (4000, True)]
    """
    mentions = []
    for found in _STEP.finditer(text):
        value = _whole(found["after"] or found["before"])
        if value is None:
            continue
        ahead, behind = text[: found.start()], text[found.end() :]
        if found["after"]:
            plural = found["named"].strip().lower().endswith("s")
            position = not plural or _POSITION_BEFORE.search(ahead) is not None
        elif _COUNT_BEFORE.search(ahead) or _COUNT_AFTER.match(behind):
            position = False
        else:
            unit = found["unit"].lower()
            position = (
                _POSITION_BEFORE.search(ahead) is not None or re.match(r"\s*(?:左右|处|时|开始)", behind) is not None
            )
            position = position or (unit in ("step", "iteration") and value > 1 and not re.search(r"\w\s*$", ahead))
        mentions.append(StepMention(value, position, True, found.start(), found.end()))
    return mentions


def positions(text: str) -> list[StepMention]:
    """The points of the run that ``text`` names, also where the word "step" is left out ("from 22800", "33740 左右").

    Numbers below 100 without the word are not taken for steps.
    """
    named = steps(text)
    found = [mention for mention in named if mention.position]
    taken = [(mention.start, mention.end) for mention in named]
    for match in _BARE_POSITION.finditer(text):
        group = "n" if match["n"] else "zh"
        start, end = match.span(group)
        value = _whole(match[group])
        if value is None or value < 100 or any(start < b and a < end for a, b in taken):
            continue
        found.append(StepMention(value, True, False, start, end))
    return sorted(found, key=lambda mention: mention.start)


def ranges(text: str) -> list[tuple[int, int]]:
    """Ascending ranges of whole numbers ("40701-40900", "13251 to 14000"), inclusive.

    >>> ranges("--skip-train-iteration-range 13251-14000 16652-18500")
    [(13251, 14000), (16652, 18500)]
    """
    found = []
    for match in _RANGE.finditer(text):
        first, last = _whole(match["a"]), _whole(match["b"])
        if first is not None and last is not None and first < last:
            found.append((first, last))
    return found


def flags(text: str) -> list[Flag]:
    """Command-line options in ``text``, with the values that follow each."""
    return [
        Flag(
            match["name"],
            tuple(
                value.strip("=,;:.)`'\"（），。；").strip()
                for value in match["rest"].split()
                if value.strip("=,;:.)`'\"")
            ),
            match.start(),
        )
        for match in _FLAG.finditer(text)
    ]


def nodes(text: str) -> list[str]:
    """Names of machines ("n30041", "jean-zay-iam12", "node 17"), each once, in order."""
    found: dict[str, None] = {}
    for match in _NODE.finditer(text):
        name = match[0]
        if not _NOT_A_NODE.match(name) and not (match.start() and text[match.start() - 1] in "-_./@"):
            found.setdefault(name)
    return list(found)


_NOT_A_NODE = re.compile(
    r"(?:global[_-]?)?(?:steps?|iter(?:ation)?s?|pr|exp|experiment|v|tp|pp|dp|mp|cuda|fp|bf|int|a|h|v|t|mt|epoch|round|lr|"
    r"beta|seed|bs|gbs|mbs|adam|sha|utc|gmt|seq|gpt|bloom|glm|opt|tr|page|issue|layer|run|version|part|table|figure)[-_ ]?\d+",
    re.IGNORECASE,
)


def hours(text: str) -> float | None:
    """The first duration in ``text``, in hours ("7.3h", "18 hours", "45 分钟"); None when there is none."""
    match = _DURATION.search(text)
    value = number(match["n"]) if match else None
    if match is None or value is None:
        return None
    return value * _HOURS[match["unit"][0].lower()]
