"""``python -m replay`` is the console script."""

from __future__ import annotations

import subprocess
import sys


def test_the_package_runs_as_a_module() -> None:
    said = subprocess.run([sys.executable, "-m", "replay", "--help"], capture_output=True, text=True, check=True)
    assert "Usage:" in said.stdout
