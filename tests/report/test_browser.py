"""The report as a reader meets it: in a browser, without network, clicked and read."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from replay.report import build_report

from . import scenes
from .conftest import PATIENCE_SECONDS, complaints, requests
from .fake_store import FakeStore

Open = Callable[[str], Any]


@cache
def failing() -> str:
    return build_report(scenes.failing_run(), "small-proxy")


@cache
def logbook() -> str:
    return build_report(scenes.logbook_run(), "big-100b")


@pytest.mark.parametrize("page", [failing, logbook])
def test_it_opens_without_a_complaint_and_asks_for_nothing_but_itself(opened: Open, page: Callable[[], str]) -> None:
    browser = opened(page())
    assert complaints(browser) == []
    asked = requests(browser)
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@cache
def never_finite() -> str:
    """A run of which no loss and, where a rule fired, no gradient norm is a finite number."""
    store = scenes.failing_run()
    step = np.arange(1, 400)
    norm = np.where(step > 300, np.inf, 1 + 0.01 * (step % 7))
    store.scalar_frames.clear()
    store.add_scalars("train/loss", "loss", step, np.where(step % 2, np.inf, np.nan))
    store.add_scalars("train/grad_norm", "grad_norm", step, norm)
    return build_report(store, "small-proxy")


def test_a_run_of_infinite_values_is_drawn_without_a_complaint(opened: Open) -> None:
    browser = opened(never_finite())
    assert complaints(browser) == []
    script = "return document.querySelectorAll('[data-chart=loss] svg path').length"
    assert browser.execute_script(script) > 3, "ticks where the values are not finite, and the flags"


@cache
def far_step() -> str:
    """Incidents of one lane each at one moment, one of them at the last step that there can be."""
    store = FakeStore({"run": "far"})
    store.add_event("loss_explosion", step=2**63 - 1, time="2022-06-20 01:10", incident="far/1")
    store.add_event("hang", time="2022-06-20 01:10", incident="far/2")
    return build_report(store, "far")


@cache
def open_attempts() -> str:
    """Attempts of which no length is known, and nothing else."""
    store = FakeStore({"run": "open"})
    store.attempt_rows = [
        {"run": "open", "attempt": 0, "start_step": 100},
        {"run": "open", "attempt": 1, "parent": 0, "start_step": 100},
    ]
    return build_report(store, "open")


@pytest.mark.parametrize("page", [far_step, open_attempts])
def test_layers_without_a_mark_are_left_out_and_nothing_complains(opened: Open, page: Callable[[], str]) -> None:
    """A layer without a mark has an infinite extent, of which Vega warns."""
    browser = opened(page())
    assert complaints(browser) == []
    assert browser.execute_script("return document.querySelectorAll('.chart svg path').length") > 2


def test_every_chart_is_drawn_with_marks(opened: Open) -> None:
    browser = opened(failing())
    drawn = browser.execute_script(
        "return Object.fromEntries(Array.from(document.querySelectorAll('.chart'),"
        " box => [box.dataset.chart, box.querySelectorAll('svg path').length]))"
    )
    assert set(drawn) == {"timeline", "loss", "grad_norm", "learning_rate", "progress", "attempts"}
    assert all(paths > 3 for paths in drawn.values())


def test_what_was_rolled_back_has_the_colour_of_the_theme(opened: Open) -> None:
    """Marks are coloured by the page's CSS variables, so that dark, light and print follow the reader."""
    browser = opened(failing())
    script = (
        "const path = document.querySelector('[data-chart=loss] path[stroke=\"var(--line-lost)\"]');"
        "return path && getComputedStyle(path).stroke"
    )

    def shade(scheme: str) -> str:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        return str(browser.execute_script(script))

    assert shade("light") == "rgb(217, 130, 43)"
    assert shade("dark") == "rgb(240, 160, 75)"
    shade("light")


def test_a_click_unfolds_an_incident_with_its_sources(opened: Open) -> None:
    browser = opened(logbook())
    body = browser.find_element("css selector", "tbody.incident:nth-of-type(5)")
    events = body.find_element("css selector", "tr.events")
    button = body.find_element("css selector", "button.unfold")
    assert not events.is_displayed()
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert events.is_displayed()
    assert button.get_attribute("aria-expanded") == "true"
    assert "embedding gradient scale 0.1 → 0.05" in events.text
    assert "from step 33,740 back to 33,600" in events.text
    assert "§ 06-03" in events.text


def test_filtering_by_kind_and_text_counts_what_is_left(opened: Open) -> None:
    from selenium.webdriver.support.ui import Select

    browser = opened(logbook())
    Select(browser.find_element("id", "incident-kind")).select_by_value("loss explosion")
    shown = [row for row in browser.find_elements("css selector", "tbody.incident") if row.is_displayed()]
    assert len(shown) == 3
    assert browser.find_element("id", "incident-count").text == "3 of 7"
    browser.find_element("id", "incident-text").send_keys("recurred")
    assert browser.find_element("id", "incident-count").text == "1 of 7"


def test_clicking_a_mark_of_the_timeline_opens_its_incident(opened: Open) -> None:
    browser = opened(logbook())
    mark = browser.find_elements("css selector", "[data-chart=timeline] .mark-symbol path")[4]
    browser.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", mark)
    assert len(browser.find_elements("css selector", "tbody.incident.open")) == 1


def test_all_charts_over_steps_follow_the_range_that_is_asked_for(opened: Open) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    browser = opened(failing())
    browser.find_element("id", "range-first").send_keys("2900")
    browser.find_element("id", "range-last").send_keys("3100")
    browser.find_element("css selector", "#range button[type=submit]").click()
    labels = (
        "return Array.from(document.querySelectorAll('.chart[data-zooms]'), box =>"
        " Array.from(box.querySelectorAll('.role-axis-label text'), text => text.textContent)"
        ".filter(text => text === '3,000' || text === '6,000'))"
    )
    shown = WebDriverWait(browser, PATIENCE_SECONDS).until(
        lambda driver: (found := driver.execute_script(labels)) and all(one == ["3,000"] for one in found) and found
    )
    assert len(shown) > 1


def test_a_name_tag_or_text_with_markup_shows_as_text_and_runs_nothing(opened: Open) -> None:
    """What a log says is shown, in tables, charts and headings alike, and never becomes part of the page."""
    evil = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    store = scenes.failing_run()
    store.run |= {"run": evil, "title": f"title {evil}", "hardware": evil, "sources": [evil]}
    store.scalar_frames = {
        (f"{tag} {evil}", signal): frame.assign(tag=f"{tag} {evil}")
        for (tag, signal), frame in store.scalar_frames.items()
    }
    for rows in (store.event_rows, store.flag_rows, store.problem_rows, store.ledger_rows, store.effect_rows):
        for row in rows:
            row.update({key: evil for key in ("run", "text", "message", "source", "note", "locator") if key in row})
    store.add_event("crash", incident=evil, step=3100, text=evil, detail={evil: evil})
    store.finding_rows = [
        {
            "run": evil,
            "check": evil,
            "source": evil,
            "locator": evil,
            "readings": [evil],
            "likely": evil,
            "reasons": evil,
        }
    ]
    browser = opened(build_report(store, evil))
    assert browser.execute_script("return window.hacked") is None
    assert complaints(browser) == []
    assert browser.execute_script("return document.images.length") == 0
    assert browser.execute_script("return document.scripts.length") == 3
    assert browser.find_element("css selector", "h1").text == f"title {evil}"
    assert browser.execute_script("return document.title") == f"title {evil}: what happened"
    assert evil in browser.find_element("css selector", "#checks").text


def test_headings_table_heads_and_charts_can_be_read_without_seeing(opened: Open) -> None:
    browser = opened(failing())
    levels = browser.execute_script("return Array.from(document.querySelectorAll('h1,h2,h3'), h => +h.tagName[1])")
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
    assert browser.execute_script("return document.querySelectorAll('th:not([scope])').length") == 0
    assert browser.execute_script("return document.querySelectorAll('table:not(:has(caption))').length") == 0
    unlabelled = "return document.querySelectorAll('.chart:not([role][aria-label])').length"
    assert browser.execute_script(unlabelled) == 0
    nameless = (
        "return Array.from(document.querySelectorAll('input, select'),"
        " field => field.labels.length).filter(n => !n).length"
    )
    assert browser.execute_script(nameless) == 0


def test_a_narrow_screen_needs_no_sideways_scrolling(opened: Open) -> None:
    browser = opened(failing())
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser = opened(failing())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_print_shows_what_a_click_would_unfold(opened: Open) -> None:
    browser = opened(logbook())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert all(row.is_displayed() for row in browser.find_elements("css selector", "tr.events"))
        assert not browser.find_element("id", "incident-text").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
