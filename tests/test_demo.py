"""What the demonstration tells of its run: how it was set up, that it was made to fail, what came of what was done."""

from __future__ import annotations

from pathlib import Path

import pytest

import replay
from replay.demo_logbook import Intervention, Telemetry, write_logbook
from replay.report import build_report
from replay.store import EventStore

RUN = "proxy-demo-test"
DONE = Intervention(reached=140, back_to=100, skipped=60, noticed_at=1_700_000_000.0, ended_at=1_700_000_060.0)


def ingested(folder: Path, telemetry: Telemetry) -> EventStore:
    """A store with the logbook alone that is written of ``telemetry``, read without a problem."""
    from replay.proxy import failures

    folder.mkdir()
    write_logbook(folder, RUN, "data-and-state", failures.get("data-and-state").case(1).config, telemetry, DONE)
    store = replay.open(folder / "store")
    report = store.ingest([folder / "logbook.yaml"])
    assert report.exit_code == 0, [source.problems for source in report.sources]
    return store


def telemetry(after: list[float]) -> Telemetry:
    """A loss of 2 that stands at 6 from step 120 to 140, then is put back to step 100 and goes on with ``after``."""
    told = Telemetry()
    for step in range(1, 141):
        told.add(0, step, {"loss": 2.0 + 0.001 * (step % 5) if step < 120 else 6.0, "unknown": 1.0})
    for step, loss in enumerate(after, start=101):
        told.add(1, step, {"loss": loss})
    return told


def test_the_logbook_tells_that_the_failure_was_put_in_and_how_the_run_was_set_up(tmp_path: Path) -> None:
    store = ingested(tmp_path / "x", telemetry([2.0] * 80))
    [incident] = store.incidents(run=RUN).to_dict("records")
    assert (incident["saw"], incident["cause"]) == (["loss_spike"], ["data_defect"])
    assert (incident["did"], incident["then"]) == (["rollback", "skip_batches"], ["recovered"])
    [run] = store.runs().to_dict("records")
    assert run["batch"] == "32 sequences of 16 tokens (copy task)"
    assert run["metadata"]["optimizer.beta2"] == "0.999"
    page = build_report(store, RUN)
    assert "Brought about on purpose: data defect at step 720: 50% of the sequences of batch 720 are random." in page
    assert "Proxy transformer, made to fail on purpose" in page


def test_a_symptom_is_what_the_rules_say_and_so_is_its_absence(tmp_path: Path) -> None:
    quiet = Telemetry()
    for step in range(1, 141):
        quiet.add(0, step, {"loss": 2.0})
    for step in range(101, 181):
        quiet.add(1, step, {"loss": 2.0})
    [incident] = ingested(tmp_path / "x", quiet).incidents(run=RUN).to_dict("records")
    assert incident["saw"] == []
    seen = ingested(tmp_path / "y", telemetry([2.0] * 80)).events(run=RUN, role="symptom")
    [symptom] = seen.to_dict("records")
    assert (symptom["step"], symptom["step_end"], symptom["after"], symptom["evidence"]) == (120, 140, 6.0, "derived")


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ([2.0] * 40 + [6.0] * 40, "recurred"),
        ([2.0 * 1.0012**step for step in range(270)], "not_stated"),
        ([2.1] * 80, "recovered"),
    ],
)
def test_the_outcome_is_what_the_loss_shows_afterwards(tmp_path: Path, after: list[float], outcome: str) -> None:
    [incident] = ingested(tmp_path / "x", telemetry(after)).incidents(run=RUN).to_dict("records")
    assert incident["then"] == [outcome]


def test_the_failing_run_leaves_event_files_and_a_logbook_that_agree(tmp_path: Path) -> None:
    from replay.demo import train_failing_run

    folder = train_failing_run(tmp_path / RUN)
    store = replay.open(tmp_path / "store")
    assert store.ingest([folder], run=RUN).exit_code == 0
    assert list(store.attempts(RUN)["lost_steps"]) == [140, 0]
    rollbacks = store.events(run=RUN, kind="rollback")
    assert list(rollbacks["evidence"]) == ["logged"], "told once, by what did it"
    [incident] = store.incidents(run=RUN).to_dict("records")
    assert "loss_spike" in incident["saw"]
    assert incident["then"] == ["recovered"]
