"""Nothing that a file may hold makes the chronicle parsers fail, or take for ever."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from growth import grows_with_its_size
from replay_parsers.chronicles import bloom, general, glm130b, opt
from replay_parsers.records import Records

PARSERS: dict[str, Callable[[bytes, str, str], Records]] = {
    "glm130b": glm130b.parse,
    "bloom": bloom.parse,
    "opt": opt.parse,
    "general": general.parse,
}
BOOKS = sorted((Path(__file__).parent / "fixtures").glob("*.md"))
HEAD = b"## 2024-05-06 10:00 x\n"

HOSTILE: dict[str, Callable[[int], bytes]] = {
    "letters": lambda size: b"a" * size,
    "dashes": lambda size: b"a-" * (size // 2),
    "digits": lambda size: b"1" * size,
    "numbers": lambda size: b"1 " * (size // 2),
    "backticks": lambda size: b"`" * size,
    "brackets": lambda size: b"[" * size,
    "images": lambda size: b"![a](" * (size // 5),
    "parentheses": lambda size: b"(" * size,
    "stars": lambda size: b"**a " * (size // 4),
    "words": lambda size: b"warm warmup learning loss decreas spike grad node from step 100 to 200 " * (size // 70),
    "chinese": lambda size: "从从在于到到，爆炸".encode() * (size // 27),
    "refusals": lambda size: b"no not never without if we would not plan to consider " * (size // 53),
    "unfinished plans": lambda size: b"we would rather " + b"go back to " * (size // 11),
    "ranges": lambda size: b"skipped [1, 2) (3, 4] between 5 and 6 .. " * (size // 41),
    "offsets": lambda size: b"- T+1h10: a\n- two hours later b\n" * (size // 34),
    "speakers": lambda size: b"## 2024-05-07\n" + b"[08:05] ida: hm\n\n" * (size // 17),
    "columns": lambda size: (
        b"| When | From step | Lost |\n|--|--|--|\n" + b"| 2024-05-07 | 400 | 1 h |\n" * (size // 27)
    ),
    "absences": lambda size: "没有出现发生任何新的明显".encode() * (size // 36),
    "values": lambda size: b"lr 1 to 2 (was 3), wd from 4 to 5 @ 6k5 " * (size // 40),
    "edits": lambda size: b"```\nperl -pi -e " + b"'s|a|b' " * (size // 8) + b"\n```\n",
    "fences": lambda size: b"```\n" * (size // 4 + 1),
    "blank": lambda size: b" " * size + b"x",
    "headings": lambda size: HEAD * (size // 22),
    "random": lambda size: random.Random(1).randbytes(size),
}
"""Texts of about so many bytes that a careless pattern takes long to read."""


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_files_are_read_in_a_time_that_grows_with_their_size(parser: str, hostile: str) -> None:
    def reading(size: int) -> Callable[[], None]:
        data = HEAD + HOSTILE[hostile](size)

        def read() -> None:
            assert PARSERS[parser](data, "hostile.md", "hostile").end == len(data)

        return read

    assert grows_with_its_size(reading, 100_000)


@pytest.mark.parametrize("parser", PARSERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.binary(max_size=400))
def test_any_bytes_give_records(parser: str, data: bytes) -> None:
    records = PARSERS[parser](HEAD + data, "x.md", "x")
    assert records.coverage.bytes_read == len(HEAD) + len(data)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_books_with_damage_give_records_with_sound_ids(parser: str, book: Path) -> None:
    """Bytes changed, lines lost, doubled and swapped: every event still names its incident, and no two are alike."""
    source = random.Random(book.stem + parser)
    lines = book.read_bytes().splitlines(keepends=True)
    for _ in range(15):
        damaged = lines[:]
        for _ in range(3):
            place = source.randrange(len(damaged))
            choice = source.randrange(4)
            if choice == 0:
                del damaged[place]
            elif choice == 1:
                damaged.insert(place, damaged[source.randrange(len(damaged))])
            elif choice == 2:
                damaged[place] = bytes(source.randrange(256) for _ in range(20)) + b"\n"
            else:
                line = bytearray(damaged[place])
                line[source.randrange(len(line))] = source.randrange(256)
                damaged[place] = bytes(line)
        records = PARSERS[parser](b"".join(damaged), "x.md", "x")
        names = [event.event for event in records.events]
        assert len(names) == len(set(names))
        assert all(event.incident and event.event.startswith(event.incident) for event in records.events)
        assert all(event.time is None or event.time.tzinfo is not None for event in records.events)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_reading_twice_gives_the_same(parser: str, book: Path) -> None:
    data = book.read_bytes()
    first, second = (PARSERS[parser](data, "x.md", "x") for _ in range(2))
    assert (first.events, first.findings, first.problems, first.coverage) == (
        second.events,
        second.findings,
        second.problems,
        second.coverage,
    )


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    "text", ["", "\n", "#", "## 2024-05-06", "## 2024-05-06 99:99", "## 9999-12-31 23:59 x", "- ", "|", "```"]
)
def test_little_files(parser: str, text: str) -> None:
    assert PARSERS[parser](text.encode(), "x.md", "x").end == len(text.encode())
