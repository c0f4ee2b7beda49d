"""Part of the verification of docs/failures.md, run again: two of its seeds for each failure, with and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.proxy.failures import CATALOGUE
from replay.proxy.verification import WITH, WITHOUT, verify


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_failure_happens_with_its_cause_and_never_without(name: str, tmp_path: Path) -> None:
    # At least one of two: on another processor sums are rounded otherwise, and no failure is claimed for every seed.
    results = verify([name], seeds=2, folder=tmp_path, with_arms=False)
    wrong = {
        arm: [one.seed for one in results if one.arm == arm and one.wrong_at is not None] for arm in (WITH, WITHOUT)
    }
    assert len(wrong[WITH]) >= 1
    assert wrong[WITHOUT] == []
