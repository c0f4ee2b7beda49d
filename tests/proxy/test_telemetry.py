"""The proxy's logs are read by TensorBoard's own reader, and hold what the steps showed."""

from __future__ import annotations

import itertools
import math
import struct
from pathlib import Path

import pytest

import replay_parsers
from replay.proxy import DataConfig, ModelConfig, PrecisionConfig, ProxyConfig
from replay.proxy.runs import train
from replay.proxy.telemetry import EventFileLog, MegatronLog
from replay.proxy.training import Training


def ticking(start: float = 1_700_000_000.0) -> itertools.count[float]:
    return itertools.count(start, 0.5)


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    clock = ticking()
    with EventFileLog(tmp_path, clock=lambda: next(clock)) as log:
        log.log(1, {"loss": 2.5, "grad_norm": math.inf})
        log.log(2, {"loss": math.nan, "grad_norm": 1e39})
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert events.Tags()["scalars"] == ["train/loss", "train/grad_norm"]
    loss = events.Scalars("train/loss")
    assert [(event.step, event.wall_time) for event in loss] == [(1, 1_700_000_000.5), (2, 1_700_000_001.0)]
    assert loss[0].value == 2.5
    assert math.isnan(loss[1].value)
    assert [event.value for event in events.Scalars("train/grad_norm")] == [math.inf, math.inf]


def test_with_the_same_clock_the_bytes_are_the_same(tmp_path: Path) -> None:
    written = []
    for name in ("one", "other"):
        clock = ticking()
        with EventFileLog(tmp_path / name, clock=lambda clock=clock: next(clock)) as log:  # type: ignore[misc]
            log.log(1, {"loss": 0.1})
        written.append(log.path.read_bytes())
    assert written[0] == written[1]
    assert struct.unpack("<Q", written[0][:8]) == (24,)


def test_opened_again_within_the_second_it_writes_a_second_file(tmp_path: Path) -> None:
    for _ in range(2):
        EventFileLog(tmp_path, clock=lambda: 5.0).close()
    assert len(list(tmp_path.iterdir())) == 2


def test_megatron_text_counts_the_steps_that_overflowed_and_our_parser_reads_them(tmp_path: Path) -> None:
    config = ProxyConfig(
        steps=12,
        model=ModelConfig(width=16, depth=1, heads=2),
        data=DataConfig(batch_size=4),
        precision=PrecisionConfig(mode="fp16", initial_scale=2.0**24),
    )
    training = Training.start(config)
    training.skip_steps(11, 11)
    stepped = []
    train(training, tmp_path, megatron_log=True, progress=lambda signals, _: stepped.append(signals))
    overflowed = [int(signals["skipped_steps"]) for signals in stepped if "loss" in signals]
    assert 0 < sum(overflowed) < 11, "some overflow and some do not"
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [int(line.split("number of skipped iterations:")[1].split("|")[0]) for line in lines] == overflowed
    assert ["lm loss" in line for line in lines] == [not skipped for skipped in overflowed]
    records = replay_parsers.read(tmp_path / "log.txt")
    assert records.problems == ()
    told = [event.step for event in records.events if event.kind == "overflow_skip"]
    assert told == [step for step, skipped in enumerate(overflowed, 1) if skipped]
    assert not any(event.kind == "nan_loss" for event in records.events)


def test_megatron_text_has_no_loss_field_when_the_loss_is_nan(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with MegatronLog(path, steps=10, clock=lambda: 1.0) as log:
        log.log(1, {"loss": 2.0, "learning_rate": 1e-3, "grad_norm": 0.5, "batch_size": 4, "samples": 4})
        log.log(2, {"loss": math.nan})
    first, second = path.read_text().splitlines()
    assert "iteration        1/      10 |" in first
    assert "| lm loss: 2.000000E+00 |" in first
    assert "lm loss" not in second
    assert "number of nan iterations:   1 |" in second


def test_the_logs_are_never_behind_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[int, set[int], int]] = []
    save = Training.save

    def look_and_save(training: Training, folder: Path) -> str:
        # As another process finds the logs, were this one killed here.
        (events,) = tmp_path.glob("events.out.tfevents.*")
        steps = {int(step) for step in replay_parsers.read(events).scalars.step}
        logged.append((training.step, steps, len((tmp_path / "log.txt").read_text().splitlines())))
        return save(training, folder)

    monkeypatch.setattr(Training, "save", look_and_save)
    config = ProxyConfig(steps=8, model=ModelConfig(width=16, depth=1, heads=2), data=DataConfig(batch_size=4))
    train(Training.start(config), tmp_path, checkpoint_every=3, megatron_log=True)
    assert logged == [(step, set(range(1, step + 1)), step) for step in (3, 6, 8)]
