"""How sure a dialect can be of a file: by the lines that are its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from replay_parsers.files import GZIP_MAGIC, SAMPLE_BYTES
from replay_parsers.lines import without_terminal_codes
from replay_parsers.parser import Sample

_HEADING = re.compile(r"#{1,6} \S")
_LONGEST = 2_000


@lru_cache(maxsize=2)
def lines_to_judge(sample: Sample) -> tuple[str, ...]:
    """The lines at the beginning of a file, and those at its end where that can be read.

    Logs may begin with hundreds of kilobytes of source code or configuration: the first record is then found at
    the other end.
    """
    head = sample.head
    wide = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2])
    text = head[2:].decode(wide, "replace") if wide else head.decode("utf-8-sig", "replace")
    if not sample.whole and not wide:
        text += "\n" + _tail(sample)
    shown = without_terminal_codes(text).replace("\r", "\n").split("\n")
    return tuple(line[:_LONGEST] for line in shown if line and not line.isspace())


def _tail(sample: Sample) -> str:
    try:
        if not sample.path.is_file():
            return ""
        with sample.path.open("rb") as stream:
            if stream.read(2) == GZIP_MAGIC:
                return ""
            end = stream.seek(0, 2)
            stream.seek(max(len(sample.head), end - SAMPLE_BYTES))
            return stream.read(SAMPLE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def by_lines(sample: Sample, own: Callable[[str], object], surest: float = 0.9, *, most: int | None = None) -> float:
    """A confidence from the lines for which ``own`` is true: a few are enough, unless the file is prose about a log.

    ``most`` bounds the lines that are looked at, from either end, where ``own`` is slow.
    """
    lines = lines_to_judge(sample)
    if most is not None and len(lines) > most:
        lines = (*lines[: most // 2], *lines[-most // 2 :])
    count = sum(1 for line in lines if own(line))
    if not count:
        return 0.0
    # Each line of a log that overwrites itself would count as prose against it.
    if count < 0.5 * len(lines) and sum(1 for line in lines if _HEADING.match(line)) >= 2:
        return 0.2
    return surest if count >= 3 else surest - 0.1 if count == 2 or count >= 0.3 * len(lines) else surest - 0.3
