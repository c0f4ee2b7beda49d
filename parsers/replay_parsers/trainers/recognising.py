"""How sure a dialect can be of a file: by the lines that are its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice

from replay_parsers.files import GZIP_MAGIC, SAMPLE_BYTES
from replay_parsers.lines import without_terminal_codes
from replay_parsers.parser import Sample

_HEADING = re.compile(r"#{1,6} \S")
_LONGEST = 2_000
_BETWEEN_BYTES = 8_192
_ENOUGH = 3


@lru_cache(maxsize=4)
def lines_to_judge(sample: Sample, longest: int = _LONGEST) -> tuple[str, ...]:
    """The lines at the beginning of a file, some from its middle, and those at its end where that can be read.

    Logs may begin with hundreds of kilobytes of source code or configuration, and end with as much of a crash: the
    first record is then found elsewhere.  Of each line ``longest`` characters are kept.
    """
    head = sample.head
    wide = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2])
    text = head[2:].decode(wide, "replace") if wide else head.decode("utf-8-sig", "replace")
    if not sample.whole and not wide:
        text += "\n" + "\n".join(_elsewhere(sample))
    shown = without_terminal_codes(text).replace("\r", "\n").split("\n")
    return tuple(line[:longest] for line in shown if line and not line.isspace())


def _elsewhere(sample: Sample) -> list[str]:
    """Pieces of what follows the head: three in between, where it is long, and the end."""
    try:
        if not sample.path.is_file():
            return []
        with sample.path.open("rb") as stream:
            if stream.read(2) == GZIP_MAGIC:
                return []
            end = stream.seek(0, 2)
            tail = max(len(sample.head), end - SAMPLE_BYTES)
            places = [(tail, SAMPLE_BYTES)]
            if tail - len(sample.head) > 4 * _BETWEEN_BYTES:
                between = tail - len(sample.head) - _BETWEEN_BYTES
                places = [(len(sample.head) + between * part // 4, _BETWEEN_BYTES) for part in (1, 2, 3)] + places
            pieces = []
            for place, size in places:
                stream.seek(place)
                pieces.append(stream.read(size).decode("utf-8", "replace"))
            return pieces
    except OSError:
        return []


def by_lines(sample: Sample, own: Callable[[str], object], surest: float = 0.9, *, longest: int = _LONGEST) -> float:
    """A confidence from the lines for which ``own`` is true: a few are enough, unless the file is prose about a log.

    ``own`` sees ``longest`` characters of a line.
    """
    lines = lines_to_judge(sample, longest)
    found = (line for line in lines if own(line))
    # More than a few count only against headings.
    count = sum(1 for _ in islice(found, _ENOUGH))
    if count == _ENOUGH and _is_prose(lines):
        count += sum(1 for _ in found)
    return by_count(count, lines, surest)


def by_count(count: int, lines: tuple[str, ...], surest: float) -> float:
    """A confidence from how many of ``lines`` are a dialect's own."""
    if not count:
        return 0.0
    # Each line of a log that overwrites itself would count as prose against it.
    if count < 0.5 * len(lines) and _is_prose(lines):
        return 0.2
    return surest if count >= _ENOUGH else surest - 0.1 if count == 2 or count >= 0.3 * len(lines) else surest - 0.3


def _is_prose(lines: tuple[str, ...]) -> bool:
    return sum(1 for line in lines if _HEADING.match(line)) >= 2
