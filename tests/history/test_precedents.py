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
from replay.history.follow_up import (
    ABANDONED,
    CAME_BACK,
    NOT_KNOWN,
    RECOVERED,
    STAYED_AWAY,
    UNAFFECTED,
    follow_up,
)
from replay.history.similarity import Situation, compare, in_words
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


def test_speed_is_counted_from_the_onset_that_a_source_states(builtin: EventStore) -> None:
    sought = precedents.situation(["divergence", "loss_scale_drop"], precision="fp16", within=30)
    found = {one.incident: one for one in precedents.find(builtin, sought, limit=100)}
    told = found["bigscience-104b/embed-norm-experiment-1"]
    assert "from first to last sign 749 steps (here 30)" in told.unlike
    assert not any("0 steps" in words for one in found.values() for words in one.unlike if " 0 steps" in words)
    assert compare(seen(("hang", 5), ("crash", 5)), seen(("hang", 7), ("crash", 9)), RARE)[1][-1] == (
        "from first to last sign 2 steps (here 0)"
    )
    assert (
        "all signs at one step (here 30 steps)"
        in (compare(seen(("hang", 5), ("crash", 35)), seen(("hang", 7), ("crash", 7)), RARE)[2])
    )


def test_an_order_is_told_only_where_it_is_known() -> None:
    assert in_words(seen(("loss_scale_drop", 10), ("loss_explosion", 40))) == (
        "loss scale drop, then loss explosion (within 30 steps)"
    )
    assert in_words(seen(("hang", 5), ("crash", 5))) == "hang and crash (at one step)"
    assert in_words(seen(("hang", 5), ("crash", None))) == "hang and crash"
    assert in_words(precedents.situation(["hang", "crash"])) == "hang, then crash"
    some = seen(("hang", 5), ("crash", 9), ("gap", None))
    assert "in the same order: hang, then crash" in compare(some, some, RARE)[1]
    tied = seen(("hang", 5), ("crash", 9), ("gap", 9))
    assert "in the same order, as far as it is known: hang, crash, gap" in compare(tied, tied, RARE)[1]


def test_a_sign_is_kin_to_one_other_alone() -> None:
    one = seen(("grad_norm_spike", None), ("activation_norm_drift", None))
    kin, both = seen(("attention_logit_growth", None)), seen(("activation_norm_drift", None))
    score, alike, unlike = compare(one, kin, {})
    assert alike == ["attention logit growth is kin to activation norm drift"]
    assert unlike == ["it did not see grad norm spike"]
    assert score == pytest.approx(0.25)  # half a sign of two
    assert compare(one, both, {})[0] > score
    # As many pairs as there can be: plateau has no kin but divergence.
    pairs = compare(seen(("divergence", None), ("loss_spike", None)), seen(("nan_loss", None), ("plateau", None)), {})
    assert pairs[1] == ["plateau is kin to divergence", "nan loss is kin to loss spike"]


def test_what_is_not_known_of_the_other_run_is_said_and_is_not_the_same(builtin: EventStore) -> None:
    asked = seen(("loss_spike", None), precision="fp8", parameters=7e9)
    score, _, unlike = compare(asked, seen(("loss_spike", None)), RARE)
    assert unlike == [
        "its number format is not known (here fp8)",
        "its number of parameters is not known (here 7B)",
    ]
    assert score < compare(asked, asked, RARE)[0]
    assert score > compare(asked, seen(("loss_spike", None), precision="bf16", parameters=7e12), RARE)[0]
    found = precedents.find(builtin, precedents.situation(["loss_spike"], precision="fp8"), limit=100)
    assert all(one.similarity < 1 for one in found)


def test_words_hold_no_identifiers(builtin: EventStore) -> None:
    sought = precedents.situation(["loss_spike", "hang", "throughput_drop", "divergence"], precision="fp16")
    found = precedents.find(builtin, sought, limit=500)
    said = [words for one in found for words in (one.came_of_it, *one.alike, *one.unlike)]
    assert not [words for words in said if "_" in words]
    by_incident = {one.incident: one.came_of_it for one in found}
    assert by_incident["k2-65b/spike-2"] == "nothing was done; what came of it is not told"
    assert by_incident["bloom-176b/2022-04-12"] == "nothing was done; it recovered by itself"
    assert by_incident["k2-65b/spike-1"] == "it came back, when is not known"
    assert by_incident["bigscience-104b/experiment-12"] == "it got worse"
    assert by_incident["opt-175b/training-stability-2"] == "it recovered, as the source says; for how long is not told"


def test_a_look_ahead_of_the_step_asked_for_is_said(builtin: EventStore) -> None:
    ahead = precedents.situation_at(builtin, "bloom-176b", 31_214)
    assert ahead.note == (
        "in the incident told at step 31,219, 5 after the one asked for: up to 200 steps ahead are looked at"
    )
    assert precedents.situation_at(builtin, "bloom-176b", 31_220).note == "in the incident told at step 31,219"
    assert precedents.situation_at(builtin, "bloom-176b", 32_100).note == "in the 1,000 steps up to 32,100"
    done = command("bloom-176b", "--at", 31_214, "--store", builtin.folder)
    assert "5 after the one asked for" in done.stdout.splitlines()[0]


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
    assert sought.span == 40  # from the onset at 33700
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
    assert found["opt-175b/training-stability-2"] == RECOVERED


def test_what_came_back_to_opt_175b_and_k2_65b_is_told(builtin: EventStore) -> None:
    """OPT's update says that run 12.45.2 had what 12.43 had; K2's second readme that a second spike followed."""
    found = follow_up(builtin).set_index("incident")
    opt = found.loc["opt-175b/training-stability", ["outcome", "recurred_after", "basis"]].tolist()
    assert opt == [CAME_BACK, 2600, "stated"]
    assert found.loc["k2-65b/spike-1", "outcome"] == CAME_BACK
    told = builtin.events(run="opt-175b", kind="recurred")
    (locator,) = told.loc[told["incident"] == "opt-175b/training-stability", "locator"]
    assert locator == "§ Training Stability"


def test_nothing_is_said_to_have_stayed_away_without_a_word_and_a_stretch(builtin: EventStore) -> None:
    found = follow_up(builtin)
    away = found[found["outcome"] == STAYED_AWAY]
    assert (away["followed_for"] > 0).all()
    assert (away["basis"] == "stated").all()
    silent = found[found["basis"] == "silence"]
    assert set(silent["outcome"]) <= {NOT_KNOWN, CAME_BACK}


UNDATED = """
run: {name: undated, clock: UTC, sources: {log: A log of our own}}
incidents:
  - id: a
    locator: § a
    seen: [{kind: loss_spike, step: 5000, text: x}]
    done: [{kind: rollback, step: 4000, text: x}]
    then: [{kind: recovered, text: x}]
  - id: b
    locator: § b
    seen: [{kind: loss_spike, step: %s, text: x}]
    done: [{kind: rollback, step: %s, text: x}]
"""


@pytest.mark.parametrize(
    ("spike", "back", "outcome", "after"),
    [
        (6000, 5500, CAME_BACK, 2000),  # further on in one line of training
        (4900, 4500, RECOVERED, None),  # may be the earlier one
        (6000, 4000, RECOVERED, None),  # from the same checkpoint: two experiments, in no order
    ],
)
def test_of_undated_incidents_the_later_is_known_by_its_steps_alone(
    tmp_path: Path, spike: int, back: int, outcome: str, after: int | None
) -> None:
    (tmp_path / "undated.yaml").write_text(UNDATED % (spike, back))
    store = replay.open(tmp_path / "store")
    assert store.ingest([tmp_path / "undated.yaml"]).exit_code == 0
    first = follow_up(store).set_index("incident").loc["undated/a"]
    assert first["outcome"] == outcome
    assert (None if pd.isna(first["recurred_after"]) else first["recurred_after"]) == after


SILENT = """
run: {name: silent, clock: UTC, sources: {log: A log of our own}}
incidents:
  - at: 2024-01-01 00:00
    locator: § 1
    seen: [{kind: loss_spike, step: 5000, text: x}]
    done: [{kind: rollback, step: 4000, text: x}]
  - at: 2024-01-09 00:00
    locator: § 2
    lifecycle: [{kind: end, step: 9000, text: x}]
"""


def test_silence_is_no_cure(tmp_path: Path) -> None:
    (tmp_path / "silent.yaml").write_text(SILENT)
    store = replay.open(tmp_path / "store")
    store.ingest([tmp_path / "silent.yaml"])
    (only,) = follow_up(store).to_dict("records")
    assert (only["outcome"], only["followed_for"], only["basis"]) == (NOT_KNOWN, 5000, "silence")
    (found,) = precedents.find(store, precedents.situation(["loss_spike"]))
    assert found.came_of_it == "not known; nothing more of it is noted in the 5,000 steps that the record goes on"


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
