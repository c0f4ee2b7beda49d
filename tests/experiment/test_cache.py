"""What a kept arm is kept for: another code, rule or setting is another arm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from replay import rules
from replay.experiment import Noticed, cache
from replay.proxy import assessment

from .toy import scenario, toy_case

RULE = "loss-spike"


def key(rule: str = "") -> str:
    return cache.key(scenario(noticed=Noticed(after_onset=3, rule=rule)), toy_case(0), "do_nothing")


def test_the_same_arm_has_the_same_key() -> None:
    assert key() == key()
    assert key(RULE) == key(RULE)
    assert key() != key(RULE)


def test_a_change_of_the_proxy_makes_another_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setattr(assessment, "code_digest", lambda: "another")
    assert key() != before


def test_other_instructions_of_the_processor_make_another_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setattr(assessment, "code_digest", uncached(assessment.code_digest))
    assert key() == before
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    assert key() != before


@pytest.mark.parametrize("module", ["arms", "interventions", "moment"])
def test_a_change_of_what_arms_do_makes_another_arm(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key()
    changed = changed_copy(Path(cache.__file__).parent, module, tmp_path)
    monkeypatch.setattr(cache, "__file__", str(changed / "cache.py"))
    monkeypatch.setattr(cache, "_own_code", uncached(cache._own_code))
    assert key() != before


def changed_copy(folder: Path, module: str, into: Path) -> Path:
    for path in folder.glob("*.py"):
        (into / path.name).write_bytes(path.read_bytes() + (b"\nX = 1\n" if path.stem == module else b""))
    return into


def uncached(function: Callable[[], str]) -> Callable[[], str]:
    return function.__wrapped__  # type: ignore[attr-defined, no-any-return]


def test_only_what_is_noticed_by_a_rule_depends_on_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    without, before = key(), key(RULE)
    changed = [dataclasses.replace(rule, for_points=rule.for_points + 1) for rule in rules.load()]
    monkeypatch.setattr(rules, "load", lambda: changed)
    assert key() == without
    assert key(RULE) != before


def test_what_a_rule_says_of_itself_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(RULE)
    told = [dataclasses.replace(rule, summary="otherwise", line=7) for rule in rules.load()]
    monkeypatch.setattr(rules, "load", lambda: told)
    assert key(RULE) == before
