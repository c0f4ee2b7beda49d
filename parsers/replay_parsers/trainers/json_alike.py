"""JSON lines that are alike but for their numbers, found and read by the compiled scanner.

One line is read with care: it says what the numbers are called.  The scanner takes it from there, to the first line
that is different.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from replay_parsers.lines import LONGEST_LINE
from replay_parsers.trainers import json_layout as layout
from replay_parsers.trainers import json_runs
from replay_parsers.trainers.json_objects import flat_record, parse_object
from replay_parsers.trainers.losses import training_loss

WORTH_IT = 8 << 20
"""Smaller files are read sooner than the scanner is loaded; so are those whose lines differ more than now and then."""

_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false)')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_LONGEST_NUMBER = 64


@dataclass(frozen=True)
class Template:
    """What lines that are alike have in common: the names of their numbers, and the texts around these, packed.

    ``left_out`` counts what each of them holds besides numbers, by kind.
    """

    names: tuple[str, ...]
    texts: NDArray[np.uint8]
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class Stretch:
    """Adjacent lines of a block, from byte ``begin`` to ``end``.

    If they are alike, ``names`` and ``values``, of shape [lines, names], are their numbers; ``left_out`` counts what
    each holds besides.
    """

    begin: int
    end: int
    lines: int
    names: tuple[str, ...] = ()
    values: NDArray[np.float64] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


def alike_stretches(raw: bytes, lines: int) -> list[Stretch] | None:
    """A block of whole ``lines`` as stretches, in order; None where they are not alike, or no scanner is at hand.

    Lines that are to be read one by one are stretches without values.
    """
    # The scanner compares eight bytes as one number.
    if sys.byteorder != "little" or not layout.SCANNER.at_hand():
        return None
    scanner = _Scanner(raw)
    stretches: list[Stretch] = []
    looked_at = 0
    begin = 0
    while begin < len(raw):
        looked_at += 1
        if looked_at > 1 + lines / json_runs.SHORTEST_RUNS:
            return None
        end_of_line = raw.index(b"\n", begin) + 1
        template = template_of(raw[begin:end_of_line])
        stretch = None if template is None else scanner.read(template, begin)
        if stretch is not None and stretch.lines >= json_runs.SHORTEST_RUNS:
            stretches.append(stretch)
        else:
            end, count = (end_of_line, 1) if stretch is None else (stretch.end, stretch.lines)
            if stretches and stretches[-1].values is None:
                last = stretches.pop()
                begin, count = last.begin, last.lines + count
            stretches.append(Stretch(begin, end, count))
        begin = stretches[-1].end
    return stretches


def template_of(line: bytes) -> Template | None:
    """What a line, with its line feed, has in common with others; None when it is no record of numbers alone."""
    body = line.removesuffix(b"\n").removesuffix(b"\r")
    values = [match.span(1) for match in _VALUE.finditer(body) if match[1] is not None]
    if not body.startswith(b"{") or not values or len(line) + len(values) * _LONGEST_NUMBER > LONGEST_LINE:
        return None
    # Zeros and what terminals obey are taken out of lines that are read one by one.
    if _CONTROL.search(body):
        return None
    bounds = [0, *(position for span in values for position in span), len(line)]
    texts = [line[bounds[index] : bounds[index + 1]] for index in range(0, len(bounds), 2)]
    # With their numbers in the place of the values, these come out under their names.
    numbered = b"".join(text + str(number).encode() for number, text in enumerate(texts[:-1])) + texts[-1]
    record = parse_object(numbered.decode("utf-8", "replay-latin-1"))
    if record is None:
        return None
    flat = flat_record(record)
    # Not if a name comes twice, a value is a text or no number, or lies in a list or too deep.
    if list(flat.values.values()) != list(range(len(values))):
        return None
    # A loss that is null may be an event.
    if training_loss(dict.fromkeys(flat.nulls, 0.0)) is not None:
        return None
    packed = b"".join(len(text).to_bytes(8, "little") + text for text in texts) + bytes(8)
    return Template(tuple(flat.values), np.frombuffer(packed, np.uint8), flat.left_out)


class _Scanner:
    """Reads stretches of one block of bytes."""

    def __init__(self, raw: bytes) -> None:
        self._bytes = np.frombuffer(raw, np.uint8)
        # A value and what parts it from the next take two bytes at least; memory that is not written to costs nothing.
        self._values = np.empty(len(raw) // 2 + 1)
        self._filled = 0

    def read(self, template: Template, begin: int) -> Stretch | None:
        """The lines from byte ``begin`` on that are alike; None when the first is not as plain as it looks."""
        job = np.zeros(layout.FIELDS, np.int64)
        address = int(self._bytes.ctypes.data)
        job[layout.POSITION // 8] = address + begin
        job[layout.END // 8] = address + len(self._bytes)
        job[layout.NUMBERS // 8] = len(template.names)
        job[layout.TEXTS // 8] = template.texts.ctypes.data
        job[layout.VALUES // 8] = self._values[self._filled :].ctypes.data
        lines = layout.SCANNER.function("scan")(int(job.ctypes.data))
        if not lines:
            return None
        end = int(job[layout.POSITION // 8]) - address
        first, self._filled = self._filled, self._filled + lines * len(template.names)
        values = self._values[first : self._filled].reshape(lines, -1)
        return Stretch(begin, end, lines, template.names, values, template.left_out)
