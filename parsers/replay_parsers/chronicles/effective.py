"""From which step on something holds, and for how many steps it lasts."""

from __future__ import annotations

import re
from collections.abc import Container

from replay_parsers.chronicles.phrases import positions, steps

_I = re.IGNORECASE


def effective_step(clause: str, *, loaded: bool = False, values: Container[float] = ()) -> int | None:
    """The step from which a change holds, where the clause names one ("from 600 step", "at iteration 15000").

    ``loaded`` asks for the step of a checkpoint: what happens "at" a step loads none.  ``values`` are numbers that
    are known to be something else ("from 512 to 768 sequences").
    """
    words = r"from|starting" if loaded else r"from|at|since|starting"
    for mention in positions(clause):
        if mention.value in values and not mention.word:
            continue
        ahead = clause[: mention.start]
        if mention.word and not loaded and re.search(r"[(（]\s?(?:now )?$|[,，]\s?$", ahead):
            return mention.value  # "LR from a to b starting now (step 71300)"
        named = r"第?\s?(?:the\s)?(?:(?:global[ _]?)?(?:step|iteration)\s?)?$"
        if re.search(rf"(?:\b(?:{words})\b|@|从|在)\s?{named}", ahead, _I):
            return mention.value
        if re.match(r"\s?(?:steps?)?\s?开始", clause[mention.end :]) or re.search(r"^\W*$", ahead):
            return mention.value
    return None


def lengths(clause: str) -> dict[str, str]:
    """``steps`` when the clause says for how many of them something lasts."""
    counts = [mention for mention in steps(clause) if not mention.position]
    return {"steps": str(counts[0].value)} if counts else {}
