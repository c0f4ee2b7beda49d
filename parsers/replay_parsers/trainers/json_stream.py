"""A document of JSON of any size, its lists element by element.

Python's own decoder reads each element, so that bare NaN and Infinity, which are no JSON, are read all the same;
readers of JSON as a stream refuse them.  Of the document, no more than a window is held in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, auto
from typing import Any, NamedTuple

from replay_parsers.trainers.numbers import parse_integer

WINDOW = 1 << 20
"""Characters, or what comes at once."""

LONGEST_VALUE = 16 << 20
"""Characters: a longer element of a list, or a longer value beside the lists, is not held in memory."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_LONGEST_WORD = 16
"""More characters than an escape, a bare -Infinity, or any other word that may be cut in the middle."""


class DamageError(ValueError):
    """The document is no JSON from here on.  The message names the line."""


class PartKind(Enum):
    """What part of a document comes next."""

    VALUE = auto()
    """Something that is no list: a key of the document, and its value."""
    LIST = auto()
    """A list begins, under a key of the document; None when it is the document itself."""
    ELEMENT = auto()
    """An element of the list that began last."""
    DAMAGE = auto()
    """The document is damaged, or breaks off; the value is the message."""


class Part(NamedTuple):
    """A part of a document, in the order in which they stand."""

    kind: PartKind
    name: str | None
    value: Any = None


class JsonText:
    """The text of a document, of which a window is held: what has been read is let go."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._decoder = json.JSONDecoder(parse_int=parse_integer)
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def peek(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read_more()

    def skip(self) -> None:
        """Go on to behind the next character."""
        self._at += 1

    def value(self) -> Any:
        """The value that begins here.  Raises :class:`DamageError` where none does, or none that can be held."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._text) - _LONGEST_WORD or error.msg.startswith("Unterminated string")
                if self._ended or not cut:
                    raise self.damage(error.msg, error.pos) from error
            except (ValueError, RecursionError) as error:
                raise DamageError(str(error)) from error
            else:
                # Close to the end of the window, a number may go on behind it: `1.` is read as 1.
                if end < len(self._text) - _LONGEST_WORD or self._ended:
                    self._at = end
                    return value
            if len(self._text) - self._at > LONGEST_VALUE:
                raise self.damage(f"a value of more than {LONGEST_VALUE:,} characters", self._at)
            self._read_more()

    def damage(self, message: str, at: int | None = None) -> DamageError:
        """What is wrong here, or at a place in the window."""
        line = self._line + self._text.count("\n", 0, self._at if at is None else at)
        return DamageError(f"line {line}: {message}")

    def find(self, pattern: re.Pattern[str], longest: int) -> re.Match[str] | None:
        """Go on to behind the next place that matches ``pattern`` within ``longest`` characters; None if none does."""
        while True:
            found = pattern.search(self._text, self._at)
            if found is not None and (found.end() < len(self._text) or self._ended):
                self._at = found.end()
                return found
            if self._ended:
                return None
            self._at = max(self._at, len(self._text) - longest)
            self._read_more()

    def pass_over(self) -> None:
        """Go on to the end, whatever stands before."""
        self._text, self._at, self._ended = "", 0, True
        for _ in self._pieces:
            pass

    def _read_more(self) -> None:
        """At least twice as much, so that what is tried again does not take the square of its length."""
        self._line += self._text.count("\n", 0, self._at)
        parts = [self._text[self._at :]]
        wanted = max(WINDOW, len(parts[0]))
        while wanted > 0 and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            parts.append(piece or "")
            wanted -= len(parts[-1])
        self._text, self._at = "".join(parts), 0


def parts_of(text: JsonText, sought: re.Pattern[str], longest: int, names: tuple[str, ...]) -> Iterator[Part]:
    """The parts of a document, those of its lists element by element.

    Where it is damaged before a list of one of these ``names`` began, the first list behind the damage is looked for
    by ``sought``, a pattern of at most ``longest`` characters that ends before the first element.
    """
    begun = False
    try:
        for part in _whole(text):
            begun = begun or (part.kind is PartKind.LIST and (part.name is None or part.name in names))
            yield part
    except DamageError as damage:
        yield Part(PartKind.DAMAGE, None, str(damage))
        if not begun and text.find(sought, longest) is not None:
            yield Part(PartKind.LIST, names[0])
            # Told once is enough: what comes now is behind it.
            with suppress(DamageError):
                yield from _elements(text, names[0])
        text.pass_over()


def _whole(text: JsonText) -> Iterator[Part]:
    """The document, from its beginning to its end."""
    first = text.peek()
    if first == "[":
        yield from _list(text, None)
    elif first == "{":
        yield from _object(text)
    else:
        yield Part(PartKind.VALUE, None, text.value())
    if text.peek():
        raise text.damage("Extra data")


def _object(text: JsonText) -> Iterator[Part]:
    text.skip()
    if text.peek() == "}":
        text.skip()
        return
    while True:
        if text.peek() != '"':
            raise text.damage("Expecting property name enclosed in double quotes")
        name = str(text.value())
        if text.peek() != ":":
            raise text.damage("Expecting ':' delimiter")
        text.skip()
        if text.peek() == "[":
            yield from _list(text, name)
        else:
            yield Part(PartKind.VALUE, name, text.value())
        if not _goes_on(text, "}"):
            return


def _list(text: JsonText, name: str | None) -> Iterator[Part]:
    text.skip()
    yield Part(PartKind.LIST, name)
    if text.peek() == "]":
        text.skip()
        return
    yield from _elements(text, name)


def _elements(text: JsonText, name: str | None) -> Iterator[Part]:
    while True:
        text.peek()
        yield Part(PartKind.ELEMENT, name, text.value())
        if not _goes_on(text, "]"):
            return


def _goes_on(text: JsonText, closing: str) -> bool:
    """Whether another member follows, behind its comma."""
    mark = text.peek()
    if mark not in (",", closing):
        raise text.damage("Expecting ',' delimiter")
    text.skip()
    return mark == ","
