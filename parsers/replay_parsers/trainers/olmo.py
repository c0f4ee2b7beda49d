"""Console logs of OLMo and OLMo-core (`olmo_core/train/callbacks/console_logger.py`).

    2025-08-08 12:01:00 INFO [olmo_core.train.callbacks.console_logger:68] [step=100/2000,epoch=1,eta=5h11m]
        train/CE loss=6.234
        optim/total grad norm=1.204
        throughput/total tokens=4.19B

The header names the step, each indented line below it one value.  Evaluations follow without a header of their own
and belong to the last step.
"""

from __future__ import annotations

import re

from replay_parsers.trainers.nanotron import parse_abbreviated
from replay_parsers.trainers.numbers import number_with_unit, parse_step
from replay_parsers.trainers.under_header import Header, under_header_parser

_HEADER = re.compile(r"\[step=([\d,]{1,24})(?:/[\d,?]{1,24})?(?:,[^\]]{0,120})?\]\s{0,8}$")
_VALUE = re.compile(r"\s{2,16}([A-Za-z][^=|]{0,160})=(\S{1,40})\s{0,8}$")


def read_header(text: str) -> Header | None:
    """The step that a line begins to tell of; None when it is no header."""
    header = _HEADER.search(text) if "[step=" in text else None
    step = parse_step(header[1]) if header else None
    return None if step is None else Header(step)


def read_value(text: str) -> tuple[str, float] | None:
    """The key and the value on a line; None when it holds none."""
    match = _VALUE.match(text) if "=" in text[:180] else None
    if match is None:
        return None
    value = parse_abbreviated(match[2])
    if value is None and (read := number_with_unit(match[2])) is not None:
        value = read[0]
    return None if value is None else (match[1].strip(), value)


PARSER = under_header_parser("olmo", read_header, read_value)
