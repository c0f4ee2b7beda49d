"""Logs of DeepSpeed by itself (DeepSpeed-Chat, the pipeline engine), without a trainer that reports on top of it.

    [2023-04-18 01:46:59,142] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=6, lr=[9.6e-06], mom=[...]
    [...] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=173.4, ...
    steps: 10 loss: 2.5 iter time (s): 1.2 samples/sec: 850

`skipped` counts from the start.  What the overflow lines in between say is in :mod:`.line_events`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.lines import Line
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.numbers import number_with_unit, parse_number
from replay_parsers.trainers.one_line import LONGEST_RECORD
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines
from replay_parsers.trainers.timestamps import printed_time

FORMAT = "deepspeed"

_STEP = re.compile(r"\] step=(\d{1,18}), skipped=(\d{1,18}), lr=\[([^\]]{0,2000})\], mom=\[(.{0,2000})\]\s{0,8}$")
_TIMER = re.compile(
    r"(?:micro_step=\d{1,18}/global_step=|\] \d{1,18}/)(\d{1,18}), ((?:\w{0,40}SamplesPerSec)=.{1,400})$"
)
_PIPELINE = re.compile(
    r"steps: (\d{1,18}) loss: (\S{1,40}) iter time \(s\): (\S{1,40}) samples/sec: (\S{1,40})\s{0,8}$"
)
_PERPLEXITY = re.compile(r"ppl: (\S{1,40})\s{0,8}$")
_KNOWN = re.compile(
    r"\*{5} (?:Running training|Evaluating)|Beginning of Epoch \d|Process \d{1,9} exits successfully|Model Parameters: "
)


class DeepSpeed:
    """Reads DeepSpeed's own reports."""

    def __init__(self, _: Mapping[str, Any]) -> None:
        pass

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        if goes_on or len(text) > LONGEST_RECORD:
            return False
        if match := _STEP.search(text):
            book.measured(line.number, int(match[1]), _step_fields(match), printed_time(text), rank)
            book.events.reported()
        elif match := _TIMER.search(text):
            fields = {}
            for item in match[2].split(", "):
                key, _, printed = item.partition("=")
                read = number_with_unit(printed)
                if read is not None:
                    fields[f"{key} ({read[1]})" if read[1] else key] = read[0]
            book.measured(line.number, int(match[1]), fields, printed_time(text), rank)
        elif match := _PIPELINE.search(text):
            keys = ("loss", "iter time (s)", "samples/sec")
            values = {key: value for key, value in zip(keys, map(parse_number, match.groups()[1:]), strict=True)
                      if value is not None}  # fmt: skip
            book.measured(line.number, int(match[1]), values, printed_time(text), rank)
        elif (match := _PERPLEXITY.match(text)) and (value := parse_number(match[1])) is not None:
            book.measured(line.number, book.scalars.last_step or 0, {"ppl": value}, None, rank)
        elif _KNOWN.search(text, 0, 200):
            book.other["timers, rules and progress bars"] += 1
        else:
            return False
        return True

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        return not goes_on and text.endswith("]") and _STEP.search(text) is not None

    def unfinished(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return {}


def _step_fields(match: re.Match[str]) -> dict[str, float]:
    """The counter of skipped steps, and the learning rate of each parameter group where they differ."""
    fields = {"skipped": float(match[2])}
    rates = [rate for printed in match[3].split(",") if (rate := parse_number(printed)) is not None]
    if rates:
        fields["lr"] = rates[0]
    for group, rate in enumerate(rates[1:], start=1):
        if rate != rates[0]:
            fields[f"lr/group{group}"] = rate
    return fields


def _telling(line: str) -> bool:
    return any(pattern.search(line) for pattern in (_STEP, _TIMER, _PIPELINE)) or "Attempted loss scale" in line


def recognise(sample: Sample) -> float:
    """How sure it is that a file is DeepSpeed's: less than any trainer whose records stand among its lines."""
    return by_lines(sample, _telling, surest=0.75)


def read(request: Request) -> Iterator[Records]:
    """Read a DeepSpeed log."""
    return read_log(request, FORMAT, DeepSpeed)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
