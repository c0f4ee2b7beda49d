"""Rule files: every fault with its file and line, nothing ever run as code, and the tests that rules carry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replay import rules
from replay.rules import RuleFileError, Series
from replay.rules.reading import builtin_files
from replay_parsers.kinds import EventKind

GOOD = """
rules:
  - name: mine
    summary: s
    when:
      then:
        - spike: {signal: grad_norm, window: 32}
        - any:
            - spike: {signal: loss, change: 0.5}
            - nonfinite: {signal: loss}
      within: 50
    for: {points: 2}
    tolerate: 1
    severity: critical
    announces: divergence
    advice: stop
    source: me
    tests:
      - name: quiet
        series: {loss: [{value: 2, points: 100}], grad_norm: [{value: 1, points: 100}]}
        fires: false
"""


def faults(tmp_path: Path, text: str | bytes) -> list[str]:
    """The faults of a rule file, each without its folder."""
    path = tmp_path / "own.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(RuleFileError) as caught:
        rules.load([path], with_builtin=False)
    return [fault.removeprefix(f"{tmp_path}/") for fault in caught.value.faults]


@pytest.mark.parametrize("path", builtin_files(), ids=lambda path: path.stem)
def test_the_embedded_tests_of_every_built_in_rule_pass(path: Path) -> None:
    assert rules.lint([path]) == []
    [rule] = rules.load([path], with_builtin=False)
    assert rule.name == path.stem
    assert {test.fires for test in rule.tests} == {True, False}, "it is shown what to see and what not to"


def test_the_built_in_rules_announce_what_they_say() -> None:
    assert {rule.name: rule.announces for rule in rules.load()} == {
        "loss-spike": EventKind.LOSS_SPIKE,
        "loss-divergence": EventKind.DIVERGENCE,
        "grad-norm-spike": EventKind.GRAD_NORM_SPIKE,
        "loss-scale-collapse": EventKind.LOSS_SCALE_DROP,
        "loss-not-finite": EventKind.NAN_LOSS,
        "loss-plateau": EventKind.PLATEAU,
        "throughput-drop": EventKind.THROUGHPUT_DROP,
    }


def test_a_file_of_ones_own_is_read_beside_the_built_in_ones(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    [rule] = [rule for rule in rules.load([path]) if rule.name == "mine"]
    assert rule.signals == ("grad_norm", "loss")
    assert (rule.for_points, rule.tolerate, rule.file, rule.line) == (2, 1, str(path), 3)
    assert rules.lint([path]) == []


def test_one_then_another_fires_only_in_that_order(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    own = rules.load([path], with_builtin=False)
    norm = Series.of([1.0] * 100 + [20.0] * 5 + [1.0] * 95)
    after = Series.of([2.0] * 110 + [9.0] * 5 + [2.0] * 85)
    before = Series.of([2.0] * 90 + [9.0] * 5 + [2.0] * 105)
    late = Series.of([2.0] * 190 + [9.0] * 5 + [2.0] * 5)
    [flag] = rules.evaluate(own, {"loss": after, "grad_norm": norm}).flags
    assert (flag.step, flag.known_at, flag.signal) == (111, 112, "loss")
    assert rules.evaluate(own, {"loss": before, "grad_norm": norm}).flags == ()
    assert rules.evaluate(own, {"loss": late, "grad_norm": norm}).flags == ()


def test_all_of_several_conditions_must_hold_near_each_other(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD.replace("then:", "all:").replace("within: 50", "within: 10"))
    own = rules.load([path], with_builtin=False)
    norm = Series.of([1.0] * 100 + [20.0] * 5 + [1.0] * 95)
    near = Series.of([2.0] * 95 + [9.0] * 3 + [2.0] * 102)
    far = Series.of([2.0] * 60 + [9.0] * 3 + [2.0] * 137)
    assert len(rules.evaluate(own, {"loss": near, "grad_norm": norm}).flags) == 1
    assert rules.evaluate(own, {"loss": far, "grad_norm": norm}).flags == ()


def test_every_fault_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = (
        GOOD.replace("spike: {signal: grad_norm, window: 32}", "spike: {signal: grad_nrm, windoww: 32}")
        .replace("change: 0.5", "change: -3")
        .replace("severity: critical", "severity: dreadful")
        .replace("announces: divergence", "announces: loss_spik")
        .replace("tolerate: 1", "tolerate: 1.5")
        .replace("fires: false", "fires: perhaps")
    )
    found = faults(tmp_path, text)
    for line, words in [
        (7, "no signal is called `grad_nrm`; did you mean `grad_norm`?"),
        (7, "unknown field `windoww`; did you mean `window`?"),
        (9, "`change` is -3; it must lie between 0 and 1e+09"),
        (13, "`tolerate` must be a whole number"),
        (14, "dreadful is none; expected one of info, warning, critical"),
        (15, "loss_spik is none; did you mean `loss_spike`?"),
        (21, "`fires` is true, false"),
    ]:
        assert any(fault.startswith(f"own.yaml:{line}: ") and words in fault for fault in found), (line, words, found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected `rules:`"),
        ("- a", "expected `rules:`"),
        ("rules: {}", "expected `rules:`"),
        ("rules: [", "breaks off"),
        ("rules: [x]", "a rule is a mapping"),
        ("rules: [{name: x}]", "a rule needs summary, when"),
        (GOOD.replace("spike: {signal: grad_norm, window: 32}", "spyke: {signal: loss}"), "did you mean `spike`?"),
        (GOOD.replace("spike: {signal: grad_norm, window: 32}", "spike: loss"), "needs a `signal`"),
        (GOOD.replace("spike: {signal: grad_norm, window: 32}", "floor: {signal: loss}"), "`floor` needs `at`"),
        (GOOD.replace("window: 32", "scale: cubic"), "one of linear, log"),
        (GOOD.replace("window: 32", "settle: perhaps"), "true or false"),
        (GOOD.replace("for: {points: 2}", "for: 2"), "`for` is a mapping"),
        (GOOD.replace("- nonfinite: {signal: loss}", ""), "a list of 2 to 10"),
        (GOOD + GOOD.replace("\nrules:", ""), "already defined"),
        ("rules: !!python/object/apply:os.system [ls]", "not allowed"),
        ("rules: &a [*a]", "write the value out"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("[" * 10_000, "own.yaml:"),
        (GOOD.replace("points: 100", "points: 100000000"), "points"),
        (GOOD.replace("points: 100", "points: inf"), "`points` must be a whole number"),
        (GOOD.replace("points: 100", "points: 2.5"), "`points` must be a whole number"),
        (GOOD.replace("tolerate: 1", "tolerate: inf"), "`tolerate` must be a whole number"),
        (GOOD.replace("tolerate: 1", "tolerate: nan"), "`tolerate` must be a whole number"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_and_where(tmp_path: Path, text: str | bytes, words: str) -> None:
    found = faults(tmp_path, text)
    assert any(words in fault for fault in found), found
    assert all(fault.startswith("own.yaml:") for fault in found)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuleFileError, match="cannot be read: No such file"):
        rules.load([tmp_path / "none.yaml"])


def test_an_embedded_test_that_fails_is_told_by_lint(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD.replace("fires: false", "fires: true"))
    assert rules.lint([path]) == [f"{path}:3: mine, quiet: expected a flag, got 0"]


def test_pipes_devices_folders_and_large_files_are_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.yaml").write_bytes(b"#" * 2_000_000)
    for path, words in [
        (tmp_path / "pipe", "is a pipe, not a regular file"),
        (Path("/dev/zero"), "is a device, not a regular file"),
        (tmp_path, "is a folder, not a regular file"),
        (tmp_path / "large.yaml", "larger than 1,000,000 bytes"),
    ]:
        with pytest.raises(RuleFileError, match=words) as caught:
            rules.load([path])
        assert [fault.startswith(f"{path}: ") for fault in caught.value.faults] == [True]
