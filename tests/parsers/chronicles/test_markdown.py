"""The walk through markdown as people and note-taking tools write it."""

from __future__ import annotations

import pytest

from replay_parsers.chronicles.encoding import decode
from replay_parsers.chronicles.markdown import BlockKind, walk


def blocks(text: str) -> list[tuple[str, str, int]]:
    return [
        (str(block.kind), block.text, block.line)
        for section in walk(text.encode()).sections
        for block in section.blocks
    ]


def test_headings_bullets_paragraphs_quotes_tables_and_code_keep_their_lines() -> None:
    text = "# T\n\npara one\nstill one\n\n- a\n  - b\n1. c\n> q\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```sh\nls\n```\n"
    assert blocks(text) == [
        ("paragraph", "para one still one", 3),
        ("bullet", "a", 6),
        ("bullet", "b", 7),
        ("bullet", "c", 8),
        ("quote", "q", 9),
        ("table", "| 1 | 2 |", 13),
        ("code", "ls", 16),
    ]


def test_underlined_headings_and_closing_marks() -> None:
    document = walk(b"Title\n=====\n\nSub\n---\n\n## Third ##\n")
    assert [(section.heading, section.level) for section in document.sections if section.level] == [
        ("Title", 1),
        ("Sub", 2),
        ("Third", 2),
    ]


def test_images_are_skipped_and_counted_links_keep_their_words() -> None:
    document = walk(
        b"![a](http://x/y_(z).png)\n\nsee [the board](https://x/y?a=(b)) and https://z.org/q.\n\n<img src='a'>\n"
    )
    assert document.images == 2
    assert [block.text for section in document.sections for block in section.blocks] == ["see the board and"]


def test_emphasis_and_escapes_go_but_code_spans_stay_as_they_are() -> None:
    ((_, text, _),) = blocks(r"**seen** \[MASK\] and `**not** \[this\]`")
    assert text == r"seen [MASK] and `**not** \[this\]`"


def test_lines_that_begin_with_a_date_stand_for_themselves() -> None:
    text = "2024-03-02 10:00 one\n2024-03-02 11:00 two\nMay 5 three\n14:00 four\n"
    assert [text for _, text, _ in blocks(text)] == [
        "2024-03-02 10:00 one",
        "2024-03-02 11:00 two",
        "May 5 three",
        "14:00 four",
    ]


def test_comments_in_code_are_no_headings() -> None:
    document = walk(b"## A\n```\n# force crashing\n## more\n```\n## B\n")
    assert [section.heading for section in document.sections] == ["", "A", "B"]


def test_a_code_block_that_is_never_closed_ends_before_the_next_heading() -> None:
    document = walk(b"## A\n```\ncode\n\n## B\ntext\n")
    assert [section.heading for section in document.sections] == ["", "A", "B"]
    (fault,) = document.faults
    assert (fault.line, "never closed" in fault.message) == (2, True)


def test_control_characters_are_taken_out_of_headings() -> None:
    assert walk("## 多任\x10\x10务".encode()).sections[-1].heading == "多任务"


@pytest.mark.parametrize(
    ("data", "text", "message"),
    [
        ("停".encode(), "停", ""),
        (b"\xef\xbb\xbf" + "停".encode(), "停", ""),
        (b"\xff\xfe" + "停".encode("utf-16-le"), "停", ""),
        (b"\xfe\xff" + "停".encode("utf-16-be"), "停", ""),
        ("训练卡住，节点故障".encode("gb18030"), "训练卡住，节点故障", "GB18030"),
        ("Läuft über".encode("cp1252"), "Läuft über", "Windows-1252"),
        (b"a\x00b", "ab", ""),
        ("停".encode()[:2], "", "within a character"),
        (b"\x81\x8d\xff", "���", "bytes replaced"),
    ],
)
def test_encodings(data: bytes, text: str, message: str) -> None:
    decoded, faults = decode(data)
    assert decoded == text
    assert message in "".join(fault.message for fault in faults)
    assert bool(faults) == bool(message)


def test_an_overlong_line_is_cut_and_said_to_be() -> None:
    document = walk(b"## A\n" + b"word " * 5_000)
    assert any("characters is no prose" in fault.message and fault.line == 2 for fault in document.faults)


def test_code_blocks_keep_their_lines_as_they_are() -> None:
    block = walk(b"```\n  --lr 3e-5 \\\n    --x\n```\n").sections[0].blocks[0]
    assert (block.kind, block.raw) == (BlockKind.CODE, ("  --lr 3e-5 \\", "    --x"))
