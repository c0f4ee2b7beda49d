"""Settings told beside those of an earlier run: "a weight decay of 0.1 - in the pilot used 0.05"."""

from __future__ import annotations

import re

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.numbers import NUMBER, number
from replay_parsers.chronicles.parameters import PARAMETERS

# A number, or the root of one over a width.
_VALUE = r"`?(?:sqrt\(\s?)?{}(?:\s?/\s?\w{{1,20}}\))?`?"
_COMPARED = re.compile(
    rf"\s?(?:of\s|=\s?|:\s)?{_VALUE.format(f'(?P<own>{NUMBER})')}(?:,|\s?[-–—(])\s?"
    r"(?:in|at|for|where|while)\s(?:the\s|our\s)?(?P<run>[\w.-]{1,30}(?:\s(?:run|pilot|model))?)\s(?:we\s|it\s)?"
    rf"(?:used|had|was|has)\s{_VALUE.format(f'(?P<other>{NUMBER})')}(?![\w%])",
    re.IGNORECASE,
)


def with_another_run(clause: str) -> list[Draft]:
    """Settings that a clause tells as chosen other than in a run before: suspected of what the text tells."""
    if (_USED.search(clause)) is None:
        return []
    found = []
    for parameter in PARAMETERS:
        for mention in parameter.words.finditer(clause):
            compared = _COMPARED.match(clause, mention.end())
            if compared is None or compared["own"] == compared["other"]:
                continue
            detail = {"certainty": "suspected", "compared_with": compared["run"]}
            found.append(
                Draft(
                    kind=parameter.kind,
                    field=parameter.field,
                    before=number(compared["other"]),
                    after=number(compared["own"]),
                    detail=detail,
                )
            )
    return found


_USED = re.compile(r"\b(?:used|had|was|has)\b", re.IGNORECASE)
