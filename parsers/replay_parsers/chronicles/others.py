"""What a logbook tells of other runs, teams and papers, and its comparisons with them."""

from __future__ import annotations

import re

_I = re.IGNORECASE

# Runs of others: their papers, their teams, models that are not the book's own.
_OTHERS = re.compile(
    r"\b(?:the |an |some )?(?:(?:previous|other|another|former|old|different|(?-i:[A-Z])[\w.-]+) (?:team|group|"
    r"project|lab|"
    r"generation|company)|(?:team|people|authors|folks)"
    r" (?:that|who|which|behind|at|from)|authors|last (?:year|month)'s \w+)\b"
    r"|\b(?:in|per|from|according to) (?:the|their|that) (?:[\w-]+ ){0,2}?(?:paper|report|logbook|chronicles?|blog)\b"
    r"|论文|别的团队|其他团队|他们",
    _I,
)
_MODEL = re.compile(
    r"^\W*(?:(?:in|for|at|on|also|and|but|the|both|even|only)\s){0,3}(?P<name>[A-Z][A-Za-z]{1,20}(?:[- ]?\d(?:\.\d)?)?"
    r"[- ]\d{1,4}(?:\.\d)?[BMT]\b|PaLM|OPT|BLOOM|GLM|Llama(?: ?\d)?|GPT-?\d|Gopher|Chinchilla|Megatron-Turing|DeepSeek|"
    r"Falcon|Qwen|Mistral|Marin|OLMo)(?:'s)?\b(?!\s?[:：])",
)
# "Unlike OPT we ..." tells of us.
_COMPARED = re.compile(
    r"\b(?:unlike|in contrast to|contrary to|as (?:in|with|for)|like|similar to|compared (?:to|with))"
    r"\s(?:the\s)?[A-Z][\w.-]{1,30}(?: \d{1,4}B)?,?\s(?=we\b|our\b|i\b)"
    r"|^\W*(?:instead of|rather than)\b[^,;]{0,80}?(?:,\s|\s(?=we\b|i\b))",
    _I,
)


def without_comparison(clause: str) -> str:
    """``clause`` without a comparison that stands before what it tells of its own run.

    >>> without_comparison("Unlike OPT, we restarted from 640")
    'we restarted from 640'
    """
    return _COMPARED.sub("", clause)


def is_of_others(clause: str, own: str) -> bool:
    """Whether a clause tells of a run or a team that is not the book's.  ``own`` is the book's title, empty when it is
    not known; then models named are not taken for others."""
    if _OTHERS.search(clause) and not re.search(r"\b(?:we|our|us)\b|我们", clause, _I):
        return True
    if not own:
        return False
    named = _MODEL.match(clause)
    return named is not None and named["name"].split("-")[0].lower() not in own.lower()
