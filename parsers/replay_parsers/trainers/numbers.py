"""Numbers as trainers print them."""

from __future__ import annotations

import math
import re

_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_WITH_UNIT = re.compile(
    r"([+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)(?![a-z]))\s*([^\d\s]\S*|\(.*)?", re.I
)

_LETTERS = re.compile(r"[^\W\d_]*%?")

LARGEST_DOUBLE = 1.797e308
"""Writers that cannot say infinity say the largest double."""

MAX_STEP = 2**62
_LONGEST = 64
_LONGEST_INTEGER = 400


def parse_number(text: str) -> float | None:
    """Read a printed number; None when it is none.

    ``1.0E+04``, ``1,024``, ``nan``, ``-nan``, ``inf`` and ``Infinity`` are numbers; ``nanms`` and ``0.39 (nan)``
    are not.

    >>> parse_number("1,024"), parse_number(" 2.1E+00 "), parse_number("nanms")
    (1024.0, 2.1, None)
    """
    try:
        value = float(text)
    except ValueError:
        text = text.strip()
        if len(text) > _LONGEST or not _GROUPED.fullmatch(text):
            return None
        value = float(text.replace(",", ""))
    return bounded(value)


def bounded(value: float) -> float:
    """``value``, with the largest double, as which infinity may have been stored, made infinity again."""
    if value >= LARGEST_DOUBLE:
        return math.inf
    return -math.inf if value <= -LARGEST_DOUBLE else value


def parse_integer(text: str) -> int | float:
    """Read an integer in JSON; one of more digits than any double has, thousands even, is infinite.

    Python refuses to read the longest, which is no reason to lose what stands beside it.
    """
    return int(text) if len(text) < _LONGEST_INTEGER else float(text)


def number_with_unit(text: str) -> tuple[float, str] | None:
    """Read a number that may be followed by a unit or a remark: ``50.3TFLOPS``, ``12.5%``, ``0.3922 (nan)``.

    Returns the number and its unit.  A remark in brackets is none, nor is a second number, a mean for example, that
    stands behind a slash: it changes from line to line, and each would become a tag of its own.

    >>> number_with_unit("50.3TFLOPS"), number_with_unit("0.3922 (nan)"), number_with_unit("13100.0/13240.9")
    ((50.3, 'TFLOPS'), (0.3922, ''), (13100.0, ''))
    """
    match = _WITH_UNIT.fullmatch(text.strip()[:_LONGEST])
    if match is None:
        return None
    value = parse_number(match[1])
    return None if value is None else (value, _unit(match[2] or ""))


def _unit(behind: str) -> str:
    """The unit at the beginning of what stands behind a number."""
    if any(map(str.isdigit, behind)):
        behind = _LETTERS.match(behind)[0]  # type: ignore[index]
    return "" if behind.startswith("(") else behind


def parse_step(text: str) -> int | None:
    """Read a step: ``173``, ``1,730``, ``"173/2353"``, ``173.0``; None when it is none.

    >>> parse_step("173/2353"), parse_step("2e3"), parse_step("2.5")
    (173, 2000, None)
    """
    value = parse_number(text.split("/", 1)[0])
    if value is None or not math.isfinite(value) or abs(value) > MAX_STEP or value != int(value):
        return None
    # Beyond 2**53 a double no longer holds every integer.
    digits = text.split("/", 1)[0].strip().replace(",", "")
    return int(digits) if len(digits) < _LONGEST and digits.isdecimal() else int(value)


def as_step(value: object) -> int | None:
    """A step from a number or its print; None when it is none."""
    if isinstance(value, int):
        return int(value) if abs(value) <= MAX_STEP else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and abs(value) <= MAX_STEP and value == int(value) else None
    return parse_step(value) if isinstance(value, str) else None
