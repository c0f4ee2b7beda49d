"""Console logs of nanotron (`nanotron/trainer.py`, `logging/base.py`).

    10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | lm_loss: 2.38 | tokens_per_sec: 22.8K

Numbers are printed in three digits with a letter for thousands (K), millions (M) and so on, infinity with the largest
of them (infE); the dates put the month first.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from replay_parsers.trainers.numbers import parse_number
from replay_parsers.trainers.one_line import Report, one_line_parser

_HEADER = re.compile(r"iteration: {1,8}(\d{1,18}) {0,8}/ {0,8}\d{1,18} {1,8}\| ")
_DATE = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)")
_MAGNITUDES = {"K": "e3", "M": "e6", "G": "e9", "B": "e9", "T": "e12", "P": "e15", "E": "e18"}


def read_line(text: str) -> Report | None:
    """The report on one line; None when it holds none."""
    if "iteration: " not in text:
        return None
    match = _HEADER.search(text)
    if match is None:
        return None
    fields: dict[str, float] = {}
    left_out = 0
    for piece in text[match.end() :].split(" | "):
        key, _, printed = piece.partition(": ")
        value = parse_abbreviated(printed.strip())
        if value is not None and key.strip():
            fields[key.strip()] = value
        else:
            left_out += 1
    return Report(int(match[1]), fields, _time(text), left_out) if fields else None


def parse_abbreviated(text: str) -> float | None:
    """Read a number with a letter for its magnitude.

    >>> parse_abbreviated("85.8G"), parse_abbreviated("2.38")
    (85800000000.0, 2.38)
    """
    if text in ("infE", "-infE"):
        return float(text[:-1])
    exponent = _MAGNITUDES.get(text[-1:])
    # Read with its exponent, for a product would be rounded twice.
    return parse_number(text if exponent is None else text[:-1] + exponent)


def _time(text: str) -> int | None:
    match = _DATE.search(text, 0, 80)
    if match is None:
        return None
    month, day, year, hour, minute, second = map(int, match.groups())
    try:
        return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1_000_000
    except ValueError:
        return None


PARSER = one_line_parser("nanotron", read_line, surest=0.95)
