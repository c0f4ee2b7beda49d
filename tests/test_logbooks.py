"""The built-in logbooks: sound, complete, in our own words, and traceable to their sources."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from replay.builtin import builtin_logbooks
from replay_parsers import timeline_fields
from replay_parsers.parser import Request
from replay_parsers.records import Event, EventKind, Records, Role
from replay_parsers.timeline import PARSER

LOGBOOKS = builtin_logbooks()

# The sources whose text is beside the checkout, by the title under which logbooks cite them.
UPSTREAM = {
    "THUDM/GLM-130B logs/main-log-en.md": "glm-130b/main-log-en.md",
    "THUDM/GLM-130B logs/main-log.md": "glm-130b/main-log.md",
    "bigscience-workshop/bigscience train/tr11-176B-ml/chronicles.md": "bloom/tr11-176B-ml_chronicles.md",
    "bigscience-workshop/bigscience train/tr11-176B-ml/chronicles-prequel.md": (
        "bloom/tr11-176B-ml_chronicles-prequel.md"
    ),
    "bigscience-workshop/bigscience train/tr8-104B-wide/chronicles.md": "bloom/tr8-104B-wide_chronicles.md",
    "bigscience-workshop/bigscience train/tr8b-104B/chronicles.md": "bloom/tr8b-104B_chronicles.md",
    "bigscience-workshop/bigscience train/tr1-13B-base/chronicles.md": "bloom/tr1-13B-base_chronicles.md",
    "bigscience-workshop/bigscience train/lessons-learned.md": "bloom/lessons-learned.md",
    "facebookresearch/metaseq projects/OPT/chronicles/10_percent_update.md": "opt-175b/10_percent_update.md",
    "facebookresearch/metaseq projects/OPT/chronicles/27_percent_update.md": "opt-175b/27_percent_update.md",
    "facebookresearch/metaseq projects/OPT/chronicles/56_percent_update.md": "opt-175b/56_percent_update.md",
    "facebookresearch/metaseq projects/OPT/chronicles/final_update.md": "opt-175b/final_update.md",
}


@cache
def logbook(name: str) -> Records:
    """A built-in logbook, read once."""
    (records,) = PARSER.read(Request(path=LOGBOOKS[name], source=name, run="unnamed"))
    return records


def events(run: str, incident: str | None = None, kind: EventKind | None = None) -> list[Event]:
    """Events of a run's logbook, of one incident and kind if given."""
    return [
        event
        for event in logbook(f"logbooks/{run}.yaml").events
        if (incident is None or event.incident == f"{run}/{incident}") and (kind is None or event.kind is kind)
    ]


def one(run: str, incident: str, kind: EventKind) -> Event:
    """The only event of a kind in an incident."""
    (event,) = events(run, incident, kind)
    return event


def upstream(shared: Path, title: str) -> str:
    """A source's text, without the control characters that one of them holds."""
    text = (shared / "upstream" / UPSTREAM[title]).read_text(encoding="utf-8")
    return re.sub(r"[\x00-\x08\x0b-\x1f]", "", text)


def headings(text: str) -> set[str]:
    """The headings of a markdown page as printed."""
    return {found.strip() for found in re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)}


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


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


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


# --- GLM-130B


def dated(text: str) -> list[str]:
    return [heading for heading in headings(text) if re.match(r"20\d\d", heading)]


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
