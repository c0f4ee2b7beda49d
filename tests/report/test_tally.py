"""What the summary counts: each number follows from the run's data, and says no more than they do."""

from __future__ import annotations

from typing import Any

import pytest

from replay.report import build_report
from replay.report.checks import check
from replay.report.doubts import doubts, doubts_in_words
from replay.report.reading import read_run
from replay.report.summary import Summary, summarise
from replay.report.tally import incidents_in_words, losses_in_words, tally_incidents, tally_losses

from . import scenes
from .fake_store import ATTEMPT_TYPES, FINDING_TYPES, INCIDENT_TYPES, FakeStore, table
from .test_build import page_text


def incident(**fields: Any) -> dict[str, Any]:
    return {"run": "r", "incident": "r/1", "saw": [], "cause": [], "did": [], "then": [], **fields}


def told(*incidents: dict[str, Any]) -> str:
    return incidents_in_words(tally_incidents(table(INCIDENT_TYPES, list(incidents))))


def summary_of(store: FakeStore, run: str) -> Summary:
    reading = read_run(store, run, scenes.RULES)
    return summarise(reading, check(reading))


class TestIncidents:
    def test_recoveries_are_told_of_incidents_with_a_symptom_alone(self) -> None:
        text = told(
            incident(saw=["divergence"], then=["recovered"]),
            incident(saw=["nan_loss"], then=["abandoned"]),
            incident(saw=["hang"], then=["not_stated"]),
            incident(saw=["crash"]),
            incident(cause=["node_failure"]),
            incident(did=["data_change"], then=["recovered"]),
            incident(),
        )
        assert text.startswith(
            "7 incidents on record: 4 with a symptom, 1 fault without a symptom, "
            "1 change without symptom or fault and 1 of the run's course alone"
        )
        assert "Of those with a symptom, 1 recovered, 1 ended otherwise and of 2 no outcome is told." in text

    def test_a_planned_change_leaves_no_recovery_open(self) -> None:
        assert told(incident(did=["data_change"])) == "1 incident on record: 1 change without symptom or fault."

    def test_what_came_back_is_counted_by_its_outcome_and_the_steps_where_they_are_known(self) -> None:
        text = told(
            incident(saw=["loss_spike"], then=["recurred"], recurred_after=300),
            incident(saw=["loss_spike"], then=["recurred"], recurred_after=1650),
            incident(saw=["loss_spike"], then=["abandoned", "recurred"]),
        )
        assert text.endswith(
            "The trouble came back after 3 incidents: 300 to 1,650 steps later in 2 of them, "
            "how much later in the other 1 is not known."
        )

    @pytest.mark.parametrize(
        ("after", "end"),
        [
            (None, "The trouble came back after 1 incident; how many steps later is not known."),
            (1, "The trouble came back after 1 incident, 1 step later."),
        ],
    )
    def test_a_single_return(self, after: int | None, end: str) -> None:
        assert told(incident(saw=["hang"], then=["recurred"], recurred_after=after)).endswith(end)

    def test_a_return_is_no_recovery_whatever_else_is_told(self) -> None:
        assert "1 ended otherwise" in told(incident(saw=["hang"], then=["recovered", "recurred"]))


class TestLosses:
    def lost(self, *attempts: dict[str, Any]) -> str:
        rows = [{"run": "r", "attempt": number, **attempt} for number, attempt in enumerate(attempts)]
        return losses_in_words(tally_losses(table(ATTEMPT_TYPES, rows)))

    def test_what_is_not_known_is_no_zero(self) -> None:
        """Of four attempts one lost 100 steps, one was thrown away whole, one went on for nobody knows how long."""
        assert self.lost(
            {"start_step": 0, "end_step": 900, "kept_to": 800, "lost_steps": 100},
            {"parent": 0, "start_step": 800, "kept_to": 800},
            {"parent": 1, "start_step": 800, "kept_to": 1200},
            {"parent": 2, "start_step": 1200},
        ) == (
            "at least 100 steps that had been trained were rolled back; 1 more attempt was thrown away whole, of a "
            "length that is not known; how far 1 attempt had come beyond the checkpoint that the next began from is "
            "not known"
        )

    def test_what_is_all_known_is_told_without_reserve(self) -> None:
        assert self.lost(
            {"start_step": 0, "end_step": 900, "kept_to": 800, "lost_steps": 100},
            {"parent": 0, "start_step": 800, "end_step": 1000, "lost_steps": 0},
        ) == ("100 steps that had been trained were rolled back")

    def test_the_last_attempt_has_lost_nothing_yet(self) -> None:
        assert self.lost(
            {"start_step": 0, "end_step": 900, "kept_to": 900, "lost_steps": 0}, {"parent": 0, "start_step": 900}
        ) == ("no step is known to have been trained twice")


class TestDoubts:
    def found(self, *rows: dict[str, Any]) -> Any:
        base = {"run": "r", "source": "a", "locator": "§ 1", "reasons": "because", "readings": ["x", "y"]}
        return doubts(table(FINDING_TYPES, [base | row for row in rows]))

    def test_two_tellings_that_agree_are_one_doubt_with_both_places(self) -> None:
        common = {"check": "clock", "incident": "r/1", "likely": "05-31"}
        [doubt] = self.found(common, common | {"source": "b", "readings": ["x", "z"]})
        assert doubt.places == [("a", "§ 1"), ("b", "§ 1")]
        assert doubt.readings == ["x", "y", "z"]

    def test_two_tellings_that_differ_stay_two(self) -> None:
        common = {"check": "clock", "incident": "r/1"}
        assert len(self.found(common | {"likely": "05-31"}, common | {"source": "b", "likely": "05-30"})) == 2
        assert len(self.found(common, common | {"readings": ["x", "w"]})) == 2
        assert len(self.found(common | {"incident": None, "check": "total"}, common | {"check": "total"})) == 2

    def test_they_are_told_by_sort_and_two_clocks_side_by_side_are_no_wrong_date(self) -> None:
        text = doubts_in_words(
            self.found(
                {"check": "clock", "incident": None, "likely": "both"},
                {"check": "clock", "incident": "r/1", "likely": "05-31"},
                {"check": "clock", "incident": "r/2", "likely": "05-30"},
                {"check": "sources_disagree", "incident": "r/1"},
                {"check": "grad_norm_stale", "incident": None},
            )
        )
        assert text == (
            "2 dates or times, 1 contradiction between sources, 1 difference of clocks and "
            "1 finding of the check “gradient norm stale”"
        )

    def test_the_page_lists_each_once(self) -> None:
        store = scenes.logbook_run()
        store.finding_rows = [{**store.finding_rows[0], "incident": "big-100b/x"}] * 2
        text = page_text(build_report(store, "big-100b"))
        assert text.count("05-03 or 05-31") == 1
        assert "In doubt: 1 date or time." in text


class TestRulesWithoutEnough:
    def store(self) -> FakeStore:
        store = FakeStore({"run": "r"})
        store.add_scalars("loss", "loss", range(1020), [2.0 + 0.001 * (step % 7) for step in range(1020)])
        return store

    def test_no_data_and_too_few_are_told_apart_on_the_first_screen(self) -> None:
        summary = summary_of(self.store(), "r")
        assert summary.sentences[-1] == (
            "Not known: 3 rules had no data (grad-norm-spike, loss-scale-collapse, throughput-drop) and "
            "1 rule had too few data (loss-plateau: 1,020 of 2,000 values)."
        )
        assert summary.figures[-1].remark == "3 without data, 1 with too few"

    def test_and_in_the_table(self) -> None:
        text = page_text(build_report(self.store(), "r", rules=scenes.RULES))
        assert "loss has 1,020 values; 2,000 are needed not checked: too few data (1,020 of 2,000 values)" in text
        assert "no grad norm in the logs not checked: no data" in text

    def test_a_short_history_is_told_beside_what_was_judged(self) -> None:
        store = FakeStore({"run": "r"})
        store.add_scalars("norm", "grad_norm", range(7), [1.0, 1.2, 0.9, 1.1, 14.0, 1.0, 1.1])
        text = page_text(build_report(store, "r", rules=scenes.RULES))
        assert "4 of 7 points, steps 0–6; 4 of them quiet on a short history, which asks for a rise to 16 times" in text


def test_all_flags_of_the_same_gravity_and_step_are_named() -> None:
    store = FakeStore({"run": "r"})
    flag = {"run": "r", "signal": "loss", "step": 720, "severity": "warning", "attempt": 0}
    store.flag_rows = [
        flag | {"rule": "norm-rule", "message": "the norm rose"},
        flag | {"rule": "loss-rule", "message": "the loss rose"},
        flag | {"rule": "later-rule", "message": "later", "step": 721},
    ]
    assert summary_of(store, "r").headline == (
        "No incident on record, but rules fired. First of the gravest: warning flags of “norm-rule” and “loss-rule” "
        "at step 720: the norm rose; the loss rose"
    )


def test_what_was_brought_about_on_purpose_is_said_first() -> None:
    store = scenes.failing_run()
    store.add_event(
        "data_defect", incident="x", step=720, detail={"deliberate": "yes"}, text="Half of the batch is random."
    )
    assert summary_of(store, "small-proxy").sentences[0] == (
        "Brought about on purpose: data defect at step 720: Half of the batch is random."
    )
    assert not any("purpose" in sentence for sentence in summary_of(scenes.failing_run(), "small-proxy").sentences)
