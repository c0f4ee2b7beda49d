"""The documents tell the truth: their links lead somewhere, their examples run, their commands exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import replay
from replay import rules
from replay.cli import replay as command_line
from replay_parsers import Parser, Sample, detection, read

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "logbooks/README.md", "reports/README.md"]


def blocks(root: Path, document: str, language: str) -> list[str]:
    text = (root / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def run_example(code: str, folder: Path) -> dict[str, Any]:
    """Run an example as the script that a reader would make of it, and return its names."""
    script = folder / "example.py"
    script.write_text(code, encoding="utf-8")
    return runpy.run_path(str(script))


def documents(root: Path) -> list[Path]:
    return [*(root / name for name in DOCUMENTS), *sorted((root / "docs").glob("*.md"))]


def test_links_lead_to_files_that_exist(root: Path) -> None:
    broken = [
        f"{document.name}: {target}"
        for document in documents(root)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_commands_in_the_documents_exist(root: Path) -> None:
    told = {
        (document.name, command)
        for document in documents(root)
        for block in blocks(root, str(document.relative_to(root)), "(?:console|sh)?")
        for command in re.findall(r"^(?:\$ )?replay ([a-z][a-z-]*)", block, flags=re.MULTILINE)
    }
    assert told
    assert [pair for pair in sorted(told) if pair[1] not in command_line.commands] == []


def test_the_readme_gives_the_two_commands_and_ci_runs_the_second(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    assert "\nmake test\n" in (root / ".ci" / "run").read_text(encoding="utf-8")


@pytest.fixture
def folder_with_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the documents take it to be: a store with the logbooks, and a log of one's own."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "my-run"
    run.mkdir(parents=True)
    (run / "train.log").write_text(
        " iteration    31201/  100000 | consumed samples:  100 | elapsed time per iteration (ms): 1000.0 | "
        "learning rate: 1.000E-04 | global batch size:    16 | lm loss: 2.0E+00 | grad norm: 0.2 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
    store = replay.open("replay-store")
    store.ingest_builtin()
    store.ingest([run])
    return tmp_path


def test_the_readmes_python_runs(root: Path, folder_with_a_run: Path) -> None:
    (code,) = blocks(root, "README.md", "python")
    store = run_example(code, folder_with_a_run)["store"]
    assert isinstance(store, replay.EventStore)
    assert len(store.incidents(saw="loss_explosion", did="skip_batches")) >= 1


@pytest.mark.parametrize("tool", ["duckdb", "polars", "dask"])
def test_other_tools_open_the_store_as_told(
    root: Path, folder_with_a_run: Path, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(tool)
    (code,) = (block for block in blocks(root, "docs/store.md", "python") if f"import {tool}" in block)
    assert len([line for line in code.splitlines() if line]) == 3
    run_example(code, folder_with_a_run)
    assert "my-run" in capsys.readouterr().out


def test_the_example_parser_reads_and_tells_what_it_could_not(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = blocks(root, "CONTRIBUTING.md", "python")
    parser = run_example(code, tmp_path)["PARSER"]
    assert isinstance(parser, Parser)
    assert parser.recognise(Sample(path=tmp_path, head=b"something else", whole=True)) == 0.0
    everyone = (*detection.all_parsers(), parser)
    monkeypatch.setattr(detection, "all_parsers", lambda: everyone)
    log = tmp_path / "log.txt"
    log.write_text("# my trainer\n1 2.5\nhalf a li\n2 nan\n")
    records = read(log)
    assert records.scalars.step.tolist() == [1, 2]
    assert [problem.line for problem in records.problems] == [3]


def test_the_example_rule_is_sound(root: Path, tmp_path: Path) -> None:
    (text,) = blocks(root, "CONTRIBUTING.md", "yaml")
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    assert rules.lint([path]) == []


def test_every_command_has_help() -> None:
    for name in command_line.commands:
        shown = CliRunner().invoke(command_line, [name, "--help"])
        assert shown.exit_code == 0, name
        assert "--help" in shown.output, name
