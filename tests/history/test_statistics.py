"""Restarts, failures, lost work and what was done, on a small history of our own and on the public ones."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import replay
from replay.history import effectiveness, lost_work, reliability
from replay.history.statistics_page import statistics_page
from replay.intervals import count_interval, share_interval, survival
from replay.store import EventStore

HISTORY = """
run:
  name: small
  parameters: 1e9
  clock: UTC
  hardware: 2 nodes of 8 (16 GPUs)
  seconds_per_step: 36
  sequence_length: 10
  batch_schedule: [{from_step: 0, samples: 4}, {from_step: 100, samples: 8}]
  metadata: {total_steps: "10,000", total_tokens: 1e6}
  sources: {log: A log of our own}
incidents:
  - at: 2024-01-01 00:00
    locator: § 1
    lifecycle: [{kind: start, step: 0, text: x}]
  - at: 2024-01-02 00:00
    locator: § 2
    cause: [{kind: gpu_failure, text: x}]
    lifecycle: [{kind: restart, step: 900, before: 1000, unit: step, text: x}]
  - at: 2024-01-04 00:00
    locator: § 3
    seen: [{kind: loss_spike, step: 5000, text: x}]
    done:
      - {kind: rollback, step: 4800, before: 5000, unit: step, lost_hours: 2, text: x}
      - {kind: skip_batches, step: 4801, step_end: 5000, text: x}
    then: [{kind: recurred, step: 5400, text: x}]
  - at: 2024-01-10 00:00
    locator: § 4
    seen: [{kind: loss_spike, step: 5400, text: x}]
    done: [{kind: lr_change, field: learning_rate, after: 1e-5, step: 5400, text: x}]
    then: [{kind: recovered, text: x}]
    lifecycle: [{kind: restart, step: 5400, text: x}]
  - at: 2024-01-11 12:00
    locator: § 5
    seen: [{kind: crash, text: x}]
    lifecycle: [{kind: restart, text: x}]
  - at: 2024-01-21 00:00
    locator: § 6
    lifecycle: [{kind: end, step: 9000, text: x}]
  - id: totals
    locator: § 7
    cause: [{kind: node_failure, detail: {count: "4", days: "100"}, text: x}]
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> EventStore:
    folder = tmp_path_factory.mktemp("statistics")
    (folder / "small.yaml").write_text(HISTORY)
    store = replay.open(folder / "store")
    report = store.ingest([folder / "small.yaml"])
    assert report.exit_code == 0, report
    return store


# Intervals


def test_count_intervals_are_the_tables_of_garwood() -> None:
    # Garwood (1936), 95%: 0 to 3.69 for none, 0.025 to 5.57 for one, 4.80 to 18.39 for ten.
    for count, low, high in ((0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.390), (419, 379.8, 461.1)):
        assert count_interval(count) == (pytest.approx(low, abs=0.06), pytest.approx(high, abs=0.06))


def test_share_intervals_stay_within_0_and_1() -> None:
    assert share_interval(0, 0) == (0.0, 1.0)
    assert share_interval(0, 10)[0] == 0.0
    assert share_interval(10, 10)[1] == 1.0
    assert share_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert share_interval(8, 8) == pytest.approx((0.6756, 1.0), abs=1e-4)
    assert share_interval(0, 8) == pytest.approx((0.0, 0.3244), abs=1e-4)


def test_survival_counts_what_was_cut_off_as_long_as_it_lasted() -> None:
    table = survival([1.0, 2.0, 2.0, 3.0, 4.0], [False, False, True, False, True])
    assert table["time"].tolist() == [1.0, 2.0, 3.0]
    assert table["at_risk"].tolist() == [5, 4, 2]
    assert table["survival"].tolist() == pytest.approx([0.8, 0.6, 0.3])
    # Greenwood's variance on the log-log scale, by hand: of 0.8 it is 1 / (5 * 4).
    assert table.loc[0, ["low", "high"]].tolist() == pytest.approx([0.2038, 0.9692], abs=1e-4)
    assert (table["low"] <= table["survival"]).all()
    assert (table["survival"] <= table["high"]).all()
    assert survival([], []).empty


def test_survival_of_freireichs_leukaemia_trial_is_the_published_one() -> None:
    """Remission in weeks on 6-mercaptopurine (Freireich et al. 1963), the textbook example of the estimate."""
    ended = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    cut = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    table = survival([*ended, *cut], [False] * len(ended) + [True] * len(cut))
    assert table["at_risk"].tolist() == [21, 17, 15, 12, 11, 7, 6]
    assert table["survival"].tolist() == pytest.approx([0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=1e-3)
    assert table.loc[0, ["low", "high"]].tolist() == pytest.approx([0.620, 0.952], abs=1e-3)


def test_survival_claims_no_certainty_where_all_have_ended() -> None:
    table = survival([1.0, 2.0], [False, False])
    assert table["survival"].tolist() == [0.5, 0.0]
    assert table["low"].isna().tolist() == table["high"].isna().tolist() == [False, True]


# Restarts and failures


def test_each_restart_has_the_cause_that_its_incident_tells(small: EventStore) -> None:
    found = reliability.restarts(small)
    assert found["cause"].tolist() == ["hardware", "instability", "instability", "stopped"]
    assert found["kind"].tolist() == ["restart", "rollback", "restart", "restart"]
    assert [f"{week:%m-%d}" for week in found["week"]] == ["01-01", "01-01", "01-08", "01-08"]


def test_restarts_by_cause_and_week(small: EventStore) -> None:
    by_cause = reliability.restarts_by_cause(small).set_index("cause")
    assert by_cause["restarts"].to_dict() == {"instability": 2, "hardware": 1, "stopped": 1}
    assert by_cause["share"].sum() == pytest.approx(1.0)
    weekly = reliability.restarts_by_week(small)
    assert weekly["restarts"].sum() == 4
    assert len(weekly) == 2 * 3  # every cause in every week, also where there was none


def test_stretches_between_failures_end_with_the_record(small: EventStore) -> None:
    found = reliability.time_between(small)
    assert found["hours"].tolist() == [24.0, 228.0, 228.0]
    assert found["censored"].tolist() == [False, False, True]
    (mean,) = reliability.mean_time_between(found).to_dict("records")
    assert mean["failures"] == 2
    assert mean["mean_hours"] == 240.0
    assert mean["low"] < 240.0 < mean["high"]
    assert reliability.mean_time_between(found, pooled=True)["run"].tolist() == ["all"]


def test_without_a_failure_only_the_lower_bound_says_something() -> None:
    moment = pd.Timestamp("2024-01-01", tz="UTC")
    calm = pd.DataFrame({"run": ["calm"], "start": [moment], "end": [moment], "hours": [100.0], "censored": [True]})
    (mean,) = reliability.mean_time_between(calm).to_dict("records")
    assert math.isinf(mean["mean_hours"])
    assert mean["low"] == pytest.approx(100 / 3.689, rel=1e-3)
    assert math.isinf(mean["high"])


def test_what_is_only_counted_is_no_failure_of_its_own_but_a_total(small: EventStore) -> None:
    assert "small/totals" not in set(reliability.failures(small)["incident"])
    (total,) = reliability.stated_totals(small).to_dict("records")
    assert (total["count"], total["days"], total["gpus"]) == (4.0, 100.0, 16.0)
    (row,) = reliability.mtbf_per_gpu(small).to_dict("records")
    assert row["years"] == pytest.approx(16 * 100 / 4 / 365.25)
    assert row["low"] < row["years"] < row["high"]


PARTLY = """
run: {name: partly, clock: UTC, sources: {list: A list of runs, letters: Letters}}
incidents:
  - {at: 2024-01-01, locator: § 1, source: letters, lifecycle: [{kind: start, step: 0, text: x}]}
  - {at: 2024-01-11, locator: § 2, lifecycle: [{kind: restart, text: x}]}
  - {at: 2024-01-12, locator: § 3, lifecycle: [{kind: restart, text: x}]}
  - {at: 2024-01-14, locator: § 4, lifecycle: [{kind: restart, text: x}]}
  - at: 2024-01-15
    locator: § 5
    cause: [{kind: gpu_failure, text: x}]
    lifecycle: [{kind: restart, text: x}]
    then: [{kind: recovered, at: 2024-02-20, text: x}]
  - at: 2024-03-01
    source: letters
    locator: § 6
    cause: [{kind: node_failure, detail: {per_day: 2 to 4}, text: Two to four a day.}]
  - id: undated
    source: letters
    locator: § 7
    cause: [{kind: gpu_failure, text: x}]
    then: [{kind: recovered, at: 2024-02-25, text: x}]
  - id: summed-up
    source: letters
    locator: § 8
    cause:
      - {kind: node_failure, detail: {manual_restarts: "9", automatic_restarts: "21", days: "60"}, text: x}
      - {kind: memory_error, text: Most of them.}
  - at: 2024-03-02
    source: letters
    locator: § 9
    cause: [{kind: node_failure, detail: {count: "5"}, text: Five at once.}]
"""


@pytest.fixture
def partly(tmp_path: Path) -> EventStore:
    (tmp_path / "partly.yaml").write_text(PARTLY)
    store = replay.open(tmp_path / "store")
    assert store.ingest([tmp_path / "partly.yaml"]).exit_code == 0
    return store


def test_time_that_no_source_covers_one_by_one_is_no_exposure(partly: EventStore) -> None:
    """The list tells restarts from 11 to 15 January; the letters before and after it tell none, nor does an outcome."""
    found = reliability.time_between(partly, what="restarts")
    assert (found["hours"] / 24).tolist() == [1.0, 2.0, 1.0]
    assert not found["censored"].any()
    assert f"{found['start'].min():%m-%d} {found['end'].max():%m-%d}" == "01-11 01-15"


def test_an_undated_failure_is_not_dated_by_its_outcome_and_a_sum_is_no_single_failure(partly: EventStore) -> None:
    found = reliability.failures(partly).set_index("incident")["time"]
    assert set(found.index) == {"partly/2024-01-15", "partly/undated", "partly/2024-03-02"}
    assert pd.isna(found["partly/undated"])
    incidents = partly.incidents(run="partly").set_index("incident")
    assert pd.isna(incidents.loc["partly/undated", "time"])


def test_what_sources_state_stands_beside_the_estimate_and_takes_its_interval_away_where_they_clash(
    partly: EventStore, small: EventStore
) -> None:
    stated = reliability.stated_between(partly, what="restarts").set_index("incident")
    assert stated.loc["partly/2024-03-01", ["low_hours", "high_hours"]].tolist() == [6.0, 12.0]
    assert stated.loc["partly/summed-up", "hours"] == 48.0
    assert reliability.stated_between(partly)["of"].tolist() == ["failures"]
    stretches = reliability.time_between(partly, what="restarts")
    (mean,) = reliability.mean_time_between(stretches, stated=stated.reset_index()).to_dict("records")
    assert (mean["mean_hours"], mean["stated_low"], mean["stated_high"]) == (32.0, 6.0, 48.0)
    assert mean["low"] < 32.0 < mean["high"]
    often = stated.reset_index()[stated.reset_index()["incident"] == "partly/2024-03-01"].assign(high_hours=7.0)
    (mean,) = reliability.mean_time_between(stretches, stated=often).to_dict("records")
    assert math.isnan(mean["low"])
    assert math.isnan(mean["high"])
    quiet = reliability.mean_time_between(
        reliability.time_between(small, what="restarts"), stated=reliability.stated_between(partly)
    )
    assert quiet["stated_low"].isna().all()
    assert quiet["low"].notna().all()


def test_no_median_is_told_of_a_few_stretches() -> None:
    moment = pd.Timestamp("2024-01-01", tz="UTC")
    many = pd.DataFrame({"run": "many", "start": moment, "end": moment, "hours": range(1, 12), "censored": False})
    few = many.head(9).assign(run="few")
    table = reliability.median_time_between(pd.concat([many, few])).set_index("run")
    assert table.loc["many", ["stretches", "ended", "median_hours"]].tolist() == [11, 11, 6.0]
    assert table.loc["many", "low"] < 6.0 < table.loc["many", "high"]
    assert table.loc["few", ["median_hours", "low", "high"]].isna().all()
    assert table.loc["few", "ended"] == 9


VAGUE = """
run: {name: vague, clock: UTC, sources: {log: A log of our own}}
incidents:
  - {at: 2024-01-01, locator: § 1, lifecycle: [{kind: start, step: 0, text: x}]}
  - {at: 2024-03, locator: § 2, cause: [{kind: gpu_failure, text: x}]}
  - at: 2024-03-21
    locator: § 3
    cause: [{kind: gpu_failure, text: x}]
    lifecycle: [{kind: restart, detail: {count: "3"}, text: Three times on one day.}]
  - {at: 2024-03-31, locator: § 4, lifecycle: [{kind: end, step: 9, text: x}]}
"""


@pytest.fixture
def vague(tmp_path: Path) -> EventStore:
    (tmp_path / "vague.yaml").write_text(VAGUE)
    store = replay.open(tmp_path / "store")
    assert store.ingest([tmp_path / "vague.yaml"]).exit_code == 0
    return store


def test_a_failure_dated_to_a_month_does_not_end_a_stretch_on_its_first(vague: EventStore) -> None:
    assert len(reliability.failures(vague)) == 2
    assert (reliability.time_between(vague)["hours"] / 24).tolist() == [80.0, 10.0]


def test_restarts_of_which_one_entry_tells_several_count_as_many(vague: EventStore) -> None:
    assert reliability.restarts(vague)["times"].tolist() == [3]
    assert reliability.restarts_by_cause(vague)["restarts"].tolist() == [3]
    assert reliability.restarts_by_week(vague)["restarts"].tolist() == [3]
    assert lost_work.lost_work(vague)["restarts"].tolist() == [3]


def test_time_between_anything_else_is_refused(small: EventStore) -> None:
    with pytest.raises(ValueError, match="'failures' or 'restarts'"):
        reliability.time_between(small, what="lunches")


# What it costs, and what was done


def test_lost_steps_and_hours(small: EventStore) -> None:
    (row,) = lost_work.lost_work(small).to_dict("records")
    assert (row["restarts"], row["known"]) == (4, 2)
    assert row["lost_steps"] == 300.0
    assert row["lost_hours"] == 2.0
    assert row["step_hours"] == 3.0
    assert row["total_steps"] == 9000.0  # where it ended, not what had been planned
    assert row["share"] == pytest.approx(300 / 9000)


def test_skipped_data_is_an_upper_bound_at_the_largest_batch(small: EventStore) -> None:
    (row,) = lost_work.skipped_data(small).to_dict("records")
    assert (row["low_batches"], row["high_batches"]) == (200.0, 200.0)
    assert row["high_tokens"] == 200 * 8 * 10
    assert row["high_share"] == pytest.approx(0.016)


def test_interventions_and_how_often_the_symptom_came_back(small: EventStore) -> None:
    soon = effectiveness.interventions(small, within=1000).set_index("kind")
    assert soon.loc["rollback", ["tried", "within", "not_within", "unknown"]].tolist() == [1, 1, 0, 0]
    # It was gone after the learning rate was lowered at step 5400, and nothing more is noted up to step 9000.
    assert soon.loc["lr_change", ["tried", "within", "not_within", "unknown"]].tolist() == [1, 0, 1, 0]
    later = effectiveness.interventions(small, within=4000).set_index("kind")
    assert later.loc["lr_change", ["within", "not_within", "unknown"]].tolist() == [0, 0, 1]
    assert math.isnan(later.loc["lr_change", "share"])
    assert effectiveness.interventions(small, within=500, saw="hang").empty
    with pytest.raises(ValueError, match="no number of steps"):
        effectiveness.interventions(small, within=0)


@pytest.mark.parametrize("pooled", [True, False])
def test_an_empty_store_gives_tables_with_their_columns(tmp_path: Path, pooled: bool) -> None:
    store = replay.open(tmp_path / "none")
    tables = [
        reliability.restarts(store),
        reliability.restarts_by_cause(store),
        reliability.restarts_by_week(store),
        reliability.failures(store),
        reliability.mean_time_between(reliability.time_between(store), pooled=pooled),
        reliability.stated_totals(store),
        reliability.mtbf_per_gpu(store),
        lost_work.lost_work(store),
        lost_work.skipped_data(store),
        effectiveness.interventions(store, pooled=pooled),
    ]
    for table in tables:
        assert table.empty
        assert len(table.columns) >= 4


# The public history


def test_mtbf_of_a_gpu_of_bloom_and_llama_3_is_five_to_six_years(builtin: EventStore) -> None:
    years = reliability.mtbf_per_gpu(builtin).set_index("incident")["years"]
    assert 5 <= years["bloom-176b/hardware-failures"] <= 6
    assert 5 <= years["llama3-405b/interruptions"] <= 6
    # OPT's is shorter: every restart counts there, whatever stopped it.
    assert 1 <= years["opt-175b/paper-2-5-hardware"] <= 2


def test_opts_restarts_agree_with_what_its_authors_count_and_blooms_entries_are_only_some(builtin: EventStore) -> None:
    def means(what: str) -> pd.DataFrame:
        stated = reliability.stated_between(builtin, what=what)
        return reliability.mean_time_between(reliability.time_between(builtin, what=what), stated=stated).set_index(
            "run"
        )

    opt = means("restarts").loc["opt-175b"]
    assert opt["low"] < 24 * 60 / 105 < opt["high"]
    assert opt["hours"] < 24 * 21  # two lists of runs, none of the weeks between and after them
    bloom = means("failures").loc["bloom-176b"]
    assert bloom["mean_hours"] > bloom["stated_high"] == 168.0
    assert math.isnan(bloom["low"])
    failures = reliability.failures(builtin, "opt-175b")
    assert not failures["incident"].str.contains("paper|percent-update$").any()
    assert not (failures["time"] == pd.Timestamp("2021-12-16", tz="UTC")).any()


def test_the_page_dates_a_record_from_the_launch_and_tells_no_mean_of_two(builtin: EventStore) -> None:
    page = statistics_page(builtin, ["bloom-176b", "olmo"])
    assert "| record | 2022-03-11 to 2022-07-04 |" in page  # trials of the days before are not of the run
    (between,) = (line for line in page.splitlines() if line.startswith("| hours between failures, mean"))
    assert between.endswith("| too few |")
    (share,) = (line for line in page.splitlines() if line.startswith("| data reshuffle |"))
    assert share.endswith("| 1 | 1 | too few |")  # one of one is no share
    assert "{" not in page
    assert "within 2,000 steps, and told of 3 on" in " ".join(page.split())


def test_components_add_up_to_the_whole_table(builtin: EventStore) -> None:
    rows = reliability.mtbf_per_gpu(builtin, "llama3-405b", components=True)
    parts = rows[rows["component"] != ""]
    planned = 32  # unplanned maintenance of hosts is a part of the table, but no failure
    assert parts["failures"].sum() + planned == 419


def test_the_page_of_the_documentation_is_what_the_command_writes(root: Path, builtin: EventStore) -> None:
    page = statistics_page(builtin, ["opt-175b", "bloom-176b", "glm-130b"])
    assert (root / "docs" / "statistics.md").read_text(encoding="utf-8") == page, (
        "docs/statistics.md is out of date: "
        "`replay ingest --builtin && replay statistics --page opt-175b bloom-176b glm-130b > docs/statistics.md`"
    )


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    call = "from replay.cli.history import statistics_command as c; c(prog_name='statistics')"
    return subprocess.run(
        [sys.executable, "-c", call, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_command_prints_tables_and_json(builtin: EventStore) -> None:
    text = command("glm-130b", "--store", builtin.folder)
    assert text.returncode == 0, text.stderr
    assert "restarts by cause" in text.stdout
    answer = json.loads(command("palm-540b", "--json", "--store", builtin.folder).stdout)
    assert answer["lost_work"][0]["lost_steps"] == 2000.0
    assert command("--page", "--store", builtin.folder).returncode == 2
