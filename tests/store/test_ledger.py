"""Which readings count when several writers, kills and retries left ranges that overlap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from growth import grows_with_its_size
from replay.storage.ledger import Entry, Part, Snapshot, chain, resolve


@dataclass(frozen=True)
class Range:
    start: int
    end: int
    sequence: int = 0


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    starts = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 3)), max_size=12))
    return [Range(start, start + length, sequence) for start, length, sequence in starts]


def furthest(given: list[Range]) -> int:
    """The furthest byte to which adjacent ranges lead, by trying all."""
    reached = {0}
    while more := {one.end for one in given if one.start in reached} - reached:
        reached |= more
    return max(reached)


@given(ranges())
def test_no_byte_is_told_twice_and_none_left_out(given: list[Range]) -> None:
    taken = chain(given)
    assert all(before.end == after.start for before, after in pairwise(taken))
    assert not taken or taken[0].start == 0
    assert (taken[-1].end if taken else 0) == furthest(given)


@given(ranges(), st.randoms(use_true_random=False))
def test_the_order_in_which_entries_are_found_does_not_matter(given: list[Range], chance) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(given)
    chance.shuffle(shuffled)
    assert chain(shuffled) == chain(given)


@given(ranges())
def test_what_does_not_count_can_be_cleared_away(given: list[Range]) -> None:
    taken = chain(given)
    assert chain(taken) == taken


def test_the_longer_of_two_readings_from_the_same_byte_counts() -> None:
    assert chain([Range(0, 100), Range(0, 180)]) == [Range(0, 180)]


def test_a_longer_reading_gives_way_to_one_from_which_more_is_reached() -> None:
    assert chain([Range(0, 150), Range(0, 100), Range(100, 180)]) == [Range(0, 100), Range(100, 180)]


def test_a_reading_whose_predecessor_is_missing_does_not_count() -> None:
    assert chain([Range(100, 180)]) == []
    assert chain([Range(0, 50), Range(100, 180)]) == [Range(0, 50)]


def test_that_there_was_nothing_more_counts_until_there_is() -> None:
    assert chain([Range(0, 50, 0), Range(50, 50, 1), Range(50, 50, 2)]) == [Range(0, 50, 0), Range(50, 50, 2)]
    assert chain([Range(0, 50, 0), Range(50, 50, 1), Range(50, 80, 2)]) == [Range(0, 50, 0), Range(50, 80, 2)]


def entry(
    generation: int, *, status: str = "ingested", replaces: bool = False, sequence: int = 0, end: int = 9
) -> Entry:
    return Entry(source="s", status=status, generation=generation, replaces_former=replaces, sequence=sequence, end=end)


def test_generations_of_a_log_add_up_and_those_of_a_document_replace_each_other() -> None:
    assert resolve([entry(1), entry(0)]).entries == (entry(0), entry(1))
    assert resolve([entry(0), entry(1), entry(2, replaces=True)]).entries == (entry(2, replaces=True),)
    assert resolve([entry(2), entry(0), entry(1, replaces=True)]).entries == (entry(1, replaces=True), entry(2))


def test_why_a_source_is_not_read_counts_until_it_is() -> None:
    skipped, failed = entry(0, status="skipped", end=0), entry(0, status="failed", sequence=1, end=0)
    assert resolve([failed, skipped]).entries == (failed,)
    assert resolve([failed, entry(0), skipped]).entries == (entry(0),)


def sweep(runs: int) -> Snapshot:
    """A store of so many runs, one source each."""
    return Snapshot(
        [
            Entry(
                source=f"{number:05d}",
                status="ingested",
                end=1,
                parts=tuple(
                    Part(table=table, path=f"{table}/{number}", run=f"r{number}") for table in ("runs", "scalars")
                ),
            )
            for number in range(runs)
        ]
    )


def ask_of_every_run(snapshot: Snapshot) -> None:
    runs = snapshot.runs()
    assert len(runs) == len({snapshot.basis(run) for run in runs})
    assert all(len(snapshot.parts("runs", run)) == len(snapshot.sources(run)) == 1 for run in runs)


def test_what_is_known_of_a_run_is_found_in_a_store_of_many() -> None:
    snapshot = sweep(8_000)
    assert len(snapshot.runs()) == 8_000
    assert [part.path for _, part in snapshot.parts("scalars", "r17")] == ["scalars/17"]
    assert snapshot.parts("runs", "nobody") == [] == snapshot.sources("nobody")
    assert len(snapshot.parts("runs")) == 8_000

    def asking(runs: int) -> Callable[[], object]:
        many = sweep(runs)
        return lambda: ask_of_every_run(many)

    assert grows_with_its_size(asking, 8_000)
