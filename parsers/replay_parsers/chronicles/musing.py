"""Sentences that tell what might be or what others said, in books that discuss much.

What holds for every book (plans, questions, conditions, refusals) is in :mod:`.mood`.
"""

from __future__ import annotations

import re

from replay_parsers.chronicles.words.term import any_of

_I = re.IGNORECASE

_QUOTED = any_of(
    (
        r"^\W*quot(?:e|ing)\b",
        r"^\W*[A-Z][\w.-]{1,20}(?: [A-Z][\w.-]{1,20}){0,2}:\W*$",
        r"\b(?:quoting|to quote)\b",
        r"\bnotes?:\W*$",
    )
)
_MUSES = any_of(
    (
        r"\bi (?:suspect|think|would|wonder|believe|am not|don.t|also|like|have seen)\b|\bwe (?:might|"
        r"could|should|may|can)\b",
        r"\bif (?:it|we|you|this|the|one|promising)\b|\b(?:suggest(?:ed|s|ing)?|propos(?:e|ed|es|al)|"
        r"recommend\w*)\b|\bmy (?:feeling|suspicion|understanding)\b",
        r"\bit (?:might|could|would|may)\b|\bperhaps\b|\bmaybe\b|\bwould be\b|\bone way\b|"
        r"\banother (?:avenue|option|way)\b",
        r"\bplan (?:was|is) to\b|\bideally\b|\bin the future\b|\b(?:usually|typically|generally|"
        r"in general)\b|\brule of thumb\b|\bprior work\b",
        r"\bcan you\b|\bhave you\b|\bnext,? (?:we )?will\b|\bnext experiment\b|\bone can't\b|"
        r"\bwe don.t want\b|\bthings? to try\b|\bseems? to be an?\b|\b(?:i|we) (?:first )?thought\b|"
        r"\b(?:may|might) have\b|\beach (?:hour|time|day)\b|\bassuming (?:no|we)\b",
        r"可以考虑|建议|如果|打算|计划",
    )
)


_FOUND_OUT = re.compile(r"\bonly to (?:find|realize|discover)\b", _I)
_CONDITION = re.compile(r"^\W*(?:if|suppose|perhaps|maybe|ideally|suggestion|note that)\b", _I)


_SUMS_UP = re.compile(
    r"^\W*(?:all in all|in summary|in short|in a nutshell|to sum(?: it| this| things)? up|to summari[sz]e)\b"
    r"|^\W*(?:the |our |in (?:the|our) )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.? "
    r"\d{1,2}(?:st|nd|rd|th)? (?:update|post|report|note)s?\b",
    _I,
)


def is_quoted(sentence: str) -> bool:
    """Whether a sentence announces what somebody else said."""
    return _QUOTED.search(sentence) is not None


def is_musing(sentence: str) -> bool:
    """Whether a sentence says what might be or might be done, rather than what was."""
    return _MUSES.search(sentence) is not None


def is_condition(sentence: str) -> bool:
    """Whether a whole sentence stands under an "if" or a "note that"."""
    return _CONDITION.search(sentence) is not None


def sums_up(sentence: str) -> bool:
    """Whether a sentence only sums up what is told elsewhere ("All in all, ...", "The May 4th update: ...")."""
    return _SUMS_UP.search(sentence) is not None


def finds_out(clause: str) -> bool:
    """Whether a clause tells what came of something in the form of a surprise ("only to find that ...")."""
    return _FOUND_OUT.search(clause) is not None
