"""From which step on something holds, and for how many steps it lasts."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import replace

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.phrases import positions, steps
from replay_parsers.records import EventKind, Role

_I = re.IGNORECASE

_HOLDS_FROM = re.compile(
    r"\W*(?:starting|beginning) (?:from|at|with) (?:step|iteration)? ?\d[\d,_k]*,? "
    r"(?:on(?:wards?)?\b|(?:we|the|all|every)\b)",
    _I,
)
_MOVES = (EventKind.RESTART, EventKind.ROLLBACK)
# What happens one after the other has a step each.
_IN_TURN = re.compile(r"\b(?:then|later|afterwards?|next|finally|before|after|while)\b|然后|之后|随后", _I)


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


def only_holds(clause: str) -> bool:
    """Whether a setting holds from a step without a new start: "starting from step 30,000 we use larger batches"."""
    return _HOLDS_FROM.match(clause) is not None


def lengths(clause: str) -> dict[str, str]:
    """``steps`` when the clause says for how many of them something lasts."""
    counts = [mention for mention in steps(clause) if not mention.position]
    return {"steps": str(counts[0].value)} if counts else {}


def with_shared_step(drafts: list[Draft], sentence: str) -> list[Draft]:
    """Give the one step that a list of changes names, before the first or behind the last, to all of them.

    ``drafts`` are all of one ``sentence``: "beta2 0.98 -> 0.95, wd 0.1 -> 0.05 from step 5000".
    """
    changes = [draft for draft in drafts if draft.field is not None and draft.role is Role.INTERVENTION]
    others = [draft for draft in drafts if draft not in changes and draft.kind not in _MOVES]
    told = {mention.value for mention in positions(sentence)} & {draft.step for draft in drafts}
    if len(changes) < 2 or others or len(told) != 1 or _IN_TURN.search(sentence):
        return drafts
    (step,) = told
    behind = changes[-1].step == step and ";" not in sentence and "；" not in sentence
    if {draft.step for draft in changes} != {step, None} or not (changes[0].step == step or behind):
        return drafts
    return [replace(draft, step=step) if draft in changes else draft for draft in drafts]
