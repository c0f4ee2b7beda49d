"""``python -m replay`` is the console script."""

from __future__ import annotations

import runpy
import sys

import pytest


def test_the_package_runs_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["replay", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("replay", run_name="__main__")
    assert ended.value.code == 0
    assert "Usage:" in capsys.readouterr().out
