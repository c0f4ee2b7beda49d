"""Text logs of Megatron-LM and its descendants: Megatron-DeepSpeed (BLOOM) and GPT-NeoX.

A record is one line of `key: value` fields between bars, headed by `iteration N/ M`:

    iteration 100/ 1000 | consumed samples: 6400 | learning rate: 1.0E-04 | lm loss: 2.1E+00 | ... |

What makes it harder (all of it seen in published logs): ranks in front; records wrapped by a terminal in the
middle of a word; two records on a line; GPT-NeoX's first field in front of the header.  Megatron prints a loss
only when it is greater than zero, so that a loss that is not a number shows as a field that is missing, while
the counter of nan iterations may read 0 (`training_log` in Megatron-LM's `training.py`).  Iterations that were
skipped are counted since the last report.

Every field is kept under the key that the log prints.  A field counts once its closing bar is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay_parsers.lines import Line, split_rank
from replay_parsers.parser import Parser, Request, Sample
from replay_parsers.records import Records
from replay_parsers.trainers.megatron_meaning import RecordMeaning
from replay_parsers.trainers.numbers import number_with_unit, parse_number
from replay_parsers.trainers.reading import Book, read_log
from replay_parsers.trainers.recognising import by_lines
from replay_parsers.trainers.timestamps import printed_time

FORMAT = "megatron"

_HEADER = re.compile(r"iteration\s{1,40}(\d{1,18})\s{0,40}/\s{0,40}\d{1,80}\s{0,80}$")
_IMPOSSIBLE_HEADER = re.compile(r"iteration\s{1,40}(-\d{1,80}|\d{19,80})\s{0,40}/\s{0,40}\d{1,80}\s{0,80}$")
_VALIDATION = re.compile(
    r"(?:validation|test|valid) (?:loss|results) at "
    r"(?:the end of training for \w{1,20} data|iteration\s{1,9}(\d{1,18}))"
    r"(?: on ([^|]{1,80}?))?\s{0,80}$"
)
# The keys of a record with their blanks taken out, to mend those that a wrapped line broke.
_KEYS = (
    "consumed samples",
    "consumed tokens",
    "elapsed time per iteration (ms)",
    "elapsed time per iteration (s)",
    "throughput per GPU (TFLOP/s/GPU)",
    "learning rate",
    "global batch size",
    "lm loss",
    "lm_loss",
    "mtp_1 loss",
    "load_balancing_loss",
    "mlm loss",
    "sop loss",
    "loss scale",
    "grad norm",
    "num zeros",
    "params norm",
    "number of skipped iterations",
    "number of nan iterations",
    "samples per second",
    "samples/sec",
    "curriculum seqlen",
    "approx flops per GPU",
    "actual seqlen",
    "TFLOPs",
)
_MENDED = {key.replace(" ", ""): key for key in _KEYS}
_KEY = re.compile(r"[A-Za-z][\w ()/.%@*-]{0,79}")
_ANY_HEADER = re.compile(r"iteration\s{1,40}\d{1,18}\s{0,40}/\s{0,40}\d{1,18}\s{0,40}\||(?:loss|results) at iteration ")
_PREAMBLE = (
    "using world size: ",
    "building train, validation, and test datasets",
    "number of parameters on (tensor, pipeline) model parallel rank",
    "setting number of micro-batches to constant",
    "[before the start of training step]",
    "initializing torch distributed ...",
    "padded vocab (size: ",
)
_TELLING = ("per iteration", "learning rate:", "consumed samples:", "loss value:")
_LONGEST_FIELD = 200
_MOST_KEYS = 4_096


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """One record as the log prints it: its line (from 1), its iteration, and its fields in order."""

    line: int
    step: int
    fields: dict[str, float]


class Megatron:
    """Puts records together, field by field, and draws from each what it means."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        # The record that lines may still add to: its step, who reports it, and the piece after its last bar.
        self.step: int | None = state.get("step")
        self.rank: str = state.get("rank", "")
        self.time: int | None = state.get("time")
        self.tail: str = state.get("tail", "")
        self.meaning = RecordMeaning(state.get("meaning", {}))
        self.repeating = bool(state.get("repeating", False))
        self._keys: dict[str, str] = {}
        # Those that are tags as they stand.
        self._plain: dict[str, str] = {}

    def state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "rank": self.rank,
            "time": self.time,
            "tail": self.tail,
            "meaning": self.meaning.state(),
            "repeating": self.repeating,
        }

    def whole(self, text: str, *, goes_on: bool = False) -> bool:
        """A record may be read while it is being written: each field stands for itself."""
        pieces = text.split("|")
        return any(_HEADER.search(piece) for piece in pieces[:-1]) or self._continued(pieces, "", goes_on) is not None

    def unfinished(self) -> str:
        return self.tail.strip()

    def read(self, line: Line, rank: str, text: str, book: Book, *, goes_on: bool = False) -> bool:
        pieces = text.split("|")
        if len(pieces) == 1 and not goes_on:
            return False
        # All but GPT-NeoX begin with the header.
        header = _HEADER.search(pieces[0]) if len(pieces) > 1 else None
        if header is not None:
            self._open(header, rank, pieces[0], book)
            self._fields(pieces, 1, line, book)
            return True
        if len(pieces) > 1 and self._is_impossible(pieces[0], line, book):
            self._fields(pieces, 1, line, book)
            return True
        for at, piece in enumerate(pieces[1:-1], start=1):
            if "/" in piece and (header := _HEADER.search(piece)) is not None:
                self._read_from_the_middle(header, at, pieces, rank, line, book)
                return True
        if (validation := _VALIDATION.search(pieces[0])) is not None and len(pieces) > 1:
            return self._validation(validation, pieces, line, book)
        continued = self._continued(pieces, rank, goes_on)
        if continued is None:
            return False
        self._fields(continued, 0, line, book)
        return True

    def _read_from_the_middle(
        self, header: re.Match[str], at: int, pieces: list[str], rank: str, line: Line, book: Book
    ) -> None:
        """Read a line whose first header is its piece ``at``: what stands before belongs to the record before,
        unless it is GPT-NeoX's samples/sec, which stands in front of its own."""
        before = [piece for piece in pieces[:at] if "samples/sec" not in piece]
        continued = self._continued([*before, ""], rank, False) if before else None
        if continued is not None:
            self._fields(continued, 0, line, book)
        self._open(header, rank, pieces[at], book)
        own = [piece[piece.index("samples/sec") :] for piece in pieces[:at] if "samples/sec" in piece]
        self._fields([*own, *pieces[at + 1 :]], 0, line, book)

    def _continued(self, pieces: list[str], rank: str, goes_on: bool) -> list[str] | None:
        """The pieces of a line that goes on with the open record, the broken first one mended; None if it does not."""
        if self.step is None or (rank and rank != self.rank):
            return None
        first = self.tail + pieces[0]
        if goes_on:
            return [first, *pieces[1:]]
        key, colon, value = first.rpartition(":")
        if len(pieces) == 1 or not colon or (not self.tail and key.replace(" ", "") not in _MENDED):
            return None
        if not self._key(key) or number_with_unit(value) is None:
            return None
        return [first, *pieces[1:]]

    def _open(self, header: re.Match[str], rank: str, piece: str, book: Book) -> None:
        """Begin a record."""
        if self.tail.strip():
            book.other["fields cut off"] += 1
        step = int(header[1])
        self.repeating = book.repeated(step, rank)
        if not self.repeating:
            self.meaning.begin(step, book)
        self.step, self.rank, self.tail = step, rank, ""
        start = header.start()
        self.time = printed_time(piece[:start]) if start > 12 else None

    def _heads_another(self, piece: str, keys: list[str], values: list[float], line: Line, book: Book) -> bool:
        """Whether a piece heads another record; if so the one before is kept, and the next begun."""
        header = _HEADER.search(piece)
        if header is None and _IMPOSSIBLE_HEADER.search(piece) is None:
            return False
        self._keep(list(keys), list(values), line, book)
        keys.clear()
        values.clear()
        if header is None:
            self._is_impossible(piece, line, book)
        else:
            self._open(header, self.rank, piece, book)
        return True

    def _is_impossible(self, piece: str, line: Line, book: Book) -> bool:
        """Whether a piece heads a record of a step that cannot be: its fields, up to the next header, are left out."""
        header = _IMPOSSIBLE_HEADER.search(piece)
        if header is None:
            return False
        book.impossible_step(line.number, header[1])
        self.repeating, self.tail = True, ""
        return True

    def _fields(self, pieces: list[str], start: int, line: Line, book: Book) -> None:
        """Take in the fields of the open record; the last piece has no bar after it yet."""
        keys: list[str] = []
        values: list[float] = []
        known = self._plain
        for piece in pieces[start:-1]:
            key, _, value = piece.rpartition(":")
            try:
                keys.append(known[key])
                values.append(float(value))
            except (KeyError, ValueError):
                del keys[len(values) :]
                self._unusual(piece, key, value, line, keys, values, book)
        self._keep(keys, values, line, book)
        tail = pieces[-1]
        if (
            tail
            and not tail.isspace()
            and (len(tail) > _LONGEST_FIELD or book.event_line(line.number, tail, self.rank))
        ):
            tail = ""
        self.tail = tail

    def _keep(self, keys: list[str], values: list[float], line: Line, book: Book) -> None:
        if self.step is not None and keys and not self.repeating:
            book.scalars.add(self.step, keys, values, self.time)
            self.meaning.take(dict(zip(keys, values, strict=True)), line.number, self.time, book)

    def _unusual(
        self, piece: str, key: str, value: str, line: Line, keys: list[str], values: list[float], book: Book
    ) -> None:
        """A field with a new key, a unit, a remark, or another record's header in it."""
        if not piece or piece.isspace():
            return
        if "/" in piece and "iteration" in piece and self._heads_another(piece, keys, values, line, book):
            return
        printed = key
        if not key:
            # The first versions print most fields without a colon: `lm loss 7.1E+00`.
            before, _, value = piece.strip().rpartition(" ")
            key = _MENDED.get(before.replace(" ", ""), "")
        tag = self._key(key)
        read = number_with_unit(value)
        if not tag or read is None:
            if piece.strip():
                book.leave_over(line.number, piece)
            return
        number, unit = read
        named = f"{tag} ({unit})" if unit else tag
        if not book.knows(named, line.number):
            return
        if not unit and len(self._plain) < _MOST_KEYS:
            self._plain[printed] = tag
        keys.append(named)
        values.append(number)

    def _key(self, printed: str) -> str:
        """The key of a field, mended when a wrapped line broke it; "" when it can be none."""
        if printed in self._keys:
            return self._keys[printed]
        key = _MENDED.get(printed.replace(" ", "")) or printed.strip()
        if not _KEY.fullmatch(key):
            return ""
        if len(self._keys) < _MOST_KEYS:
            self._keys[printed] = key
        return key

    def _validation(self, match: re.Match[str], pieces: list[str], line: Line, book: Book) -> bool:
        """A validation line; its tags are those that Megatron's own TensorBoard writer gives."""
        step = int(match[1]) if match[1] else book.scalars.last_step
        if step is None:
            return False
        which = f" ({match[2]})" if match[2] and match[2] != "validation set" else ""
        tags: list[str] = []
        values: list[float] = []
        understood = False
        for piece in pieces[1:]:
            key, _, printed = piece.rpartition(":")
            value = parse_number(printed)
            key = key.strip()
            if value is None or not _KEY.fullmatch(key):
                continue
            stem = key.removesuffix(" value").removesuffix(" PPL")
            tag = f"{stem} validation{' ppl' if key.endswith(' PPL') else ''}{which}"
            understood = True
            if book.knows(tag, line.number):
                tags.append(tag)
                values.append(value)
        if not tags:
            return understood
        book.scalars.add(step, tags, values, printed_time(pieces[0]) if len(pieces[0]) > 60 else None)
        return True


def records_in(text: str) -> list[LoggedRecord]:
    """The records that stand in ``text``, a chronicle with pasted log lines for example.

    Records broken over several lines are mended; lines count from 1.
    """
    book = Book(Request(path=Path(), source="", run="text"), {})
    dialect = Megatron({})
    found: list[LoggedRecord] = []
    offset = 0
    for number, printed in enumerate(text.split("\n"), start=1):
        rank, rest = split_rank(printed)
        headers = len(_ANY_HEADER.findall(rest))
        dialect.read(Line(number, offset, offset + len(printed) + 1, rest), rank, rest, book)
        rows = book.scalars.take()
        for step, tag, value in zip(rows.step.tolist(), rows.tag.tolist(), rows.value.tolist(), strict=True):
            if headers and (not found or found[-1].line != number or found[-1].step != step):
                found.append(LoggedRecord(number, step, {}))
            if found:
                found[-1].fields[rows.tags[tag]] = value
    return found


def recognise(sample: Sample) -> float:
    """How sure it is that a file is a Megatron log: by its records, or, before the first, by its preamble."""
    sure = by_lines(sample, _is_record, surest=0.95)
    if sure:
        return sure
    preamble = sum(words in sample.text for words in _PREAMBLE)
    return 0.3 + 0.1 * preamble if preamble >= 2 else 0.0


def _is_record(line: str) -> bool:
    return any(words in line for words in _TELLING) and _ANY_HEADER.search(line) is not None


def read(request: Request) -> Iterator[Records]:
    """Read a Megatron log."""
    return read_log(request, FORMAT, Megatron)


PARSER = Parser(name=FORMAT, recognise=recognise, read=read)
