"""How much a setting was changed where no values are told: "halved", "by 20%", "to 60%", "lowered"."""

from __future__ import annotations

import re

_I = re.IGNORECASE

_HALF = re.compile(r"\b(?:halv\w+|half(?:ed|ing)?)\b|砍半|减半|对半|一半", _I)
_DOUBLE = re.compile(r"\bdoubl\w+\b|翻倍|加倍", _I)
_PERCENT = re.compile(r"(?:\bby\s|了\s?)(?P<n>\d{1,3}(?:\.\d{1,6})?)\s?%", _I)
_TO_PERCENT = re.compile(r"(?:\bto\s|到\s?|至\s?)(?P<n>\d{1,3}(?:\.\d{1,6})?)\s?%", _I)
_TIMES = re.compile(
    r"\bby (?:a )?factor (?:of )?(?P<n>\d{1,4}(?:\.\d{1,6})?)|"
    r"\b(?P<x>\d{1,4}(?:\.\d{1,6})?)\s?x (?:lower|smaller|less|higher|larger)",
    _I,
)
_MULTIPLIED = re.compile(r"(?:\s[x×*]\s?|\btimes )(?P<n>\d{0,3}\.\d{1,6}|\d{1,3})(?![\w.])", _I)
DOWN = re.compile(r"\b(?:reduc|lower|decreas|cut|dropp?|shr[iu]n|less|decay)\w*|降|减|缩小|调低", _I)
_UP = re.compile(r"\b(?:increas|rais|enlarg|bigger|longer|higher|more frequent|bump)\w*|升(?!级)|增|加大|调高|提高", _I)
DENIED = re.compile(r"\b(?:not|no|without|never|unchanged|same|kept)\b|n't\b|没有|不变|未", _I)


def relative(clause: str) -> dict[str, str]:
    """``factor`` or ``direction`` of the change that ``clause`` tells; empty where it denies one."""
    if DENIED.search(clause):
        return {}
    down = DOWN.search(clause) is not None
    if percent := _PERCENT.search(clause):
        part = float(percent["n"]) / 100
        return {"factor": f"{1 - part if down else 1 + part:g}"}
    if (percent := _TO_PERCENT.search(clause)) and float(percent["n"]):
        return {"factor": f"{float(percent['n']) / 100:g}"}
    if (times := _TIMES.search(clause)) and float(times["n"] or times["x"]):
        factor = float(times["n"] or times["x"])
        # "Reduced by a factor of 4" and "by a factor of 0.25" say the same.
        return {"factor": f"{1 / factor if down and factor > 1 else factor:g}"}
    if multiplied := _MULTIPLIED.search(clause):
        return {"factor": f"{float(multiplied['n']):g}"}
    if _HALF.search(clause):
        return {"factor": "0.5"}
    if _DOUBLE.search(clause):
        return {"factor": "2"}
    if down:
        return {"direction": "down"}
    return {"direction": "up"} if _UP.search(clause) else {}
