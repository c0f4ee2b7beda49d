"""The compiled pass: the same training but for rounding, the same bits each time, clear words where it cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replay.proxy import DataConfig, ModelConfig, ProxyConfig, Ramp
from replay.proxy.training import Training

CONFIG = ProxyConfig(seed=4, model=ModelConfig(width=16, depth=1, heads=2), data=DataConfig(batch_size=4), steps=30)
needs_compiler = pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="no C++ compiler here")

RESUMES = """
import sys
from replay.proxy.training import Training
training = Training.resume(sys.argv[1])
for _ in range(10):
    training.advance()
print(training.fingerprint())
"""

TRAINS = """
import sys
from replay.proxy import ConfigError, ProxyConfig
from replay.proxy.training import Training
config = ProxyConfig.from_json(sys.argv[1])
try:
    for size in range(4, 4 + int(sys.argv[2])):
        Training.start(config.replace(data__batch_size=size)).advance()
except ConfigError as error:
    print(error)
"""


@pytest.mark.slow
@needs_compiler
def test_the_compiled_pass_trains_as_the_written_one_but_for_rounding() -> None:
    settings = {"model__embedding_grad_ramp": Ramp(before=0.1, after=1.0, start=0, length=20), "model__z_loss": 1e-3}
    written, compiled = (Training.start(CONFIG.replace(compiled=on, **settings)) for on in (False, True))
    for _ in range(20):
        one, other = written.advance(), compiled.advance()
        assert one.keys() == other.keys()
        assert other == pytest.approx(one, rel=1e-3, abs=1e-5)


@pytest.mark.slow
@needs_compiler
def test_a_compiled_run_resumes_bit_for_bit_in_another_process(tmp_path: Path) -> None:
    training = Training.start(CONFIG.replace(compiled=True))
    while training.step < 10:
        training.advance()
    training.save(tmp_path / "checkpoint")
    while training.step < 20:
        training.advance()
    done = subprocess.run([sys.executable, "-c", RESUMES, tmp_path / "checkpoint"], capture_output=True, text=True)
    assert done.stdout.strip() == training.fingerprint(), done.stderr


def trained_elsewhere(sizes: int, **environment: str) -> str:
    """What another process says that trains a compiled model with so many batch sizes."""
    command = [sys.executable, "-c", TRAINS, CONFIG.replace(compiled=True).to_json(), str(sizes)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_without_a_compiler_it_says_what_is_needed(tmp_path: Path) -> None:
    said = trained_elsewhere(1, CXX=str(tmp_path / "none"), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert "it needs a C++ compiler" in said
    assert "compiled=false" in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
@needs_compiler
def test_more_shapes_than_torch_compiles_are_an_error_and_never_other_bits() -> None:
    assert "too many models or batch sizes" in trained_elsewhere(12)
