"""Who is writing: a process that writes alone may clear away leftovers, one among others may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.storage.lock import writing

pytest.importorskip("fcntl", reason="the system has no such locks")


def test_a_writer_is_alone_only_while_no_other_writes(tmp_path: Path) -> None:
    with writing(tmp_path) as one:
        with writing(tmp_path) as other:
            assert not one.alone()
            assert not other.alone()
        assert one.alone()


def test_who_asked_in_vain_still_counts_as_writing(tmp_path: Path) -> None:
    with writing(tmp_path) as one:
        with writing(tmp_path):
            assert not one.alone()
        with writing(tmp_path) as late:
            assert not late.alone(), "what the first still writes would be cleared away as leftovers"


def test_the_lock_ends_with_the_writing(tmp_path: Path) -> None:
    with writing(tmp_path):
        pass
    with writing(tmp_path) as next_one:
        assert next_one.wait_until_alone()
