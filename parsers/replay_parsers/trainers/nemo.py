"""Console logs of NeMo and of Lightning, on which it is built: the bar, and the lines of NeMo 2.  Composer's bar.

    Epoch 0:   1%|  | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, reduced_train_loss=3.090, global_step=794.0]
    Epoch 1: : 3it [00:32, reduced_train_loss=2.66e-5, global_step=6.000]
    train          Epoch   2:   35%|#     | 7/20 [00:00<00:00, 66.45ba/s, loss/train/total=3.9465]
    Training epoch 0, iteration 120/149 | lr: 3e-05 | global_step: 120 | reduced_train_loss: 1.233 | val_loss: 4.106

The bar is printed anew many times a step, rounds large steps (`global_step=9e+3`), and prints nan as `nan.0`.  Each
step is first counted and then measured, so that it is drawn with the values of the step before until its own are there;
those of an epoch's end and of an evaluation stay in the bar until the next, and are told where they change.  Composer
measures first: its steps are counted from 0, as in its other logs, and a full bar shows the last step again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from replay_parsers.lines import Line
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.numbers import MAX_STEP, parse_number, parse_step
from replay_parsers.trainers.one_line import LONGEST_RECORD
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines

FORMAT = "nemo"

_BAR = re.compile(
    r"(?:Epoch {1,4}(\d{1,9})|Batch {1,8}\d{1,18}): .{0,300}?(\d{1,18})(?:it|/(\d{1,18}|\?)) "
    r"\[[\d:<?]{1,30}(?:, {1,8}[\d.?]{1,20}(it/s|s/it|ba/s|s/ba))?, ([^\]]{1,2000})\]"
)
_LINE = re.compile(r"Training epoch (\d{1,9}), iteration (\d{1,18})/(\d{1,18}) \| (.{1,2000})$")
_ITEM = re.compile(r"([A-Za-z][^=,]{0,80})=([^,=]{0,40})(?:,|$)")
_WORTH = ("reduced_train_loss", "train_loss", "global_step", "v_num=", "loss/train/total=")


_LASTING = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|eval|test)(?:$|[^a-z])|_epoch$", re.I)
"""What is measured once in many steps, and shown at all of them."""


class State(NamedTuple):
    """What a line or one state of the bar says: values at a step, and whether that is surely their own."""

    step: int
    fields: dict[str, float]
    named: bool
    told_before: bool
    """Whether a bar that counts steps by itself cannot have measured its own step yet, or has it told already."""
    rest: str
    """What is printed behind it."""


def read_state(text: str) -> State | None:
    """What one line, or one state of the bar, says; None when it says nothing."""
    if ("poch " not in text and "Batch " not in text) or len(text) > LONGEST_RECORD:
        return None
    from_zero = False
    if match := _LINE.search(text):
        pairs = [piece.partition(": ")[::2] for piece in match[4].split(" | ")]
    elif (match := _BAR.search(text)) is not None and any(word in match[5] for word in _WORTH):
        pairs, from_zero = _ITEM.findall(match[5]), match[4] in ("ba/s", "s/ba")
    else:
        return None
    fields = {key.strip(): value for key, text in pairs if (value := _number(text)) is not None}
    if not any("loss" in key for key in fields):
        return None
    # The number, or a piece of the name, of the run's folder measures nothing.
    fields.pop("v_num", None)
    printed = fields.pop("global_step", None)
    done, total = int(match[2]), match[3] or "?"
    told_before = printed is None and match[2] == (total if from_zero else "0")
    step = _step(printed, int(match[1] or 0), done, total)
    return State(step, fields, printed is not None, told_before, text[match.end() :].strip())


def _number(text: str) -> float | None:
    text = text.strip()
    return parse_number(text.removesuffix(".0") if text.startswith(("nan", "-nan", "inf", "-inf")) else text)


def _step(printed: float | None, epoch: int, done: int, total: str) -> int:
    """The step: as printed, unless it is rounded and the bar itself says it exactly."""
    counted = done + epoch * (int(total) if total != "?" else 0)
    counted = counted if counted <= MAX_STEP else done
    if printed is None or printed != printed or abs(printed) > 2**62:
        return counted
    rounded = int(printed)
    # The bar counts the step that has just been done, `global_step` may be one behind it.
    for exact in (counted - 1, counted):
        if rounded >= 1_000 and abs(exact - rounded) <= max(1, 0.006 * rounded):
            return exact
    return parse_step(str(rounded)) or 0


class NeMo:
    """Reads lines, and of a bar each state that says something new."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.told: int | None = state.get("told")
        # Compared as text, in which a nan equals itself.
        self.shown: dict[str, str] = dict(state.get("shown", {}))
        # The line, step and rank of a state that shows the values of the step before.
        self.held: list[Any] = list(state.get("held", []))

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        state = None if goes_on else read_state(text)
        if state is None:
            if text and not text.isspace():
                self._release(book)
            return False
        if not self._take(state, line, rank, book):
            book.other["timers, rules and progress bars"] += 1
        # A crash is printed behind the bar that stood there.
        if state.rest:
            book.other_line(line.number, state.rest, rank)
        return True

    def _take(self, state: State, line: Line, rank: str, book: Book) -> bool:
        """Take in one state; false when it says nothing new."""
        shown = {key: repr(value) for key, value in state.fields.items()}
        if self.held and self.held[1] != state.step:
            self._release(book)
        if state.told_before:
            return False
        if not state.named and not self.held and state.step != self.told and shown == self.shown:
            self.held = [line.number, state.step, rank]
            return False
        again = state.step == self.told
        fields = {
            key: value
            for key, value in state.fields.items()
            if shown[key] != self.shown.get(key) or not (again or _LASTING.search(key))
        }
        self.told, self.shown, self.held = state.step, shown, []
        if fields:
            book.measured(line.number, state.step, fields, None, rank)
        return bool(fields)

    def _release(self, book: Book) -> None:
        """Take in what is held: nothing else came at its step, which measured what the one before did."""
        if self.held:
            (number, step, rank), self.held = self.held, []
            fields = {key: float(value) for key, value in self.shown.items() if not _LASTING.search(key)}
            self.told = step
            book.measured(number, step, fields, None, rank)

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        return not goes_on and text.endswith("]") and read_state(text) is not None

    def unfinished(self) -> str:
        return f"the bar at step {self.held[1]}" if self.held else ""

    def state(self) -> dict[str, Any]:
        return {"told": self.told, "shown": self.shown, "held": self.held}


def _telling(line: str) -> bool:
    return "reduced_train_loss" in line and read_state(line) is not None


def recognise(sample: Sample) -> float:
    """How sure it is that a file is NeMo's: by `reduced_train_loss`, a name of its own; other bars are Lightning's."""
    return by_lines(sample, _telling, surest=0.95) or by_lines(sample, read_state, surest=0.6)


def read(request: Request) -> Iterator[Records]:
    """Read a NeMo log."""
    return read_log(request, FORMAT, NeMo)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
