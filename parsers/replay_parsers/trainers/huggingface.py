"""The console of Hugging Face's Trainer, and of what is built on it: dictionaries between progress bars.

     1%|    | 10/1000 [00:10<16:30,  1.00it/s]
    {'loss': 2.5, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.1}

The dictionaries are Python's, not JSON: single quotes, nan, in newer versions every value a string; they are read by
a strict reader of their own, never evaluated.  They name no step.  The training bar does: one that is wiped for the
record is drawn anew behind it and tells its step, while the state before may be several steps old, since bars are
drawn ten times a second at most; else the bar drawn before counts.  Without a bar the epoch tells the step, once the
run has said how many steps it will take; else records are numbered, and a finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from replay_parsers.lines import Line, split_rank
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.huggingface_meaning import FilteredLoss, with_run_mean
from replay_parsers.trainers.json_objects import NULLS, TEXTS
from replay_parsers.trainers.losses import missing_loss, training_loss
from replay_parsers.trainers.numbers import parse_number, parse_step
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines
from replay_parsers.trainers.timestamps import WITHIN, printed_time

FORMAT = "huggingface"

_BEGIN = re.compile(r"\{'[\w/ .()\[\]-]{1,120}': ?")
_KEY = re.compile(r"\s{0,4},?\s{0,4}'([^']{1,120})'\s{0,4}:\s{0,4}")
_VALUE = re.compile(
    r"'([^']{0,200})'"
    r"|(?:np\.float\d\d\(|tensor\()?([+-]?(?:\d[\d.]{0,60}(?:[eE][+-]?\d{1,4})?|nan|inf))"
    r"(?:\)|, device='[^']{0,20}'\))?"
    r"|(None|True|False)"
)
_BAR = re.compile(r"^\s{0,8}(?:Train: {1,4})?\d{1,3}%\|[^|]{0,400}\| {0,8}(\d{1,18})/(\d{1,18}) \[(?:[^\]]{0,300}\])?")
_PLAN = re.compile(r"(Total optimization steps|Num Epochs)\s{0,4}=\s{0,4}([\d,]{1,20})")
_STEPS = ("step", "global_step", "global_step/max_steps")
_LONGEST = 20_000


def parse_dictionary(text: str) -> dict[str, str] | None:
    """Read a flat Python dictionary of names and plain values as text; None when ``text`` is none.

    >>> parse_dictionary("{'loss': 2.5, 'grad_norm': nan}")
    {'loss': '2.5', 'grad_norm': 'nan'}
    """
    if not text.startswith("{") or len(text) > _LONGEST:
        return None
    found: dict[str, str] = {}
    at = 1
    while (key := _KEY.match(text, at)) is not None:
        value = _VALUE.match(text, key.end())
        if value is None:
            return None
        found[key[1]] = value[1] if value[1] is not None else value[2] or value[3]
        at = value.end()
    return found if found and text[at:].lstrip().startswith("}") else None


class _Held(TypedDict):
    """A record whose step the bar behind it will tell; numbers as text, in which a nan is one in JSON as well."""

    line: int
    rank: str
    text: str
    record: dict[str, str]


class HuggingFace:
    """Reads dictionaries, and the bars that tell their steps."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        # The training bar, for evaluations draw theirs in between: the first one, until another is seen to stand
        # right beside a training loss.
        self.total = int(state.get("total", 0))
        self.done: int | None = state.get("done")
        # The steps done and to do of the bar on the line just read, if it shows one.
        self.shown: list[int] = list(state.get("shown", []))
        # Whether a bar has just been wiped, to be drawn anew behind what is written in its place.
        self.wiped = bool(state.get("wiped", False))
        self.held: _Held | None = state.get("held")
        self.plan: dict[str, int] = dict(state.get("plan", {}))
        self.count = int(state.get("count", 0))
        self.filtered = FilteredLoss(state.get("filtered", {}))

    def state(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "done": self.done,
            "shown": list(self.shown),
            "wiped": self.wiped,
            "held": self.held,
            "plan": dict(self.plan),
            "count": self.count,
            "filtered": self.filtered.state(),
        }

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        if goes_on:
            return False
        if not text or text.isspace():
            self.wiped, self.shown = self.done is not None, []
            return False
        wiped, self.wiped = self.wiped, False
        bar = _BAR.match(text) if "%|" in text[:24] else None
        if bar is not None:
            self.shown = [int(bar[1]), int(bar[2])]
            if self.total in (0, self.shown[1]):
                self.done, self.total = self.shown
        begin = _BEGIN.search(text[:_LONGEST])
        record = parse_dictionary(text[begin.start() :]) if begin else None
        if self.held is not None and (bar is None or record is not None or self._is_redrawn()):
            self._release(book)
        if "= " in text[:60] and (plan := _PLAN.search(text, 0, 120)) is not None:
            self.plan[plan[1]] = parse_step(plan[2]) or 0
            return True
        if record is not None:
            held: _Held = {"line": line.number, "rank": rank, "text": text[:WITHIN], "record": record}
            if wiped and bar is None:
                self.held = held
            else:
                self._take(held, book)
            self.shown = []
            return True
        if bar is None:
            self.shown = []
            return False
        book.other["timers, rules and progress bars"] += 1
        # A crash is printed behind the bar that stood there.
        if rest := text[bar.end() :].strip():
            book.other_line(line.number, rest, rank)
        return True

    def _is_redrawn(self) -> bool:
        """Whether the bar just shown is the training's; beside one, an evaluation draws its own anew as well."""
        return self.held is not None and (self.shown[1] == self.total or _trained(self.held["record"]))

    def _release(self, book: Book) -> None:
        held, self.held = self.held, None
        if held is not None:
            self._take(held, book)

    def _take(self, held: _Held, book: Book) -> None:
        record = held["record"]
        numbers = _numbers(record)
        fields = with_run_mean(numbers)
        nulls = [key for key, printed in record.items() if printed == "None"]
        texts = len(record.keys() - numbers.keys() - {*nulls, *_STEPS})
        book.leave_out({kind: count for kind, count in ((NULLS, len(nulls)), (TEXTS, texts)) if count})
        trained = _trained(record)
        self.count += trained
        if trained and self.shown:
            self.done, self.total = self.shown
        step = self._step(record, fields, book, held["line"])
        time = printed_time(held["text"])
        book.measured(held["line"], step, fields, time, held["rank"])
        if (missing := missing_loss(nulls, numbers)) is not None:
            book.missing_loss(held["line"], step, missing, time, held["rank"])
        if trained:
            self.filtered.look(fields, step, held["line"], book)

    def _step(self, record: Mapping[str, str], fields: Mapping[str, float], book: Book, line: int) -> int:
        for key in _STEPS:
            if key in record and (step := parse_step(record[key])) is not None:
                return step
        if self.done is not None:
            return self.done
        steps, epochs, epoch = (
            self.plan.get("Total optimization steps"),
            self.plan.get("Num Epochs"),
            fields.get("epoch"),
        )
        if steps and epochs and epoch is not None and 0 <= epoch <= epochs:
            return round(epoch * steps / epochs)
        if "step axis" not in book.metadata and self.count <= 1:
            book.finding(
                "no_step",
                line,
                ("the records of this log name no step, and no progress bar stands beside them",),
                "they are numbered in their order",
                "the Trainer prints only epochs; its trainer_state.json has the steps",
            )
        book.metadata["step axis"] = "number of the record"
        return max(self.count, 1)

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        if goes_on:
            return False
        # The bar at the end of a log has no end of line, and may be what the last record waits for.
        if self.held is not None and (bar := _BAR.match(text)) is not None and bar[0].endswith("]"):
            return bar.end() == len(text)
        begin = _BEGIN.search(text[:_LONGEST])
        return begin is not None and parse_dictionary(text[begin.start() :]) is not None

    def unfinished(self) -> str:
        return "" if self.held is None else str(self.held["record"])


def _numbers(record: Mapping[str, str]) -> dict[str, float]:
    return {key: value for key, printed in record.items() if (value := parse_number(printed)) is not None}


def _trained(record: Mapping[str, str]) -> bool:
    """Whether a record tells the loss of a step; the one at the end of a run tells the mean over all of them."""
    return training_loss(_numbers(record)) is not None and ("loss" in record or "train_runtime" not in record)


def _telling(line: str) -> bool:
    begin = _BEGIN.search(split_rank(line)[1])
    record = parse_dictionary(split_rank(line)[1][begin.start() :]) if begin else None
    if record is None:
        return False
    return training_loss(dict.fromkeys(record, 0.0)) is not None or "eval_loss" in record


def recognise(sample: Sample) -> float:
    """How sure it is that a file is a Trainer's console."""
    return by_lines(sample, _telling)


def read(request: Request) -> Iterator[Records]:
    """Read a Trainer's console."""
    return read_log(request, FORMAT, HuggingFace)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
