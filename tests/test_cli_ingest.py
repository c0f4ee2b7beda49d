"""What `replay ingest` says of what it read: nothing that was left out looks as if it were kept."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from replay.cli import cluster, left_out
from replay.cli import replay as command_line
from replay_parsers.records import Coverage

PROGRAM = [sys.executable, "-c", "from replay.cli import main; main()"]


@pytest.fixture
def ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `replay ingest` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(command_line, ["ingest", *map(str, arguments)])


def half_understood(path: Path, understood: int, not_understood: int) -> None:
    lines = [json.dumps({"step": step, "loss": 2.5}) for step in range(understood)]
    lines += [json.dumps({"foo": number, "bar": 1.5}) for number in range(not_understood)]
    path.write_text("\n".join(lines) + "\n")


def event_file(folder: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir()
    with (folder / "events.out.tfevents.1600000000.host").open("wb") as stream:
        writer = RecordWriter(stream)
        writer.write(Event(wall_time=1.6e9, file_version="brain.Event:2").SerializeToString())
        for step in range(6):
            histograms = [Summary.Value(tag=f"weights/{layer}", histo=HistogramProto(num=3)) for layer in range(4)]
            summary = Summary(value=[Summary.Value(tag="loss", simple_value=1.5), *histograms])
            writer.write(Event(wall_time=1.6e9 + step, step=step, summary=summary).SerializeToString())
        writer.write(Event(wall_time=1.7e9, graph_def=b"\x08\x01").SerializeToString())


def test_records_that_were_not_understood_are_told_of_their_file_and_in_all(ingest: Any, tmp_path: Path) -> None:
    half_understood(tmp_path / "mostly.jsonl", 100, 1900)
    half_understood(tmp_path / "partly.jsonl", 100, 7)
    half_understood(tmp_path / "clean.jsonl", 100, 0)
    for _ in range(2):
        lines = ingest("mostly.jsonl", "partly.jsonl", "clean.jsonl").stdout.splitlines()
        mostly, partly, clean, summary, closing = [line for line in lines if not line.startswith(" ")]
        assert "100 records" in mostly
        assert mostly.endswith(", 1,900 records without a step or a loss")
        assert partly.endswith(", 7 records without a step or a loss")
        assert "without" not in clean
        assert summary.endswith("; 2 with something not understood or not readable")
        assert closing == "left out: records without a step or a loss (1,907)"


def test_what_is_no_scalar_is_summed_over_all_files(ingest: Any, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        event_file(tmp_path / name)
    lines = ingest("a", "b", "c").stdout.splitlines()
    assert len(lines) == 5, "a line a file, the sum of them, and once what they held besides"
    assert "not understood" not in lines[3]
    assert lines[4] == "left out: histogram (72), graph (3)"


def test_of_a_clean_file_nothing_is_left_out(ingest: Any, tmp_path: Path) -> None:
    half_understood(tmp_path / "clean.jsonl", 100, 0)
    shown = ingest("clean.jsonl").stdout
    assert len(shown.splitlines()) == 2
    assert "left out" not in shown


def test_a_follower_tells_in_the_end_what_it_left_out(tmp_path: Path) -> None:
    half_understood(tmp_path / "a.jsonl", 10, 3)
    command = [*PROGRAM, "ingest", "--follow", "--interval", "0.05", "--idle", "1", str(tmp_path / "a.jsonl")]
    with subprocess.Popen(
        [*command, "--store", str(tmp_path / "s")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert "3 records without a step or a loss" in follower.stdout.readline()
        with (tmp_path / "a.jsonl").open("a") as stream:
            stream.write('{"foo": 1}\n{"foo": 2}\n{"step": 10, "loss": 1.0}\n')
        told = follower.communicate()[1]
    assert "left out: records without a step or a loss (5)\n" in told


def test_what_is_kept_or_said_twice_is_not_called_left_out() -> None:
    others = [
        {"sentence understood": 9, "log line": 2, "image": 3},
        {"text: config": 4, "text: samples": 5, "hparams: session": 1, "timers, rules and progress bars": 2_000},
    ]
    assert left_out.closing_lines(others) == [
        "left out: image (3)",
        "kept as the run's settings: text (9, the first of each tag), hparams (1)",
        "nothing to keep: timers, rules and progress bars (2,000)",
    ]


def test_what_another_parser_counts_is_left_out_and_shown_without_controls() -> None:
    assert left_out.closing_lines([{"\x1b[2Jodd: a": 1, "\x1b[2Jodd: b": 1}]) == ["left out: \\x1b[2Jodd (2)"]
    many = left_out.closing_lines([{f"kind {number:02}: x": 1 + number for number in range(30)}])
    assert len(many) == 1
    assert many[0].startswith("left out: kind 29 (30), kind 28 (29), ")
    assert many[0].endswith("kind 20 (21), 20 more kinds, which --json lists")


def test_a_record_too_long_to_read_is_not_understood() -> None:
    assert left_out.not_understood(Coverage(other={"record over 1024 MiB": 1, "histogram: a": 2})) == [
        "1 record over 1024 MiB"
    ]


class TestAtLast:
    """What counts of a follower is how things stand when it ends."""

    @pytest.fixture
    def follow(self, tmp_path: Path) -> Any:
        """Follows for as long as there is something new, and calls what it is given after the first report."""

        def run(path: Path, then: Callable[[], object], idle: float = 1.0) -> subprocess.CompletedProcess[str]:
            command = [*PROGRAM, "ingest", "--follow", "--interval", "0.05", "--idle", str(idle), str(path), "--json"]
            with subprocess.Popen(
                [*command, "--store", str(tmp_path / "s")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as follower:
                assert follower.stdout is not None
                first = follower.stdout.readline()
                then()
                rest, told = follower.communicate()
            return subprocess.CompletedProcess(command, follower.returncode, first + rest, told)

        return run

    def test_a_file_that_comes_later_is_not_missing(self, follow: Any, tmp_path: Path) -> None:
        done = follow(tmp_path / "late.jsonl", lambda: half_understood(tmp_path / "late.jsonl", 9, 0))
        assert statuses(done.stdout) == ["failed", "ingested"]
        assert done.returncode == 0

    def test_a_folder_that_comes_later_is_not_missing(self, follow: Any, tmp_path: Path) -> None:
        def come() -> None:
            (tmp_path / "apart").mkdir()
            half_understood(tmp_path / "apart" / "late.jsonl", 9, 0)
            (tmp_path / "apart").rename(tmp_path / "late")

        done = follow(tmp_path / "late", come)
        assert statuses(done.stdout) == ["failed", "ingested"]
        assert done.returncode == 0

    def test_what_never_comes_is_missing(self, follow: Any, tmp_path: Path) -> None:
        assert follow(tmp_path / "never", lambda: None, idle=0.1).returncode == 1


def statuses(documents: str) -> list[str]:
    return [source["status"] for line in documents.splitlines() for source in json.loads(line)["sources"]]


class TestACluster:
    distributed: Any = None

    @pytest.fixture(autouse=True)
    def short_waits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        type(self).distributed = pytest.importorskip("distributed")
        monkeypatch.setattr(cluster, "NO_WORKERS_SECONDS", 0.2)
        monkeypatch.setattr(cluster, "_LOOK_SECONDS", 0.05)

    def test_one_without_workers_is_told_once_and_waited_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        with (
            self.distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as local,
            cluster.executor(local.scheduler_address) as executor,
        ):
            future = executor.submit(len, "four")
            told = until(lambda told: "no workers" in told, capsys)
            time.sleep(0.5)
            told += capsys.readouterr().err
            assert told == (
                f"the Dask cluster at {local.scheduler_address} has no workers: waiting for one (Ctrl-C ends it)\n"
            )
            local.scale(1)
            assert future.result(timeout=60) == 4
            assert until(bool, capsys) == f"the Dask cluster at {local.scheduler_address} has workers\n"
            local.scale(0)
            assert "has no workers" in until(bool, capsys), "one whose workers have died is told too"

    def test_one_that_goes_away_ends_in_one_line(self) -> None:
        with (
            self.distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as local,
            pytest.raises(click.ClickException, match="went away; what was stored before stays stored"),
            cluster.executor(local.scheduler_address),
        ):
            raise CancelledError  # as its futures do

    def test_workers_that_die_of_their_work_end_in_one_line(self) -> None:
        with (
            self.distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as local,
            pytest.raises(click.ClickException, match="workers of the Dask cluster died while they read"),
            cluster.executor(local.scheduler_address),
        ):
            raise self.distributed.KilledWorker("task", None, 3)


def until(enough: Callable[[str], bool], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said on standard error until it is ``enough``."""
    told = ""
    end = time.monotonic() + 60
    while not enough(told) and time.monotonic() < end:
        time.sleep(0.05)
        told += capsys.readouterr().err
    return told


def test_ctrl_c_while_the_commands_are_imported_ends_in_one_line() -> None:
    program = """
        import sys

        class Interrupted:
            def find_spec(self, name, path=None, target=None):
                if name == "click":
                    raise KeyboardInterrupt

        from replay.cli import main
        assert "click" not in sys.modules
        sys.meta_path.insert(0, Interrupted())
        main()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "stopped; what was stored before stays stored\n"


def megatron_line(step: object) -> str:
    return (
        f" iteration {step}/ 1000 | consumed samples: 6400 | elapsed time per iteration (ms): 812.4 |"
        " learning rate: 1.0E-04 | lm loss: 2.5E+00 | grad norm: 1.250 |\n"
    )


class TestTheExitStatus:
    def test_a_record_of_an_impossible_step_is_told_and_ends_with_1(self, ingest: Any, tmp_path: Path) -> None:
        lines = "".join(megatron_line(step) for step in ("9" * 20, 2, 3))
        (tmp_path / "run.log").write_text("hello\n" + lines)
        for _ in range(2):
            done = ingest("run.log")
            assert done.exit_code == 1
            assert "run.log:2: 99999999999999999999 is no step" in done.stderr
            assert "1 records" in done.stdout, "of the three, one was lost"

    def test_prose_between_records_is_no_fault(self, ingest: Any, tmp_path: Path) -> None:
        (tmp_path / "run.log").write_text("it is raining\n" + megatron_line(1) + "it has stopped\n" + megatron_line(2))
        done = ingest("run.log")
        assert done.exit_code == 0
        assert "2 not understood" in done.stdout

    def test_a_file_of_which_nothing_was_kept_ends_with_1(self, ingest: Any, tmp_path: Path) -> None:
        """It looks like a log by what comes before the first record, but then no record comes."""
        words = ["using world size: 8", "building train, validation, and test datasets ...", "padded vocab (size: 5)"]
        (tmp_path / "run.log").write_text("\n".join(words) + "\n")
        for _ in range(2):
            done = ingest("run.log")
            assert done.exit_code == 1
            assert "nothing of it could be kept: 3 lines were not understood" in done.stderr
        (source,) = json.loads(ingest("run.log", "--json").stdout)["sources"]
        assert source["nothing_kept"] is True
        with (tmp_path / "run.log").open("a") as stream:
            stream.write(megatron_line(1))
        assert ingest("run.log").exit_code == 0
        with (tmp_path / "run.log").open("a") as stream:
            stream.write("and so to bed\n")
        assert ingest("run.log").exit_code == 0, "what was kept of it before counts"

    def test_an_empty_file_is_no_fault(self, ingest: Any, tmp_path: Path) -> None:
        (tmp_path / "run.log").write_text("")
        assert ingest("run.log").exit_code == 0

    def test_a_log_without_its_line_feeds_is_read_all_the_same(self, ingest: Any, tmp_path: Path) -> None:
        (tmp_path / "run.log").write_text("".join(megatron_line(step) for step in range(300)).replace("\n", ""))
        done = ingest("run.log")
        assert done.exit_code == 0
        assert "1,500 records" in done.stdout


class TestAnotherRunName:
    def test_the_run_that_a_file_is_taken_from_is_named(self, ingest: Any, tmp_path: Path) -> None:
        (tmp_path / "run.log").write_text(megatron_line(1) + megatron_line(2))
        assert "was run" not in ingest("run.log", "--run", "a").stdout
        told = ingest("run.log", "--run", "b").stdout.splitlines()[0]
        assert told.startswith("replaced")
        assert "-> b:" in told
        assert told.endswith(", was run a")
        assert "was run" not in ingest("run.log", "--run", "b").stdout
        (source,) = json.loads(ingest("run.log", "--run", "c", "--json").stdout)["sources"]
        assert (source["status"], source["run"], source["former_run"]) == ("replaced", "c", "b")

    def test_a_logbook_that_names_another_run_than_before(self, ingest: Any, tmp_path: Path) -> None:
        book = (
            "run: {name: NAME, title: x, sources: {log: notes}}\n"
            "incidents:\n  - id: one\n    locator: § 1\n    seen:\n      - {kind: loss_spike, text: up}\n"
        )
        for name in ("a", "b"):
            (tmp_path / "book.yaml").write_text(book.replace("NAME", name))
            told = ingest("book.yaml").stdout.splitlines()[0]
        assert told.endswith(", was run a")

    def test_an_edited_document_of_the_same_run_was_no_other(self, ingest: Any, tmp_path: Path) -> None:
        for steps in (2, 3):
            rows = [{"step": step, "loss": 2.5} for step in range(steps)]
            (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": rows, "global_step": steps}))
            told = ingest("trainer_state.json").stdout.splitlines()[0]
        assert told.startswith("replaced")
        assert "was run" not in told
