"""The built-in logbooks: sound, documented, in our own words, and traceable to their sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logbook_reading import LOGBOOKS, UPSTREAM, headings, logbook, numbers, section, upstream, words
from replay_parsers import timeline_fields
from replay_parsers.parser import Request
from replay_parsers.timeline import PARSER

# --- The format


def readme_example(root: Path) -> str:
    readme = (root / "logbooks" / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```yaml\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_example_in_the_readme_is_sound_and_says_what_it_shows(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(readme_example(root), encoding="utf-8")
    (records,) = PARSER.read(Request(path=path, source="README example", run="unnamed"))
    assert records.problems == ()
    assert [event.kind for event in records.events] == [
        "loss_spike",
        "data_defect",
        "rollback",
        "skip_batches",
        "recurred",
        "maintenance",
    ]
    assert [finding.check for finding in records.findings] == ["clock", "sources_disagree", "clock"]


TABLES = {name: table for name, table in vars(timeline_fields).items() if name.endswith("_FIELDS")}


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_field_that_the_parser_knows_is_documented_and_shown(root: Path, table: str) -> None:
    readme = (root / "logbooks" / "README.md").read_text(encoding="utf-8")
    fields = readme[readme.index("## Fields") : readme.index("## Conventions")]
    example = readme_example(root)
    for name in TABLES[table]:
        assert f"`{name}`" in fields, f"{name} of {table} is not documented"
        assert re.search(rf"\b{name}:", example), f"{name} of {table} is not in the example"


def test_no_field_is_documented_that_the_parser_does_not_know(root: Path) -> None:
    readme = (root / "logbooks" / "README.md").read_text(encoding="utf-8")
    fields = readme[readme.index("## Fields") : readme.index("## Conventions")]
    known = {name for table in TABLES.values() for name in table}
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", fields, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented
    assert documented <= known


# --- Every logbook


@pytest.mark.parametrize("name", LOGBOOKS)
def test_a_logbook_is_sound_and_about_the_run_it_is_named_after(name: str) -> None:
    records = logbook(name)
    assert [str(problem) for problem in records.problems] == []
    assert records.run is not None
    assert name.removeprefix("logbooks/").split(".")[0] == records.run.run
    assert records.events


@pytest.mark.parametrize("name", LOGBOOKS)
def test_every_event_says_what_happened_in_a_line_and_where_that_is_written(name: str) -> None:
    records = logbook(name)
    assert records.run is not None
    for event in records.events:
        assert event.text, event.event
        assert len(event.text) < 260, event.event
        assert event.source in records.run.sources, event.event
        assert event.locator, event.event
    assert len({event.event for event in records.events}) == len(records.events)


@pytest.mark.parametrize("name", LOGBOOKS)
def test_findings_name_both_readings_and_their_reasons(name: str) -> None:
    for finding in logbook(name).findings:
        assert len(set(finding.readings)) >= 2
        assert finding.reasons
        assert finding.locator


@pytest.mark.parametrize("name", LOGBOOKS)
def test_locators_exist_in_the_sources(name: str, shared: Path) -> None:
    records = logbook(name)
    for item in (*records.events, *records.findings):
        if item.source in UPSTREAM:
            section = item.locator.removeprefix("§ ")
            assert section in headings(upstream(shared, item.source)), f"{item.source} has no heading {section!r}"


@pytest.mark.parametrize("name", LOGBOOKS)
def test_the_words_are_our_own(name: str, shared: Path) -> None:
    longest = 7
    theirs: set[tuple[str, ...]] = set()
    for file in sorted((shared / "upstream").rglob("*.md")):
        page = words(file.read_text(encoding="utf-8", errors="replace"))
        theirs.update(zip(*(page[start:] for start in range(longest)), strict=False))
    for event in logbook(name).events:
        ours = words(event.text)
        for start in range(len(ours) - longest + 1):
            assert tuple(ours[start : start + longest]) not in theirs, f"{event.event}: {event.text}"


# Values before a change that another section, or the readme, tells.
TOLD_ELSEWHERE = {
    "bigscience-104b/experiment-8/lr_change before 6e-05",
    "bigscience-104b/experiment-8/lr_schedule_change before 216320",
    "bigscience-104b/experiment-9/lr_schedule_change before 300000",
    "bigscience-104b/bnb-experiment-6/lr_schedule_change before 6e-06",
    "bigscience-13b/round2-save-interval-18/checkpoint_interval_change before 10",
    "bigscience-13b/round3-save-interval-1500-nnodes-16/checkpoint_interval_change before 18",
    "bigscience-13b/round3-save-interval-1500-nnodes-64/topology_change before 32",
    "bloom-176b/2022-03-21/checkpoint_interval_change before 250",
    "bloom-176b/2022-03-22/checkpoint_interval_change before 200",
}


@pytest.mark.parametrize("name", LOGBOOKS)
def test_values_and_steps_stand_in_the_section_that_is_cited(name: str, shared: Path) -> None:
    missing = set()
    for event in logbook(name).events:
        if event.source not in UPSTREAM or event.evidence not in ("logged", "stated"):
            continue
        known = numbers(section(upstream(shared, event.source), event.locator.removeprefix("§ ")))
        for field in ("step", "before", "after", "lost_hours"):
            value = getattr(event, field)
            if value and field not in event.detail.get("approximate", "") and value not in known:
                missing.add(f"{event.event} {field} {value:g}")
    assert missing == {told for told in TOLD_ELSEWHERE if told.startswith(name.removeprefix("logbooks/").split(".")[0])}


def test_the_readme_lists_every_logbook(root: Path) -> None:
    readme = (root / "logbooks" / "README.md").read_text(encoding="utf-8")
    for name in LOGBOOKS:
        assert f"`{Path(name).name.removesuffix('.yaml')}`" in readme


def test_every_parameter_that_a_logbook_changes_is_in_the_table_of_the_readme(root: Path) -> None:
    readme = (root / "logbooks" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^ +\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", readme, re.MULTILINE)
    table: dict[str, set[str]] = {}
    for kinds, fields in rows:
        for kind in re.findall(r"`(\w+)`", kinds):
            table[kind] = set(re.findall(r"`([\w.]+)`", fields))
    assert table["init_change"] == {"init_std", "init_coefficient"}
    changed = {
        (str(event.kind), event.field)
        for name in LOGBOOKS
        for event in logbook(name).events
        if event.field and str(event.role) == "intervention"
    }
    assert not {(kind, field) for kind, field in changed if field not in table.get(kind, set())}
