"""The report on what the real store answers: the built-in logbooks, and logs that others wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.report import build_report
from replay.store import EventStore

from .conftest import complaints
from .test_build import page_text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EventStore:
    store = replay.open(tmp_path_factory.mktemp("report") / "store")
    store.ingest_builtin()
    return store


def test_glm_130b_is_told_by_its_explosions(store: EventStore, opened: Callable[[str], Any]) -> None:
    browser = opened(build_report(store, "glm-130b"))
    assert complaints(browser) == []
    assert "Gravest incident: loss explosion" in browser.find_element("css selector", ".headline").text
    rows = browser.find_elements("css selector", "tbody.incident")
    assert len(rows) == len(store.incidents(run="glm-130b"))
    explosions = [row for row in rows if "loss explosion" in (row.get_attribute("data-kinds") or "")]
    assert len(explosions) == 3
    explosions[0].find_element("css selector", ".unfold").click()
    assert "33,740" in explosions[0].text
    assert "33,600" in explosions[0].text


@pytest.mark.parametrize("run", ["bloom-176b", "llama3-405b", "palm-540b"])
def test_a_logbook_makes_a_page_that_repeats_byte_for_byte(store: EventStore, run: str) -> None:
    page = build_report(store, run)
    assert build_report(store, run) == page
    assert page.count('<tbody class="incident"') == len(store.incidents(run=run)) > 0


def test_a_megatron_log_shows_the_loss_that_is_missing(shared: Path, tmp_path: Path) -> None:
    store = replay.open(tmp_path / "store")
    store.ingest([shared / "real/trainers/megatron-deepspeed/tr8_8738.log"], run="tr8")
    text = page_text(build_report(store, "tr8"))
    assert "The loss ends as NaN at step 9,027" in text
    assert "loss-not-finite" in text
    assert "not understood: 3" in text
