"""Where a report is to go is looked at before the work, not after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import replay.report
from replay.cli.commands import replay as command
from replay.errors import ReplayError
from replay.report import prepare_report, write_report


@pytest.fixture
def store(tmp_path: Path) -> Path:
    log = tmp_path / "run.csv"
    log.write_text("step,loss\n" + "".join(f"{step},2.{step}\n" for step in range(5)))
    folder = tmp_path / "store"
    done = CliRunner().invoke(command, ["ingest", str(log), "--run", "r", "--store", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize("target", ["", "taken", "run.csv/x.html", "https://example.org/x.html"])
def test_a_report_that_cannot_be_written_is_refused_before_it_is_made(
    store: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> str:
        raise AssertionError("the report was made")

    (store.parent / "taken").mkdir()
    monkeypatch.chdir(store.parent)
    monkeypatch.setattr(replay.report, "build_report", never)
    done = CliRunner().invoke(command, ["report", "r", "-o", target, "--store", str(store)])
    assert done.exit_code in (1, 2)
    assert not isinstance(done.exception, AssertionError)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a file system that takes no file")
def test_a_folder_that_takes_no_file_is_found_out_too() -> None:
    with pytest.raises(ReplayError, match="the report cannot be written"):
        prepare_report(Path("/proc/x.html"))


def test_looking_leaves_nothing_behind_and_an_older_report_as_it_was(tmp_path: Path) -> None:
    path = prepare_report(tmp_path / "new" / "x.html")
    assert list(path.parent.iterdir()) == []
    write_report("old", path)
    prepare_report(path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]
