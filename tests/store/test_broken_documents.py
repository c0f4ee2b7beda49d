"""A document that is read again while it is half-written or broken does not take away what was stored of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import toy

from replay.store import EventStore

INCIDENT = """\
  - at: 2022-06-{day} 09:10
    locator: § Spike
    seen:
      - {{kind: loss_spike, step: {step}}}
"""
RUN = """\
run:
  name: r
  clock: UTC
  sources:
    log: {title: The log, url: "https://example.org/log"}
incidents:
"""
TIMELINE = RUN + "".join(INCIDENT.format(day=day, step=day * 10) for day in (20, 21, 22))
HISTORY = json.dumps({"log_history": [{"loss": 1.0 / step, "step": step} for step in range(1, 40)], "global_step": 39})


def stored(store: EventStore) -> tuple[int, int]:
    """How many events the sources tell, and how many scalars of run ``state``."""
    return len(store.events(derived=False)), len(store.scalars("state"))


@pytest.mark.parametrize(
    ("name", "whole", "broken"),
    [
        ("state/trainer_state.json", HISTORY, HISTORY[: len(HISTORY) // 2]),
        ("state/trainer_state.json", HISTORY, HISTORY[:40]),
        ("state/trainer_state.json", HISTORY, '{"log_history": []}'),
        ("r.yaml", TIMELINE, TIMELINE[: TIMELINE.index("step: 220")] + "step: [220"),
        ("r.yaml", TIMELINE, TIMELINE.replace("  - at: 2022-06-21", "  - }at: 2022-06-21")),
        ("r.yaml", TIMELINE, RUN.replace("incidents:", "incidents: []")),
        ("r.yaml", TIMELINE, RUN),
    ],
)
def test_what_was_stored_is_kept_and_the_failure_told(
    store: EventStore, tmp_path: Path, name: str, whole: str, broken: str
) -> None:
    path = tmp_path / "in" / name
    path.parent.mkdir(parents=True)
    path.write_text(whole)
    assert store.ingest([tmp_path / "in"]).exit_code == 0
    before, files = stored(store), toy.snapshot(store.folder)
    assert sum(before) >= 3
    path.write_text(broken)
    for _ in range(2):
        report = store.ingest([tmp_path / "in"])
        assert (report.sources[0].status, report.exit_code) == ("failed", 1)
        assert "what was stored" in report.sources[0].reason
        assert "kept" in report.sources[0].reason
        assert stored(store) == before
        assert toy.snapshot(store.folder) == files, "nothing of the broken reading is left behind"
    path.write_text(whole)
    assert store.ingest([tmp_path / "in"]).exit_code == 0
    assert stored(store) == before


def test_faults_of_single_incidents_do_replace(store: EventStore, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(TIMELINE)
    store.ingest([path])
    path.write_text(TIMELINE.replace("loss_spike, step: 220", "no_such_kind, step: 220"))
    report = store.ingest([path])
    assert (report.sources[0].status, report.exit_code) == ("replaced", 1)
    assert list(store.events(derived=False)["step"]) == [200, 210]


def test_a_broken_document_that_tells_more_than_before_replaces(store: EventStore, tmp_path: Path) -> None:
    path = tmp_path / "state" / "trainer_state.json"
    path.parent.mkdir()
    path.write_text(HISTORY[: len(HISTORY) // 2])
    store.ingest([path])
    few = stored(store)[1]
    path.write_text(HISTORY[: len(HISTORY) * 3 // 4])
    assert store.ingest([path]).sources[0].status == "replaced"
    assert stored(store)[1] > few


def test_a_document_that_the_parser_fails_in_does_not_replace(store: EventStore, logs: Path) -> None:
    path = logs / "book.json"
    hangs = [{"event": f"x/{number}", "kind": "hang"} for number in range(4)]
    path.write_text(toy.document(*hangs, run="x", piece=1))
    store.ingest([path])
    path.write_text(toy.document(*hangs[:2], {"raise": "OSError", "message": "gone"}, run="x", piece=1))
    assert store.ingest([path]).sources[0].status == "failed"
    assert len(store.events(run="x")) == 4
