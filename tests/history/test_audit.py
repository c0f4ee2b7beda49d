"""The audit on a small book of our own, on the public notes, on a store and at the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from replay.history.audit import AuditReport, audit_files, audit_records, audit_run, findings_frame
from replay.history.audit.slips import number_slips
from replay.history.audit.totals import percent_follows
from replay.store import EventStore
from replay_parsers import read
from replay_parsers.records import Finding

BOOK = """
run:
  name: small
  clock: Asia/Tokyo
  seconds_per_step: 60
  batch_schedule: [{from_step: 0, samples: 100}]
  sources: {log: A log of our own}
incidents:
"""


def entry(at: str, *events: str, role: str = "lifecycle") -> str:
    return f"  - at: {at}\n    locator: § {at}\n    {role}:\n" + "".join(f"      - {one}\n" for one in events)


def restart(step: int, launch: str = "") -> str:
    name = f", detail: {{run_name: job-{launch}}}, at: {launch.replace('.', '-')[:10]}T{launch[11:]}Z" if launch else ""
    return f"{{kind: restart, step: {step}{name}}}"


def report_of(folder: Path, text: str) -> AuditReport:
    path = folder / "small.yaml"
    path.write_text(BOOK + text)
    reports, problems = audit_files([path])
    assert problems == []
    return reports[0]


def found(report: AuditReport, check: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.check == check]


SOUND = "".join(entry(f"2024-05-{day:02} 10:00", restart(1300 * (day - 1))) for day in range(1, 9))


def test_a_sound_book_gives_no_finding_and_says_what_was_compared(tmp_path: Path) -> None:
    report = report_of(tmp_path, SOUND)
    assert report.findings == []
    assert report.compared["order of dates"] == 8
    assert report.compared["steps against the clock"] == 7
    assert "dates against launches" not in report.compared


def test_a_date_out_of_order_is_found_with_the_date_that_one_digit_gives(tmp_path: Path) -> None:
    (finding,) = report_of(tmp_path, SOUND.replace("2024-05-04", "2024-05-24")).findings
    assert finding.check == "date_order"
    assert finding.incident == "small/2024-05-24T10:00"
    assert finding.likely == "2024-05-04 10:00"


def test_a_step_out_of_reach_is_found_with_the_step_that_was_due(tmp_path: Path) -> None:
    (finding,) = report_of(tmp_path, SOUND.replace("step: 5200", "step: 2500")).findings
    assert finding.check == "step_against_clock"
    assert finding.incident == "small/2024-05-05T10:00"
    # 5200 is due; 2500 is one exchange of digits and one slip away, so that the clock alone tells it.
    assert "4940" in finding.readings[1] or "5" in (finding.likely or "")


def test_a_launch_a_day_after_its_heading_makes_the_heading_doubtful(tmp_path: Path) -> None:
    days = "".join(
        entry(f"2024-05-{day:02} 10:00", restart(1300 * (day - 1), f"2024.05.{day:02}-01:{day:02}:07"))
        for day in range(1, 9)
    )
    report = report_of(tmp_path, days.replace("at: 2024-05-06 10:00", "at: 2024-05-05 09:50"))
    (finding,) = found(report, "clock")[1:]
    assert finding.likely == "2024-05-06 09:50"
    clocks = found(report, "clock")[0]
    assert clocks.readings == ("headings: UTC+9", "launch names: UTC")


def test_a_rollback_to_after_the_damage(tmp_path: Path) -> None:
    text = entry("2024-05-01 10:00", "{kind: loss_spike, step: 900}", role="seen")
    text += "    done:\n      - {kind: rollback, step: 1800}\n"
    (finding,) = report_of(tmp_path, text).findings
    assert finding.check == "rollback_after_symptom"
    assert finding.likely == "800"


def test_an_option_against_the_words_and_a_range_that_skips_nothing(tmp_path: Path) -> None:
    text = entry("2024-05-01 10:00", "{kind: loss_spike, step: 900}", role="seen")
    text += (
        "    done:\n      - {kind: rollback, step: 800}\n"
        "      - {kind: skip_batches, step: 801, step_end: 1000, detail: {flag: --skip 301-500}}\n"
    )
    (finding,) = report_of(tmp_path, text).findings
    assert (finding.check, finding.likely) == ("flag_against_prose", "steps 801 to 1000")
    nothing = report_of(tmp_path, text.replace("step: 801, step_end: 1000", "step: 301, step_end: 500")).findings
    assert [finding.check for finding in nothing] == ["skip_range"]


def test_samples_are_steps_times_the_batch(tmp_path: Path) -> None:
    change = "{kind: lr_rewarm, step: 500, step_end: 1000, detail: {steps: '500', samples: '50000'}}"
    assert report_of(tmp_path, entry("2024-05-01", change, role="done")).findings == []
    (finding,) = report_of(tmp_path, entry("2024-05-01", change.replace("50000", "60000"), role="done")).findings
    assert finding.check == "length"


def test_percentages_are_compared_at_the_digits_they_print() -> None:
    assert percent_follows(6, 419, "1.4")
    assert percent_follows(2, 3, "67")
    assert percent_follows(2, 3, "66")  # cut rather than rounded
    assert not percent_follows(148, 419, "30.1")


def test_slips_are_symmetric_for_exchanged_digits() -> None:
    assert 23100 in number_slips(32100)
    assert 32100 in number_slips(23100)
    assert 23100 not in number_slips(23100)


def test_an_impossible_date_is_a_finding_and_the_rest_is_audited(tmp_path: Path) -> None:
    text = SOUND.replace("at: 2024-05-08 10:00", "at: 2024-02-30 10:00\n    likely: {at: 2024-05-08, because: x}")
    findings = report_of(tmp_path, text).findings
    assert {finding.incident for finding in findings} == {"small/2024-02-30T10:00"}


def test_what_the_curator_noted_and_the_audit_confirms_is_told_once(tmp_path: Path) -> None:
    noted = SOUND.replace("at: 2024-05-04 10:00", "at: 2024-05-24 10:00\n    likely: {at: 2024-05-04, because: order}")
    report = report_of(tmp_path, noted)
    (one,) = report.found
    assert one.by == "both"
    assert "order" in one.finding.reasons


def test_a_file_that_nothing_reads_is_a_problem_and_the_others_are_audited(tmp_path: Path) -> None:
    (tmp_path / "noise.bin").write_bytes(b"\x00\x01noise" * 50)
    (tmp_path / "small.yaml").write_text(BOOK + SOUND)
    reports, problems = audit_files([tmp_path / "noise.bin", tmp_path / "small.yaml", tmp_path / "absent.md"])
    assert [report.run for report in reports] == ["small"]
    assert [Path(problem.source).name for problem in problems] == ["noise.bin", "absent.md"]


# The public notes


def alone(path: Path) -> list[Finding]:
    """What the audit finds in one file when nobody has told it anything."""
    records = replace(read(path), findings=())
    (report,) = audit_records([records], {records.source: path.read_text()})
    return report.findings


@pytest.mark.parametrize("name", ["main-log-en.md", "main-log.md"])
def test_glm_130b_notes(upstream: Path, name: str) -> None:
    findings = {(finding.incident, finding.check): finding for finding in alone(upstream / "glm-130b" / name)}

    def likely(printed: str, check: str) -> str | None:
        return findings["glm-130b/" + printed, check].likely

    assert likely("2022-05-03T20:00", "date_order") == "2022-05-31 20:00"
    assert likely("2022-06-02T09:30", "clock") == "2022-06-03 09:30"
    assert likely("2022-06-02T15:00", "clock") == "2022-06-03 15:00"
    assert likely("2022-06-09T13:30", "step_against_clock") == "about 31000"
    assert likely("2022-06-22T10:40", "flag_against_prose") == "steps 42401 to 42600"
    assert findings[None, "clock"].readings == ("headings: UTC+8", "launch names: UTC")
    # The first 4,000 steps were faster than the stated pace: true, and nobody's slip.
    assert len(findings) == 6


def test_the_two_languages_of_glm_130b_are_compared(upstream: Path) -> None:
    reports, problems = audit_files(sorted((upstream / "glm-130b").glob("*.md")))
    assert problems == []
    (finding,) = found(reports[0], "sources_disagree")
    assert finding.incident == "glm-130b/2022-06-09T13:30"
    assert finding.readings == ("main-log-en.md: crash", "main-log.md: hang")


def test_percentages_of_llama_3(root: Path) -> None:
    findings = alone(root / "logbooks" / "llama3-405b.yaml")
    assert {finding.likely for finding in findings} == {"35.3%", "64.0%"}
    assert {finding.check for finding in findings} == {"total"}


# A store and the command line


def test_a_stored_run_is_audited_like_its_files(builtin: EventStore, root: Path) -> None:
    stored = findings_frame([audit_run(builtin, "glm-130b")])
    reports, _ = audit_files(sorted((root / "logbooks").glob("glm-130b*.yaml")))
    files = findings_frame(reports)
    assert list(stored["likely"].fillna("")) == list(files["likely"].fillna(""))
    assert set(stored["found_by"]) == {"both", "source"}
    assert list(stored.columns) == [*builtin.findings().columns, "found_by"]


def test_a_run_without_logbook_has_an_empty_report_with_its_columns(builtin: EventStore) -> None:
    frame = findings_frame([audit_run(builtin, "unknown")])
    assert frame.empty
    assert list(frame.columns) == [*builtin.findings().columns, "found_by"]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    call = "from replay.cli.history import audit_command as c; c(prog_name='audit')"
    return subprocess.run(
        [sys.executable, "-c", call, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_command_prints_readings_likely_value_and_reasons(root: Path, tmp_path: Path) -> None:
    done = command(root / "logbooks" / "llama3-405b.yaml", "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    for words in ("148 of 419: 35.3%", "likely   35.3%", "because", "checked      percentages", "not checked"):
        assert words in done.stdout


def test_the_command_answers_programs_and_tells_unreadable_files(root: Path, tmp_path: Path) -> None:
    done = command(root / "logbooks" / "llama3-405b.yaml", tmp_path, "--json", "--store", tmp_path / "store")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert answer["runs"][0]["findings"][0]["check"] == "total"
    assert "could not read" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_run_is_wrong_usage(tmp_path: Path) -> None:
    done = command("nosuch", "--store", tmp_path / "store")
    assert done.returncode == 2
    assert "no run 'nosuch'" in done.stderr
