"""The text files of MosaicML's Composer (`composer/loggers/file_logger.py`).

    [hyperparameter]: composer_version: "0.32.1"
    [metric][batch=0]: loss/train/total: 6.9367
    [stderr]: [epoch=1][batch=1/20]:

Each line is one value.  Batches count from 0 over the whole run.  What the console said is copied between and measures
nothing new; it may tell of events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replay_parsers.lines import Line
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.numbers import parse_number
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines

FORMAT = "composer-file"

_METRIC = re.compile(r"\[metric\]\[batch=(\d{1,18})\]: ([^:]{1,200}): (\S{1,40})\s{0,8}$")
_HYPERPARAMETER = re.compile(r"\[hyperparameter\]: ([^:]{1,200}): (.{1,2000}?)\s{0,8}$")
_COPIED = re.compile(r"\[(?:stderr|stdout)\]: ?")


class ComposerFile:
    """Reads metrics and hyperparameters, and events from what is copied."""

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        if goes_on:
            return False
        if (match := _METRIC.match(text)) is not None and (value := parse_number(match[3])) is not None:
            book.measured(line.number, int(match[1]), {match[2]: value}, None, rank)
            return True
        if (match := _HYPERPARAMETER.match(text)) is not None:
            book.metadata[f"hparams/{match[1]}"] = match[2].strip('"')
            return True
        if (match := _COPIED.match(text)) is None:
            return False
        if not book.event_line(line.number, text[match.end() :], rank):
            book.other["copies of the console"] += 1
        return True

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        # Nothing says where a value ends.
        return not text and goes_on

    def unfinished(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return {}


def _from_state(_: Mapping[str, Any]) -> ComposerFile:
    return ComposerFile()


def recognise(sample: Sample) -> float:
    """How sure it is that a file is Composer's."""
    return by_lines(sample, _METRIC.match, 0.95)


def read(request: Request) -> Iterator[Records]:
    """Read a text file of Composer's file logger."""
    return read_log(request, FORMAT, _from_state)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
