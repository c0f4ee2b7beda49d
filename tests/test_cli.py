"""The command line as its users meet it: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replay.cli import main as command_line
from replay.store import EventStore, StoreError

COMMANDS = ("ingest", "runs", "events", "scalars", "attempts", "incidents", "flags", "experiment", "report", "demo")

MEGATRON_LINE = (
    " iteration {step:8d}/  100000 | consumed samples: {samples:12d} | elapsed time per iteration (ms): 1000.0 | "
    "learning rate: 1.000E-04 | global batch size:    16 | lm loss: {loss:.6E} | loss scale: 65536.0 | "
    "grad norm: {norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def write_log(path: Path, losses: list[float], first: int = 1) -> Path:
    path.write_text(
        "".join(
            MEGATRON_LINE.format(step=step, samples=16 * step, loss=loss, norm=1.0 + 0.01 * (step % 3))
            for step, loss in enumerate(losses, start=first)
        )
    )
    return path


@pytest.fixture
def cli(tmp_path: Path) -> Any:
    """Runs the command line in its own process and folder, as a shell would."""

    def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from replay.cli import main; main()", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, **options)

    return run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the built-in logbooks and one small log of a run that spikes."""
    folder = tmp_path_factory.mktemp("cli")
    losses = [3.0 - 0.001 * step for step in range(400)]
    losses[300:304] = [9.0, 8.0, 7.0, 5.0]
    log = write_log(folder / "spiky.log", losses)
    command = [sys.executable, "-c", "from replay.cli import main; main()", "ingest", "--builtin", str(log)]
    done = subprocess.run([*command, "--store", str(folder / "store")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "store"


def test_help_names_every_command(cli: Any) -> None:
    shown = cli("--help").stdout
    for command in COMMANDS:
        assert command in shown


def test_every_command_takes_store_and_json(cli: Any) -> None:
    for command in COMMANDS:
        shown = cli(command, "--help").stdout
        assert "--store" in shown, command
        assert "--json" in shown, command


def test_ingest_without_anything_is_wrong_usage(cli: Any) -> None:
    done = cli("ingest")
    assert done.returncode == 2
    assert "--builtin" in done.stderr


def test_a_missing_file_is_told_and_the_rest_is_kept(cli: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "good.log", [2.0, 1.9, 1.8])
    done = cli("ingest", "missing.log", "good.log")
    assert done.returncode == 1
    assert "missing.log" in done.stderr
    assert "Traceback" not in done.stderr
    rows = json.loads(cli("scalars", "good", "--signal", "loss", "--json").stdout)
    assert [row["value"] for row in rows] == [2.0, 1.9, 1.8]


def test_ingest_tells_json_programs_what_became_of_each_source(cli: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "good.log", [2.0, 1.9])
    first = json.loads(cli("ingest", "good.log", "--json").stdout)
    second = json.loads(cli("ingest", "good.log", "--json").stdout)
    assert [source["status"] for source in first["sources"]] == ["ingested"]
    assert [source["status"] for source in second["sources"]] == ["unchanged"]
    assert first["sources"][0]["format"] == "megatron"


def test_runs_lists_logbooks_and_logs(cli: Any, store: Path) -> None:
    rows = {row["run"]: row for row in json.loads(cli("runs", "--store", store, "--json").stdout)}
    assert {"glm-130b", "bloom-176b", "palm-540b", "spiky"} <= rows.keys()
    assert rows["spiky"]["last_step"] == 400
    assert rows["glm-130b"]["clock"] == "Asia/Shanghai"


def test_an_unknown_run_is_wrong_usage_and_near_names_are_offered(cli: Any, store: Path) -> None:
    for command in (["scalars"], ["attempts"], ["flags"], ["report", "-o", "x.html"]):
        done = cli(*command, "glm-130", "--store", store)
        assert done.returncode == 2, command
        assert "glm-130b" in done.stderr, command


def test_an_empty_store_says_how_to_begin(cli: Any) -> None:
    assert "replay ingest" in cli("runs").stdout
    assert json.loads(cli("events", "--json").stdout) == []


def test_events_can_be_narrowed_by_kind_role_and_time(cli: Any, store: Path) -> None:
    rows = json.loads(
        cli(
            "events", "--run", "glm-130b", "--role", "symptom", "--since", "2022-06-10", "--until", "2022-06-14",
            "--store", store, "--json",
        ).stdout
    )  # fmt: skip
    assert {row["kind"] for row in rows} >= {"loss_explosion", "loss_scale_drop"}
    assert all("2022-06-10" <= row["time"] < "2022-06-14" for row in rows)
    assert cli("events", "--kind", "loss_spkie", "--store", store).returncode == 2
    assert cli("events", "--since", "yesterday", "--store", store).returncode == 2


def test_incidents_say_what_was_done_and_what_came_of_it(cli: Any, store: Path) -> None:
    shown = cli("incidents", "--saw", "loss_explosion", "--did", "skip_batches", "--store", store).stdout
    assert "glm-130b/2022-06-20T09:10" in shown
    assert "skip_batches of step 40,701-40,900" in shown
    assert "rollback to step 40,700" in shown
    assert "glm-130b/2022-06-14T03:00" not in shown


def test_scalars_take_a_range_of_steps(cli: Any, store: Path) -> None:
    rows = json.loads(
        cli("scalars", "spiky", "--tag", "lm loss", "--steps", "300:302", "--store", store, "--json").stdout
    )
    assert [row["step"] for row in rows] == [300, 301, 302]
    assert cli("scalars", "spiky", "--steps", "9:1", "--store", store).returncode == 2
    assert cli("scalars", "spiky", "--steps", "a:b", "--store", store).returncode == 2


def test_flags_find_the_spike_and_say_what_was_not_checked(cli: Any, store: Path) -> None:
    done = cli("flags", "spiky", "--store", store, "--json")
    rows = json.loads(done.stdout)
    spikes = [row for row in rows if row["signal"] == "loss" and row["step"] <= 304 and row["step_end"] >= 301]
    assert spikes, rows
    assert "not checked" in done.stderr or "checked" in done.stderr


RULE = """\
rules:
  - name: mine
    summary: The loss is high.
    when: {ceiling: {signal: loss, at: 8.5}}
    severity: warning
    announces: loss_spike
    advice: Look.
    source: our own
    tests: [{name: low, series: {loss: [{value: 2.5, points: 50}]}, fires: false}]
"""


def test_a_rule_that_fails_its_own_test_is_used_with_a_warning_and_a_faulty_one_not_at_all(
    cli: Any, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "good.yaml").write_text(RULE)
    (tmp_path / "failing.yaml").write_text(RULE.replace("fires: false", "fires: true"))
    (tmp_path / "faulty.yaml").write_text(RULE.replace("points: 50", "points: -3"))
    good = cli("flags", "spiky", "--rules", "good.yaml", "--store", store)
    assert (good.returncode, "warning:" in good.stderr) == (0, False)
    failing = cli("flags", "spiky", "--rules", "failing.yaml", "--store", store)
    assert failing.returncode == 0
    assert "warning: failing.yaml:2: mine, low: expected a flag, got 0" in failing.stderr
    assert failing.stdout == good.stdout
    faulty = cli("flags", "spiky", "--rules", "faulty.yaml", "--store", store)
    assert (faulty.returncode, faulty.stdout) == (1, "")
    assert faulty.stderr == "replay: faulty.yaml:9: `points` is -3; it must lie between 0 and 200000\n"


def test_a_device_given_as_rules_or_scenario_is_refused_in_one_line(cli: Any, store: Path) -> None:
    for command in (["flags", "spiky", "--rules", "/dev/zero"], ["experiment", "/dev/zero"]):
        done = cli(*command, "--store", store, timeout=250)
        assert done.returncode == 1, command
        assert done.stderr == "replay: /dev/zero: is a device, not a regular file\n", command


def test_report_is_one_html_file(cli: Any, store: Path, tmp_path: Path) -> None:
    done = cli("report", "spiky", "-o", "out/spiky.html", "--store", store)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "spiky.html").read_text(encoding="utf-8").startswith("<!")


def test_a_closed_pipe_is_no_error(store: Path) -> None:
    command = f"{sys.executable} -c 'from replay.cli import main; main()' events --store {store} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("run\t")
    assert done.stderr == ""


def test_a_store_that_is_something_else_is_refused_in_one_line(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").write_text("dear")
    done = cli("runs", "--store", "letters")
    assert done.returncode == 1
    assert done.stderr.startswith("replay: ")
    assert len(done.stderr.splitlines()) == 1


def test_terminal_controls_in_a_log_are_spelled_out(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(
        'run: {name: evil, title: "\\e[2J\\e]0;owned\\a", sources: {log: notes}}\n'
        "incidents:\n"
        "  - id: one\n    locator: § 1\n    seen:\n      - {kind: loss_spike, text: \"\\e[31mred\\u202e\"}\n"
    )  # fmt: skip
    assert cli("ingest", "evil.yaml").returncode == 0
    for command in ("runs", "events", "incidents"):
        shown = cli(command).stdout
        assert "\x1b" not in shown, command
        assert "\u202e" not in shown, command
    assert "\\x1b[31mred" in cli("incidents").stdout


def test_importing_replay_is_light() -> None:
    code = "import replay, sys; print([m for m in ('torch', 'altair', 'numba', 'pandas') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert shown.stdout.strip() == "[]"


def test_an_empty_path_is_not_the_current_folder(cli: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "good.log", [2.0, 1.9])
    done = cli("ingest", "")
    assert done.returncode == 2
    assert "empty path" in done.stderr
    assert not (tmp_path / "replay-store").exists()


def test_addresses_are_refused_as_stores(cli: Any) -> None:
    done = cli("runs", "--store", "ftp://me:secret-word@host/store")
    assert done.returncode == 2
    assert "only local files and folders" in done.stderr
    assert "secret-word" not in done.stderr


def test_a_url_is_read_and_its_password_shown_nowhere(cli: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "good.log", [2.0, 1.9])
    done = cli("ingest", log.as_uri(), "ftp://me:secret-word@127.0.0.1:1/run.log", "--json")
    assert done.returncode == 1, "nobody listens at port 1"
    assert [(one["source"], one["status"]) for one in json.loads(done.stdout)["sources"]] == [
        (str(log), "ingested"),
        ("ftp://me@127.0.0.1:1/run.log", "failed"),
    ]
    assert "secret-word" not in done.stdout + done.stderr
    assert "secret-word" not in cli("ingest", "ftp://me:secret-word@127.0.0.1:1/run.log").stdout


def test_a_step_beyond_64_bits_is_told_as_that(cli: Any, store: Path) -> None:
    done = cli("scalars", "spiky", "--steps", "99999999999999999999999:", "--store", store)
    assert done.returncode == 2
    assert "64-bit" in done.stderr


def test_what_was_done_is_no_symptom(cli: Any, store: Path) -> None:
    assert cli("incidents", "--saw", "rollback", "--store", store).returncode == 2
    assert cli("incidents", "--did", "loss_spike", "--store", store).returncode == 2


def test_an_unknown_scenario_is_wrong_usage_and_the_built_in_ones_are_named(cli: Any) -> None:
    done = cli("experiment", "nosuch")
    assert done.returncode == 2
    assert "palm-rollback-skip" in done.stderr


def test_a_report_goes_to_standard_output(cli: Any, store: Path, tmp_path: Path) -> None:
    done = cli("report", "spiky", "-o", "-", "--store", store)
    assert done.stdout.startswith("<!")
    assert not (tmp_path / "-").exists()


def test_a_report_that_cannot_be_written_leaves_the_old_one(cli: Any, store: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder is wanted")
    done = cli("report", "spiky", "-o", "taken/spiky.html", "--store", store)
    assert done.returncode == 1
    assert done.stderr.startswith("replay: taken/spiky.html: the report cannot be written")


def test_flags_are_shown_although_they_cannot_be_kept(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the store is read-only")

    monkeypatch.setattr(EventStore, "put_flags", refuse)
    monkeypatch.setattr(sys, "argv", ["replay", "flags", "spiky", "--store", str(store), "--json"])
    command_line()
    shown = capsys.readouterr()
    assert any(row["rule"] == "loss-spike" for row in json.loads(shown.out))
    assert "not kept: the store is read-only" in shown.err


def test_a_closed_output_is_no_reason_for_a_traceback(store: Path) -> None:
    command = f"{sys.executable} -c 'from replay.cli import main; main()' runs --store {store} >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
