"""What the built-in logbooks must say of each run: its incidents, figures and contradictions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logbook_reading import dated, events, headings, logbook, one, upstream
from replay_parsers.records import EventKind, Role

# --- GLM-130B


def test_every_dated_heading_of_glm_130b_is_an_incident(shared: Path) -> None:
    text = upstream(shared, "THUDM/GLM-130B logs/main-log-en.md")
    told = {event.locator.removeprefix("§ ") for event in events("glm-130b")}
    assert len(dated(text)) == 31
    assert set(dated(text)) <= told


def test_glm_130b_has_34_incidents_in_order() -> None:
    names = list(dict.fromkeys(event.incident for event in events("glm-130b")))
    assert len(names) == 34
    assert names[0] == "glm-130b/2022-05-06T04:00"
    assert "glm-130b/2022-05-30T14:00-3" in names
    assert names[-1] == "glm-130b/2022-06-29T00:00"


def test_glm_130b_headings_are_in_utc_plus_8_and_run_names_in_utc() -> None:
    assert str(one("glm-130b", "2022-05-28T16:50", EventKind.NAN_LOSS).time) == "2022-05-28 08:50:00+00:00"
    # The event file of this restart was begun at 1653729502, nine minutes later.
    assert str(one("glm-130b", "2022-05-28T16:50", EventKind.ROLLBACK).time) == "2022-05-28 09:18:12+00:00"


def test_glm_130b_run_names_come_after_their_headings_within_a_day() -> None:
    for event in events("glm-130b"):
        if "run_name" in event.detail:
            assert event.time is not None
            stamp = event.time.strftime("glm-130B-%Y.%m.%d-%H:%M:%S")
            assert event.detail["run_name"] == stamp
            symptoms = [e for e in events("glm-130b", str(event.incident).removeprefix("glm-130b/")) if e is not event]
            for other in symptoms:
                if other.role in (Role.SYMPTOM, Role.CAUSE) and other.time is not None and other.incident:
                    assert -4000 < (event.time - other.time).total_seconds() < 86400, event.event


def test_glm_130b_restarts_and_rollbacks() -> None:
    restarts = [event.step for event in events("glm-130b", kind=EventKind.RESTART)]
    known = [4000, 6000, 7300, 15400, 15600, 16600, 22800, 23200, 23500, 24500, 25000, 25800, 26000]
    assert [step for step in restarts if step is not None] == [*known, 31000, 39600, 42700, 48100]
    assert restarts.count(None) == 5
    rollbacks = [event.step for event in events("glm-130b", kind=EventKind.ROLLBACK)]
    assert rollbacks == [22800] * 5 + [33600, 35200, 40700, 42400]


def test_glm_130b_parameter_changes_have_before_and_after() -> None:
    changes = [
        (event.field, event.before, event.after, event.detail.get("factor"), event.step)
        for event in events("glm-130b")
        if event.kind.endswith("_change") and event.field and event.field != "learning_rate"
    ]
    assert changes == [
        ("checkpoint_interval", 500, 100, None, None),
        ("embedding_grad_scale", 0.1, 1.0, None, 6000),
        ("embedding_grad_scale", 0.2, 1.0, None, 22800),
        ("embedding_grad_scale_warmup", 26850, 6000, None, None),
        ("embedding_grad_scale", 1.0, 0.5, None, 33600),
        ("embedding_grad_scale", 0.5, 0.1, None, 35200),
        ("min_learning_rate", 8e-6, 4e-6, None, 42700),
    ]
    halved = one("glm-130b", "2022-06-02T15:00", EventKind.LR_CHANGE)
    assert (halved.detail["factor"], halved.step) == ("0.5", 26000)


def test_glm_130b_explosions_recur_1650_and_5600_steps_after_the_restarts() -> None:
    explosions = events("glm-130b", kind=EventKind.LOSS_EXPLOSION)
    assert [event.step for event in explosions] == [33740, 35250, 40800]
    distances = []
    for incident in ("2022-06-12T10:00", "2022-06-14T03:00"):
        recurred = one("glm-130b", incident, EventKind.RECURRED)
        rollback = one("glm-130b", incident, EventKind.ROLLBACK)
        assert recurred.step is not None
        assert rollback.step is not None
        distances.append(recurred.step - rollback.step)
    assert distances == [1650, 5600]


def test_glm_130b_contradictions_keep_both_readings() -> None:
    found = {(finding.incident, finding.check): finding for finding in logbook("logbooks/glm-130b.yaml").findings}
    clock = {name: finding.likely for (name, check), finding in found.items() if check == "clock" and finding.likely}
    assert clock["glm-130b/2022-05-03T20:00"] == "2022-05-31T20:00"
    assert clock["glm-130b/2022-06-02T09:30"] == "2022-06-03T09:30"
    assert clock["glm-130b/2022-06-02T15:00"] == "2022-06-03T15:00"
    assert None in clock
    impossible = found["glm-130b/2022-06-09T13:30", "step_against_clock"]
    assert (impossible.readings, impossible.likely) == (("23100", "about 31,000"), "about 31,000")
    restart = one("glm-130b", "2022-06-09T13:30", EventKind.RESTART)
    assert (restart.step, restart.detail["printed_step"]) == (31000, "23100")
    flag = found["glm-130b/2022-06-22T10:40", "flag_against_prose"]
    assert flag.readings == ("flag: steps 40701 to 40900", "prose: steps 42401 to 42600")
    skip = one("glm-130b", "2022-06-22T10:40", EventKind.SKIP_BATCHES)
    assert (skip.step, skip.step_end) == (42401, 42600)
    assert skip.detail["flag"] == "--skip-train-iteration-range 40701-40900"


# --- BLOOM-176B


def test_every_dated_heading_of_bloom_is_an_incident(shared: Path) -> None:
    text = upstream(shared, "bigscience-workshop/bigscience train/tr11-176B-ml/chronicles.md")
    told = {event.locator.removeprefix("§ ") for event in events("bloom-176b")}
    found = {finding.locator.removeprefix("§ ") for finding in logbook("logbooks/bloom-176b.yaml").findings}
    # 28 June is told with the readme, which alone gives its step.
    assert set(dated(text)) - told - found == {"2022-06-28 finished epoch 1 training"}
    assert events("bloom-176b", "2022-06-28")


def test_blooms_one_spike() -> None:
    (spike,) = (e for e in events("bloom-176b", "2022-04-12") if e.kind is EventKind.LOSS_SPIKE)
    assert (spike.step, spike.before, spike.after) == (31219, 2.198845, 5.098124)
    norm = one("bloom-176b", "2022-04-12", EventKind.GRAD_NORM_SPIKE)
    assert (norm.step, norm.before, norm.after) == (31219, 0.242, 960.351)
    assert one("bloom-176b", "2022-04-12", EventKind.RECOVERED_BY_ITSELF).step == 31250
    assert not [event for event in events("bloom-176b", "2022-04-12") if event.role is Role.INTERVENTION]


def test_blooms_stated_losses_of_time() -> None:
    lost = {event.incident: event.lost_hours for event in events("bloom-176b") if event.lost_hours is not None}
    assert lost == {
        "bloom-176b/2022-03-21": 7.3,
        "bloom-176b/2022-04-30": 18,
        "bloom-176b/2022-05-09": 6,
        "bloom-176b/2022-05-18": 11,
    }


def test_the_checkpoint_interval_of_bloom_went_from_250_by_200_to_100() -> None:
    changes = events("bloom-176b", kind=EventKind.CHECKPOINT_INTERVAL_CHANGE)
    assert [(event.before, event.after) for event in changes] == [(250, 200), (200, 100)]


# --- PaLM


def test_palm_recomputed_0_8_percent_and_skipped_at_most_5_4_percent() -> None:
    records = logbook("logbooks/palm-540b.yaml")
    assert records.run is not None
    rollback = one("palm-540b", "spikes", EventKind.ROLLBACK)
    skip = one("palm-540b", "spikes", EventKind.SKIP_BATCHES)
    spikes = int(one("palm-540b", "spikes", EventKind.LOSS_SPIKE).detail["count"])
    end = one("palm-540b", "end", EventKind.END)
    assert rollback.lost_steps is not None
    assert end.step is not None
    assert records.run.sequence_length is not None
    assert spikes * rollback.lost_steps / end.step == pytest.approx(0.0078, abs=5e-5)
    most = int(skip.detail["batches"].split("-")[1])
    tokens = spikes * most * records.run.batch_schedule[-1].samples * records.run.sequence_length
    assert tokens == pytest.approx(42e9, rel=0.01)
    assert tokens / float(records.run.metadata["total_tokens"]) == pytest.approx(0.054, abs=5e-4)


# --- The Chinese original of GLM-130B's notes


def test_both_languages_tell_the_same_incidents_and_events() -> None:
    english, chinese = logbook("logbooks/glm-130b.yaml"), logbook("logbooks/glm-130b.zh.yaml")
    assert {event.incident for event in english.events} == {event.incident for event in chinese.events}
    names = {event.event for event in english.events}, {event.event for event in chinese.events}
    assert names[0] - names[1] == {"glm-130b/2022-06-09T13:30/crash", "glm-130b/2022-06-09T13:30/network_failure"}
    assert names[1] - names[0] == {"glm-130b/2022-06-09T13:30/hang", "glm-130b/2022-05-28T16:50/abandoned"}


def test_both_languages_agree_on_steps_and_values_where_both_state_them() -> None:
    chinese = {event.event: event for event in logbook("logbooks/glm-130b.zh.yaml").events}
    for event in events("glm-130b"):
        other = chinese.get(event.event)
        for field in ("step", "step_end", "before", "after", "field"):
            if other is not None and getattr(event, field) is not None and getattr(other, field) is not None:
                assert getattr(event, field) == getattr(other, field), event.event


# --- BigScience 104B and 13B


def test_every_experiment_of_the_104b_is_an_incident(shared: Path) -> None:
    told = {event.locator.removeprefix("§ ") for event in events("bigscience-104b")}
    for title in ("train/tr8-104B-wide/chronicles.md", "train/tr8b-104B/chronicles.md"):
        found = headings(upstream(shared, f"bigscience-workshop/bigscience {title}"))
        experiments = {heading for heading in found if re.search(r"[Ee]xperiment \d+$", heading)}
        assert len(experiments) in (12, 16)
        assert experiments <= told


def test_undated_sections_name_their_incidents() -> None:
    for run in ("bigscience-104b", "bigscience-13b"):
        for event in events(run):
            own = str(event.incident).removeprefix(f"{run}/")
            slugs = [
                re.sub(r"[^a-z0-9]+", "-", other.locator.removeprefix("§ ").lower()).strip("-")
                for other in events(run, own)
            ]
            assert own in slugs or re.match(r"20\d\d-", own), own


def test_the_104b_was_rolled_back_nine_times_and_skipped_five_ranges() -> None:
    rollbacks = [event.step for event in events("bigscience-104b", kind=EventKind.ROLLBACK)]
    assert rollbacks == [6210, 6210, 3000, 12000, 13250, 16651, 16651, 16800, 16800]
    skipped = [(event.step, event.step_end) for event in events("bigscience-104b", kind=EventKind.SKIP_BATCHES)]
    assert skipped == [(13251, 14000), (13251, 14000), (16652, 18500), (13251, 14000), (16651, 19500)]


def test_the_last_loss_scale_collapse_of_the_104b_agrees_with_its_log(shared: Path) -> None:
    log = (shared / "real/trainers/megatron-deepspeed/tr8b_17060.log").read_text(encoding="utf-8")
    logged = {
        int(step): (float(loss), float(scale))
        for step, loss, scale in re.findall(r"iteration +(\d+)/.*?lm loss: (\S+) \| loss scale: (\S+)", log)
    }
    spike = one("bigscience-104b", "embed-norm-experiment-7", EventKind.LOSS_SPIKE)
    drop = one("bigscience-104b", "embed-norm-experiment-7", EventKind.LOSS_SCALE_DROP)
    assert (spike.before, spike.after) == (logged[17061][0], logged[17062][0])
    assert (drop.before, drop.after) == (logged[17062][1], logged[17068][1])


# --- OPT-175B


def test_opts_restart_criterion() -> None:
    rollback = one("opt-175b", "paper-2-5", EventKind.ROLLBACK)
    assert rollback.detail["criterion"] == "loss_scale >= 1.0, activation_norm falling"


def test_what_opt_tried_at_the_floor_of_the_loss_scale_and_what_helped() -> None:
    tried = {}
    for number in (3, 4, 5, 6):
        incident = events("opt-175b", f"27-percent-update-{number}")
        assert EventKind.LOSS_SCALE_FLOOR in {event.kind for event in incident}
        done = [event.kind for event in incident if event.role is Role.INTERVENTION]
        tried[done[-1]] = [event.kind for event in incident if event.role is Role.OUTCOME]
    assert tried == {
        EventKind.ROLLBACK: [EventKind.DELAYED],
        EventKind.OPTIMIZER_BETAS_CHANGE: [EventKind.UNAFFECTED],
        EventKind.OPTIMIZER_SWAP: [EventKind.ABANDONED],
        EventKind.LR_CHANGE: [EventKind.RECOVERED],
    }


def test_opts_clipping_was_tightened_from_2_5_by_1_5_to_1() -> None:
    changes = events("opt-175b", "2021-11-05-2", EventKind.GRAD_CLIP_CHANGE)
    assert [(event.before, event.after) for event in changes] == [(2.5, 1.5), (1.5, 1.0)]


# --- Llama 3


def test_llama_3s_causes_add_up_and_one_percentage_does_not_follow_from_its_count() -> None:
    rows = [event for event in events("llama3-405b") if event.locator == "Table 5"]
    assert len(rows) == 18
    assert sum(int(event.detail["count"]) for event in rows) == 419
    wrong = [
        event.detail["component"]
        for event in rows
        if abs(100 * int(event.detail["count"]) / int(event.detail["total"]) - float(event.detail["percent"])) > 0.06
    ]
    assert wrong == ["Faulty GPU"]
    assert any(
        "35.3%" in reading for finding in logbook("logbooks/llama3-405b.yaml").findings for reading in finding.readings
    )
