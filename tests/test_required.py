"""What a command cannot do without, left out: told in a line with exit status 2, for every command there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from replay.cli import replay


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


REQUIRED = [
    (path, parameter.name)
    for path, command in commands(replay)
    for parameter in command.params
    if parameter.required and parameter.name is not None
]


def given(parameter: click.Parameter) -> list[str]:
    return [parameter.opts[0], "x"] if isinstance(parameter, click.Option) else ["x"]


def test_the_commands_that_need_something_are_known() -> None:
    assert (("proxy", "train"), "out") in REQUIRED
    assert (("report",), "target") in REQUIRED
    assert (("experiment",), "scenario") in REQUIRED


@pytest.mark.parametrize(("path", "missing"), REQUIRED, ids=lambda value: str(value))
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_required_and_missing_is_wrong_usage(path: tuple[str, ...], missing: str, as_json: bool) -> None:
    command = next(command for known, command in commands(replay) if known == path)
    others = [part for one in command.params if one.required and one.name != missing for part in given(one)]
    result = CliRunner().invoke(replay, [*path, *others, *(["--json"] if as_json else [])])
    assert result.exit_code == 2, repr(result.exception)
    assert isinstance(result.exception, SystemExit)
    assert "Error: Missing " in result.stderr
    assert result.stdout == ""


FOLDERS_AND_FILES = [
    (path, option)
    for path, command in commands(replay)
    for one in command.params
    if isinstance(one, click.Option) and (isinstance(one.type, click.Path) or one.metavar == "DIR")
    for option in [next(name for name in one.opts if name.startswith("--"))]
]


@pytest.mark.parametrize(("path", "option"), FOLDERS_AND_FILES, ids=lambda value: str(value))
def test_an_empty_path_is_no_folder_and_no_file(
    path: tuple[str, ...], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = next(command for known, command in commands(replay) if known == path)
    needed = [part for one in command.params if one.required and option not in one.opts for part in given(one)]
    result = CliRunner().invoke(replay, [*path, *needed, option, ""])
    assert result.exit_code == 2, repr(result.exception)
    assert "an empty path" in result.stderr or "does not exist" in result.stderr
    assert list(tmp_path.iterdir()) == []
