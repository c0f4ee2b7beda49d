"""Every way to break a small event file: no crash, no hang, and no undamaged record lost."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from event_file_writer import (
    bytes_field,
    event,
    histogram,
    metadata,
    record,
    scalar_record,
    simple,
    summary,
    tensor,
    text,
    version,
)

from replay_parsers.records import ProblemKind, Records

Read = Callable[..., Records]


def small_file() -> list[bytes]:
    """The records of a small file of several forms; each scalar value occurs once."""
    number = bytes_field(4, b"\0\0\x20\x41")
    return [
        version(),
        scalar_record("loss", 1, 1.0),
        record(event(summary(simple("loss", 2.0), simple("lr", 3.0)), step=2, wall_time=1.6e9)),
        record(event(summary(histogram("weights"), text("notes", "a text")), step=2)),
        record(event(summary(tensor("acc", "float32", number, more=metadata("scalars"))), step=3)),
        scalar_record("loss", 4, 4.0),
        record(event(summary(simple("a longer tag/with parts", 5.0)), step=5, wall_time=1.6e9)),
        scalar_record("loss", 6, 6.0),
    ]


VALUES: list[list[float]] = [[], [1.0], [2.0, 3.0], [], [10.0], [4.0], [5.0], [6.0]]


def check(read: Read, damaged: bytes, originals: list[bytes]) -> Records:
    """Read ``damaged``: the values of every original record that is still whole in it must be there."""
    records = read(damaged)
    found = set(records.scalars.value.tolist())
    for original, values in zip(originals, VALUES, strict=True):
        if values and original in damaged:
            assert found.issuperset(values)
    coverage = records.coverage
    assert 0 <= records.end <= len(damaged)
    assert coverage.lost_bytes == sum(problem.lost_bytes for problem in records.problems)
    assert 0 <= coverage.lost_bytes <= len(damaged)
    for problem in records.problems:
        assert str(problem)
        assert problem.offset is not None
        assert 0 <= problem.offset <= len(damaged)
    return records


def test_every_single_byte_corruption(read_event_file: Read) -> None:
    originals = small_file()
    content = b"".join(originals)
    bounds = [sum(map(len, originals[:k])) for k in range(len(originals) + 1)]
    for place in range(len(content)):
        for change in (0x01, 0x80, 0xFF):
            damaged = content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]
            records = check(read_event_file, damaged, originals)
            hit = next(k for k in range(len(originals)) if place < bounds[k + 1])
            expected = sorted(value for k, values in enumerate(VALUES) if k != hit for value in values)
            assert sorted(records.scalars.value.tolist()) == expected
            (problem,) = records.problems
            assert (problem.kind, problem.offset) == (ProblemKind.CORRUPT, bounds[hit])
            assert problem.lost_bytes == bounds[hit + 1] - bounds[hit]


def test_every_truncation(read_event_file: Read) -> None:
    originals = small_file()
    content = b"".join(originals)
    bounds = [sum(map(len, originals[:k])) for k in range(len(originals) + 1)]
    for length in range(len(content)):
        records = read_event_file(content[:length])
        whole = max(k for k in range(len(bounds)) if bounds[k] <= length)
        assert records.scalars.value.tolist() == [value for values in VALUES[:whole] for value in values]
        assert records.end == bounds[whole]
        cut = [ProblemKind.TRUNCATED] if length > bounds[whole] else []
        assert [problem.kind for problem in records.problems] == cut
        rest = read_event_file(content, start=records.end, state=dict(records.state))
        assert rest.scalars.value.tolist() == [value for values in VALUES[whole:] for value in values]
        assert not rest.problems


def mutate(rng: random.Random, content: bytes) -> bytes:
    """One to four changes: flips, deletions, insertions, zero-fills, copies, swaps."""
    for _ in range(rng.randint(1, 4)):
        begin = rng.randrange(len(content) + 1)
        end = min(len(content), begin + rng.choice([1, 3, 12, 16, 50, 200]))
        part = content[begin:end]
        other = rng.randrange(len(content) + 1)
        content = rng.choice(
            [
                content[:begin] + bytes(byte ^ rng.randrange(256) for byte in part) + content[end:],
                content[:begin] + content[end:],
                content[:begin] + rng.randbytes(end - begin) + content[begin:],
                content[:begin] + bytes(len(part)) + content[end:],
                content[:begin] + bytes(end - begin) + content[begin:],
                content[:other] + part + content[other:],
                content[:begin],
                content + part,
            ]
        )
    return content


def check_mutations(read: Read, first_seed: int, count: int) -> None:
    originals = small_file()
    content = b"".join(originals)
    for seed in range(first_seed, first_seed + count):
        rng = random.Random(seed)
        damaged = mutate(rng, content)
        whole = check(read, damaged, originals)
        # Read in two parts, at any moment of the file's growth: the same rows.
        first = read(damaged[: rng.randrange(len(damaged) + 1)])
        second = read(damaged, start=first.end, state=dict(first.state))
        got = first.scalars.value.tolist() + second.scalars.value.tolist()
        assert got == whole.scalars.value.tolist(), f"seed {seed}"
        assert first.coverage.lost_bytes + second.coverage.lost_bytes >= whole.coverage.lost_bytes - 11, f"seed {seed}"


def test_random_mutations(read_event_file: Read) -> None:
    check_mutations(read_event_file, 0, 500)


@pytest.mark.slow
def test_ten_thousand_random_mutations(read_event_file: Read) -> None:
    check_mutations(read_event_file, 1000, 10_000)
