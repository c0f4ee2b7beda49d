"""Sentences and clauses of logbook prose, English and Chinese."""

from __future__ import annotations

import re

_LONGEST = 2_000

# A full stop ends a sentence only before a space and what can begin one, and not after an abbreviation.
_SENTENCE_END = re.compile(
    # "1e-8 -> 1e-6? Yes, changed it": the answer says what became of the question.
    r"\n+|\s\|\s|(?<=[。！？!?])"
    r"(?!\s(?i:yes|yep|yeah)\W+(?i:(?:we|i)\s)?(?i:did|done|(?!agreed|decided|planned|wanted|needed)\w{3,}ed)\b)\s*"
    r"|(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bapprox)(?<!\bno)(?<!\bca)(?<!\bcf)(?<=[.])\s+(?=[A-Z"
    r"`\"'(\[\u4e00-\u9fff0-9-])"
    # Chats leave out capitals.
    r"|(?<=[a-z]{4}[.])\s+(?=(?:we|i|it|the|no|not|roll\w*|re-?start\w*|skip\w*|back|still|will|going|resum\w*)\b)"
)
_NEW_CLAUSE = (
    r"then|we|it|the (?:loss|training|run|job|model|grad\w*)|also|later|re-?start\w*|skip\w*|add(?:ed|"
    r"ing)|chang\w*|remov\w*|switch\w*|"
    r"resum\w*|start\w*|lost|roll\w*|went|stayed|got|diverged|lower\w*|reduc\w*|increas\w*|rais\w*|set|"
    r"replac\w*|continu\w*|load\w*|"
    r"doubl\w*|halv\w*|tighten\w*|loosen\w*|cut|bump\w*|dropp\w*|revert\w*|re-?w[io]\w{0,2}nd?\w*|exclud\w*|"
    r"crash\w*|had to|will|quickly|eventually"
)
_CLAUSE_END = re.compile(
    r"\s*[;；]\s*"
    r"|\s*(?:(?<!\d)[，、]|[，、](?!\d))\s*"
    r"|,\s+"
    r"|\s+(?:-|–|—|->|→)\s+(?=[A-Za-z]{4})"
    r"|\s+(?:but|so that|which|because|while|so|after which|until)\s+(?=\w)"
    rf"|\s+and\s+(?=(?:{_NEW_CLAUSE})\b)"
    r"|然后|并且?(?=跳过|重启|从|将|把|替换|更换)|但是?|所以",
    re.IGNORECASE,
)
# A clause that is only a place or a time belongs to the one that follows: "From 3700 step, the loss explodes".
_ADVERBIAL = re.compile(
    r"^(?:(?:from|at|around|near|after|before|by|since|in|on|until|somewhere)\b|从|在|于)[^,;]{0,40}$"
    r"|^\W*\d[\d_,]*\s*(?:steps?)?\s*(?:开始|左右|时)$",
    re.IGNORECASE,
)
# "Second spike, step 16,320"; "the loss jumped, from 2.1 to 7.8": where and how much, of what was said before.
_MEASURE = re.compile(
    r"^\W*(?:at |around |near |from |@ ?)?(?:global )?(?:step|iteration|iter)\s?#?\d[\d,_.]{0,12}k?\W*$"
    r"|^\W*(?:at |around |near |from |@ ?)(?:about |~ ?)?\d(?:[\d,_]{2,12}|[\d.]{0,6}k)\d{0,3}\W*$"
    r"|^(?:a bit |a little |somewhat |slightly |much |shortly )?(?:later|earlier)$|^this time (?:to|at|by|"
    r"from)\b.{0,40}$"
    r"|^(?:(?:going|jumping|rising|climbing|up|went)\s)?(?:up )?(?:from )?\d[\d.]{0,12}(?:e-?\d{1,2})? (?:to|->|→) "
    r"\d[\d.]{0,12}(?:e-?\d{1,2})?(?: (?:by|at|from|over|until) .{1,40})?\W*$"
    r"|^(?:直接|突然)?从\s?\d[\d.]{0,12}\s?(?:一路|直接|突然)?(?:飙升|上升|上涨|涨|升|跳|增加|冲)到了?\s?\d[\d.]{0,12}\W*$",
    re.IGNORECASE,
)
# A place of the run that stands at the end belongs to what was said before.
_PLACE = re.compile(r"^\W*(?:from|at|around|near|since|starting|as of|effective|@)\b[^,;]{0,12}?\b\d", re.IGNORECASE)
# "n17, n18 break down": an item of a list is no clause.
_ITEM = re.compile(r"^(?:[^;]{0,200}, )?(?:坏掉 )?[A-Za-z][\w-]{0,40}\d[\w-]{0,20}$")
_VERB = re.compile(
    r"\b(?:explod|diverg|restart|load|roll|chang|reduc|lower|increas|set|break|broke|fail|crash|print|"
    r"skip|spike|resum|start|train)\w*|加载|训练|重启|恢复|炸|爆炸|跳过|挂",
    re.IGNORECASE,
)


def _protect(text: str) -> tuple[str, list[str]]:
    """Take code spans and parentheses out, so that what is inside them ends no sentence or clause."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\ue000{len(kept) - 1}\ue001"

    text = re.sub(r"`[^`]*`", keep, text)
    text = re.sub(r"[\[(]\s?\d[\d,_k]{0,12},\s\d[\d,_k]{0,12}[\])]", keep, text)  # "[100, 200)"
    return re.sub(r"\([^()]{0,400}\)|（[^（）]{0,400}）", keep, text), kept


def _restore(text: str, kept: list[str]) -> str:
    for _ in range(3):  # a code span within parentheses, within a code span at most
        if "\ue000" not in text:
            break
        text = re.sub("\ue000(\\d+)\ue001", lambda match: kept[int(match[1])], text)
    return text


def sentences(text: str) -> list[str]:
    """The sentences of a block of text; code spans and parentheses stay whole.

    What runs on for thousands of characters is no sentence; it is cut at that length.

    >>> sentences("It ran at 1.5 s. Then `a. B` failed. 训练卡住。重启")
    ['It ran at 1.5 s.', 'Then `a. B` failed.', '训练卡住。', '重启']
    """
    guarded, kept = _protect(text.replace("\ue000", "").replace("\ue001", ""))
    whole = [_restore(piece.strip(), kept) for piece in _SENTENCE_END.split(guarded)]
    return [piece[start : start + _LONGEST] for piece in whole if piece for start in range(0, len(piece), _LONGEST)]


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence, each with the place or time that stands before it.

    >>> clauses("From 3700 step, the loss explodes; restarting from 3600 step")
    ['From 3700 step, the loss explodes', 'restarting from 3600 step']
    """
    guarded, kept = _protect(sentence.replace("\ue000", "").replace("\ue001", ""))
    merged: list[str] = []
    waiting = ""
    for part in _CLAUSE_END.split(guarded):
        piece = _restore(part, kept).strip(" .。")
        if not piece:
            continue
        if merged and not waiting and _MEASURE.match(piece):
            merged[-1] += f", {piece}"
            continue
        piece = f"{waiting}, {piece}" if waiting else piece
        waiting = ""
        if _ITEM.match(piece) or (_ADVERBIAL.match(piece) and not _VERB.search(piece)):
            waiting = piece
        else:
            merged.append(piece)
    if waiting and merged and _PLACE.match(waiting):
        merged[-1] += f", {waiting}"
    elif waiting:
        merged.append(waiting)
    return merged
