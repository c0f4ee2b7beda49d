"""The wheel works where there is no checkout and no torch: what a user gets from `pip install`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an empty environment into which the freshly built wheel was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(root)], check=True)
    (wheel,) = folder.glob("training_replay-*.whl")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    constraints = root / "constraints.txt"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints), str(wheel)], check=True
    )
    return python.parent


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed console script in ``folder``, with nothing of the checkout in sight."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(installed / "replay"), *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_there_is_no_torch(installed: Path) -> None:
    found = subprocess.run([str(installed / "python"), "-c", "import torch"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in found.stderr


def test_builtin_logbooks_answer_who_saw_an_explosion(installed: Path, tmp_path: Path) -> None:
    ingested = run(installed, tmp_path, "ingest", "--builtin")
    assert ingested.returncode == 0, ingested.stderr
    found = run(installed, tmp_path, "incidents", "--saw", "loss_explosion")
    assert found.returncode == 0, found.stderr
    for incident in ("glm-130b/2022-06-12T10:00", "glm-130b/2022-06-14T03:00", "glm-130b/2022-06-20T09:10"):
        assert incident in found.stdout
    for words in ("rollback to step 33,600", "rollback to step 35,200", "skip_batches of step 40,701-40,900"):
        assert words in found.stdout
    rows = json.loads(run(installed, tmp_path, "incidents", "--saw", "loss_explosion", "--json").stdout)
    glm = {row["incident"]: row for row in rows if row["run"] == "glm-130b"}
    assert glm["glm-130b/2022-06-12T10:00"]["recurred_after"] == 1650
    assert glm["glm-130b/2022-06-14T03:00"]["recurred_after"] == 5600


def test_a_report_is_written_without_torch(installed: Path, tmp_path: Path) -> None:
    assert run(installed, tmp_path, "ingest", "--builtin").returncode == 0
    written = run(installed, tmp_path, "report", "glm-130b", "-o", "glm.html")
    assert written.returncode == 0, written.stderr
    assert "GLM-130B" in (tmp_path / "glm.html").read_text(encoding="utf-8")


def test_the_proxy_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    told = run(installed, tmp_path, "experiment", "palm-rollback-skip")
    assert told.returncode == 1
    assert "training-replay[proxy]" in told.stderr
    assert "Traceback" not in told.stderr
