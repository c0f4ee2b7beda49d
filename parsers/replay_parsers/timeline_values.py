"""Reading the values of a timeline file: text, numbers, steps, times, choices.

A reader takes a node and gives its value, or notes a fault and gives :data:`BAD`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from replay_parsers.printed_time import PrintedTime, PrintedTimeError, parse_printed_time, printed_label
from replay_parsers.timeline_document import Fault, Listing, Mapping, Node, Text

_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]*")
_INTEGER_LIMIT = 2**63


@dataclass(slots=True)
class Reader:
    """What reading one file collects (``faults``) and needs (the run's ``clock``)."""

    clock: ZoneInfo | None = None
    faults: list[Fault] = field(default_factory=list)

    def fault(self, node: Node | int, message: str) -> None:
        """Note what is wrong at a node or line."""
        self.faults.append(Fault(node if isinstance(node, int) else node.line, message))


class Bad:
    """The value of a field that could not be read; the fault has been noted."""


BAD = Bad()
Read = Callable[[Reader, Node, str], Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one field is read, and whether it must be there."""

    read: Read
    required: bool = False


@dataclass(slots=True)
class Fields:
    """The values of one mapping.  ``sound`` is false when a known field is missing or could not be read, or an
    unknown one is there: then the mapping does not say what its writer meant.
    """

    line: int
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    sound: bool = True

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field, or ``default`` when it is not there."""
        return self.values.get(name, default)


def read_fields(reader: Reader, node: Node, rules: MappingOf[str, Rule], what: str) -> Fields | None:
    """Read a mapping by a table of rules; None when the node is no mapping.  ``what`` names it in messages."""
    if not isinstance(node, Mapping):
        reader.fault(node, f"{what} must be a mapping of `key: value` lines")
        return None
    fields = Fields(node.line)
    for name, value in node.entries.items():
        rule = rules.get(name)
        if rule is None:
            reader.fault(node.key_lines[name], f"{what}: unknown key `{name}`{_suggest(name, rules)}")
            fields.sound = False
            continue
        read = rule.read(reader, value, f"{what}: `{name}`")
        if isinstance(read, Bad):
            fields.sound = False
        else:
            fields.values[name] = read
            fields.lines[name] = value.line
    for name, rule in rules.items():
        if rule.required and name not in node.entries:
            reader.fault(node, f"{what} needs `{name}`")
            fields.sound = False
    return fields


def _suggest(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known are {', '.join(known)}"


def read_text(reader: Reader, node: Node, what: str) -> str | Bad:
    """Any scalar, as it is written, white space at line breaks folded into one space."""
    if not isinstance(node, Text):
        reader.fault(node, f"{what} must be text, not a {'list' if isinstance(node, Listing) else 'mapping'}")
        return BAD
    if node.empty or not node.value.strip():
        reader.fault(node, f"{what} is empty; leave the key out when the value is not known")
        return BAD
    return " ".join(node.value.split())


def read_number(reader: Reader, node: Node, what: str) -> float | Bad:
    """A finite number: ``6e-5``, ``130e9``, ``960.351``."""
    text = read_text(reader, node, what)
    if isinstance(text, Bad):
        return BAD
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        reader.fault(node, f"{what}: `{text}` is no number; write it like 6e-5 or 960.351, without units")
        return BAD
    return number


def read_positive(reader: Reader, node: Node, what: str) -> float | Bad:
    """A number above zero."""
    number = read_number(reader, node, what)
    if not isinstance(number, Bad) and number <= 0:
        reader.fault(node, f"{what} must be above 0, not {number:g}")
        return BAD
    return number


def read_not_negative(reader: Reader, node: Node, what: str) -> float | Bad:
    """A number from zero."""
    number = read_number(reader, node, what)
    if not isinstance(number, Bad) and number < 0:
        reader.fault(node, f"{what} cannot be below 0, but is {number:g}")
        return BAD
    return number


def read_whole(reader: Reader, node: Node, what: str) -> int | Bad:
    """A whole number from zero, such as a step."""
    text = read_text(reader, node, what)
    if isinstance(text, Bad):
        return BAD
    if not re.fullmatch(r"\d{1,19}", text) or int(text) >= _INTEGER_LIMIT:
        reader.fault(node, f"{what}: `{text}` is no whole number; write a step like 33740, without separators")
        return BAD
    return int(text)


def read_slug(reader: Reader, node: Node, what: str) -> str | Bad:
    """An id of small letters, digits, dots, hyphens and underscores."""
    text = read_text(reader, node, what)
    if not isinstance(text, Bad) and not _SLUG.fullmatch(text):
        reader.fault(node, f"{what}: `{text}` is no id; use small letters, digits, `-`, `.` and `_` only")
        return BAD
    return text


def read_clock(reader: Reader, node: Node, what: str) -> str | Bad:
    """The name of an IANA zone."""
    text = read_text(reader, node, what)
    if isinstance(text, Bad):
        return BAD
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):  # an unknown name, one that is no name, a folder of names
        reader.fault(node, f"{what}: `{text}` is no IANA time zone, such as Asia/Shanghai or UTC")
        return BAD
    return text


def read_time(reader: Reader, node: Node, what: str) -> PrintedTime | Bad:
    """A time as printed, on the run's clock."""
    text = read_text(reader, node, what)
    if isinstance(text, Bad):
        return BAD
    try:
        return parse_printed_time(text, reader.clock)
    except PrintedTimeError as error:
        reader.fault(node, f"{what}: {error}")
        return BAD


def read_printed(reader: Reader, node: Node, what: str) -> str | Bad:
    """A time as printed, which need not exist; what it means is found later."""
    text = read_text(reader, node, what)
    if isinstance(text, Bad):
        return BAD
    try:
        printed_label(text)
    except PrintedTimeError as error:
        reader.fault(node, f"{what}: {error}")
        return BAD
    return text


def read_choice(choices: type[StrEnum]) -> Read:
    """One member of a closed set."""

    def read(reader: Reader, node: Node, what: str) -> Any:
        text = read_text(reader, node, what)
        if isinstance(text, Bad):
            return BAD
        try:
            return choices(text)
        except ValueError:
            reader.fault(node, f"{what}: `{text}` is none of its values{_suggest(text, [str(c) for c in choices])}")
            return BAD

    return read


def read_text_by_name(reader: Reader, node: Node, what: str) -> dict[str, str] | Bad:
    """A mapping of text; a list of texts is written with commas."""
    if not isinstance(node, Mapping):
        reader.fault(node, f"{what} must be a mapping of `name: text`")
        return BAD
    read = {name: read_text(reader, value, f"{what}, `{name}`") for name, value in node.entries.items()}
    sound = {name: value for name, value in read.items() if not isinstance(value, Bad)}
    return sound if len(sound) == len(read) else BAD


def read_texts(reader: Reader, node: Node, what: str) -> list[str] | Bad:
    """A list of two texts or more."""
    if not isinstance(node, Listing) or len(node.items) < 2:
        reader.fault(node, f"{what} must be a list of at least two texts")
        return BAD
    read = [read_text(reader, item, what) for item in node.items]
    sound = [text for text in read if not isinstance(text, Bad)]
    return sound if len(sound) == len(read) else BAD
