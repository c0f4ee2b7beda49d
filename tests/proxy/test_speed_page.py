"""The page of a step's speed: its ratios are those of the measured times, and it says what wrote it."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from replay.proxy.training import Training

SECONDS = {
    "proxy": 0.025,
    "compiled": 0.020,
    "bare": 0.024,
    "plain": 0.035,
    "plain, whole entropy": 0.040,
    "large": 0.026,
    "usual": 0.028,
    "product": 0.0025,
    "usual product": 0.0035,
}


@pytest.fixture(scope="module")
def benchmark(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("proxy_step", root / "benchmarks" / "proxy_step.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["proxy_step"] = module
    spec.loader.exec_module(module)
    return module


def test_its_ratios_are_those_of_the_times(benchmark: ModuleType) -> None:
    # A product of 2 x 512^3 operations in 2.5 ms; a step of five such products is bound by 12.5 ms.
    page = benchmark.page(benchmark.Measured(SECONDS, flops=5 * 2 * 512**3, largest=1326.7), 20)
    value = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1].removesuffix(" |") for line in table(page)}
    assert value["a step with all telemetry over the bound of its matrix products"] == "2.00"
    assert value["telemetry's share of a step"] == "4.0%"
    assert [text for name, text in value.items() if name.startswith("steps per second")] == [
        "1.40",
        "1.60",
        "1.75",
        "2.00",
        "1.25",
        "1.43",
    ]
    assert value["a step with large attention logits over the usual one"] == "1.04"
    assert "| the proxy, attention logits up to 1,327 | 26.00 |" in page


def table(page: str) -> list[str]:
    return [line for line in page.partition("## What they come to")[2].split("\n") if line.startswith("| ")]


@pytest.mark.parametrize(("rounds", "option"), [(20, ""), (5, " --quick")])
def test_it_says_what_wrote_it(benchmark: ModuleType, rounds: int, option: str) -> None:
    page = benchmark.page(benchmark.Measured(SECONDS, 1e9, 1000.0), rounds)
    assert f"Written by `python benchmarks/proxy_step.py{option} --docs docs/proxy-speed.md`" in page
    assert f"the least of {rounds} rounds" in page


@pytest.fixture(scope="module")
def signals(benchmark: ModuleType) -> dict[str, float]:
    return dict(benchmark.plain_loop(entropy_of=2)())


def test_the_plain_loop_logs_the_signals_of_the_proxy_and_no_others(
    benchmark: ModuleType, signals: dict[str, float]
) -> None:
    assert set(signals) == set(Training.start(benchmark.CONFIG).advance())


def test_the_plain_loop_s_signals_are_what_they_are_called(signals: dict[str, float]) -> None:
    groups = ("embedding", "attention", "mlp", "norm", "head")
    parts = math.sqrt(sum(signals[f"grad_norm/{group}"] ** 2 for group in groups))
    assert signals["grad_norm"] == pytest.approx(parts, rel=1e-5)
    # Adam's first update is the learning rate in every coordinate that has a gradient, whatever its size; to it comes
    # the decay of weights of order 1, a tenth of the learning rate of them.
    assert 0.009 < signals["update_rms"] < 0.011
    assert signals["second_moment_lag/mlp"] == pytest.approx(1.0, abs=1e-3), "v is g^2 at the first step"
    assert signals["activation_norm"] == signals["activation_norm/layer3"] > signals["activation_norm/layer0"] > 0
    assert signals["attention_logit_max"] == max(signals[f"attention_logit_max/layer{i}"] for i in range(4))
