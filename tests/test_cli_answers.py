"""What the command line answers where something is damaged, missing, mistyped, or no number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.output import json_text, visible
from test_cli import write_log

COMMANDS = (
    ["runs"],
    ["events"],
    ["events", "--run", "a"],
    ["incidents"],
    ["scalars", "a"],
    ["scalars", "a", "--signal", "loss"],
    ["attempts", "a"],
    ["flags", "a"],
)


@pytest.fixture
def cli(tmp_path: Path) -> Any:
    def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from replay.cli import main; main()", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, **options)

    return run


@pytest.fixture
def two_tellings(cli: Any, tmp_path: Path) -> list[Path]:
    """A run `a` that two logs tell of, and another run; returns the parts of scalars of the first."""
    for name, first in (("one", 1), ("two", 101)):
        write_log(tmp_path / f"{name}.log", [3.0 - 0.001 * step for step in range(100)], first)
        assert cli("ingest", f"{name}.log", "--run", "a").returncode == 0
    write_log(tmp_path / "b.log", [2.0, 1.9, 1.8])
    assert cli("ingest", "b.log").returncode == 0
    return sorted((tmp_path / "replay-store" / "scalars" / "run=a").iterdir())


class TestDamage:
    def test_what_is_whole_is_answered_what_is_not_is_told_and_the_status_is_1(
        self, cli: Any, two_tellings: list[Path]
    ) -> None:
        two_tellings[0].write_bytes(two_tellings[0].read_bytes()[:100])
        for command in COMMANDS:
            done = cli(*command, "--json")
            # What is measured is needed for what follows from it, too.
            assert done.returncode == 1, command
            assert two_tellings[0].name in done.stderr, command
            assert isinstance(json.loads(done.stdout), list), command
        rows = json.loads(cli("scalars", "a", "--tag", "lm loss", "--json").stdout)
        assert len(rows) == 100
        assert len(json.loads(cli("runs", "--json").stdout)) == 2

    def test_a_run_that_is_whole_is_answered_with_0(self, cli: Any, two_tellings: list[Path]) -> None:
        two_tellings[0].unlink()
        done = cli("scalars", "b", "--signal", "loss")
        assert (done.returncode, done.stderr) == (0, "")

    def test_where_nothing_is_left_the_message_is_all(self, cli: Any, two_tellings: list[Path]) -> None:
        for path in two_tellings:
            path.unlink()
        done = cli("scalars", "a", "--json")
        assert done.returncode == 1
        assert "is missing" in json.loads(done.stdout)["error"]
        assert "is missing" in done.stderr

    def test_of_a_run_of_which_nothing_at_all_is_left_it_is_not_said_that_there_is_none(
        self, cli: Any, two_tellings: list[Path]
    ) -> None:
        for path in two_tellings[0].parents[2].rglob("*.parquet"):
            if path.parent.name != "ledger":
                path.unlink()
        for command in (["scalars", "a"], ["events", "--run", "a"], ["attempts", "a"]):
            done = cli(*command)
            assert done.returncode == 1, command
            assert "is missing" in done.stderr

    @pytest.mark.parametrize("how_many", [1, 2])
    def test_the_report_is_written_of_what_is_left_and_says_what_is_not(
        self, cli: Any, two_tellings: list[Path], tmp_path: Path, how_many: int
    ) -> None:
        for path in two_tellings[:how_many]:
            path.write_bytes(b"PAR1")
        done = cli("report", "a", "-o", "a.html")
        assert done.returncode == 1
        html = (tmp_path / "a.html").read_text()
        for path in two_tellings[:how_many]:
            assert path.name in done.stderr
            assert path.name in html

    def test_a_damaged_ledger_ends_with_1(self, cli: Any, two_tellings: list[Path]) -> None:
        path = min((two_tellings[0].parents[2] / "ledger").iterdir())
        path.write_bytes(path.read_bytes()[:100])
        done = cli("runs", "--json")
        assert done.returncode == 1
        assert "ledger" in done.stderr
        json.loads(done.stdout)
        assert cli("scalars", "c").returncode == 1, "it may be among what cannot be read"


class TestFailuresInJson:
    @pytest.mark.parametrize(
        ("command", "status", "said"),
        [
            (["runs", "--store", "letters"], 1, "letters"),
            (["scalars", "nosuch"], 2, "nosuch"),
            (["events", "--kind", "loss_spkie"], 2, "loss_spkie"),
            (["ingest"], 2, "nothing to ingest"),
            (["nosuch"], 2, "nosuch"),
            (["events", "--nosuch"], 2, "--nosuch"),
            (["experiment", "/dev/zero"], 1, "is a device"),
            (["report", "nosuch", "-o", "x.html"], 2, "nosuch"),
            (["audit", "nosuch"], 2, "nosuch"),
            (["precedents"], 2, "give RUN"),
        ],
    )
    def test_there_is_one_document_that_says_why(
        self, cli: Any, tmp_path: Path, command: list[str], status: int, said: str
    ) -> None:
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "love.txt").write_text("dear")
        done = cli(*command, "--json")
        assert done.returncode == status
        document = json.loads(done.stdout)
        assert list(document) == ["error"]
        assert said in document["error"]
        assert done.stderr, "it is told to people all the same"
        assert cli(*command).stdout == "", "nobody asked for JSON"

    def test_a_failure_after_the_answer_adds_no_second_document(self, tmp_path: Path) -> None:
        program = (
            "import replay.output as output, replay.cli.commands as commands\n"
            "from replay.errors import ReplayError\n"
            "def runs(): output.print_json([1]); raise ReplayError('the disk is full')\n"
            "commands.replay.commands['runs'].callback = lambda **_: runs()\n"
            "import sys; sys.argv = ['replay', 'runs', '--json']\n"
            "from replay.cli import main; main()\n"
        )
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1
        assert json.loads(done.stdout) == [1]
        assert done.stderr == "replay: the disk is full\n"


class TestWhatATerminalObeys:
    EVIL = "a\x9b31m\x85\u202e\u2066\x7f\U000e0041\ud800 灰 é \u2028z\x1b[0m"

    def test_json_holds_the_same_text_with_escapes(self) -> None:
        text = json_text({self.EVIL: [self.EVIL, 1.5, None]})
        assert json.loads(text) == {self.EVIL: [self.EVIL, 1.5, None]}
        assert visible(text.replace("\n", "")) == text.replace("\n", ""), "nothing is left to escape"
        assert "灰 é" in text, "what is harmless is left as it is"

    def test_a_run_name_does_not_reach_the_terminal_raw(self, cli: Any, tmp_path: Path) -> None:
        write_log(tmp_path / "x.log", [2.0, 1.9])
        name = "a\x9b31m\u202eb"
        for command in (["ingest", "x.log", "--run", name], ["runs"], ["scalars", name, "--signal", "loss"]):
            done = cli(*command, "--json")
            assert done.returncode == 0
            assert "\x9b" not in done.stdout + done.stderr
            assert "\u202e" not in done.stdout + done.stderr
        assert json.loads(cli("runs", "--json").stdout)[0]["run"] == name


def test_a_measured_nan_reads_nan_and_a_missing_number_is_empty(cli: Any, tmp_path: Path) -> None:
    rows = [{"step": 1, "loss": 2.5}, {"step": 2, "loss": float("nan")}, {"step": 3, "loss": float("inf")}]
    (tmp_path / "nan.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cli("ingest", "nan.jsonl")
    shown = [line.split("\t") for line in cli("scalars", "nan", "--tag", "loss").stdout.splitlines()]
    value, attempt = shown[0].index("value"), shown[0].index("attempt")
    assert [row[value] for row in shown[1:]] == ["2.5", "nan", "inf"]
    assert "wall_time" not in shown[0], "no time is known"
    assert [row[attempt] for row in shown[1:]] == ["0", "0", "0"]
    events = cli("events", "--run", "nan").stdout
    assert "nan_loss" in events
    assert "\tnan\t" not in events, "no number is missing there that was measured"


class TestMistypedNames:
    def test_a_tag_or_signal_that_the_run_has_not_is_told_with_those_that_are_close(
        self, cli: Any, tmp_path: Path
    ) -> None:
        write_log(tmp_path / "x.log", [2.0, 1.9])
        assert cli("ingest", "x.log").returncode == 0
        for option, mistyped, close in (("--signal", "grad_nrm", "grad_norm"), ("--tag", "lm los", "lm loss")):
            for more in ([], ["--json"]):
                done = cli("scalars", "x", option, mistyped, *more)
                assert done.returncode == 0
                assert f"x has no {option[2:]} '{mistyped}'; it has {close}" in done.stderr
        assert cli("scalars", "x", "--signal", "loss", "--steps", "9:").stderr == "", "the name was right"

    @pytest.mark.parametrize("command", [["runs"], ["events"], ["incidents"], ["statistics"]])
    def test_a_store_that_is_not_there_yet_is_told(self, cli: Any, tmp_path: Path, command: list[str]) -> None:
        done = cli(*command, "--store", "replay-sotre", "--json")
        assert done.returncode == 0
        assert "there is no store in replay-sotre yet" in done.stderr
        assert not (tmp_path / "replay-sotre").exists()
        write_log(tmp_path / "x.log", [2.0, 1.9])
        cli("ingest", "x.log")
        assert "there is no store" not in cli(*command).stderr

    def test_a_run_is_not_looked_for_in_a_store_that_is_not_there(self, cli: Any) -> None:
        done = cli("scalars", "x", "--store", "replay-sotre")
        assert done.returncode == 2
        assert "there is no store in replay-sotre yet" in done.stderr


def test_the_library_answers_without_telling_of_an_exit_status(tmp_path: Path) -> None:
    assert replay.open(tmp_path / "none").left_out == {}
