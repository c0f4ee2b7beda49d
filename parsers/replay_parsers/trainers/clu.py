"""Console logs of CLU's metric writers, with which much that is built on JAX and Flax logs (`logging_writer.py`).

    I1130 12:33:03.312948 140685151726464 logging_writer.py:48] [20] learning_rate=0.001, train/loss=0.25

Each line names its step in brackets, and behind it the collection (`collection=train`) where the writer has one.  The
date in front has no year, so that no time is read from it.
"""

from __future__ import annotations

import re

from replay_parsers.trainers.numbers import parse_number
from replay_parsers.trainers.one_line import Report, one_line_parser

_LINE = re.compile(r"logging_writer\.py:\d{1,6}\] \[(\d{1,18})\](?: collection=(\S{1,80}))? (?!Got )(.{1,4000})$")
_ITEM = re.compile(r"(?:^|, )([^=,]{1,160})=([^,=\s]{1,40})(?=, |$)")


def read_line(text: str) -> Report | None:
    """The report on one line; None when it holds none."""
    match = _LINE.search(text) if "logging_writer.py:" in text else None
    if match is None:
        return None
    prefix = f"{match[2]}/" if match[2] else ""
    found = ((f"{prefix}{key}", parse_number(printed)) for key, printed in _ITEM.findall(match[3]))
    fields = {key: value for key, value in found if value is not None}
    return Report(int(match[1]), fields) if fields else None


PARSER = one_line_parser("clu", read_line, surest=0.95)
