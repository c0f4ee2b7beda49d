"""Where training goes on from: restarts, rollbacks and the batches it leaves out."""

from __future__ import annotations

import re

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.effective import effective_step
from replay_parsers.chronicles.numbers import NUMBER, ranges, whole
from replay_parsers.chronicles.phrases import positions, steps
from replay_parsers.chronicles.words.term import any_of
from replay_parsers.records import EventKind

K = EventKind

_CHECKPOINT_WORD = r"(?:step|checkpoint|iteration|ckpt|`?global_step)"
_ROLLBACK = any_of(
    (
        r"\broll(?:ed|ing|s)?[ -]?back\b|\brollbacks?\b|\brewind\w*|\bre-?wound\b",
        rf"\b(?:revert(?:ed|ing)?|went|go(?:ing)?|switch(?:ed|ing)?|return(?:ed|ing)?) (?:back )?to "
        # The loss that "went to NaN at step 8100", or "to 11 by step 500", was put back to no checkpoint.
        r"(?:an? |the )?(?:(?!(?:nan|inf\w*|zero|at|in|by|around|near|after|before|on|over)\b)[\w.,]+ ){0,2}?"
        rf"{_CHECKPOINT_WORD}",
        r"\b(?:went|going|gone|go|fell|falling|fall) back to (?:about |~ ?)?"
        r"(?:\d[\d,_]{2,20}|\d{1,4}(?:\.\d{1,3})?k\d{0,3}|\d{1,4}k)\b(?!\s?(?:nodes|gpus|tok|tflop))",
        rf"^\W*back to (?:the )?(?:[\d.,_]+k?\d* )?{_CHECKPOINT_WORD}|"
        rf"\bre-?set (?:back )?to (?:the )?{_CHECKPOINT_WORD}",
        r"\b(?:re-?start|resum|re-?load)\w* from (?:an? |the |some )?(?:previous|earlier|older)\b",
        r"回滚|回退|退回|退到(?=\s?第?\s?\d)",
    )
)
# "Restaring" and the like are common slips of the keyboard; "40 restarts" restart nothing.
_RESTART = any_of(
    (
        r"\bre-?star\w{0,2}(?:ed|ing)\b|(?<!\bthe )(?<!\bour )(?<!\d )(?<!\+ )\bre-?starts?\b(?= (?:from|"
        r"at|the|training|with|using|it|after|on))",
        r"^\W*re-?starts?\b(?! (?:\w+ )?(?:takes?|took|are|were|costs?|lasts?)\b)|"
        r"\b(?:to|and|then|we|i|must|had to|another|a|one|forced) re-?start\b",
        r"\bresum(?:ed|es|ing)\b|\bresume (?:(?:normal |regular )?training|from|the|at|with)\b",
        r"\bre-?launch(?:ed|ing)?\b(?! (?:an)?other\b)|\bre-?queued?\b|\bre-?submit(?:ted|ting)?\b",
        r"\bbrought (?:it|the (?:run|job)|training) back\b(?! to normal)",
        r"\bwarm-?start(?:ed|ing)?\b(?= (?:from|at|the))",
        r"\bcontinu(?:e|ed|es|ing) (?:the )?(?:training )?from\b|\b(?:re-?)?(?:forked|branched)\b..40..\bfrom\b|"
        r"\b(?:job|run|training) (?:is |was )?back\b..20..\bfrom\b|从..14..拉起",
        r"\b(?:re-?)?load(?:ed|ing|s)? (?:the )?(?:\w+ ){0,3}from\b|\b(?:re-?)?load(?:ed|"
        r"ing) (?:the )?(?:\w+ )?(?:checkpoint|ckpt)\b",
        r"\bstart(?:ed|ing|s)? (?:the |a new )?training (?:again )?(?:from|anew)\b|^\W*start(?:ed|"
        r"ing)? (?:again )?from\b",
        r"\b(?:started|starting) (?:again|anew) (?:from|at)\b|\btrain(?:ed|ing)? (?:again )?from (?:step|"
        r"iteration|checkpoint|the last|\d)",
        r"\b(?:back up|up and running again|picked (?:it )?up|back online) (?:again )?(?:at|from)\b"
        r"(?! (?:about |~ ?)?\d{1,2}(?::\d\d|\.\d| ?[ap]m\b))",
        # A loss, a node or a trouble that is "back at 2.1", "at 17:30" or "at 9,400" moves nothing.
        r"(?:^\W*|\b(?:we|i|it|training|run|job|model)(?:['’]re|['’]s| are| is| was| were| went)? (?:now |then )?)"
        r"back (?:from|at) (?=(?:about |~ ?)?\d[\d,_]{2,20}\b(?!\.\d)|\d{1,4}(?:\.\d{1,3})?k|"
        r"step|iter|ckpt|checkpoint|the last)",
        r"\brestor(?:ed|ing) (?:the |from (?:the )?)?(?:checkpoint|ckpt|step|iteration|state|\d)",
        r"重启|重新加载|(?<!自己)(?<!自行)(?<!自动)(?<!后续)恢复(?!了|正常)|加载..10..开始|开始(?:重新)?(?:训练|加载|恢复)|继续训练|重新开始|续训|重新拉起",
        r"开始.{0,8}训练$|从.{0,24}(?:开始|加载|训练)$|从..20..加载",
    )
)
_NOT_NOW = any_of(
    (
        r"\b(?:plan|planned|suggest\w*|would|could|can't|cannot|unable|not possible|if (?:you|we|it)|"
        r"auto-?restarts?|needs? to be|let.?s try|(?:needed|able|order|enough|trying) to resume)\b",
        r"\b(?:after|on every|each|at each|on each|when|since (?:the )?last|during) (?:the |a |"
        r"one )?(?:re-?start|resum)\w*\b|\bno restarts?\b",
        r"\bchance to restart\b|\brestart logic\b|\brestarting early\b|\bonly restarts we\b|\bfrom scratch\b",
        r"推测|应该|可能|打算|建议",
    )
)
_CHECKPOINT = re.compile(
    rf"\b(?:global[_ ]?step|checkpoint[_ -]|ckpt[_ -]|step[_-])"
    rf"(?P<n>\d{{1,3}}(?:[,_]\d{{3}})+|\d{{1,12}}|{NUMBER})(?![\w])"
    r"(?![.,_]\d)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(rf"\b(?:from|the|to)\s(?P<n>{NUMBER})\s(?:checkpoint|ckpt)\b", re.IGNORECASE)
_RESTORED = re.compile(
    rf"\brestor(?:ed|ing) (?:from )?(?:the )?(?:(?:checkpoint|ckpt|state)(?: (?:of|at|from))? )?(?:the )?(?:step |"
    rf"iteration )?"
    rf"(?P<n>{NUMBER})(?!\s?(?:nodes|gpus|%|h\b|hours))",
    re.IGNORECASE,
)
_BEFORE_RESTART = re.compile(
    r"\bcheckpoint (?:iteration )?before (?:the )?(?:re-?start|resum|(?P<switch>switch|"
    r"change))\w*\b.{0,60}?(?::|\bwas\b|\bis\b)\s{0,3}`?(?:global_step)?(?P<n>\d{1,12})\b",
    re.IGNORECASE,
)
_SAVED = re.compile(
    r"\b(?:first )?(?:checkpoint saved|"
    r"saved (?:a )?(?:new )?checkpoint)\b.{0,60}?(?P<name>global_step(?P<n>\d{1,12})\w{0,20})",
    re.IGNORECASE,
)
_CONVERTED = re.compile(
    r"\b(?:convert|re-?shard|re-?partition)(?:ed|ing) (?:the )?(?:last )?(?:(?:checkpoint|ckpt) )?"
    r"`?(?P<name>global_step(?P<n>\d{1,12})\w{0,20})",
    re.IGNORECASE,
)
_SKIP = re.compile(
    r"\b(?:skip(?:ped|ping|s)?|leav\w* out|left out|omit\w*|dropp?(?:ed|ing|"
    r"s)?(?= (?:the )?(?:\d[\d,]* (?:data )?)?(?:batches|data (?:of|from|between|in)|samples (?:of|from|between)|steps|"
    r"iterations))|exclud(?:ed|ing)?(?= (?:the )?(?:batches|steps|iterations|data (?:of|from|between))))\b|"
    r"\bskip[_-](?:steps|batches|iters|iterations|range)\b|跳过|略过|丢弃(?=.{0,8}(?:步|batch|数据))",
    re.IGNORECASE,
)
# "Batches 400 to 420 are skipped", also where the verb says what was left out of the run.
_SKIPPED_NOUN = re.compile(r"\b(?:batch(?:es)?|steps?|iterations?|data|samples)\b|步|数据", re.IGNORECASE)
_PASSIVE = re.compile(r"\b(?:skipped|dropped|excluded|left out|omitted|discarded)\W*$", re.IGNORECASE)
_NO_SKIP = re.compile(
    r"\b(?:skip to|don't skip|without skipping|so skip|skip over|data skipping attempts?)\b", re.IGNORECASE
)
_SKIP_TILL = re.compile(rf"(?:un)?till?\s(?:step\s|iteration\s)?(?P<n>{NUMBER})|到\s?(?P<zh>{NUMBER})", re.IGNORECASE)
_COUNT = re.compile(
    rf"(?P<n>{NUMBER})\s?(?:data\s)?(?:batches|steps|iterations)\b|(?P<zh>{NUMBER})\s?个?\s?(?:batch|步)", re.IGNORECASE
)
_BY = re.compile(
    rf"\b(?:back|by|rewind\w*)\s(?:by\s|about\s|~\s?)?(?P<n>{NUMBER})\s?(?:steps|iterations|updates)\b", re.IGNORECASE
)


def target(text: str) -> int | None:
    """The step of the checkpoint that ``text`` says training goes on from."""
    if (numbered := _NUMBERED.search(text)) and (step := whole(numbered["n"])) is not None:
        return step
    if checkpoint := _CHECKPOINT.search(text):
        return whole(checkpoint["n"])
    if (restored := _RESTORED.search(text)) and (step := whole(restored["n"])) is not None and step >= 100:
        return step
    return effective_step(text, loaded=True)


def restarts(clause: str) -> list[Draft]:
    """Restarts and rollbacks that a clause tells, each with the step of the loaded checkpoint where stated."""
    if told := _BEFORE_RESTART.search(clause):
        # The last checkpoint before a restart is what it loads; one before a change may go with a restart told above.
        detail = {"checkpoint": f"global_step{told['n']}"}
        return [Draft(kind=K.CHECKPOINT_SAVE if told["switch"] else K.RESTART, step=int(told["n"]), detail=detail)]
    if saved := _SAVED.search(clause):
        return [Draft(kind=K.CHECKPOINT_SAVE, step=int(saved["n"]), detail={"checkpoint": saved["name"]})]
    if converted := _CONVERTED.search(clause):
        detail = {"checkpoint": converted["name"], "converted": "yes"}
        return [Draft(kind=K.CHECKPOINT_SAVE, step=int(converted["n"]), detail=detail)]
    if _NOT_NOW.search(clause):
        return []
    if back := _ROLLBACK.search(clause):
        return _rollback(clause, clause[back.start() :])
    if again := _RESTART.search(clause):
        behind = clause[again.start() :]
        step = target(behind)
        if step is None:
            step = effective_step(clause, loaded=True)
        if step is None:
            points = positions(behind)
            step = points[0].value if points and re.search(r"\bat\b|@|在|于", behind[: points[0].start]) else None
        return [Draft(kind=K.RESTART, step=step)]
    return []


def _rollback(clause: str, behind: str) -> list[Draft]:
    # "rollback 26000 -> nan again @ 26404": what came of it stands behind the arrow.
    behind = re.split(r"\s?(?:->|→|=>|⇒)\s?(?=[A-Za-z])", behind, maxsplit=1)[0]
    by = _BY.search(behind)
    if by and not positions(behind):
        lost = whole(by["n"])
        return [Draft(kind=K.ROLLBACK, lost_steps=float(lost))] if lost else []
    bare = re.match(rf"rollbacks?:?\s(?:@\s?)?(?P<n>{NUMBER})\W*$", behind, re.IGNORECASE)
    if bare and (value := whole(bare["n"])) is not None and value >= 100:
        return [Draft(kind=K.ROLLBACK, step=value)]
    points = positions(behind) or positions(clause)
    checkpoint = _CHECKPOINT.search(behind)
    step = whole(checkpoint["n"]) if checkpoint else _to(behind, [point.value for point in points])
    if step is not None:
        return [Draft(kind=K.ROLLBACK, step=step)]
    if which := re.search(
        r"\b(?:previous|earlier|older|last good|last stable|last) (?:checkpoints?|ckpts?)\b", behind, re.IGNORECASE
    ):
        return [Draft(kind=K.ROLLBACK, detail={"checkpoint": which[0].lower()})]
    return []


def _to(behind: str, points: list[int]) -> int | None:
    """Of "rolled back from 410 to 400" the second, of "back to 4000" the only one."""
    words = r"(?:the\s|last\s|good\s|checkpoint\s|step\s|iteration\s|ckpt\s){0,4}"
    to = re.search(rf"(?:\bto\b|至|到)\s?{words}(?P<n>{NUMBER})", behind, re.IGNORECASE)
    if to and (value := whole(to["n"])) is not None and (value in points or value >= 100 or value == 0):
        return value
    return points[0] if points else None


def skips(clause: str, sentence: str) -> list[Draft]:
    """Batches that a clause says are left out, in words (options are read elsewhere).

    Of "roll back to 3250 and skip data till 4000" the first batch left out is the one after the rollback.
    """
    prose = re.sub(r"`[^`]*`", " ", clause)
    skip = _SKIP.search(prose) or _PASSIVE.search(prose)
    if skip is None or _NO_SKIP.search(prose):
        return []
    behind = prose[skip.start() :]
    if found := ranges(behind):
        return [Draft(kind=K.SKIP_BATCHES, step=first, step_end=last) for first, last in found]
    if (noun := _SKIPPED_NOUN.search(prose[: skip.start()])) and (found := ranges(prose[noun.start() : skip.start()])):
        return [Draft(kind=K.SKIP_BATCHES, step=first, step_end=last) for first, last in found]
    till = _SKIP_TILL.search(behind)
    last = whole(till["n"] or till["zh"]) if till else None
    back = _ROLLBACK.search(sentence)
    first = (
        _to(sentence[back.start() :], [point.value for point in positions(sentence[back.start() :])]) if back else None
    )
    if last is not None and first is not None and first < last:
        return [Draft(kind=K.SKIP_BATCHES, step=first + 1, step_end=last)]
    count = _COUNT.search(behind)
    number_of = whole(count["n"] or count["zh"]) if count and not steps(behind[: count.start()]) else None
    return [Draft(kind=K.SKIP_BATCHES, detail={"batches": str(number_of)})] if number_of else []
