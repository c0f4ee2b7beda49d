"""Numbers that are values of a quantity, though they stand where a step can: "the loss scale fell from 65536 to 1".

Of "from A to B" it is the words before it that tell: a norm climbs from A to B, training is put back from A to B.
"""

from __future__ import annotations

import re

from replay_parsers.chronicles.numbers import NUMBER, number

_I = re.IGNORECASE
_SCALELESS = (
    r"grad(?:ient)?s?[ _-]?norms?|gnorm|norms?|(?:loss[ _-]?)?scale|scaler|throughput|tokens?|梯度范数|范数|缩放"
)
_QUANTITY = re.compile(
    r"\b(?:grad(?:ient)?s?[ _-]?norms?|gnorm|norms?|(?:loss[ _-]?)?scale|scaler|throughput|tokens?|loss(?:es)?|"
    r"perplexity|ppl|learning rate|lr|batch(?: |-)?size|clip\w*|beta[12]?|weight decay|wd|eps\w*|temperature|memory|"
    r"utili[sz]ation|value|variance|std)\b|损失|梯度|范数|缩放|学习率|批大小",
    _I,
)
_CHANGE = (
    r"(?:climb|jump|ris|rose|grow|grew|collaps|drop|fell|fall|went|go|going|spik|shot|shoot|surg|explod|increas|"
    r"decreas|reduc|lower|rais|halv|cut|chang|mov|swung|swing|crept|creep|drift|leap|leapt|div|dove|plung|sank|sink|"
    r"tripl|doubl|decay|scal|ramp|blew|soar|slid|set|bump)\w*"
)
_BETWEEN = r"(?:\s(?:up|down|back|slowly|suddenly|gradually|briefly|all|again|straight|quickly|steadily|the|way))"
_LOSS_ALONE = re.compile(r"\b(?:loss(?:es)?|perplexity|ppl)\b(?![ _-]?scale)|损失", _I)
_MOVES = re.compile(
    r"\b(?:roll\w*|rewind\w*|rewound|re-?start\w*|resum\w*|re-?load\w*|revert\w*|skip\w*|checkpoints?|ckpts?|"
    r"between|back to|step|steps|iterations?|re-?launch\w*)\b|回滚|回退|重启|恢复|跳过",
    _I,
)
_AT = r"(?=\s?[,(]?\s?(?:\b(?:at|around|near|by|on)\b|@)\s?(?:about\s|~\s?)?(?:(?:global[ _]?)?(?:step|iter\w*)\s?)?\d)"
_PAIR = re.compile(
    rf"(?P<verb>\b{_CHANGE}{_BETWEEN}{{0,2}}\s)?(?:\bfrom\s|从\s?)(?:about\s|~\s?)?(?P<a>{NUMBER})\s?"
    rf"(?:\b(?:up |down |back |all the way )?to\b|→|->|[一-鿿]{{0,4}}[到至为成])\s?(?:about\s|~\s?)?(?P<b>{NUMBER})"
    rf"(?P<at>{_AT})?",
    _I,
)
_TO = re.compile(
    rf"\b{_CHANGE}{_BETWEEN}{{0,2}}\s(?:to|past|above|below|over)\s(?:about\s|~\s?)?(?P<b>{NUMBER}){_AT}",
    _I,
)
_SMALL = 100
"""Losses are smaller than this: "the loss rose from 30,000 to 31,000" names steps."""
_FAR = 80


def value_spans(text: str) -> list[tuple[int, int]]:
    """Where in ``text`` numbers stand that are values of a quantity, as start and end.

    >>> value_spans("grad norm climbed from 30 to 4100 at 14,000")
    [(23, 25), (29, 33)]
    >>> value_spans("rolled back from 17,300 to 17,000")
    []
    """
    found: list[tuple[int, int]] = []
    for pair in _PAIR.finditer(text):
        if _is_of_quantity(text, pair, (pair["a"], pair["b"])):
            found += [pair.span("a"), pair.span("b")]
    for rise in _TO.finditer(text):
        if _is_of_quantity(text, rise, (rise["b"],)):
            found.append(rise.span("b"))
    return found


def _is_of_quantity(text: str, match: re.Match[str], printed: tuple[str, ...]) -> bool:
    ahead = re.split(r"[;；]|[.。]\s", text[max(match.start() - _FAR, 0) : match.start()])[-1]
    named = list(_QUANTITY.finditer(ahead))
    within = match.groupdict()
    if named and _MOVES.search(ahead[named[-1].end() :]):
        return False
    if not named:
        # "Jumped from 3 to 900 at 14,000": what stands behind "at" is the step.
        return bool(within.get("verb") and within.get("at")) and _MOVES.search(ahead) is None
    if _LOSS_ALONE.fullmatch(named[-1][0]) and not within.get("at"):
        return any((number(value) or 0.0) < _SMALL for value in printed)
    return bool(within.get("at")) or "a" not in within or within["verb"] is not None or _touches(ahead, named[-1])


def _touches(ahead: str, named: re.Match[str]) -> bool:
    """Whether nothing but a word or two stands between a quantity and its values: "loss scale from 4096 to 8"."""
    return len(ahead[named.end() :].split()) <= 2
