"""Console logs of torchtitan (`torchtitan/components/metrics.py`).

    [rank0]:[titan] 2025-07-21 15:57:42,774 - root - INFO - step:  3  loss:  4.99  tps: 30,768  mfu: 0.32%

Every rank prints, and where the launcher does not say which, the same step comes as often as there are ranks.
"""

from __future__ import annotations

import re

from replay_parsers.trainers.numbers import number_with_unit, parse_step
from replay_parsers.trainers.one_line import Report, one_line_parser
from replay_parsers.trainers.timestamps import printed_time

_STEP = re.compile(r"(validate )?step: {1,8}([\d,]{1,24}) {1,8}(?=[a-z_]{1,40}:)")
_FIELD = re.compile(r"([A-Za-z][\w/()-]{0,60}): {1,8}(\S{1,40})")
_MEMORY = re.compile(r"([\d.]{1,20})GiB\(([\d.]{1,20})%\)")


def read_line(text: str) -> Report | None:
    """The report on one line; None when it holds none."""
    if "step:" not in text:
        return None
    match = _STEP.search(text)
    if match is None or (step := parse_step(match[2])) is None:
        return None
    prefix = "validation/" if match[1] else ""
    fields: dict[str, float] = {}
    for key, printed in _FIELD.findall(text, match.end()):
        if memory := _MEMORY.fullmatch(printed):
            fields[f"{prefix}memory (GiB)"] = float(memory[1])
            fields[f"{prefix}memory (%)"] = float(memory[2])
        elif (read := number_with_unit(printed)) is not None:
            number, unit = read
            fields[f"{prefix}{key} ({unit})" if unit else f"{prefix}{key}"] = number
    if f"{prefix}loss" not in fields:
        return None
    return Report(step, fields, printed_time(text))


PARSER = one_line_parser("torchtitan", read_line, endings=("%",), last="mfu:")
