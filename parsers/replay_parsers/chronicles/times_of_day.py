"""Times of day within sentences: "restarted @ 14:30, step 41,200" names an hour and a step, not step 30."""

from __future__ import annotations

import re

from replay_parsers.chronicles.zones import ZONE

_HOUR = r"(?:[01]?\d|2[0-4])"
_CLOCK = (
    rf"(?:{_HOUR}[:：][0-5]\d(?:[:：][0-5]\d)?(?![\d:：])(?:\s?[ap]\.?m\b\.?)?|{_HOUR}\s?[ap]\.?m\b\.?"
    r"|[01]?\d(?=\so'?clock)\so'?clock)"
)
_ZONED = re.sub(r"\?P<zone>", "?:", ZONE)
_TIME_OF_DAY = re.compile(
    r"\s?(?:(?<![\w.])(?:at|around|about|by|since|from|until|till|before|after|near)\s(?:about\s|around\s|~\s?)?|@\s?|~\s?"
    rf"|(?<![\w.])(?:在|于|从|约)\s?)(?<!\d){_CLOCK}(?:\s?\(?{_ZONED}\)?)?"
    rf"(?:\s?(?:to|until|till|[-–—])\s?{_CLOCK}(?:\s?\(?{_ZONED}\)?)?)?"
    r"(?P<step>\s?[,，;(]?\s?(?=(?:global[ _]?)?(?:step|iteration|iter)\s?#?\d))?",
    re.IGNORECASE,
)
# "Resumed 14:30, step 9,000"
_BEFORE_STEP = re.compile(
    rf"(?<=[A-Za-z])\s{_CLOCK}(?:\s?\(?{_ZONED}\)?)?\s?[,，;(]\s?(?=(?:global[ _]?)?(?:step|iteration|iter)\s?#?\d)",
    re.IGNORECASE,
)
_ANY = re.compile(r"\d[:：]\d|\d\s?[ap]\.?m\b|clock", re.IGNORECASE)
_STARTED = re.compile(r"^\W*started$", re.IGNORECASE)


def without_times(sentence: str) -> str:
    """``sentence`` without the times of day that tell when something happened; a step behind one takes its place.

    >>> without_times("restarted @ 14:30, step 41,200"), without_times("loss 3.1 at 3 am")
    ('restarted at step 41,200', 'loss 3.1')
    """
    if (
        ":" not in sentence
        and "：" not in sentence
        and not re.search(r"\d\s?[ap]\.?m\b|clock", sentence, re.IGNORECASE)
    ):
        return sentence

    def taken_out(found: re.Match[str]) -> str:
        if _STARTED.match(sentence[: found.start()]):
            return found[0]
        return " at " if found["step"] is not None else ""

    return _BEFORE_STEP.sub(" at ", _TIME_OF_DAY.sub(taken_out, sentence))
