"""Scenarios in YAML: what is right is read exactly, what is wrong is told with its line, all at once."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from replay.experiment import BUILT_IN, Arm, Noticed, Scenario, ScenarioError, load_scenario
from replay.experiment.arms import share_prefix
from replay.experiment.interventions import GradClipChange, LrChange, Rollback, SkipBatches
from replay.experiment.loader import parse_scenario

from .toy import TOY
from .toy import scenario as toy

GOOD = """\
scenario: mine
title: Something to try
failure: data-and-state
settings: {delay: 500}
noticed: {after_onset: 10}
horizon: 50
seeds: [4, 7]
arms:
  - interventions:
      - rollback: {step: -100}
      - skip_batches: {step: -99, step_end: 10, mode: advance}
  - name: lr_change by half
    interventions: [{lr_change: {factor: 0.5}}]
  - name: nothing at all
    control: true
    interventions: [wait]
"""


def test_a_scenario_is_read_as_it_stands() -> None:
    scenario = parse_scenario(GOOD, "mine.yaml")
    assert (scenario.name, scenario.failure, scenario.settings) == ("mine", "data-and-state", {"delay": 500})
    assert scenario.noticed == Noticed(after_onset=10)
    assert scenario.seeds == (4, 7)
    assert scenario.arms[0] == Arm(
        name="rollback+skip_batches",
        interventions=(Rollback(step=-100), SkipBatches(step=-99, step_end=10, mode="advance")),
    )
    assert scenario.arms[1].interventions == (LrChange(factor=0.5),)
    assert next(arm.name for arm in scenario.all_arms) == "do_nothing"
    assert scenario.earliest_step == -99


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_built_in_scenario_loads_and_names_its_source(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.source
    assert scenario.catalogued.name == scenario.failure


def test_palm_rolls_back_100_steps_and_leaves_out_what_was_seen_before_and_during() -> None:
    scenario = load_scenario("palm-rollback-skip")
    treatment, sham, perturbed = scenario.arms
    skip = treatment.interventions[1]
    assert isinstance(skip, SkipBatches)
    assert treatment.rollback == Rollback(step=-100)
    assert (skip.step, skip.step_end) == (-99, scenario.noticed.after_onset)
    assert scenario.seeds == (0, 1, 2)
    assert sham.control
    assert len(sham.interventions[1].batches(0)) == len(skip.batches(0))  # type: ignore[attr-defined]
    assert 0 not in sham.interventions[1].batches(0)  # type: ignore[attr-defined]
    assert (perturbed.perturbation, perturbed.interventions) == (1e-6, (Rollback(step=-100),))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("horizon: 50", "horizont: 50", "mine.yaml:6: a scenario has no 'horizont': did you mean horizon?"),
        ("horizon: 50", "horizon: long", "mine.yaml:6: horizon must be a whole number, not 'long'"),
        ("horizon: 50", "horizon: true", "mine.yaml:6: horizon must be a whole number, not True"),
        ("horizon: 50", "horizon: 50\nhorizon: 60", "mine.yaml:7: horizon stands here twice"),
        ("horizon: 50", "horizon: -5", "mine.yaml:6: horizon must be positive, not -5"),
        ("horizon: 50", "horizon: 99999999999", "mine.yaml:6: horizon must be at most 100,000, not 99,999,999,999"),
        ("horizon: 50", "horizon: 50\nprimary: luck", "mine.yaml:7: primary: no metric 'luck'"),
        ("horizon: 50", "horizon: 50\nrecurs_above: .nan", "mine.yaml:7: recurs_above must be a finite number"),
        ("horizon: 50", "horizon: 50\nhealthy_below: 9", "mine.yaml:7: healthy_below 9 must lie above 0"),
        ("horizon: 50", "horizon: 50\nrecurs_above: 0.01", "mine.yaml:7: healthy_below 0.1 must lie above 0"),
        ("horizon: 50", "horizon: 50\nheld_out_sequences: 0", "mine.yaml:7: held_out_sequences must be positive"),
        ("horizon: 50", f"horizon: {'9' * 5000}", "mine.yaml:6: not a plain value"),
        ("title: Something to try", "title: 2022-13-45", "mine.yaml:2: not a plain value"),
        ("title: Something to try", "? [a, b]\n: c", "mine.yaml:2: a key is a word"),
        ("{after_onset: 10}", "{after_onset: -1}", "mine.yaml:5: noticed.after_onset must lie between 0 and 100,000"),
        ("{after_onset: 10}", "\n  rule: x\n  after_onset: -1", "mine.yaml:7: noticed.after_onset must lie between"),
        ("{delay: 500}", "{delay: 5000000000}", "mine.yaml:4: delay must lie within 100,000 of 0, not 5000000000"),
        ("{delay: 500}", "{delay: 500, delay: 600}", "mine.yaml:4: delay stands here twice"),
        ("{delay: 500}", "{delay: .inf}", "mine.yaml:4: delay must be a finite number, not .inf"),
        ("{factor: 0.5}", "{factor: .nan}", "mine.yaml:13: factor must be a finite number, not .nan"),
        ("step_end: 10", "step_end: 10000000000", "mine.yaml:11: step_end must lie within 100,000 of 0"),
        ("seeds: [4, 7]", "seeds: 10000000000", "mine.yaml:7: seeds: more than 10,000"),
        ("seeds: [4, 7]", f"seeds: {list(range(10_001))}", "mine.yaml:7: seeds: more than 10,000"),
        ("seeds: [4, 7]", "seeds: [99999999999999999999]", "mine.yaml:7: seeds is how many"),
        (
            "arms:",
            "arms:" + "\n  - {control: true, name: a, interventions: [wait]}" * 101,
            "mine.yaml:9: more than 100 arms",
        ),
        ("[wait]", f"[{', '.join(['wait'] * 21)}]", "mine.yaml:16: an arm has at most 20 interventions"),
        ("title: Something", "title: &a [x]\nsource: *a\n#", "mine.yaml:3: alias *a: write the value out"),
        ("Something to try", "[" * 100, "mine.yaml:2: nested deeper than 20 levels"),
        ("horizon: 50\n", "", "mine.yaml:1: a scenario needs horizon"),
        ("seeds: [4, 7]", "seeds: 0", "mine.yaml:7: seeds is how many (3), or which ([0, 5, 7]), not 0"),
        ("seeds: [4, 7]", "seeds: [1, x]", "mine.yaml:7: seeds is how many"),
        ("{after_onset: 10}", "soon", "mine.yaml:5: noticed must be a mapping, not 'soon'"),
        ("{after_onset: 10}", "{}", "mine.yaml:5: noticed needs after_onset"),
        ("{step: -100}", "{stop: -100}", "mine.yaml:10: rollback: no field 'stop'"),
        ("- rollback: {step: -100}", "- rollback", "mine.yaml:10: rollback: needs step"),
        ("- rollback: {step: -100}", "- {rollback: {step: -1}, wait: {}}", "mine.yaml:10: an intervention is one kind"),
        ("- rollback: {step: -100}", "- rollback: -100", "mine.yaml:10: rollback needs its fields as a mapping"),
        (
            "step: -99",
            "step: -100",
            "mine.yaml:9: arm rollback+skip_batches: step -100 has been taken already when batches are skipped",
        ),
        ("step: -99", "step: -100", "when batches are skipped; skip from step -99 on, or roll back further"),
        ("lr_change by half", "half", "mine.yaml:12: arm half: its name must begin with what it does (lr_change)"),
        ("nothing at all", "do_nothing", "mine.yaml:14: the arm do_nothing is there by itself"),
        ("nothing at all", "lr_change by half", "mine.yaml:14: two arms are called lr_change by half"),
        ("settings: {delay: 500}", "settings: {delay: !!python/object/apply:os.system [ls]}", "not a plain value"),
        ("arms:", "arms: [", "not YAML"),
        (GOOD, "", "mine.yaml:1: a scenario is a mapping"),
        (GOOD, "- 1", "mine.yaml:1: a scenario is a mapping"),
    ],
)
def test_a_fault_is_told_with_file_and_line(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(GOOD.replace(old, new, 1), "mine.yaml")
    assert message in str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    text = GOOD.replace("horizon: 50", "horizon: x").replace("step: -100", "stop: 1").replace("after_onset", "after")
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "mine.yaml")
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        "mine.yaml:6",
        "mine.yaml:5",
        "mine.yaml:5",
        "mine.yaml:10",
    ]


def test_a_name_that_is_neither_built_in_nor_a_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="did you mean palm-rollback-skip"):
        load_scenario("palm-rolback-skip")
    (tmp_path / "bad.yaml").write_bytes(b"scenario: \xff")
    with pytest.raises(ScenarioError, match="not UTF-8 text at byte 10"):
        load_scenario(tmp_path / "bad.yaml")
    with pytest.raises(ScenarioError):
        load_scenario(tmp_path)


def test_pipes_devices_folders_and_large_files_are_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.yaml").write_bytes(b"#" * 2_000_000)
    for path, words in [
        (tmp_path / "pipe", "is a pipe, not a regular file"),
        (Path("/dev/zero"), "is a device, not a regular file"),
        (tmp_path, "is a folder, not a regular file"),
        (tmp_path / "large.yaml", "larger than 1,000,000 bytes"),
    ]:
        with pytest.raises(ScenarioError, match=words) as caught:
            load_scenario(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert len(str(caught.value).splitlines()) == 1


def test_of_very_many_faults_the_first_are_told() -> None:
    text = GOOD + "".join(f"unknown{number}: 1\n" for number in range(5_000))
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "mine.yaml")
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (51, "and 4,950 more")


def test_a_rollback_to_before_the_start_is_told_with_the_line_of_its_arm() -> None:
    text = GOOD.replace("step: -100", "step: -90000").replace("failure: data-and-state", "failure: second-moment-lag")
    scenario = replace(parse_scenario(text, "mine.yaml"), failure=TOY, settings={})
    with pytest.raises(ScenarioError, match=r"mine\.yaml:9: seed 0 fails at step 30 already"):
        share_prefix(scenario, scenario.case(0))


def test_a_failure_that_is_not_in_the_catalogue_or_refuses_its_settings_is_told() -> None:
    scenario = parse_scenario(GOOD.replace("data-and-state", "bad-luck"), "mine.yaml")
    with pytest.raises(ScenarioError, match=r"mine\.yaml:3: no failure .bad-luck.; the catalogue has .*data-and-state"):
        scenario.case(0)
    scenario = parse_scenario(GOOD.replace("delay: 500", "delays: 500"), "mine.yaml")
    with pytest.raises(ScenarioError, match=r"mine\.yaml:4: failure data-and-state does not take these settings"):
        scenario.case(0)


def test_titles_do_not_change_what_a_scenario_is_but_settings_do() -> None:
    base = toy()
    assert toy(title="other", source="other").content_hash == base.content_hash
    assert toy(horizon=9).content_hash != base.content_hash
    assert toy(arms=base.arms[:1]).content_hash != base.content_hash
    assert toy(noticed=Noticed(after_onset=4)).content_hash != base.content_hash


def test_batches_already_seen_cannot_be_left_out_without_going_back() -> None:
    with pytest.raises(ScenarioError, match="skip from step 4 on, or roll back further"):
        toy(arms=(Arm(name="skip_batches", interventions=(SkipBatches(step=0, step_end=9),)),))


def test_a_scenario_needs_something_to_compare() -> None:
    with pytest.raises(ScenarioError, match="at least one arm beside do_nothing"):
        toy(arms=())
    with pytest.raises(ScenarioError, match="no metric 'luck'"):
        toy(primary="luck")
    with pytest.raises(ScenarioError, match="one rollback at most"):
        Arm(name="rollback+rollback", interventions=(Rollback(step=-1), Rollback(step=-2)))
    assert isinstance(toy(arms=(Arm(name="grad_clip_change", interventions=(GradClipChange(after=1),)),)), Scenario)
