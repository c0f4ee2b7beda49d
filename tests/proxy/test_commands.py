"""The proxy's commands: JSON on standard output, mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from replay.errors import ReplayError
from replay.proxy import ProxyConfig, sweep
from replay.proxy.command_helpers import print_result
from replay.proxy.commands import proxy_commands
from replay.proxy.runs import forgetting, train
from replay.proxy.table_commands import precision_command
from replay.proxy.training import Training

SMALL = ["--set", "model.width=16", "--set", "model.depth=1", "--set", "model.heads=2", "--set", "data.batch_size=2"]


def call(command: click.Command, *arguments: str) -> Result:
    result = CliRunner().invoke(command, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit | ReplayError):
        raise result.exception
    return result


def test_train_then_resume(tmp_path: Path) -> None:
    out = tmp_path / "run"
    told = call(
        proxy_commands, "train", "--out", str(out), "--set", "steps=6", *SMALL, "--checkpoint-every", "3", "--json"
    )
    summary = json.loads(told.stdout)
    assert summary["last_step"] == 6
    assert summary["ended"] == "completed"
    assert summary["entropy_floor"] == pytest.approx(0.27, abs=0.05)
    metadata = json.loads((out / "run.json").read_text())
    assert ProxyConfig.from_dict(metadata["config"]).content_hash() == metadata["config_hash"]
    assert [path.name for path in sorted((out / "checkpoints").iterdir())] == ["step-0000003", "step-0000006"]
    middle = str(out / "checkpoints" / "step-0000003")
    again = json.loads(call(proxy_commands, "resume", middle, "--out", str(out), "--steps", "3", "--json").stdout)
    assert (again["first_step"], again["last_step"]) == (4, 6)
    assert again["held_out_loss"] == summary["held_out_loss"]
    assert len(list(out.glob("events.out.tfevents.*"))) == 2


def test_resume_without_a_folder_shows_what_forgetting_does(tmp_path: Path) -> None:
    training = Training.start(ProxyConfig().replace(data__batch_size=4))
    for _ in range(30):
        training.advance()
    training.save(tmp_path)
    rows = json.loads(call(proxy_commands, "resume", str(tmp_path), "--steps", "3", "--json").stdout)
    assert [row["part"] for row in rows] == ["optimizer", "scaler", "schedule", "data"]
    assert rows[0]["peak_excess"] != 0
    assert rows[1]["peak_excess"] == 0
    assert forgetting(tmp_path, "optimizer", 3).peak_excess == rows[0]["peak_excess"]


def test_a_hopeless_run_is_given_up_and_says_so(tmp_path: Path) -> None:
    config = ProxyConfig(steps=400).replace(
        data__batch_size=2, schedule__learning_rate=1e30, schedule__warmup_steps=0, optimizer__weight_decay=0.0
    )
    summary = train(Training.start(config), tmp_path)
    assert summary.ended.startswith("given up")
    assert summary.last_step < 100


def test_json_tells_a_loss_that_is_no_number_from_one_that_is_missing(tmp_path: Path) -> None:
    def told(name: str, *settings: str) -> dict[str, object]:
        pairs = [part for setting in settings for part in ("--set", setting)]
        result = call(proxy_commands, "train", "--out", str(tmp_path / name), *SMALL, *pairs, "--json")
        return json.loads(result.stdout)  # type: ignore[no-any-return]

    lost = told("lost", "schedule.learning_rate=1e30", "schedule.warmup_steps=0", "steps=30")
    assert (lost["loss"], lost["held_out_loss"]) == ("NaN", "NaN")
    none = told("none", "steps=0")
    assert none["loss"] is None
    assert isinstance(none["held_out_loss"], float)


def test_json_of_vital_signs_has_the_loss_that_overflowed_and_null_for_what_was_not_measured() -> None:
    arguments = ("failures", "show", "fp16-overflow-collapse", "--seed", "3001", "--json")
    rows = json.loads(call(proxy_commands, *arguments).stdout)
    withheld = [row for row in rows if row["skipped_steps"]]
    assert any(row["loss"] in ("NaN", "Infinity") for row in withheld)
    assert all(row["loss"] is not None for row in rows)
    assert all(row["update_rms"] is None and row["second_moment_lag"] is None for row in withheld)
    made = [row for row in rows if not row["skipped_steps"]]
    assert made
    assert all(isinstance(row["loss"], float) and isinstance(row["update_rms"], float) for row in made)


def test_json_of_vital_signs_has_no_held_out_loss_before_it_is_taken() -> None:
    arguments = ("failures", "show", "silent-data-corruption", "--json")
    rows = json.loads(call(proxy_commands, *arguments).stdout)
    assert {row["step"] for row in rows if row["held_out"] is None} == set(range(rows[0]["step"], 196))
    assert rows[0]["step"] < 196 < rows[-1]["step"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_json_of_any_result_has_numbers_that_are_none_as_strings(
    value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    print_result({"runs": [{"loss": value, "missing": None}], "means": (value,)}, True)
    assert json.loads(capsys.readouterr().out) == {
        "runs": [{"loss": names[str(value)], "missing": None}],
        "means": [names[str(value)]],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "optimizer.beta3=1"], "did you mean optimizer.beta2"),
        (["--set", "steps"], "write NAME=VALUE"),
        (["--failure", "gremlins"], "no failure 'gremlins'"),
        (["--config", "nowhere.json"], "No such file"),
        (["--set", "seed.x=1"], "no setting seed.x: seed has no parts"),
        (["--set", "model.width.x=3"], "no setting model.width.x: model.width has no parts"),
        (["--set", "modle.width=3"], "no setting modle; did you mean model?"),
        (["--set", "model=3"], "model: a mapping of settings is needed, not 3"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = call(proxy_commands, "train", "--out", str(tmp_path), *arguments)
    assert result.exit_code == 2, "wrong usage"
    assert message in result.stderr


def test_failures_are_listed_and_shown() -> None:
    rows = json.loads(call(proxy_commands, "failures", "list", "--json").stdout)
    assert len(rows) == 11
    signs = json.loads(
        call(proxy_commands, "failures", "show", "silent-data-corruption", "--around", "2", "--json").stdout
    )
    assert len(signs) == 5
    held_out = {row["step"]: row["held_out"] for row in signs}
    assert held_out[201] > held_out[200] + 0.2, "a bit flips behind step 200"


def test_precision_tables(tmp_path: Path) -> None:
    Training.start(ProxyConfig()).save(tmp_path)
    tables = json.loads(call(precision_command, "--checkpoint", str(tmp_path), "--json").stdout)
    assert tables["10,000 times 1e-4, summed"][2]["total"] == 0.25
    assert sum(row["share"] for row in tables["gradient elements by binary exponent"]) == pytest.approx(1.0)


def test_precision_takes_the_last_checkpoint_of_a_run(tmp_path: Path) -> None:
    training = Training.start(ProxyConfig())
    for step in (9, 10):
        training.advance()
        training.save(tmp_path / "checkpoints" / f"step-{step:07d}")
    last = str(tmp_path / "checkpoints" / "step-0000010")
    of_run, of_last = (call(precision_command, "--checkpoint", path, "--json").stdout for path in (str(tmp_path), last))
    assert of_run == of_last
    (tmp_path / "empty").mkdir()
    assert "no checkpoint here" in str(call(precision_command, "--checkpoint", str(tmp_path / "empty")).exception)


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_failure_that_is_not_in_the_catalogue_is_wrong_usage(command: str) -> None:
    result = call(proxy_commands, "failures", command, "gremlins")
    assert result.exit_code == 2
    assert "no failure 'gremlins'; there are attention-logit-growth" in result.stderr


def test_the_sweep_and_its_sensitivity() -> None:
    rows = list(sweep.learning_rate_sweep({"plain": {}}, learning_rates=(1e-3, 1e-2), seeds=(0,), steps=30))
    worse, better = rows[0].loss, rows[1].loss
    assert better < worse
    found = sweep.learning_rate_sensitivity(rows, initial_loss=3.78)
    assert found == {"plain": [pytest.approx((worse - better) / 2)]}
    lost = [*rows, sweep.SweepRow("plain", 1.0, 0, float("nan"), 0.0, 0.0, 0, 0.0)]
    found = sweep.learning_rate_sensitivity(lost, 3.78)
    assert found == {"plain": [pytest.approx((worse + better + 3.78) / 3 - better)]}


def test_every_palm_switch_trains() -> None:
    rows = list(sweep.palm_switches(seeds=(0,), steps=2))
    assert [row.variant for row in rows] == list(sweep.SWITCHES)
    # Tied embeddings of deviation 1 begin above the loss of a guess, 3.8: a symbol's logit for itself is the largest.
    assert all(0 < row.loss < 7 for row in rows)
