"""Sources that can be opened, and evidence that is no better than its weakest part."""

from __future__ import annotations

import re

import pytest

from replay.report import build_report
from replay.report.links import Links, is_web_address
from replay.report.reading import read_run
from replay.report.tables import incident_rows

from . import scenes
from .test_build import page_text


def hrefs(html: str) -> list[str]:
    without_scripts = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    return re.findall(r'<a href="([^#"][^"]*)"', without_scripts)


def test_a_source_whose_address_the_logbook_gives_is_a_link() -> None:
    store = scenes.logbook_run()
    store.run["metadata"] = {"url of log.md": "https://example.org/a?b=1&c=2", "layers": "70"}
    html = build_report(store, "big-100b")
    assert set(hrefs(html)) == {"https://example.org/a?b=1&amp;c=2"}
    assert 'rel="noopener noreferrer"' in html
    assert "Configuration (1) layers 70" in page_text(html)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//example.org/x",
        "https://",
        "https://exa mple.org",
        "https://example.org/\u202etxt",
        "https://[::1",
        "JaVaScRiPt:alert(1)",
    ],
)
def test_nothing_but_a_web_address_is_linked(url: str) -> None:
    assert not is_web_address(url)
    assert Links({"metadata": {"url of a": url}})("a").url == ""


def test_an_address_cannot_leave_its_attribute() -> None:
    store = scenes.logbook_run()
    store.run["metadata"] = {"url of log.md": 'https://example.org/"onmouseover=alert(1)'}
    assert set(hrefs(build_report(store, "big-100b"))) == {"https://example.org/&#34;onmouseover=alert(1)"}


def test_each_of_an_incidents_sources_is_linked_by_itself() -> None:
    links = Links({"metadata": {"url of b": "https://example.org/b"}})
    assert [(link.name, link.url) for link in links.each("a; b")] == [("a", ""), ("b", "https://example.org/b")]


def test_an_outcome_that_replay_computed_shows_in_the_evidence_of_its_incident() -> None:
    store = scenes.logbook_run()
    outcome = next(row for row in store.event_rows if row["kind"] == "recovered")
    outcome["evidence"] = "derived"
    rows = incident_rows(read_run(store, "big-100b"))
    assert [row.evidence for row in rows[:2]] == [["stated", "derived"], ["stated"]]
