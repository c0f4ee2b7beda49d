"""Logs of nanoGPT and of those who learnt from it: llm.c, modded-nanogpt, nanochat.

    iter 100: loss 4.0863, time 561.94ms, mfu 30.00%                           nanoGPT
    step 250: train loss 3.9, val loss 4.0                                     nanoGPT
    step  1/74 | loss 4.28 (+nanz)| norm 13.0 (+nanz)| lr 3e-04 | 349.48 ms    llm.c
    step 5: train loss 4.28 (took 349.48 ms)                                   llm.c on a CPU
    s:250 tel:4.5137                                                           llm.c's main.log
    step:125/1750 val_loss:4.2887 train_time:12345ms step_avg:98.76ms          modded-nanogpt
    step 00010/21400 (0.05%) | loss: 10.8 | grad_norm: 1.2 | dt: 480.03ms      nanochat

`(+nanz)` is a score that is not known yet: no nan of the loss.
"""

from __future__ import annotations

import re

from replay_parsers.trainers.numbers import number_with_unit, parse_step
from replay_parsers.trainers.one_line import Report, one_line_parser

_ITER = re.compile(r"iter (\d{1,18}): (loss .{1,200})$")
_EVALUATED = re.compile(r"step (\d{1,18}): (train loss .{1,200})$")
_BARRED = re.compile(r"[sS]tep {1,8}(\d{1,18})(?:/\d{1,18})?(?: \([\d.]{1,10}%\))? \| ?(.{1,600})$")
_TOOK = re.compile(r" \(took (\S{1,30}) ms\)$")
_COLONED = re.compile(r"(?:step|s):(\d{1,18})(?:/\d{1,18})? (\w{1,40}:.{1,600})$")
_ALONE = re.compile(r"val loss {1,4}(\S{1,30})\s{0,8}$")
_PAIR = re.compile(r"(\w[\w./-]{0,60}):(\S{1,40})")
_SCORE = re.compile(r"\([+-]?\S{1,20}z\)")


def read_line(text: str) -> Report | None:
    """The report on one line; None when it holds none."""
    text = text.strip()
    if match := _ITER.match(text) or _EVALUATED.match(text):
        return _report(match[1], _TOOK.sub(r", took \1ms", match[2]).split(", "))
    if match := _BARRED.match(text):
        return _report(match[1], _SCORE.sub("", match[2]).split("|"))
    if match := _COLONED.match(text):
        return _report(match[1], [f"{key} {value}" for key, value in _PAIR.findall(match[2])])
    if match := _ALONE.match(text):
        return _report(None, [f"val loss {match[1]}"])
    return None


def _report(step: str | None, pieces: list[str]) -> Report | None:
    fields: dict[str, float] = {}
    for piece in pieces:
        field = _field(piece.strip())
        if field is not None:
            fields[field[0]] = field[1]
    return Report(parse_step(step) if step else None, fields) if fields else None


def _field(piece: str) -> tuple[str, float] | None:
    """`loss 4.08`, `dt: 480.03ms`, or llm.c's `349.48 ms` and `40.3% bf16 MFU`, where what stands behind is the key."""
    key, _, printed = piece.replace(": ", " ", 1).rpartition(" ")
    read = number_with_unit(printed)
    if key and read is not None:
        number, unit = read
        return (f"{key} ({unit})" if unit else key), number
    number_first, _, rest = piece.partition(" ")
    read = number_with_unit(number_first)
    if not rest or read is None:
        return None
    return (f"{rest} ({read[1]})" if read[1] else rest), read[0]


PARSER = one_line_parser("nanogpt", read_line, endings=("tok/s",), surest=0.85)
