"""Bits: the same whatever neighbours a run has, and from whatever checkpoint a killed one goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replay.proxy import DataConfig, ModelConfig, ProxyConfig
from replay.proxy.checkpoint import CheckpointError
from replay.proxy.training import Training

CONFIG = ProxyConfig(seed=4, model=ModelConfig(width=16, depth=1, heads=2), data=DataConfig(batch_size=4))

SAVES_ALWAYS = """
import sys
from replay.proxy import ProxyConfig
from replay.proxy.training import Training
training = Training.start(ProxyConfig.from_json(sys.argv[1]))
while True:
    training.advance()
    training.save(sys.argv[2])
"""

PRINTS_ITS_HASH = """
import sys
from replay.proxy import ProxyConfig
from replay.proxy.training import Training
training = Training.start(ProxyConfig.from_json(sys.argv[1]))
for _ in range(40):
    training.advance()
print(training.fingerprint())
"""


def straight_to(step: int) -> str:
    training = Training.start(CONFIG)
    while training.step < step:
        training.advance()
    return training.fingerprint()


def killed_run(folder: Path, seconds: float) -> None:
    process = subprocess.Popen([sys.executable, "-c", SAVES_ALWAYS, CONFIG.to_json(), str(folder)])
    try:
        while not (folder / "checkpoint.json").exists():
            assert process.poll() is None, "it ended before its first checkpoint"
            time.sleep(0.01)
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.037, 0.11, 0.31])
def test_a_killed_run_goes_on_from_its_checkpoint_as_if_it_had_not_been_killed(tmp_path: Path, seconds: float) -> None:
    killed_run(tmp_path, seconds)
    resumed = Training.resume(tmp_path)
    target = resumed.step + 5
    while resumed.step < target:
        resumed.advance()
    assert resumed.fingerprint() == straight_to(target)


@pytest.mark.slow
def test_eight_neighbours_change_no_bit() -> None:
    command = [sys.executable, "-c", PRINTS_ITS_HASH, CONFIG.to_json()]
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    crowd = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    try:
        assert {process.communicate()[0] for process in crowd} == {alone}
    finally:
        for process in crowd:
            process.kill()
    assert alone.strip() == straight_to(40)


def test_every_checkpoint_of_a_run_leads_to_the_same_end(tmp_path: Path) -> None:
    training = Training.start(CONFIG)
    for step in range(12):
        training.save(tmp_path / str(step))
        training.advance()
    end = training.fingerprint()
    for step in range(12):
        resumed = Training.resume(tmp_path / str(step))
        while resumed.step < 12:
            resumed.advance()
        assert resumed.fingerprint() == end


def test_a_checkpoint_without_a_tensor_is_told(tmp_path: Path) -> None:
    training = Training.start(CONFIG)
    snapshot = training.snapshot()
    del snapshot.tensors["model/final.head"]
    with pytest.raises(CheckpointError, match=r"lacks 'model/final\.head'"):
        Training.restore(snapshot)


def test_a_step_far_above_the_usual_norm_is_skipped_once_the_rule_knows_what_is_usual() -> None:
    defect = {"kind": "random", "first": 150, "last": 150, "share": 1.0}
    values = CONFIG.replace(optimizer__skip_above=3.0).to_dict()
    values["data"]["defects"] = [defect]
    values["model"] |= {"width": 32, "depth": 2, "heads": 4}
    values["data"]["batch_size"] = 32
    values["schedule"]["learning_rate"] = 0.01
    training = Training.start(ProxyConfig.from_dict(values))
    skipped = [step for step in range(1, 161) if training.advance()["skipped_steps"]]
    assert 150 in skipped
    assert min(skipped) > 128


def test_our_own_parsers_read_the_logs(tmp_path: Path) -> None:
    import replay_parsers
    from replay.proxy.runs import train

    train(Training.start(CONFIG.replace(steps=5)), tmp_path, megatron_log=True)
    again = Training.start(CONFIG)
    losses = [again.advance()["loss"] for _ in range(5)]
    found = {}
    for path in (tmp_path / "log.txt", next(tmp_path.glob("events*"))):
        records = replay_parsers.read(path)
        assert records.problems == ()
        tag = "train/loss" if path.name.startswith("events") else "lm loss"
        scalars = records.scalars
        found[tag] = scalars.value[scalars.tag == scalars.tags.index(tag)].tolist()
    assert found["train/loss"] == pytest.approx(losses, rel=1e-6)
    assert found["lm loss"] == pytest.approx(losses, rel=1e-5)
