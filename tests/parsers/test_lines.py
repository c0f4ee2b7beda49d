"""The line reader: what terminals, schedulers and crashes do to logs, undone."""

from __future__ import annotations

import gzip
import itertools
import os
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from growth import grows_with_its_size
from replay_parsers import lines
from replay_parsers.lines import Line, read_blocks, split_rank, without_terminal_codes
from replay_parsers.records import ProblemKind


def lines_of(path: Path, content: bytes, start: int = 0, state: dict[str, object] | None = None) -> list[Line]:
    path.write_bytes(content)
    return [line for block in read_blocks(path, path.name, start, state) for line in block.lines]


def texts(path: Path, content: bytes) -> list[str]:
    return [line.text for line in lines_of(path, content)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def test_lines_carry_their_number_and_their_bytes(log: Path) -> None:
    assert lines_of(log, b"one\n\nthree\n") == [Line(1, 0, 4, "one"), Line(3, 5, 11, "three")]


def test_an_empty_file_gives_one_block_that_says_so(log: Path) -> None:
    log.write_bytes(b"")
    (block,) = read_blocks(log, "train.log")
    assert (block.lines, block.end, block.last) == ([], 0, True)


def test_a_line_without_its_end_is_handed_out_as_such(log: Path) -> None:
    assert lines_of(log, b"one\ntwo")[-1] == Line(2, 4, 7, "two", terminated=False)


def test_windows_line_ends_are_line_ends(log: Path) -> None:
    assert lines_of(log, b"one\r\ntwo\r\n") == [Line(1, 0, 5, "one"), Line(2, 5, 10, "two")]


def test_what_a_progress_bar_overwrote_is_kept_under_one_number(log: Path) -> None:
    read = lines_of(log, b" 1%|#\r 2%|##\rloss 2.5\nnext\n")
    assert [(line.number, line.text) for line in read] == [(1, " 1%|#"), (1, " 2%|##"), (1, "loss 2.5"), (2, "next")]
    assert [line.offset for line in read] == [0, 6, 13, 22]


def test_25000_carriage_returns_in_one_line_cost_little_memory(log: Path) -> None:
    bar = "".join(f"\r {step / 250:3.0f}%|{'#' * 60}| {step}/25000 [00:10<10:00,  1.00it/s]" for step in range(25_000))
    content = f"start\n{bar}\nend\n".encode()
    read = lines_of(log, content)
    assert len(read) == 25_002
    assert (read[-1].text, read[-1].number) == ("end", 3)


def test_colours_and_window_titles_go(log: Path) -> None:
    content = b"\x1b[31mred\x1b[0m \x1b]0;title\x07text \x1b[1;32mgreen\x1b[m\n"
    assert texts(log, content) == ["red text green"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_byte_order_marks_tell_the_encoding(log: Path, encoding: str) -> None:
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    text = "iteration 1 | Verlust: 2,5 \u00e4\u4e2d\nzwei\r\nhalb"
    read = lines_of(log, mark + text.encode(encoding))
    assert [line.text for line in read] == ["iteration 1 | Verlust: 2,5 \u00e4\u4e2d", "zwei", "halb"]
    assert [line.number for line in read] == [1, 2, 3]
    assert not read[-1].terminated


def test_a_half_character_of_utf16_waits(log: Path) -> None:
    content = b"\xff\xfe" + "ab\ncd".encode("utf-16-le") + b"x"
    assert [line.text for line in lines_of(log, content)] == ["ab", "cd"]


def test_bytes_that_are_not_utf8_stay_readable_beside_those_that_are(log: Path) -> None:
    assert texts(log, b"caf\xe9 \xe4\xb8\xad\n") == ["caf\u00e9 \u4e2d"]


def test_nul_bytes_in_a_line_go(log: Path) -> None:
    assert texts(log, b"one\n\0\0\0\0two\nth\0ree\n") == ["one", "two", "three"]


@pytest.mark.parametrize("zeros", [10, 3 << 20, 9 << 20])
def test_zero_bytes_at_the_end_are_not_consumed_and_what_comes_after_is_not_lost(log: Path, zeros: int) -> None:
    content = b"one\n" + bytes(zeros)
    log.write_bytes(content)
    blocks = list(read_blocks(log, "train.log"))
    waiting = blocks[-1].lines[-1]
    assert (waiting.offset, waiting.end, waiting.terminated) == (4, len(content), False)
    # The file system's room is filled later.
    assert lines_of(log, b"one\n" + b"two\n" + bytes(zeros), waiting.offset, blocks[-1].state)[0].text == "two"
    # Or the writer goes on after it.
    assert [line.text for line in lines_of(log, content + b"three\n")] == ["one", "three"]


def test_a_line_without_end_is_bounded_and_the_next_one_found(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1_000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4_096)
    log.write_bytes(b"start\n" + b"x" * 50_000 + b"\nend\n")
    blocks = list(read_blocks(log, "train.log"))
    read = [line for block in blocks for line in block.lines]
    assert [(line.number, len(line.text)) for line in read] == [(1, 5), (2, 1_000), (3, 3)]
    problems = [problem for block in blocks for problem in block.problems]
    assert [problem.kind for problem in problems] == [ProblemKind.NOT_UNDERSTOOD]
    assert (problems[0].line, problems[0].offset) == (2, 1_006)
    # All of it is accounted for: the line's end of line counts as lost with the rest of it.
    assert sum(block.lost_bytes for block in blocks) == 49_001
    assert problems[0].lost_bytes == 49_001


@pytest.mark.parametrize("sizes", [(30_000, 20_000), (900, 49_100), (1_000, 1, 48_999), (50_000,)])
def test_what_is_told_of_a_line_without_end_is_what_was_lost_of_it_however_it_grows(
    log: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1_000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4_096)
    content, start, lost, told = b"", 0, 0, []
    state: dict[str, object] = {}
    for size in sizes:
        content += b"x" * size
        log.write_bytes(content)
        for block in read_blocks(log, "train.log", start, state):
            if block.last and block.lines and not block.lines[-1].terminated:
                continue  # a reader that waits for the rest
            start, state, lost = block.end, block.state, lost + block.lost_bytes
            told += block.problems
    assert lost == 49_000
    assert sum(problem.lost_bytes for problem in told) == 49_000
    assert told[0].offset == 1_000
    assert all(before.offset + before.lost_bytes == after.offset for before, after in itertools.pairwise(told))


def test_a_long_file_is_read_in_little_memory(log: Path) -> None:
    with log.open("wb") as stream:
        for number in range(160):
            stream.write((f"line {number} " + "x" * 1_000 + "\n").encode() * 200)
    tracemalloc.start()
    count = sum(len(block.lines) for block in read_blocks(log, "train.log"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 32_000
    assert peak < 30 << 20


def test_gzip_is_told_by_its_content(log: Path) -> None:
    assert texts(log, gzip.compress(b"one\ntwo\n")) == ["one", "two"]


def test_a_gzip_stream_that_breaks_off_gives_what_it_holds(log: Path) -> None:
    whole = gzip.compress(os.urandom(20_000).hex().encode() + b"\nend\n")
    log.write_bytes(whole[: len(whole) // 2])
    blocks = list(read_blocks(log, "train.log"))
    assert sum(len(line.text) for block in blocks for line in block.lines) > 1_000
    assert [problem.kind for block in blocks for problem in block.problems] == [ProblemKind.TRUNCATED]


def test_a_damaged_gzip_stream_is_a_problem_and_no_crash(log: Path) -> None:
    whole = bytearray(gzip.compress(os.urandom(20_000).hex().encode() + b"\nend\n"))
    whole[len(whole) // 2] ^= 0xFF
    log.write_bytes(bytes(whole))
    problems = [problem for block in read_blocks(log, "train.log") for problem in block.problems]
    assert [problem.kind for problem in problems] == [ProblemKind.CORRUPT]
    assert "gzip" in str(problems[0])


def test_reading_goes_on_in_a_gzip_file_by_its_decompressed_bytes(log: Path) -> None:
    first = list(read_blocks_of(log, gzip.compress(b"one\ntwo\n")))
    read = lines_of(log, gzip.compress(b"one\ntwo\nthree\n"), first[-1].end, first[-1].state)
    assert read == [Line(3, 8, 14, "three")]


def read_blocks_of(path: Path, content: bytes) -> list[lines.Block]:
    path.write_bytes(content)
    return list(read_blocks(path, path.name))


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as stream:
            stream.write(b"one\ntw")
            stream.flush()
            time.sleep(0.05)
            stream.write(b"o\nthree\n")

    writer = threading.Thread(target=write)
    writer.start()
    read = [line.text for block in read_blocks(pipe, "pipe") for line in block.lines]
    writer.join()
    assert read == ["one", "two", "three"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.lists(
        st.sampled_from([b"word ", b"\n", b"\r", b"\r\n", b"\0", b"\xc3\xa4", b"\xe9", b"\x1b[31m", b"12:"]),
        max_size=40,
    ),
    cuts=st.lists(st.integers(0, 200), max_size=4),
)
def test_the_same_lines_whatever_the_moments_of_the_reads(
    tmp_path: Path, content: list[bytes], cuts: list[int]
) -> None:
    """Half lines left for later, the lines read in several goes are those read at once."""
    path = tmp_path / "grown.log"
    whole = b"".join(content) + b"\n"
    at_once = [(line.number, line.text) for line in lines_of(path, whole) if line.text]
    start, state, read = 0, {}, []
    for length in [*sorted(min(cut, len(whole)) for cut in cuts), len(whole)]:
        path.write_bytes(whole[:length])
        for block in read_blocks(path, "grown.log", start, state):
            read += [(line.number, line.text) for line in block.lines if line.terminated and line.text]
            start = next((line.offset for line in block.lines if not line.terminated), block.end)
            state = block.state
    assert read == at_once


@pytest.mark.parametrize(
    ("printed", "rank", "rest"),
    [
        ("[default7]: iteration 5", "7", " iteration 5"),
        ("[rank0]:[titan] step: 1", "0", "[titan] step: 1"),
        ("511: iteration 5", "511", " iteration 5"),
        ("[1,12]<stdout>:iteration 5", "12", "iteration 5"),
        ("[2022-01-19 13:09:13,305] [INFO]", "", "[2022-01-19 13:09:13,305] [INFO]"),
        ("iteration 5 | loss: 2", "", "iteration 5 | loss: 2"),
        ("12:30:05 loss: 2", "", "12:30:05 loss: 2"),
    ],
)
def test_ranks_are_told_from_times_and_keys(printed: str, rank: str, rest: str) -> None:
    assert split_rank(printed) == (rank, rest)


@pytest.mark.parametrize(
    "evil",
    [
        lambda size: "\x1b[" * (size // 2),
        lambda size: "\x1b[" + "0" * size,
        lambda size: "\x1b]" * (size // 2),
        lambda size: "\x1b]" + "x" * size,
        lambda size: "[default" * (size // 8),
    ],
    ids=lambda evil: repr(evil(16)),
)
def test_no_line_takes_long(evil: Callable[[int], str]) -> None:
    def reading(size: int) -> Callable[[], object]:
        text = evil(size)
        return lambda: split_rank(without_terminal_codes(text))

    assert grows_with_its_size(reading, 1_000_000)
