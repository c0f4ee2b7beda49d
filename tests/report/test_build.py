"""What the report says, and that it says the same each time."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from replay.errors import ReplayError
from replay.report import build_report
from replay.report.build import json_for_script
from replay.report.charts import charts
from replay.report.checks import check, masked_nan
from replay.report.effects import CAVEAT
from replay.report.reading import read_run
from replay.report.summary import summarise
from replay.report.tables import incident_rows

from . import scenes
from .fake_store import FakeStore


def page_text(html: str) -> str:
    """The page without scripts, styles and tags."""
    body = re.sub(r"<(script|style).*?</\1>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def test_the_same_store_gives_the_same_bytes() -> None:
    first, second = (build_report(scenes.failing_run(), "small-proxy") for _ in range(2))
    assert first == second


def test_the_page_names_no_address_but_namespaces_inside_the_libraries() -> None:
    html = build_report(scenes.failing_run(), "small-proxy")
    without_libraries = re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    assert "http:" not in without_libraries
    assert "https:" not in without_libraries
    assert not re.search(r'(src|href)="(?!#|data:)', without_libraries)


def test_an_unknown_run_is_told_with_those_that_the_store_holds() -> None:
    with pytest.raises(ReplayError, match="no run 'x' in the store; it holds small-proxy"):
        build_report(scenes.failing_run(), "x")


def test_json_in_a_script_cannot_end_it() -> None:
    text = json_for_script({"tag": "</script><!--<script>\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"tag": "</script><!--<script>\u2028&"}


def test_control_and_direction_characters_are_spelled_out() -> None:
    store = scenes.logbook_run()
    store.run["title"] = "evil \u202etxt.exe\x1b[31m"
    text = page_text(build_report(store, "big-100b"))
    assert "\\u202etxt.exe\\x1b[31m" in text
    assert "\u202e" not in text


class TestSummary:
    def summary(self, store: FakeStore, run: str):
        reading = read_run(store, run, scenes.RULES)
        return summarise(reading, check(reading))

    def test_the_headline_is_the_gravest_incident_that_was_not_settled(self) -> None:
        summary = self.summary(scenes.logbook_run(), "big-100b")
        assert summary.tone == "critical"
        assert summary.headline == (
            "Gravest incident: loss explosion at step 35,250 on 2022-06-05. "
            "Done: rollback and embedding gradient scale change. Then: recurred."
        )

    def test_without_incidents_the_headline_is_the_gravest_flag(self) -> None:
        summary = self.summary(scenes.failing_run(), "small-proxy")
        assert "critical flag of the rule “our-loss-bound” at step 3,000" in summary.headline

    def test_silence_is_never_called_clean(self) -> None:
        store = FakeStore({"run": "quiet"})
        store.add_scalars("loss", "loss", range(100), np.ones(100))
        summary = self.summary(store, "quiet")
        assert summary.tone == "quiet"
        assert "2 rules could be checked. None of them fired; 4 rules could not be checked" in summary.headline

    def test_where_no_rule_had_data_it_says_that_it_cannot_tell(self) -> None:
        summary = self.summary(FakeStore({"run": "empty"}), "empty")
        assert summary.tone == "warning"
        assert "cannot say how the run went" in summary.headline

    def test_what_is_not_known_is_said_on_the_first_screen(self) -> None:
        assert self.summary(scenes.failing_run(), "small-proxy").sentences[-1] == (
            "Not known: 1 place in the sources could not be read, 2 rules had no data "
            "(loss-scale-collapse, throughput-drop) and the loss may hide NaN."
        )

    def test_steps_trained_twice_and_the_end_are_told(self) -> None:
        sentences = " ".join(self.summary(scenes.failing_run(), "small-proxy").sentences)
        assert "restarted 1 time (1 rollback on record); 150 steps that had been trained were rolled back" in sentences
        assert "last 0.3011 at step 6,000" in sentences

    def test_a_run_that_goes_on_from_a_checkpoint_begins_with_the_step_after_it(self) -> None:
        store = FakeStore({"run": "late"})
        store.add_scalars("loss", "loss", range(8738, 9200), np.full(462, 2.0))
        store.attempt_rows = [
            {"run": "late", "attempt": 0, "start_step": 8737, "end_step": 9037, "kept_to": 8899, "lost_steps": 138},
            {"run": "late", "attempt": 1, "parent": 0, "start_step": 8899, "end_step": 9199, "kept_to": 9199},
        ]
        store.add_event("restart", step=8737, text="goes on")
        text = page_text(build_report(store, "late"))
        assert "steps 8,738–9,199" in text
        assert "first 8,738" in text
        assert "8,738–9,037" in text
        assert "8,900–9,199" in text
        assert "8,737–" not in text
        [bars] = [chart for chart in charts(read_run(store, "late")) if chart.name == "attempts"]
        rows = bars.spec["datasets"]["attempts"]
        assert [(row["from"], row["last"]) for row in rows] == [(8738, 8899), (8900, 9037), (8900, 9199)]

    def test_a_loss_that_ends_as_nan_is_told(self) -> None:
        store = FakeStore({"run": "r"})
        store.add_scalars("loss", "loss", range(5), [3.0, 2.0, 2.5, np.nan, np.nan])
        assert "The loss ends as NaN at step 4; it was lowest 2 at step 1." in self.summary(store, "r").sentences


class TestCharts:
    def chart(self, store: FakeStore, run: str, name: str):
        return next(chart for chart in charts(read_run(store, run)) if chart.name == name)

    def test_rolled_back_steps_are_drawn_apart_from_those_that_survived(self) -> None:
        rows = self.chart(scenes.failing_run(), "small-proxy", "loss").spec["datasets"]["line"]
        lost = {row["step"] for row in rows if row["branch"] == "rolled back"}
        assert (min(lost), max(lost)) == (2901, 3050)
        assert {row["attempt"] for row in rows if row["branch"] == "rolled back"} == {1}

    def test_nan_breaks_the_line_and_is_marked(self) -> None:
        data = self.chart(scenes.failing_run(), "small-proxy", "grad_norm").spec["datasets"]
        assert [(row["step"], row["what"]) for row in data["broken"]] == [(3851, "NaN"), (3852, "NaN"), (3853, "NaN")]
        assert [row["step"] for row in data["line"] if row["value"] is None] == [3851, 3852, 3853]

    def test_missing_steps_break_the_line_without_a_mark(self) -> None:
        store = FakeStore({"run": "r"})
        store.add_scalars("loss", "loss", np.r_[0:100, 5000:5100], np.ones(200))
        data = self.chart(store, "r", "loss").spec["datasets"]
        assert [row["step"] for row in data["line"] if row["value"] is None] == [100]
        assert data["broken"] == []

    def test_many_points_become_few_and_the_highest_is_among_them(self) -> None:
        store = FakeStore({"run": "r"})
        value = np.random.default_rng(1).normal(2, 0.1, 200_000)
        value[123_456] = 77.0
        store.add_scalars("loss", "loss", np.arange(200_000), value)
        chart = self.chart(store, "r", "loss")
        line = chart.spec["datasets"]["line"]
        assert len(line) <= 2_010
        assert max(row["value"] for row in line) == 77.0
        assert "highest 77 at step 123,456" in chart.description

    def test_a_wide_positive_range_gets_a_log_scale_and_says_so(self) -> None:
        store = FakeStore({"run": "r"})
        store.add_scalars("norm", "grad_norm", range(100), np.r_[np.ones(99), 960.351])
        assert self.chart(store, "r", "grad_norm").title == "Gradient norm, log scale"

    def test_without_scalars_the_timeline_runs_over_time(self) -> None:
        chart = self.chart(scenes.logbook_run(), "big-100b", "timeline")
        rows = chart.spec["datasets"]["events"]
        assert rows[0]["at"] == "2022-05-07T12:14:00Z"
        assert not chart.zooms

    def test_events_that_cannot_be_placed_are_counted(self) -> None:
        store = scenes.logbook_run()
        store.add_event("maintenance", text="some day")
        notes = self.chart(store, "big-100b", "timeline").notes
        assert notes[0] == "1 event without a time cannot be placed here; see the tables."

    def test_ten_thousand_checkpoints_are_thinned_and_told(self) -> None:
        store = FakeStore({"run": "r"})
        for step in range(10_000):
            store.add_event("checkpoint_save", step=step * 100)
        chart = self.chart(store, "r", "timeline")
        assert len(chart.spec["datasets"]["events"]) == 1_500
        assert "8,500 events of crowded lanes are left out" in chart.notes[0]

    def test_values_and_names_stay_out_of_expressions(self) -> None:
        """A tag or rule name is data to the chart: it stands in datasets alone, which Vega never evaluates."""
        store = scenes.failing_run()
        for row in store.flag_rows:
            row["rule"] = "x'+alert(1)+'"
        for chart in charts(read_run(store, "small-proxy")):
            program = {key: value for key, value in chart.spec.items() if key not in ("datasets", "description")}
            lanes = json.dumps(program).count("alert(1)")
            assert lanes == 0 or chart.name == "timeline"
            assert "alert(1)" not in " ".join(
                re.findall(r'"(?:expr|filter|signal|test)": "([^"]*)"', json.dumps(program))
            )


class TestIncidents:
    def test_each_row_has_seen_cause_done_then_and_its_events_with_sources(self) -> None:
        rows = incident_rows(read_run(scenes.logbook_run(), "big-100b"))
        row = rows[4]
        assert row.saw == ["loss scale drop", "loss explosion"]
        assert row.did == ["rollback", "embedding gradient scale change"]
        assert row.then == [("outcome", "recovered")]
        assert row.recurred == "again 5,600 steps later"
        assert row.lost == "2.5 hours"
        assert [event.change for event in row.events if event.change] == [
            "from step 33,740 back to 33,600",
            "embedding gradient scale 0.1 → 0.05",
        ]

    def test_a_setback_does_not_look_like_a_recovery(self) -> None:
        assert incident_rows(read_run(scenes.logbook_run(), "big-100b"))[5].then == [("setback", "recurred")]

    def test_a_run_without_incidents_says_that_this_proves_nothing(self) -> None:
        html = build_report(scenes.failing_run(), "small-proxy")
        assert "That is not to say that there was none" in page_text(html)


class TestChecks:
    def test_rules_without_data_are_named_with_what_they_lack(self) -> None:
        checks = check(read_run(scenes.failing_run(), "small-proxy", scenes.RULES))
        assert {rule.name: rule.missing for rule in checks.unchecked} == {
            "loss-scale-collapse": ["no loss scale in the logs"],
            "throughput-drop": ["no throughput in the logs"],
        }
        spikes = next(rule for rule in checks.checked if rule.name == "loss-spike")
        assert spikes.flags == 1
        assert re.fullmatch(r"loss: 6,\d\d\d of 6,\d\d\d points, steps 1–6,000", spikes.judged[0])

    def test_a_rule_with_too_little_data_is_not_called_silent(self) -> None:
        store = FakeStore({"run": "r"})
        store.add_scalars("loss", "loss", range(3), [1.0, 9.0, 1.0])
        plateau = next(
            rule for rule in check(read_run(store, "r", scenes.RULES)).unchecked if rule.name == "loss-plateau"
        )
        assert plateau.missing[0].startswith("loss has 3 values")

    def test_a_loss_that_is_plotted_over_samples_is_not_passed_over_in_silence(self) -> None:
        """DeepSpeed's monitor counts samples: rules cannot judge that, and "no loss" alone would mislead."""
        store = FakeStore({"run": "r"})
        store.add_scalars("Train/Samples/train_loss", None, range(256, 2560, 256), range(9))
        store.add_scalars("odd", None, range(9), range(9))
        told = dict(check(read_run(store, "r", scenes.RULES)).signals)
        assert told["over samples, not steps, so not judged by rules"] == "1 tag: Train/Samples/train_loss"
        assert told["without a known meaning"] == "1 tag: odd"

    def test_flags_of_rules_that_only_the_store_knows_are_counted(self) -> None:
        own = check(read_run(scenes.failing_run(), "small-proxy", scenes.RULES)).checked[-1]
        assert (own.name, own.flags) == ("our-loss-bound", 1)

    def test_kept_flags_of_the_rules_asked_are_not_trusted_but_found_anew(self) -> None:
        store = scenes.failing_run()
        store.flag_rows = [{**store.flag_rows[0], "rule": "loss-spike", "step": 17, "attempt": 9}]
        reading = read_run(store, "small-proxy", scenes.RULES)
        assert "loss-spike" in set(reading.flags["rule"])
        assert set(reading.flags["attempt"]) == {1}

    def test_nan_gradients_under_a_finite_loss_are_called_suspicious(self) -> None:
        text = masked_nan(read_run(scenes.failing_run(), "small-proxy"))
        assert text.startswith("At 3 steps (3,851, 3,852, 3,853) the gradient norm is NaN while the loss is a number.")
        assert "logging_nan_inf_filter" in text

    def test_a_nan_loss_with_a_nan_gradient_hides_nothing(self) -> None:
        store = FakeStore({"run": "r"})
        store.add_scalars("loss", "loss", range(3), [1.0, np.nan, 1.0])
        store.add_scalars("norm", "grad_norm", range(3), [1.0, np.nan, 1.0])
        assert masked_nan(read_run(store, "r")) == ""

    def test_lines_not_understood_findings_and_problems_are_shown(self) -> None:
        text = page_text(build_report(scenes.logbook_run(), "big-100b"))
        assert "not understood: 3" in text
        assert "Loss curve: see picture" in text
        assert "05-03 or 05-31. Likely: 05-31." in text
        text = page_text(build_report(scenes.failing_run(), "small-proxy"))
        assert "events.out.tfevents.2, byte 4096: payload checksum does not hold" in text


class TestEffects:
    def test_effects_on_interventions_of_this_run_come_with_the_caveat(self) -> None:
        text = page_text(build_report(scenes.failing_run(), "small-proxy"))
        assert CAVEAT in text
        assert "-1.900 (-3.100 to -0.700) inconclusive" in text
        assert "against do nothing" in text
        assert "3 seeds prove nothing: the smallest two-sided p is 0.25" in text

    def test_effects_on_interventions_that_this_run_never_had_are_left_out(self) -> None:
        store = scenes.failing_run()
        store.event_rows = [row for row in store.event_rows if row["role"] != "intervention"]
        assert CAVEAT not in page_text(build_report(store, "small-proxy"))


def test_an_empty_run_still_gives_a_whole_page() -> None:
    text = page_text(build_report(FakeStore({"run": "empty", "sources": []}), "empty", rules=scenes.RULES))
    assert "The record names no step and no date" in text
    assert "0 of 6" in text


def test_missing_values_of_every_kind_are_no_obstacle() -> None:
    store = FakeStore({"run": "r", "parameters": np.nan, "title": None})
    store.add_event("crash", incident="r/1", step=None, time=None)
    store.attempt_rows = [{"run": "r", "attempt": n, "start_time": pd.NaT} for n in (1, 2)]
    store.flag_rows = [{"run": "r", "rule": "loss-spike", "signal": "loss", "step": 4, "severity": "warning"}]
    html = build_report(store, "r")
    assert "nan" not in page_text(html).replace("NaN", "").lower().replace("finance", "")
