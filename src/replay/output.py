"""What the command line prints: tables for people, JSON for programs.

Logs are untrusted, and a terminal obeys what it is sent: everything that came from a file is shown with its
control characters spelled out.
"""

from __future__ import annotations

import json
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

EXACT_BELOW = 1e15
"""Whole numbers below this are printed digit for digit: a loss scale of 1048576 is no 1.04858e+06."""


_OBEYED = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
"""The categories of characters that a terminal obeys, or that break a line, rather than show."""


def visible(text: str) -> str:
    """``text`` with control, direction and line-breaking characters as escapes, safe to print in one line.

    >>> visible("loss\\x1b[31m up")
    'loss\\\\x1b[31m up'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if unicodedata.category(character) not in _OBEYED else _escape(character) for character in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape", errors="backslashreplace").decode("ascii")


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing: None, NaN, NaT or pandas' NA."""
    # By the names of their types, so that showing what an ingest did does not load pandas.
    no_value = type(value).__name__ in ("NaTType", "NAType")
    return value is None or no_value or (isinstance(value, float) and math.isnan(value))


def cell(value: object, *, data: bool = False) -> str:
    """A value of a query result as a person reads it; nothing for a missing one.

    With ``data`` set, as for the values of scalars, NaN is a measurement and reads ``nan``.
    """
    if data and isinstance(value, float | np.floating) and math.isnan(value):
        return "nan"
    if isinstance(value, Mapping):
        return visible(", ".join(f"{key}={item}" for key, item in sorted(value.items())))
    if isinstance(value, list | tuple | np.ndarray):
        return visible(", ".join(str(item) for item in value))
    if is_missing(value):
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float | np.floating):
        number = float(value)
        whole = number.is_integer() and abs(number) < EXACT_BELOW
        return str(int(number)) if whole else f"{number:.6g}"
    return visible(str(value))


def plain(value: object, *, data: bool = False) -> Any:
    """A value as JSON can hold it (RFC 8259 has no NaN).

    Missing values become null, and the infinities the strings ``"Infinity"`` and ``"-Infinity"``.  With ``data`` set,
    as for the values of scalars, NaN is a measurement too, however deep it lies, and becomes the string ``"NaN"``.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item, data=data) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item, data=data) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN" if data else None
        return "Infinity" if value == math.inf else "-Infinity"
    if is_missing(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


def frame_as_json(frame: pd.DataFrame, *, data: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a query result as plain objects; ``data`` names columns in which NaN is a measurement."""
    columns = [[plain(value, data=name in data) for value in frame[name]] for name in frame.columns]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


_printed = [0]


def print_json(value: object, *, indent: int | None = 1) -> None:
    """Write one JSON document to standard output; without ``indent`` it is one line."""
    text = json_text(value, indent=indent)
    _printed[0] += 1
    sys.stdout.write(text + "\n")


def json_documents() -> int:
    """How many JSON documents this program has written to standard output."""
    return _printed[0]


def json_text(value: object, *, indent: int | None = 1) -> str:
    """``value`` as JSON in which what :func:`visible` would escape is escaped, as JSON has it: the same when parsed."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    return _BEYOND_ASCII.sub(lambda found: _escaped_in_json(found[0]), text)


_BEYOND_ASCII = re.compile("[^\\n -~]")


@lru_cache(maxsize=1 << 12)
def _escaped_in_json(character: str) -> str:
    if unicodedata.category(character) not in _OBEYED:
        return character
    # Python leaves DEL as it is; beyond 16 bits JSON needs two escapes.
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def print_table(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, *, empty: str, data: Sequence[str] = ()
) -> None:
    """Print a query result as a table; ``empty`` is what to say when it has no rows.

    Columns without any value are left out; ``data`` names those in which NaN is a measurement.
    """
    if frame.empty:
        print(empty)
        return
    shown = [
        name
        for name in (columns or list(frame.columns))
        if name in frame.columns and any(cell(value, data=name in data) for value in frame[name])
    ]
    cells = ([cell(value, data=name in data) for value in frame[name]] for name in shown)
    _print_rows(shown, zip(*cells, strict=True))


def _print_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    if not sys.stdout.isatty():
        # A pipe gets whole values, one row a line: grep, cut and awk read it without loss.
        print("\t".join(header))
        for row in rows:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(value) for value in row))
    Console().print(table)
