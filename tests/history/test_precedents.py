"""Precedents: who has seen this before, what they did, and what came of it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import replay
from replay.history import precedents
from replay.history.follow_up import ABANDONED, CAME_BACK, STAYED_AWAY, UNAFFECTED, follow_up
from replay.history.similarity import Situation, compare
from replay.store import EventStore

RARE = {"loss_spike": 1.0, "loss_scale_drop": 2.0, "loss_explosion": 2.0, "hang": 1.0}


def seen(*pairs: tuple[str, int | None], **run: object) -> Situation:
    return Situation(
        saw=tuple(kind for kind, _ in pairs),
        steps=tuple(step for _, step in pairs),
        incident="some/incident",
        **run,  # type: ignore[arg-type]
    )


def test_the_same_is_wholly_alike_and_something_else_is_not_alike_at_all() -> None:
    one = seen(("loss_scale_drop", 10), ("loss_explosion", 40), precision="fp16", parameters=1e9)
    assert compare(one, one, RARE)[0] == pytest.approx(1.0)
    assert compare(one, seen(("hang", 10)), RARE)[0] == 0.0


def test_the_reasons_are_words() -> None:
    one = seen(("loss_scale_drop", 10), ("loss_explosion", 40), precision="fp16", parameters=100e9)
    other = seen(("loss_spike", 5), ("loss_scale_drop", 9_000), precision="bf16", parameters=1e9)
    _, alike, unlike = compare(one, other, RARE)
    assert alike == ["saw loss scale drop as well", "loss spike is kin to loss explosion"]
    assert unlike == ["from first to last sign 8,995 steps (here 30)", "bf16, here fp16", "1B parameters (here 100B)"]


def test_each_likeness_counts() -> None:
    one = seen(("loss_scale_drop", 10), ("loss_explosion", 40), precision="fp16")
    same = compare(one, seen(("loss_scale_drop", 110), ("loss_explosion", 140), precision="fp16"), RARE)[0]
    for other in (
        seen(("loss_explosion", 110), ("loss_scale_drop", 140), precision="fp16"),  # another order
        seen(("loss_scale_drop", 110), ("loss_explosion", 9_000), precision="fp16"),  # slower
        seen(("loss_scale_drop", 110), ("loss_explosion", 140), precision="bf16"),  # another precision
        seen(("loss_scale_drop", 110), ("loss_spike", 140), precision="fp16"),  # only kin
        seen(("loss_scale_drop", 110), ("loss_explosion", 140), ("hang", 150), precision="fp16"),  # something more
    ):
        assert compare(one, other, RARE)[0] < same


def test_what_is_not_known_counts_neither_way() -> None:
    one = seen(("loss_explosion", None))
    assert compare(one, seen(("loss_explosion", None), precision="fp16"), RARE)[0] == pytest.approx(1.0)


def test_glm_130b_is_the_precedent_of_a_loss_scale_that_drops_before_the_loss_explodes(builtin: EventStore) -> None:
    sought = precedents.situation(["loss_scale_drop", "loss_explosion"], precision="fp16")
    first, *rest = precedents.find(builtin, sought, limit=3)
    assert first.incident == "glm-130b/2022-06-12T10:00"
    assert set(first.did) == {"rollback", "embedding_grad_scale_change"}
    assert (first.outcome, first.recurred_after) == (CAME_BACK, 1650)
    assert first.came_of_it == "it came back after 1,650 steps"
    assert all(one.similarity <= first.similarity for one in rest)


def test_at_a_step_the_incident_told_there_is_what_is_asked_about_and_is_no_precedent_of_itself(
    builtin: EventStore,
) -> None:
    sought = precedents.situation_at(builtin, "glm-130b", 33_735)
    assert sought.saw == ("loss_scale_drop", "loss_explosion")
    assert sought.span == 30
    found = precedents.find(builtin, sought, limit=500)
    assert "glm-130b/2022-06-12T10:00" not in {one.incident for one in found}
    assert {"glm-130b/2022-06-14T03:00", "glm-130b/2022-06-20T09:10"} <= {one.incident for one in found[:5]}
    assert sorted(found, key=lambda one: -one.similarity) == found


def test_a_run_of_ones_own_is_asked_by_what_its_log_shows(builtin: EventStore, tmp_path: Path) -> None:
    store = replay.open(tmp_path / "store")
    store.ingest_builtin()
    (tmp_path / "mine.log").write_text(
        "".join(
            f" iteration {step}/ 100000 | consumed samples: {step} | elapsed time per iteration (ms): 1000.0 | "
            f"learning rate: 1.000E-04 | global batch size: 16 | {loss}loss scale: {scale} | grad norm: 0.2 | "
            "number of skipped iterations: 0 | number of nan iterations: 0 |\n"
            for step, loss, scale in [
                *((step, "lm loss: 2.0E+00 | ", 65536.0) for step in range(1000, 1100)),
                *((1100 + i, "lm loss: 2.0E+00 | ", 65536.0 / 2**i) for i in range(1, 11)),
                (1111, "", 1.0),
            ]
        )
    )
    store.ingest([tmp_path / "mine.log"], run="mine")
    sought = precedents.situation_at(store, "mine", 1111)
    assert "loss_scale_drop" in sought.saw
    assert "nan_loss" in sought.saw
    assert precedents.find(store, sought)[0].similarity > 0.4


def test_nothing_seen_and_unknown_symptoms_are_told(builtin: EventStore) -> None:
    with pytest.raises(precedents.PrecedentError, match="nothing was seen in glm-130b within 200 steps of 9,999"):
        precedents.situation_at(builtin, "glm-130b", 9_999)
    with pytest.raises(precedents.PrecedentError, match="'rollback' is no symptom"):
        precedents.situation(["rollback"])
    with pytest.raises(precedents.PrecedentError, match="'wat' is no number format; write fp32"):
        precedents.situation(["loss_spike"], precision="wat")
    for number in (-3.0, 0.0, math.inf, math.nan):
        with pytest.raises(precedents.PrecedentError, match="no number of parameters"):
            precedents.situation(["loss_spike"], parameters=number)
    with pytest.raises(precedents.PrecedentError, match="say what was seen"):
        precedents.situation([])


def test_the_proxys_evidence_is_shown_where_there_is_any(tmp_path: Path) -> None:
    store = replay.open(tmp_path / "store")
    store.ingest_builtin()
    sought = precedents.situation(["loss_explosion"])
    assert all(one.proxy == () for one in precedents.find(store, sought))
    effect = {"control": "do_nothing", "n_seeds": 8, "mean": -1.0, "low": -2.0, "high": -0.5, "note": ""}
    rows = [
        {"arm": "rollback+skip_batches", "metric": "recurred", "verdict": "helps", **effect},
        {"arm": "lr_change", "metric": "recurred", "verdict": "harms", **effect},
    ]
    store.put_effects("a-scenario", pd.DataFrame(rows))
    by_incident = {one.incident: one for one in precedents.find(store, sought, limit=50)}
    (proof,) = by_incident["glm-130b/2022-06-20T09:10"].proxy
    assert (proof.verdict, proof.n_seeds, proof.scenario) == ("helps", 8, "a-scenario")
    assert [proof.verdict for proof in by_incident["opt-175b/2021-11-05-2"].proxy] == ["harms"]


# What came of what was done


def test_follow_up_of_the_explosions_of_glm_130b(builtin: EventStore) -> None:
    found = follow_up(builtin, "glm-130b").set_index("incident")
    assert found.loc["glm-130b/2022-06-12T10:00", ["outcome", "recurred_after"]].tolist() == [CAME_BACK, 1650]
    assert found.loc["glm-130b/2022-06-14T03:00", ["outcome", "recurred_after"]].tolist() == [CAME_BACK, 5600]
    last = found.loc["glm-130b/2022-06-20T09:10"]
    assert last["outcome"] == STAYED_AWAY
    assert last["followed_for"] == 48_100 - 40_700  # to the end of the record


def test_follow_up_tells_what_was_given_up_from_what_changed_nothing(builtin: EventStore) -> None:
    found = follow_up(builtin).set_index("incident")["outcome"]
    assert found["glm-130b/2022-05-21T12:40"] == UNAFFECTED
    assert found["bigscience-104b/experiment-4"] == ABANDONED
    assert found["opt-175b/training-stability"] == STAYED_AWAY


def test_steps_of_an_undated_experiment_are_no_steps_since_another(builtin: EventStore) -> None:
    found = follow_up(builtin, "bigscience-104b")
    assert not (found["recurred_after"] <= 0).any()
    assert found.loc[found["incident"].str.endswith("/experiment-11"), "followed_for"].isna().all()


QUICK = """
run: {name: quick, clock: UTC, sources: {log: A log of our own}}
incidents:
  - at: 2024-01-01 00:00
    locator: § 1
    seen: [{kind: loss_spike, step: 5000, text: x}]
    done: [{kind: rollback, step: 4000, text: x}]
  - at: 2024-01-02 00:00
    locator: § 2
    seen: [{kind: loss_spike, step: 4300, text: x}]
  - at: 2023-12-31 00:00
    locator: § 0
    seen: [{kind: loss_spike, step: 4100, text: x}]
"""


def test_what_comes_back_before_the_step_that_had_been_reached_has_come_back(tmp_path: Path) -> None:
    (tmp_path / "quick.yaml").write_text(QUICK)
    store = replay.open(tmp_path / "store")
    store.ingest([tmp_path / "quick.yaml"])
    (only,) = follow_up(store).to_dict("records")
    assert (only["outcome"], only["recurred_after"], only["basis"]) == (CAME_BACK, 300, "next incident")


def test_experiments_that_branch_off_one_checkpoint_are_no_recurrences_of_each_other(builtin: EventStore) -> None:
    """NAdamW on Marin 32B: the spikes came again, at no stated step; the other arms began at the same spikes."""
    incidents = builtin.incidents(run="marin-32b").set_index("incident")
    assert incidents.loc["marin-32b/nadamw", "then"] == ["recurred"]
    assert pd.isna(incidents.loc["marin-32b/nadamw", "recurred_after"])


def test_follow_up_of_an_empty_store_keeps_its_columns(tmp_path: Path) -> None:
    assert list(follow_up(replay.open(tmp_path / "none")).columns)[-1] == "basis"


# The command


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    call = "from replay.cli.history import precedents_command as c; c(prog_name='precedents')"
    return subprocess.run(
        [sys.executable, "-c", call, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_command_explains_in_words(builtin: EventStore) -> None:
    done = command("--saw", "loss_scale_drop,loss_explosion", "--precision", "fp16", "--store", builtin.folder)
    assert done.returncode == 0, done.stderr
    assert "in the same order: loss scale drop, then loss explosion" in done.stdout
    assert "it came back after 1,650 steps" in done.stdout


def test_the_command_answers_programs(builtin: EventStore) -> None:
    done = command("glm-130b", "--at", 33740, "--json", "--limit", 2, "--store", builtin.folder)
    answer = json.loads(done.stdout)
    assert len(answer) == 2
    assert {"similarity", "alike", "did", "came_of_it", "proxy"} <= set(answer[0])


@pytest.mark.parametrize("arguments", [[], ["glm-130b"], ["--saw", "no_such"], ["glm-130b", "--at", "x"]])
def test_wrong_usage_is_told(builtin: EventStore, arguments: list[str]) -> None:
    done = command(*arguments, "--store", builtin.folder)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
