"""Sentences and clauses of logbook prose, English and Chinese."""

from __future__ import annotations

import re

# A full stop ends a sentence only before a space and what can begin one, and not after an abbreviation.
_SENTENCE_END = re.compile(
    r"(?<=[。！？!?])\s*|(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bapprox)(?<!\bno)(?<!\bca)(?<=[.])\s+(?=[A-Z`\"'(\[\u4e00-\u9fff0-9])",
)
_CLAUSE_END = re.compile(
    r"\s*[;；]\s*|\s*[，、](?!\d)\s*|,\s+|\s+(?:but|so that|which|as|because|while|so)\s+(?=\w+\s)|\s+and\s+(?=(?:then|we|it|the (?:loss|training|run)|also|later|restart\w*|skip\w*|adding|change|changing|remov\w*|switch\w*|resum\w*|start\w*|lost|roll\w*|went|stayed|got|diverged)\b)",
    re.IGNORECASE,
)
# A clause that is only a place or a time belongs to the one that follows: "From 33700 step, the loss explodes".
_ADVERBIAL = re.compile(
    r"^(?:(?:from|at|around|near|after|before|by|since|in|on|until|somewhere)\b|从|在|于)[^,;]{0,40}$|^\W*\d[\d_,]*\s*(?:steps?)?\s*(?:开始|左右|时)$",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:explod|diverg|restart|load|roll|chang|break|broke|fail|crash|print|skip|spike)\w*", re.IGNORECASE
)


def _protect(text: str) -> tuple[str, list[str]]:
    """Take code spans and parentheses out, so that what is inside them ends no sentence or clause."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\ue000{len(kept) - 1}\ue001"

    text = re.sub(r"`[^`]*`", keep, text)
    return re.sub(r"\([^()]*\)|（[^（）]*）", keep, text), kept


def _restore(text: str, kept: list[str]) -> str:
    while "\ue000" in text:
        text = re.sub("\ue000(\\d+)\ue001", lambda match: kept[int(match[1])], text)
    return text


def sentences(text: str) -> list[str]:
    """The sentences of a block of text; code spans and parentheses stay whole.

    >>> sentences("It ran at 1.5 s. Then `a. B` failed. 训练卡住。重启")
    ['It ran at 1.5 s.', 'Then `a. B` failed.', '训练卡住。', '重启']
    """
    guarded, kept = _protect(text.replace("\ue000", "").replace("\ue001", ""))
    pieces = [piece.strip() for piece in _SENTENCE_END.split(guarded)]
    return [_restore(piece, kept) for piece in pieces if piece]


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence, each with the place or time that stands before it.

    >>> clauses("From 33700 step, the loss explodes; restarting from 33600 step")
    ['From 33700 step, the loss explodes', 'restarting from 33600 step']
    """
    guarded, kept = _protect(sentence.replace("\ue000", "").replace("\ue001", ""))
    merged: list[str] = []
    waiting = ""
    for piece in _CLAUSE_END.split(guarded):
        piece = _restore(piece, kept).strip(" .。")
        if not piece:
            continue
        piece = f"{waiting}, {piece}" if waiting else piece
        waiting = ""
        if _ADVERBIAL.match(piece) and not _VERB.search(piece):
            waiting = piece
        else:
            merged.append(piece)
    if waiting:
        merged.append(waiting)
    return merged
