"""Console logs of MosaicML's Composer and LLM Foundry (`composer/loggers/console_logger.py`).

    [epoch=1][batch=5/1000]:
             Train time/batch: 4
             Train loss/train/total: 8.4213
             Train metrics/train/LanguageCrossEntropy: 8.4620
    [Eval batch=10/10] Eval on eval data:
             Eval metrics/eval/LanguageCrossEntropy: 8.2

Batches count within an epoch where the header names one, and an epoch's length is known: a run that was resumed may
begin in any.  Evaluations belong to the last batch.  `Train` and `Eval`
are left out of keys that say so themselves, which are then those of Composer's other loggers.
"""

from __future__ import annotations

import re

from replay_parsers.trainers.numbers import MAX_STEP, parse_number, parse_step
from replay_parsers.trainers.under_header import Header, under_header_parser

_HEADER = re.compile(
    r"(?:\[epoch=(\d{1,9})(?:/\d{1,9})?\]\s{0,4})?\[batch=([\d,]{1,24})(?:/([\d,?]{1,24}))?\]:?\s{0,8}$"
)
# What its file logger copies from the console.
_COPIES = ("[stderr]: ", "[stdout]: ")
_VALUE = re.compile(r"\s{1,16}(Train|Eval) ([A-Za-z][^:|]{0,160}): {1,4}(\S{1,40})\s{0,8}$")


def read_header(text: str) -> Header | None:
    """The batch that a line begins to tell of; None when it is no header."""
    header = _HEADER.search(text) if "[batch=" in text[:400] else None
    step = parse_step(header[2]) if header else None
    if header is None or step is None or text.startswith(_COPIES):
        return None
    epoch, length = int(header[1] or 0), parse_step(header[3] or "?")
    if epoch and length is not None and (running := (epoch - 1) * length + step) <= MAX_STEP:
        return Header(running)
    return Header(step, epoch if header[1] else None)


def read_value(text: str) -> tuple[str, float] | None:
    """The key and the value on a line; None when it holds none."""
    match = _VALUE.match(text)
    value = parse_number(match[3]) if match else None
    if match is None or value is None:
        return None
    return (match[2] if "/" in match[2] else f"{match[1]} {match[2]}"), value


PARSER = under_header_parser("composer", read_header, read_value)
