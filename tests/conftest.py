"""Fixtures that every area of the tests shares."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No example is held to a time, nor the making of one: a slow or busy machine says nothing of the code.  What hangs is
# ended by pytest's own timeout.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("untimed", **UNTIMED)
# A change is judged on the examples that the last one was judged on; people's own runs look at new ones.
settings.register_profile("ci", derandomize=True, print_blob=True, **UNTIMED)
settings.load_profile("ci" if os.environ.get("CI") else "untimed")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real files of others, kept beside the checkout; tests that read them skip where they are absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the real files are not beside this checkout")
    return folder


@pytest.fixture(autouse=True)
def _denormals() -> Iterator[None]:
    """Training by hand makes the whole process take denormals for zero; the next test gets them back."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
