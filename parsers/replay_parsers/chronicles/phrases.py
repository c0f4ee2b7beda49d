"""Small recognisers of what logbook sentences are made of: numbers, steps, ranges, nodes, flags, durations.

Each works on one clause or sentence and knows nothing of the logbook it came from.  English and Chinese.
The text is not trusted: every repetition is bounded or linear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from replay_parsers.chronicles.numbers import NUMBER, number, whole
from replay_parsers.chronicles.quantities import value_spans

STEP_WORD = r"(?:(?:global[ _-]?)?(?:steps?|iterations?|iters?|updates?|its)(?![A-Za-z])|步)"
_NAMED = r"(?:(?:global[ _-]?)?(?:steps?|iterations?|iters?|updates?)[ _#:=]{0,3}(?:no\.?\s?)?|it\s(?=\d{3}))"

# "global_step3200", "step 4000", "iteration 7000"; then "4000 step", "5800steps", "第 4000 步"
_STEP = re.compile(
    rf"(?P<named>\b{_NAMED})(?P<after>{NUMBER})(?!\s*[-–~—]\s*\d)"
    rf"|(?P<before>(?<![\w.]){NUMBER})\s?(?:-?(?:th|st|nd|rd)\s)?(?P<unit>{STEP_WORD})",
    re.IGNORECASE,
)
# What follows a number that is no step though a preposition stands before it: "at 10%", "for 3 days", "at 9 am".
_NO_STEP_UNIT = (
    r"%|hours?|hrs?|h\b|min|seconds?|secs?|s\b|ms\b|days?|weeks?|months?|小时|分钟|天|点|月|年|号|日|周|"
    r"T?FLOP|[TGM]B|B\b|nodes?|gpus?|节点|卡|台|am\b|pm\b|tokens?|samples?|[:：]\d|K\b"
)
# "从 1024 增大到 2048": two values of a setting, not two places of the run.
_CHANGED_TO = r"[大小高低增减升降调改缩扩加换翻收放][大小高低加少整紧宽松倍为成换改变]{0,3}[到至为成]"
_BARE_POSITION = re.compile(
    r"(?:\b(?:from|at|around|near|till|until|to|before|after|past|by|on)\b|@|从|在|于|到|至|回滚至|回退到)\s?"
    rf"(?:the\s|about\s|around\s|~\s?)?(?P<n>{NUMBER})(?![\w%.-]*\d|\s?(?:{_NO_STEP_UNIT})|\s?(?:to|→|->|"
    rf"降到|改为|改成)\s?[\d.]+(?:e-|\s?(?:tokens|samples|nodes|gpus)|[MB]\b)|\s?{_CHANGED_TO}\s?[\d.])"
    rf"|(?<![\w.-])(?P<zh>{NUMBER})\s?(?:steps?\s?)?(?:左右|附近|处|时|开始)"
    rf"|^\W{{0,3}}(?P<lead>{NUMBER})\s?(?=从|恢复|重启|继续|加载)",
    re.IGNORECASE,
)
_COUNT_BEFORE = re.compile(
    r"(?:\b(?:for|within|by|every|each|of|over|instead of|last|next|about|some|another|additional|extra|"
    r"first|lost|lose|losing|"
    r"than|another|interval to|whole|total|only|took|takes|in about|recovered in|wasted|rolled back)|"
    r"间隔\S{0,4}|每|共|了)"
    r"\s*(?:the\s|an?\s|~\s?)?$",
    re.IGNORECASE,
)
_COUNT_AFTER = re.compile(
    r"\s*(?:later|earlier|sooner|ago|after|before|of\s(?:warm|work|training)|long\b|instead|per\b|"
    r"to\s(?:recover|warm)|"
    r"以后|之后|后|内)",
    re.IGNORECASE,
)
_POSITION_BEFORE = re.compile(
    r"(?:\b(?:from|at|around|near|in|till|until|to|before|after|past|since|on|reached|between|and)|@|从|在|于|到|第|至)"
    r"\s*(?:the\s|about\s|around\s|~\s?|第\s?)?$",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?<![\w-])--(?P<name>[A-Za-z][\w-]{0,60})(?P<rest>(?:[ =]{1,4}(?!--)[^\s`\\|]{1,60}){0,8})")
_ASSIGNMENT = re.compile(r"(?<![\w$.-])(?P<name>[A-Z][A-Z0-9_]{1,40})=(?P<value>[\w.+-]{1,40})")
_WORD = re.compile(r"[A-Za-z][\w-]{0,60}")
_NODE = re.compile(r"[a-z]{1,12}(?:[-_][a-z]{1,12}|[-_]?[a-z]?\d{1,6}){0,4}[-_]?\d{1,6}", re.IGNORECASE)
_NAMED_NODE = re.compile(
    r"\b(?:node|host|machine|instance|rank|"
    r"gpu)\s?#?(?P<n>[A-Za-z]{0,4}\d{1,6}(?:-\d{1,4}){0,4})\b(?!\s?(?:%|gpus))",
    re.IGNORECASE,
)
# Words with a number that name something else: checkpoints, versions, sizes, experiments.
_NOT_A_NODE = re.compile(
    r"(?:global[_-]?)?(?:steps?|iter(?:ation)?s?|ckpt|checkpoint|pr|exp|experiment|tp|pp|dp|mp|cuda|cu|"
    r"fp|bf|int|mt|epoch|round|lr|beta|"
    r"seed|bs|gbs|mbs|bsz|adam|sha|utc|gmt|seq|gpt|bloom|glm|opt|llama|tr|page|issue|layer|run|version|"
    r"part|table|figure|fig|phase|"
    r"stage|day|week|attempt|no|zero|top|job|slurm|commit|torch|python|nccl|megatron|deepspeed|std)[-_]?\d+[a-z]?"
    r"|(?:[a-mo-z][-_]?\d{1,3}|n[-_]?\d{1,2})[a-z]?",
    re.IGNORECASE,
)
_DURATION = re.compile(
    rf"(?:(?<![\w.])|(?<=\dh))(?P<n>{NUMBER})\+?\s?(?:more\s|wall-clock\s|个)?"
    r"(?P<unit>hours?|hrs?|h(?![A-Za-z])|minutes?|mins?|m(?![A-Za-z])|days?|seconds?|secs?|小时|分钟|天|秒)",
    re.IGNORECASE,
)
_HOURS = {"h": 1.0, "m": 1 / 60, "d": 24.0, "s": 1 / 3600, "小": 1.0, "分": 1 / 60, "天": 24.0, "秒": 1 / 3600}


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
    """A command-line option as written: its name without dashes and its values.

    ``assigned`` marks an environment variable (``SAVE_INTERVAL=300``).
    """

    name: str
    values: tuple[str, ...]
    start: int
    assigned: bool = False

    def __str__(self) -> str:
        if self.assigned:
            return f"{self.name}={' '.join(self.values)}"
        return " ".join((f"--{self.name}", *self.values))


def steps(text: str) -> list[StepMention]:
    """Every step number in ``text`` that is named as one ("4000 step", "iteration 7000", "第 4000 步").

    >>> [(m.value, m.position) for m in steps("warm up for 2000 steps, restart from 4000 step")]
    [(2000, False), (4000, True)]
    """
    mentions = []
    for found in _STEP.finditer(text):
        value = whole(found["after"] or found["before"])
        if value is None:
            continue
        ahead, behind = text[max(found.start() - 40, 0) : found.start()], text[found.end() : found.end() + 40]
        if found["after"]:
            plural = found["named"].rstrip(" _#:=").lower().endswith("s")
            position = not plural or _POSITION_BEFORE.search(ahead) is not None
        else:
            position = _is_position(value, found["unit"].lower(), ahead, behind)
        mentions.append(StepMention(value, position, True, found.start(), found.end()))
    return mentions


_FROM = re.compile(r"(?:\bfrom\b|@|从)\s*(?:the\s|about\s|~\s?|第\s?)?$", re.IGNORECASE)


def _is_position(value: int, unit: str, ahead: str, behind: str) -> bool:
    """Whether "4000 steps" names a point of the run rather than a number of steps."""
    # "From 12,500 its after node 17 crashed": what comes after is the node's end, not the steps'.
    later = _COUNT_AFTER.match(behind)
    if later and re.match(r"\s*(?:after|before)\b", later[0], re.IGNORECASE) and _FROM.search(ahead):
        later = None
    if _COUNT_BEFORE.search(ahead) or later:
        return False
    if _POSITION_BEFORE.search(ahead) or re.match(r"\s*(?:左右|处|时|开始)", behind):
        return not (ahead.rstrip().lower().endswith(" in") and unit.endswith("s"))
    return unit in ("step", "iteration") and value > 1 and not re.search(r"\w\s*$", ahead)


def positions(text: str) -> list[StepMention]:
    """The points of the run that ``text`` names, also where the word "step" is left out ("from 2800", "3740 左右").

    Numbers below 100 without the word are not taken for steps.
    """
    named = steps(text)
    found = [mention for mention in named if mention.position]
    taken = [(mention.start, mention.end) for mention in named] + value_spans(text)
    for match in _BARE_POSITION.finditer(text):
        group = next(name for name in ("n", "zh", "lead") if match[name])
        start, end = match.span(group)
        value = whole(match[group])
        if (
            value is None
            or value < 100
            or match[group].strip()[-1] in "mM"
            or any(start < b and a < end for a, b in taken)
        ):
            continue
        found.append(StepMention(value, True, False, start, end))
    return sorted(found, key=lambda mention: mention.start)


def flags(text: str) -> list[Flag]:
    """Command-line options and environment variables set in ``text``, with their values.

    >>> [str(flag) for flag in flags("use `--lr 3e-5 --fp16` and SAVE_INTERVAL=300")]
    ['--lr 3e-5', '--fp16', 'SAVE_INTERVAL=300']
    """
    found = []
    for match in _FLAG.finditer(text):
        values = (value.strip("=,;:.)`'\"（），。；").strip() for value in match["rest"].split())
        # Prose goes on after an option ("--lr 0 and change ..."): its values end at the first ordinary word.
        kept: list[str] = []
        for value in values:
            if not value or (kept and not re.match(r"[-+.]?\d|\$", value)):
                break
            kept.append(value)
            if re.fullmatch(r"[A-Za-z]{2,}", value):
                break
        found.append(Flag(match["name"], tuple(kept), match.start()))
    found.extend(
        Flag(match["name"], (match["value"].rstrip("."),), match.start(), assigned=True)
        for match in _ASSIGNMENT.finditer(text)
    )
    return sorted(found, key=lambda flag: flag.start)


def nodes(text: str) -> list[str]:
    """Names of machines ("n10041", "jean-zay-iam12", "node 17"), each once, in order.

    >>> nodes("n10041 and worker-7 went down at global_step4000; node 12 is fine")
    ['n10041', 'worker-7', 'node 12']
    """
    found: dict[str, int] = {}
    for match in _WORD.finditer(text):
        name = match[0].rstrip("-_")
        joined = match.start() > 0 and text[match.start() - 1] in "-_./@="
        digits = sum(letter.isdigit() for letter in name)
        if joined or not digits or not _NODE.fullmatch(name) or _NOT_A_NODE.fullmatch(name):
            continue
        if digits >= 3 or re.search(r"node|host|worker|machine|server|gpu|rank|[-_]\d+$|iam\d", name, re.IGNORECASE):
            found.setdefault(name, match.start())
    for match in _NAMED_NODE.finditer(text):
        found.setdefault(match[0], match.start())
    return sorted(found, key=lambda name: found[name])


def hours(text: str) -> float | None:
    """The first duration in ``text``, in hours ("7.3h", "18 hours", "45 分钟"); None when there is none."""
    total, end = None, 0
    for match in _DURATION.finditer(text):
        value = number(match["n"])
        # "1h 40m" is one duration; anything in between begins another.
        if value is None or (total is not None and text[end : match.start()].strip(" ,")):
            break
        total = (total or 0.0) + value * _HOURS[match["unit"][0].lower()]
        end = match.end()
    return total
