"""Training changes how the process computes; whoever calls what trains gets it back as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from replay.proxy import DataConfig, ModelConfig, ProxyConfig
from replay.proxy.runs import forgetting, train
from replay.proxy.runtime import denormals_flushed, runtime_restored
from replay.proxy.sweep import run_row
from replay.proxy.training import Training

CONFIG = ProxyConfig(steps=2, model=ModelConfig(width=16, depth=1, heads=2), data=DataConfig(batch_size=4))


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def checkpoint(folder: Path) -> Path:
    with runtime_restored():
        Training.start(CONFIG).save(folder)
    return folder


def trained(folder: Path) -> None:
    with runtime_restored():
        training = Training.start(CONFIG)
    train(training, folder)


@pytest.mark.parametrize(
    "work",
    [
        lambda _: run_row("plain", CONFIG),
        lambda folder: forgetting(checkpoint(folder), "data", 1),
        trained,
    ],
    ids=["sweep", "forgetting", "train"],
)
@pytest.mark.parametrize("flushed", [False, True])
def test_what_trains_leaves_the_process_as_it_was(
    tmp_path: Path, work: Callable[[Path], object], flushed: bool
) -> None:
    torch.set_num_threads(2)
    torch.set_flush_denormal(flushed)
    work(tmp_path)
    assert denormals_flushed() is flushed
    assert (float(np.float32(1e-40) * np.float32(1)) == 0.0) is flushed, "numpy computes in the same process"
    assert torch.get_num_threads() == 2


def test_it_is_given_back_when_the_training_fails() -> None:
    torch.set_flush_denormal(False)

    @runtime_restored()
    def fails() -> None:
        Training.start(CONFIG).advance()
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert not denormals_flushed()
