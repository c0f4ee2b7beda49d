"""Files that people name are replaced whole; pipes, devices and links stay what they are, folders are refused."""

from __future__ import annotations

import os
import shlex
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from replay.cli import replay
from replay.errors import ReplayError
from replay.proxy.tables import write_page
from replay.report import write_report
from replay.target_files import TargetFileError, prepare_target, write_target

TEXT = "a page\n"
WRITERS = [
    pytest.param(lambda path: write_target(path, TEXT.encode()), id="write_target"),
    pytest.param(lambda path: write_page(path, TEXT), id="write_page"),
    pytest.param(lambda path: write_report(TEXT, path), id="write_report"),
]
every_writer = pytest.mark.parametrize("write", WRITERS)
Writer = Callable[[Path], object]


def read_while(pipe: Path, write: Callable[[], object]) -> str:
    """What comes out of a pipe while something is written into it."""
    came: list[str] = []
    reader = threading.Thread(target=lambda: came.append(pipe.read_text()), daemon=True)
    reader.start()
    write()
    reader.join(timeout=30)
    assert came, "nothing came out of the pipe"
    return came[0]


@every_writer
def test_nothing_and_a_file_are_replaced_whole(tmp_path: Path, write: Writer) -> None:
    path = tmp_path / "new" / "page.md"
    write(path)
    assert path.read_text() == TEXT
    path.write_text("an older and longer page\n")
    held = path.open()
    write(path)
    assert path.read_text() == TEXT
    assert held.read() == "an older and longer page\n", "who reads the older one has it whole"
    held.close()
    assert [one.name for one in path.parent.iterdir()] == ["page.md"]


@every_writer
def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path, write: Writer) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert read_while(pipe, lambda: write(pipe)) == TEXT
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]


@every_writer
def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path, write: Writer) -> None:
    file, there, not_yet, pipe = (tmp_path / name for name in ("file", "there", "not_yet", "pipe"))
    file.write_text("older")
    os.mkfifo(pipe)
    there.symlink_to("file")
    not_yet.symlink_to(Path("deep") / "new")
    write(there)
    write(not_yet)
    assert file.read_text() == (tmp_path / "deep" / "new").read_text() == TEXT
    to_pipe = tmp_path / "to_pipe"
    to_pipe.symlink_to("pipe")
    assert read_while(pipe, lambda: write(to_pipe)) == TEXT
    assert all(link.is_symlink() for link in (there, not_yet, to_pipe))
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


@every_writer
def test_a_device_is_written_into_by_way_of_a_link_that_stays(tmp_path: Path, write: Writer) -> None:
    link = tmp_path / "nowhere"
    link.symlink_to(os.devnull)
    write(link)
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)


@every_writer
def test_folders_and_sockets_are_refused_and_left_alone(tmp_path: Path, write: Writer) -> None:
    folder, taken = tmp_path / "folder", tmp_path / "socket"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(taken))
        for path, kind in ((folder, "a folder"), (taken, "a socket")):
            with pytest.raises(ReplayError, match=f"cannot be written: it is {kind}; name a file"):
                write(path)
        assert stat.S_ISSOCK(taken.lstat().st_mode)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "socket"]


def test_a_disk_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "disk"
    path.write_text("all that one has")
    monkeypatch.setattr(stat, "S_ISREG", lambda _: False)
    monkeypatch.setattr(stat, "S_ISBLK", lambda _: True)
    with pytest.raises(TargetFileError, match="it is a disk"):
        write_target(path, b"")
    assert path.read_text() == "all that one has"


def test_what_will_not_do_is_refused_before_there_is_anything_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetFileError, match=r"Not a directory|File exists"):
        prepare_target(tmp_path / "file" / "page.md")
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(TargetFileError, match="cannot be written"):
        prepare_target(loop)
    # Who runs the tests may be the one whom no permission stops.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    with pytest.raises(TargetFileError, match="no permission"):
        prepare_target(tmp_path / "page.md")


def test_what_cannot_be_written_whole_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    path = tmp_path / "page.md"
    path.write_text("older")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TargetFileError, match=r"page.md: cannot be written: No space left on device"):
        write_target(path, b"newer")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("page.md", "older")]


def test_the_option_docs_writes_into_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        result = CliRunner().invoke(replay, [*shlex.split("precision --steps 1 --json --docs"), str(pipe)])
        assert result.exit_code == 0, result.output

    assert read_while(pipe, write).startswith("# What fp16 and bf16 lose\n")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
