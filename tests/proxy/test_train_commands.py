"""`replay proxy train` and `resume`: to the end of the run, never two runs in a folder, mistakes in one line."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from replay.errors import ReplayError
from replay.proxy import ProxyConfig, runs
from replay.proxy.commands import proxy_commands
from replay.proxy.runtime import runtime_restored

SMALL = ["--set", "model.width=16", "--set", "model.depth=1", "--set", "model.heads=2", "--set", "data.batch_size=2"]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with runtime_restored():
        yield


def call(*arguments: str) -> Result:
    result = CliRunner().invoke(proxy_commands, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit | ReplayError):
        raise result.exception
    return result


def told(*arguments: str) -> dict[str, object]:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, f"{result.stderr} {result.exception}"
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def refused(*arguments: str, status: int = 2) -> str:
    """The message of a mistake: status 2 for wrong usage, 1 for what the console script then prints in a line."""
    result = call(*arguments)
    assert result.exit_code == status, f"{result.exit_code}: {result.output}"
    message = str(result.exception) if status == 1 else result.stderr
    assert "Traceback" not in message
    return message


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    with runtime_restored():
        told("train", "--out", str(out), "--set", "steps=9", *SMALL, "--checkpoint-every", "3")
    return out


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def held_out(folder: Path) -> list[str]:
    """SHA-256 of the tensors of the last checkpoint."""
    return [path.name for path in runs.last_checkpoint(folder).glob("tensors-*")]


def test_resume_goes_on_to_the_end_of_the_run(run: Path, whole: Path) -> None:
    shutil.rmtree(run / "checkpoints" / "step-0000009")
    again = told("resume", str(run / "checkpoints" / "step-0000003"), "--out", str(run))
    assert (again["first_step"], again["last_step"]) == (4, 9)
    assert held_out(run) == held_out(whole)


def test_resume_takes_the_last_checkpoint_of_a_folder(run: Path) -> None:
    shutil.rmtree(run / "checkpoints" / "step-0000009")
    assert told("resume", str(run), "--out", str(run))["first_step"] == 7


def test_resume_takes_the_options_of_train(run: Path) -> None:
    again = told(
        "resume", str(run), "--out", str(run), "--steps", "4", "--checkpoint-every", "2", "--megatron-log",
        "--never-give-up", "--set", "optimizer.beta2=0.9",
    )  # fmt: skip
    assert again["last_step"] == 13
    assert [path.name[-2:] for path in sorted((run / "checkpoints").iterdir())] == ["03", "06", "09", "10", "12", "13"]
    assert len((run / "log.txt").read_text().splitlines()) == 4
    assert json.loads((run / "run.json").read_text())["config"]["optimizer"]["beta2"] == 0.9


def test_a_run_at_its_end_asks_how_far_to_go_on(run: Path) -> None:
    assert "ends at step 9; say how many more by --steps" in refused("resume", str(run), "--out", str(run))


@pytest.mark.parametrize(
    "option",
    [["--set", "steps=5"], ["--checkpoint-every", "2"], ["--megatron-log"], ["--never-give-up"], ["--threads", "2"]],
)
def test_what_only_a_run_that_goes_on_can_use_needs_its_folder(whole: Path, option: list[str]) -> None:
    assert f"{option[0]} is for a run that goes on: name its folder with --out" in refused(
        "resume", str(whole), *option
    )


def test_a_folder_that_holds_a_run_takes_no_second_one(run: Path, tmp_path: Path) -> None:
    message = refused("train", "--out", str(run), *SMALL).replace("\n", " ")
    assert "holds a run already" in message
    assert "replay proxy resume" in message
    other = shutil.copytree(run, tmp_path / "other")
    assert "holds another run" in refused("resume", str(run), "--out", str(other), "--steps", "2")
    assert told("resume", str(run), "--out", str(tmp_path / "new"), "--steps", "2")["first_step"] == 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.vocabulary=8"], "needs at least 44"),
        (['faults=[{"kind": "weight_bit", "step": 9, "parameter": "final.tail"}]'], "of a parameter 'final.tail'"),
        (
            ['faults=[{"kind": "weight_bit", "step": 9, "parameter": "final.head", "element": 704}]'],
            "no element 704",
        ),
    ],
)
def test_what_would_fail_later_fails_before_anything_is_written(
    tmp_path: Path, settings: list[str], message: str
) -> None:
    pairs = [part for setting in settings for part in ("--set", setting)]
    assert message in refused("train", "--out", str(tmp_path / "run"), *SMALL, *pairs)
    assert not (tmp_path / "run").exists()


def test_settings_are_checked_together(tmp_path: Path) -> None:
    pairs = ["--set", "data.second_source=copy", "--set", 'data.second_ramp={"before": 0, "after": 1, "start": 2}']
    assert told("train", "--out", str(tmp_path), "--set", "steps=3", *SMALL, *pairs)["last_step"] == 3


def test_a_plain_value_ends_the_ramp_that_would_win_over_it(tmp_path: Path) -> None:
    ramp = '{"before": 2, "after": 8, "start": 0, "length": 4}'
    out = str(tmp_path / "run")
    told("train", "--out", out, *SMALL, "--set", "steps=2", "--set", f"data.batch_ramp={ramp}")
    told("resume", out, "--out", out, "--steps", "2", "--set", "data.batch_size=3")
    kept = json.loads((tmp_path / "run" / "run.json").read_text())
    assert kept["flops_last_step"] == 3 * kept["flops_per_sequence"]
    assert kept["config"]["data"]["batch_ramp"] is None


def test_a_resume_takes_no_other_seed(run: Path, tmp_path: Path) -> None:
    message = refused("resume", str(run), "--out", str(tmp_path / "new"), "--steps", "2", "--set", "seed=9")
    assert "seed cannot change in mid-run, from 0 to 9" in " ".join(message.split())
    assert not (tmp_path / "new").exists()


def test_a_key_that_is_given_twice_in_a_setting_is_told(tmp_path: Path) -> None:
    ramp = 'data.batch_ramp={"before": 2, "before": 4, "after": 8, "start": 0}'
    message = refused("train", "--out", str(tmp_path / "run"), "--set", ramp)
    assert "data.batch_ramp: 'before' is given twice" in " ".join(message.split())


def test_settings_in_a_file(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    settings = {"seed": 7, "steps": 2, "model": {"width": 16, "depth": 1, "heads": 2}, "data": {"batch_size": 2}}
    config.write_bytes(b"\xef\xbb\xbf" + json.dumps(settings).encode())
    for name, seed in (("one", []), ("other", ["--seed", "5"])):
        told("train", "--out", str(tmp_path / name), "--config", str(config), *seed)
    seeds = [json.loads((tmp_path / name / "run.json").read_text())["config"]["seed"] for name in ("one", "other")]
    assert seeds == [7, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"seed": "\xff"}', "byte 10: not UTF-8"),
        (b"PK\x03\x04\x00", "line 1: not JSON"),
        (b"[" * 100_000, "thousands deep"),
        (b'{"seed": 1', "line 1: not JSON"),
        (b"[]", "a mapping of settings is needed"),
        (b'{"steps": 1, "steps": 2}', "'steps' is given twice"),
    ],
)
def test_a_file_that_holds_no_settings_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    config = tmp_path / "config.json"
    config.write_bytes(content)
    found = refused("train", "--out", str(tmp_path / "run"), "--config", str(config))
    assert f"{config}: " in found
    assert message in found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--control"], "--control goes with --failure"),
        (["--failure", "data-switch", "--config", "x.json"], "give it or --config"),
        (["--set", "steps"], "write NAME=VALUE"),
        (["--threads", "0"], "1<=x<=1024"),
        (["--seed", "-1"], "x>=0"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert message in refused("train", "--out", str(tmp_path), *arguments)


def test_a_nested_setting_too_deep_for_json_is_a_setting_that_cannot_be(tmp_path: Path) -> None:
    deep = "model.width=" + "[" * 100_000
    assert "model.width: int is needed" in refused("train", "--out", str(tmp_path), "--set", deep)


def test_the_metadata_tell_the_threads_and_a_resume_with_others_says_so(run: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "two")
    result = call("resume", str(run), "--out", out, "--steps", "2", "--threads", "2")
    assert result.exit_code == 0
    assert "note: the checkpoint was made with threads 1, not 2" in result.stderr
    assert json.loads((tmp_path / "two" / "run.json").read_text())["threads"] == 2
    same = call("resume", str(run), "--out", str(tmp_path / "one"), "--steps", "2")
    assert same.stderr == ""


def test_too_little_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: object, **__: object) -> None:
        torch.empty(2**62, dtype=torch.uint8)

    monkeypatch.setattr(runs, "train", train)
    assert "not enough memory for batches of 2" in refused("train", "--out", str(tmp_path / "run"), *SMALL, status=1)


@pytest.mark.parametrize(
    "command", [["train", "--out"], ["resume", "RUN", "--steps", "2", "--out"], ["failures", "verify", "--folder"]]
)
def test_a_folder_that_cannot_be_written_into_is_refused_before_anything_is_trained(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    arguments = [str(whole) if part == "RUN" else part for part in command]
    (tmp_path / "file").write_text("")
    message = refused(*arguments, str(tmp_path / "file" / "deep"))
    assert "file is a file; name another folder" in " ".join(message.split())
    # Who runs the tests may be the one whom no permission stops.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    message = refused(*arguments, str(tmp_path / "new" / "deep"))
    assert "cannot be written into; name another folder" in " ".join(message.split())
    assert not (tmp_path / "new").exists()


def test_a_disk_that_fills_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    message = refused("train", "--out", str(tmp_path / "run"), *SMALL, status=1)
    assert message == f"{tmp_path / 'run'}: No space left on device; make room, or name another folder"


def test_behind_a_damaged_checkpoint_the_last_whole_one_is_named(run: Path, tmp_path: Path) -> None:
    def damage(step: str) -> None:
        path = run / "checkpoints" / step / "checkpoint.json"
        path.write_bytes(path.read_bytes().replace(b'"step": ', b'"step": 1'))

    whole_one = run / "checkpoints" / "step-0000003"
    damage("step-0000009")
    damage("step-0000006")
    for arguments in (["--out", str(tmp_path / "new")], []):
        message = refused("resume", str(run), *arguments, status=1)
        assert "step-0000009" in message
        assert "changed since it was written" in message
        assert message.endswith(f"the last whole one before it is {whole_one}")
    assert told("resume", str(whole_one), "--out", str(tmp_path / "new"))["first_step"] == 4
    damage("step-0000003")
    assert refused("resume", str(run), status=1).endswith("resume from another checkpoint"), "there is none"


def test_a_corpus_that_was_moved_or_changed(tmp_path: Path) -> None:
    from replay.proxy import text

    def forget() -> None:
        text.corpus.cache_clear()
        text.corpus_digest.cache_clear()

    corpus, out = tmp_path / "text.txt", str(tmp_path / "run")
    corpus.write_text("some text to learn from, again. " * 50)
    told("train", "--out", out, "--corpus", str(corpus), "--set", "steps=3", *SMALL)
    moved = corpus.rename(tmp_path / "moved.txt")
    forget()
    assert "No such file" in refused("resume", out, "--out", out, "--steps", "1")
    assert told("resume", out, "--out", out, "--steps", "1", "--corpus", str(moved))["last_step"] == 4
    moved.write_text("another text. " * 100)
    forget()
    assert "not the text that this run learned from" in refused("resume", out, "--out", out, "--steps", "1", status=1)


def test_operations_of_a_batch_that_grows(tmp_path: Path) -> None:
    ramp = '{"before": 2, "after": 8, "start": 0, "length": 4}'
    told("train", "--out", str(tmp_path), *SMALL, "--set", "steps=4", "--set", f"data.batch_ramp={ramp}")
    kept = json.loads((tmp_path / "run.json").read_text())
    one = kept["flops_per_sequence"]
    assert (kept["flops_first_step"], kept["flops_last_step"]) == (4 * one, 8 * one)
    assert ProxyConfig.from_dict(kept["config"]).data.batch_ramp is not None
