"""Cut-off, damaged, zero-filled and spliced event files: all that is readable is kept (GOTCHAS 1, 2 and 17)."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from event_file_writer import (
    bytes_field,
    crc32c,
    event,
    masked,
    record,
    scalar_file,
    scalar_record,
    simple,
    summary,
    version,
)

from replay_parsers.records import ProblemKind, Records
from replay_parsers.tensorboard import damage, reader
from replay_parsers.tensorboard import window as window_module

Read = Callable[..., Records]

HEADER = len(version())
ROWS = [scalar_record("loss", step, step / 4) for step in range(10)]
SIZE = len(ROWS[0])
FILE = version() + b"".join(ROWS)


def steps(records: Records) -> list[int]:
    return records.scalars.step.tolist()


def kinds(records: Records) -> list[ProblemKind]:
    return [problem.kind for problem in records.problems]


def flipped(content: bytes, *places: int) -> bytes:
    damaged = bytearray(content)
    for place in places:
        damaged[place] ^= 0x40
    return bytes(damaged)


def test_gotcha_1_a_cut_off_record_is_a_state_and_not_an_error(read_event_file: Read) -> None:
    records = read_event_file(FILE[:-5])
    assert steps(records) == list(range(9))
    (problem,) = records.problems
    assert problem.kind is ProblemKind.TRUNCATED
    assert problem.offset == records.end == len(FILE) - SIZE
    assert problem.lost_bytes == records.coverage.lost_bytes == 0
    assert f"{SIZE - 5} bytes into a record of {SIZE}" in problem.message


def test_gotcha_1_a_cut_off_header_is_a_state_too(read_event_file: Read) -> None:
    records = read_event_file(FILE + ROWS[0][:11])
    assert steps(records) == list(range(10))
    assert kinds(records) == [ProblemKind.TRUNCATED]
    assert "11 bytes into a record, before its header is complete" in records.problems[0].message
    assert records.end == len(FILE)


def test_gotcha_1_a_wrong_payload_checksum_is_an_error_with_its_place(read_event_file: Read) -> None:
    records = read_event_file(flipped(FILE, HEADER + 3 * SIZE + 20))
    assert steps(records) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    (problem,) = records.problems
    assert problem.kind is ProblemKind.CORRUPT
    assert problem.offset == HEADER + 3 * SIZE
    assert (problem.lost_bytes, problem.lost_records) == (SIZE, 1)
    assert "payload's checksum does not hold" in problem.message
    assert f"reading goes on at byte {HEADER + 4 * SIZE}" in problem.message
    assert (records.coverage.lost_bytes, records.coverage.lost_records) == (SIZE, 1)
    assert records.end == len(FILE)


@pytest.mark.parametrize("place", range(12))
def test_gotcha_1_a_wrong_header_is_stepped_over_to_the_next_that_holds(read_event_file: Read, place: int) -> None:
    records = read_event_file(flipped(FILE, HEADER + 3 * SIZE + place))
    assert steps(records) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    (problem,) = records.problems
    assert problem.kind is ProblemKind.CORRUPT
    assert (problem.offset, problem.lost_bytes) == (HEADER + 3 * SIZE, SIZE)
    assert "header's checksum does not hold" in problem.message


def test_damage_in_the_first_and_in_the_last_record(read_event_file: Read) -> None:
    records = read_event_file(flipped(FILE, 3, len(FILE) - 1))
    assert steps(records) == list(range(9))
    assert [(problem.offset, problem.lost_bytes) for problem in records.problems] == [
        (0, HEADER),
        (len(FILE) - SIZE, SIZE),
    ]
    assert "no other record follows so far" in records.problems[1].message


def test_a_file_of_nothing_but_noise_is_told_as_lost(read_event_file: Read) -> None:
    noise = random.Random(1).randbytes(5000)
    records = read_event_file(noise)
    assert kinds(records) == [ProblemKind.CORRUPT]
    assert records.coverage.lost_bytes == 5000
    assert len(records.scalars) == 0


def test_gotcha_2_a_tail_of_zeros_waits_where_it_begins(read_event_file: Read) -> None:
    records = read_event_file(FILE + bytes(5000))
    assert steps(records) == list(range(10))
    assert kinds(records) == [ProblemKind.TRUNCATED]
    assert "the last 5000 bytes are zeros" in records.problems[0].message
    assert records.end == len(FILE)
    assert records.coverage.lost_bytes == 0


@pytest.mark.parametrize("zeros", [1, 4, 11, 12, 13, 300])
def test_gotcha_2_what_is_written_over_a_tail_of_zeros_is_read_later(read_event_file: Read, zeros: int) -> None:
    first = read_event_file(FILE + bytes(zeros))
    assert kinds(first) == [ProblemKind.TRUNCATED]
    content = FILE + scalar_record("loss", 10, 1.0) + scalar_record("loss", 11, 1.0)
    second = read_event_file(content, start=first.end, state=dict(first.state))
    assert steps(second) == [10, 11]
    assert not second.problems


@pytest.mark.parametrize("zeros", [1, 4, 11, 12, 13, 4096])
def test_gotcha_2_what_is_appended_after_a_tail_of_zeros_is_not_lost(read_event_file: Read, zeros: int) -> None:
    first = read_event_file(FILE + bytes(zeros))
    content = FILE + bytes(zeros) + scalar_record("loss", 10, 1.0) + scalar_record("loss", 11, 1.0)
    for records in (read_event_file(content, start=first.end, state=dict(first.state)), read_event_file(content)):
        assert steps(records)[-2:] == [10, 11]
        (problem,) = records.problems
        assert (problem.kind, problem.lost_bytes, problem.lost_records) == (ProblemKind.CORRUPT, zeros, 0)
        assert f"{zeros} zero bytes where a record should begin" in problem.message


def test_gotcha_2_a_record_whose_end_is_not_yet_written_out_waits(read_event_file: Read) -> None:
    unfinished = ROWS[9][:-20] + bytes(20) + bytes(1000)
    first = read_event_file(version() + b"".join(ROWS[:9]) + unfinished)
    assert steps(first) == list(range(9))
    assert kinds(first) == [ProblemKind.TRUNCATED]
    second = read_event_file(FILE + bytes(980), start=first.end, state=dict(first.state))
    assert steps(second) == [9]


def test_a_zero_filled_block_in_the_middle_loses_only_what_it_covers(read_event_file: Read) -> None:
    begin, end = HEADER + 2 * SIZE + 10, HEADER + 5 * SIZE + 7
    records = read_event_file(FILE[:begin] + bytes(end - begin) + FILE[end:])
    assert steps(records) == [0, 1, 6, 7, 8, 9]
    assert records.coverage.lost_bytes == 4 * SIZE


def test_a_record_cut_short_by_a_crash_does_not_swallow_those_appended_after_it(read_event_file: Read) -> None:
    long_record = record(event(bytes_field(4, bytes(range(256)) * 40), step=3))
    content = version() + ROWS[0] + long_record[:100] + b"".join(ROWS[1:])
    records = read_event_file(content)
    assert steps(records) == list(range(10))
    (problem,) = records.problems
    assert (problem.kind, problem.lost_bytes, problem.lost_records) == (ProblemKind.CORRUPT, 100, 1)
    assert "was never finished" in problem.message


def test_two_writers_interleaved_in_mid_record_lose_only_the_torn_one(read_event_file: Read) -> None:
    content = version() + ROWS[0] + ROWS[1][:30] + ROWS[2] + ROWS[3] + ROWS[1][30:] + ROWS[4]
    records = read_event_file(content)
    assert steps(records) == [0, 2, 3, 4]
    assert set(kinds(records)) == {ProblemKind.CORRUPT}
    assert records.coverage.lost_bytes == SIZE


def test_two_files_spliced_together_are_read_as_one(read_event_file: Read) -> None:
    records = read_event_file(FILE + scalar_file("loss", [7.0, 8.0], first_step=4))
    assert steps(records) == [*range(10), 4, 5]
    assert records.scalars.segment.tolist() == [0] * 10 + [1, 1]
    assert not records.problems


def header_of(length: int) -> bytes:
    """The header of a record of that many bytes, its checksum good."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked(crc32c(packed)))


LENGTHS_BEYOND_THE_FILE = [10**6, 2**26, 2**27 - 17, 2**27, 2**28, 2**31 - 1]


@pytest.mark.parametrize("length", LENGTHS_BEYOND_THE_FILE)
def test_a_length_beyond_the_file_with_a_good_checksum_is_cut_off(read_event_file: Read, length: int) -> None:
    records = read_event_file(FILE + header_of(length) + b"abc")
    assert steps(records) == list(range(10))
    (problem,) = records.problems
    assert problem.kind is ProblemKind.TRUNCATED
    assert f"15 bytes into a record of {length + 16}" in problem.message
    assert records.end == len(FILE)


@pytest.mark.parametrize("length", LENGTHS_BEYOND_THE_FILE)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "compressed"])
def test_a_length_beyond_the_file_hides_no_record_that_follows(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch, length: int, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(window_module, "READ_BYTES", 4096)
    rows = [scalar_record("loss", step, step / 4) for step in range(1000)]
    before = version() + b"".join(rows[:400])
    # Two more that are not whole come first, and what lies between is wider than the window.
    gap = header_of(length) + header_of(200) + header_of(2**30) + bytes(9000)
    records = read_event_file(pack(before + gap + b"".join(rows[400:])))
    assert steps(records) == list(range(1000))
    (problem,) = records.problems
    assert (problem.kind, problem.offset) == (ProblemKind.CORRUPT, len(before))
    assert (problem.lost_bytes, problem.lost_records) == (len(gap), 1)
    assert f"never finished, and others follow it at byte {len(before) + len(gap)}" in problem.message


@pytest.mark.parametrize("length", [2**31, 2**40, 2**62, 2**63 - 1, 2**63])
def test_a_length_that_no_message_has_is_damage_although_its_checksum_holds(read_event_file: Read, length: int) -> None:
    records = read_event_file(version() + header_of(length) + b"abc" + ROWS[0])
    assert steps(records) == [0]
    (problem,) = records.problems
    assert (problem.kind, problem.offset, problem.lost_bytes) == (ProblemKind.CORRUPT, HEADER, 15)
    assert f"states a record of {length} bytes, which no message has" in problem.message


def test_a_long_record_waits_until_it_is_whole_and_none_is_given_up_that_gets_whole(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_module, "READ_BYTES", 4096)
    monkeypatch.setattr(reader, "LONGEST_RECORD", 20_000)
    long_record = record(event(bytes_field(4, random.Random(4).randbytes(50_000))))
    never_finished = header_of(30_000) + bytes(500)
    content = version() + ROWS[0] + long_record + ROWS[1] + never_finished + ROWS[2] + long_record + ROWS[3]
    whole = read_event_file(content)
    assert steps(whole) == [0, 1, 2, 3]
    assert whole.coverage.other == {"record over 0 MiB": 2}

    rng = random.Random(5)
    for _ in range(20):
        ends = sorted(rng.sample(range(len(content)), 6))
        found: list[int] = []
        start, state = 0, dict[str, Any]()
        for end in [*ends, len(content)]:
            records = read_event_file(content[:end], start=start, state=state)
            found += steps(records)
            start, state = records.end, dict(records.state)
        assert found == steps(whole)
        assert start == len(content)


def test_many_damaged_places_are_told_one_by_one_up_to_a_bound_and_then_summed_up(read_event_file: Read) -> None:
    count = 3 * damage.MOST_PROBLEMS
    content = version() + b"".join(
        flipped(scalar_record("loss", step, 1.0), 20) + scalar_record("loss", step, 2.0) for step in range(count)
    )
    records = read_event_file(content)
    assert len(records.scalars) == count
    assert len(records.problems) == damage.MOST_PROBLEMS + 1
    assert records.coverage.lost_records == sum(problem.lost_records for problem in records.problems) == count
    assert records.coverage.lost_bytes == sum(problem.lost_bytes for problem in records.problems)
    assert f"{count - damage.MOST_PROBLEMS} more places" in records.problems[-1].message


def test_damage_wider_than_the_window_is_searched_through(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_module, "READ_BYTES", 4096)
    noise = random.Random(2).randbytes(50_000)
    records = read_event_file(FILE + noise + ROWS[0] + bytes(20_000) + ROWS[1] + bytes(9000))
    assert steps(records) == [*range(10), 0, 1]
    assert [(problem.kind, problem.lost_bytes) for problem in records.problems] == [
        (ProblemKind.CORRUPT, 50_000),
        (ProblemKind.CORRUPT, 20_000),
        (ProblemKind.TRUNCATED, 0),
    ]


def test_records_longer_than_the_window_and_longer_than_any_that_is_decoded(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_module, "READ_BYTES", 4096)
    monkeypatch.setattr(reader, "LONGEST_RECORD", 100_000)
    graph, huge = (record(event(bytes_field(4, bytes([7]) * size))) for size in (50_000, 300_000))
    content = version() + ROWS[0] + graph + ROWS[1] + huge + ROWS[2]
    records = read_event_file(content)
    assert steps(records) == [0, 1, 2]
    assert kinds(records) == [ProblemKind.NOT_UNDERSTOOD]
    assert records.problems[0].offset == content.index(huge)
    assert records.coverage.other["graph"] == 1
    assert records.coverage.not_understood == 1
    # The same record, damaged, and then cut off.
    at = content.index(huge) + 150_000
    assert steps(read_event_file(flipped(content, at))) == [0, 1, 2]
    assert read_event_file(flipped(content, at)).coverage.lost_bytes == len(huge)
    cut = read_event_file(content[:at])
    assert (steps(cut), kinds(cut), cut.end) == ([0, 1], [ProblemKind.TRUNCATED], content.index(huge))
    resumed = read_event_file(content, start=cut.end, state=dict(cut.state))
    assert steps(resumed) == [2]


def test_an_empty_file_and_one_of_the_header_only(read_event_file: Read) -> None:
    for content in (b"", version()):
        records = read_event_file(content)
        assert len(records.scalars) == 0
        assert not records.problems
        assert records.end == len(content)


@pytest.mark.parametrize("content", [b"x", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"])
def test_what_is_no_event_file_does_not_crash_the_reader(read_event_file: Read, content: bytes) -> None:
    records = read_event_file(content)
    assert len(records.scalars) == 0
    assert records.problems


def test_gotcha_17_a_compressed_file_reads_as_the_plain_one(read_event_file: Read) -> None:
    assert steps(read_event_file(gzip.compress(FILE))) == list(range(10))
    halfway = read_event_file(gzip.compress(FILE[: HEADER + 4 * SIZE + 5]))
    resumed = read_event_file(gzip.compress(FILE), start=halfway.end, state=dict(halfway.state))
    assert (steps(halfway), steps(resumed)) == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9])


def test_gotcha_17_a_compressed_file_that_is_cut_off_or_damaged_keeps_what_came_before(read_event_file: Read) -> None:
    rng = random.Random(3)
    content = version() + b"".join(scalar_record("x", step, rng.random()) for step in range(5000))
    whole = gzip.compress(content)
    cut = read_event_file(whole[: len(whole) // 2])
    assert 1000 < len(cut.scalars) < 4000
    assert set(kinds(cut)) == {ProblemKind.TRUNCATED}
    assert "gzip stream is cut off" in cut.problems[-1].message
    damaged = read_event_file(flipped(whole, len(whole) - 6))
    assert len(damaged.scalars) == 5000
    assert kinds(damaged) == [ProblemKind.UNREADABLE]
    assert "gzip stream is damaged" in damaged.problems[0].message


def test_two_values_before_a_damaged_record_and_two_after_it(read_event_file: Read) -> None:
    pair = record(event(summary(simple("a", 1.0), simple("b", 2.0)), step=1))
    records = read_event_file(version() + pair + flipped(pair, 30) + pair)
    assert records.scalars.value.tolist() == [1.0, 2.0, 1.0, 2.0]
