"""Any other text log whose lines name a step and values: the last resort, and less sure of itself than the rest.

    step 5, loss: 7.2923
    Iter 70: Train loss 2.786, Learning Rate 1.000e-05, It/sec 17.598
    Epoch: [115]  [1298/1299]  lr: 0.001435  loss: 6.5993 (6.5971)  grad_norm: 0.3922 (nan)
    Epoch [1][100/62598]  lr: 1.000e-03, loss: 1.9091, grad_norm: nan

A value in brackets behind another is a running mean; the first is kept.  Steps that count anew in each epoch run on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.lines import Line, split_rank
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.axes import EpochSteps
from replay_parsers.trainers.numbers import number_with_unit, parse_step
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_count, lines_to_judge
from replay_parsers.trainers.timestamps import printed_time

FORMAT = "key-value"

LONGEST = 2_000
_LOOKED_AT = 60
_NO_VALUES = ("epoch", "eta", "time", "rank", "pid")
# What stands in front of a message and has numbers in it: a time, the place in a source file.
_PREFIXES = re.compile(r"\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d\S{0,12}|[\w/.-]{0,80}\.(?:py|cc|cpp|cu|rs):\d{1,7}")
_CODE = re.compile(
    r"\s{0,80}(?:import \w|from [\w.]{1,80} import|def \w{1,80}\(|class \w{1,80}[(:]|return\b|print\(|assert "
    r"|(?:if|elif|for|while|with) .{1,200}:\s{0,8}$|(?:else|try|finally):|except\b|#include|\"\"\"|'\'\'"
    r"|[a-z_]\w{0,40} = [a-z_][\w.]{0,80}\()"
)
_STEP = re.compile(
    r"\b(?:global[_ ]step|train[_ ]step|num_updates|step|iteration|iter|it|update|batch)\b[ \t]{0,4}[:=#\[]?[ \t]{0,6}"
    r"(\d(?:[\d,]{0,24}\d)?)(?![\d.]*[eE.]\d)(?:[ \t]{0,4}/[ \t]{0,4}[\d,]{1,24})?",
    re.IGNORECASE,
)
_EPOCH_AND_STEP = re.compile(
    r"\bepoch:?[ \t]{0,4}\[?(\d{1,9})(?:/\d{1,9})?\]?[ \t,]{0,4}\[[ \t]{0,8}(\d{1,18})/[ \t]{0,8}(\d{1,18})\]", re.I
)
_EPOCH = re.compile(r"\bepoch\b[ \t]{0,4}[:=\[]?[ \t]{0,4}(\d{1,9})\b", re.I)
_FIELD = re.compile(
    r"([A-Za-z][\w./%-]{0,60}(?: [A-Za-z][\w./%-]{0,30}){0,2})"  # one to three words
    r"(?:[ \t]{0,2}[:=][ \t]{0,8}|[ \t]{1,4})"
    r"([+-]?(?:\d(?:[\d,]{0,24}\d)?(?:\.\d{0,24})?(?:[eE][+-]?\d{1,4})?|nan\b|inf\b))"
    r"([\w%/]{1,12}| (?:[KMGT]i?B|m?s|secs?)(?![\w.:=/-]))?"
)


class KeyValue:
    """Reads lines that name a step and a loss."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.epochs = EpochSteps(state.get("epochs", {}))

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        found = None if goes_on else read_line(text)
        if found is None:
            return False
        epoch, step, fields = found
        if epoch is not None:
            step = self.epochs.running(epoch, step)
        book.measured(line.number, step, fields, printed_time(text), rank)
        return True

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        # Nothing says where such a line ends.
        return not text and goes_on

    def unfinished(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return {"epochs": self.epochs.state()}


def read_line(text: str) -> tuple[int | None, int, dict[str, float]] | None:
    """The epoch (None when not named), the step, and the values of one line; None when it names no step or no loss."""
    if len(text) > LONGEST or "loss" not in text.lower():
        return None
    both = _EPOCH_AND_STEP.search(text)
    if both is not None:
        epoch: int | None
        epoch, step, rest = int(both[1]), parse_step(both[2]), text[both.end() :]
    else:
        match, named = _STEP.search(text), _EPOCH.search(text)
        if match is None:
            return None
        epoch, step, rest = (int(named[1]) if named else None), parse_step(match[1]), _PREFIXES.sub(" ", text)
    fields: dict[str, float] = {}
    for key, printed, unit in _FIELD.findall(rest):
        read = number_with_unit(printed + unit.strip())
        name = key.strip()
        if read is None or name in fields or _STEP.search(f"{name} 1") or name.lower() in _NO_VALUES:
            continue
        fields[f"{name} ({read[1]})" if read[1] else name] = read[0]
    last_words = (key.lower().split()[-1] for key in fields)
    if step is None or not any("loss" in word and "scale" not in word for word in last_words):
        return None
    return epoch, step, fields


def _telling(line: str) -> bool:
    return read_line(split_rank(line)[1]) is not None


def _after_code(lines: tuple[str, ...]) -> tuple[str, ...]:
    """What follows the last line of source code: a program may print itself before it trains, and one that is none
    of a log has code to its end.  The lines that a stack trace quotes do not count."""
    last = -1
    for number, line in enumerate(lines):
        if _CODE.match(line) and not (number and lines[number - 1].lstrip().startswith('File "')):
            last = number
    return lines[last + 1 :]


def recognise(sample: Sample) -> float:
    """How sure it is: several lines that name a step and a loss, in no format that another parser knows."""
    lines = lines_to_judge(sample)
    likely = [line for line in _after_code(lines) if "loss" in line.lower()]
    looked_at = likely[: _LOOKED_AT // 2] + likely[_LOOKED_AT // 2 :][-_LOOKED_AT // 2 :]
    count = sum(map(_telling, looked_at))
    return by_count(count, lines, surest=0.45) if count > 1 or count >= 0.3 * len(lines) else 0.0


def read(request: Request) -> Iterator[Records]:
    """Read a text log of no known dialect."""
    return read_log(request, FORMAT, KeyValue)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
