"""docs/querying.md as it stands there: every question is run, and prints what the page says it prints."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from replay.store import EventStore

SETUP = 'import replay\nstore = replay.open("replay-store")\n'
TOOLS = ("duckdb", "polars", "dask")


@dataclass(frozen=True)
class Question:
    """A heading of the page, its lines of Python, and what the page says they print."""

    title: str
    code: str
    printed: str

    @property
    def lines(self) -> list[str]:
        """The lines of code, without those left blank below imports."""
        return [line for line in self.code.splitlines() if line]


def questions() -> list[Question]:
    text = (Path(__file__).parents[2] / "docs" / "querying.md").read_text(encoding="utf-8")
    found, title = [], ""
    for match in re.finditer(
        r"^#+ (?P<title>[^\n]*)$|^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```)?",
        text,
        re.MULTILINE | re.DOTALL,
    ):
        if match["title"]:
            title = match["title"]
        else:
            found.append(Question(title, match["code"], match["printed"] or ""))
    return found


ASKED = [one for one in questions() if one.printed]


def run(code: str, folder: Path, names: dict[str, Any]) -> str:
    """What ``code`` prints, without the blanks at the ends of lines."""
    script = folder / "question.py"
    script.write_text(code, encoding="utf-8")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        names.update(runpy.run_path(str(script), init_globals=names))
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


@pytest.fixture
def folder(builtin: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the store lies where the page has it."""
    (tmp_path / "replay-store").symlink_to(builtin.folder, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_ten_questions_of_three_to_six_lines_and_five_often_quoted_answers() -> None:
    numbered = [one for one in ASKED if re.match(r"\d+\. ", one.title)]
    assert len(numbered) == 10
    assert len(ASKED) == 15
    assert [one.title for one in numbered if not 3 <= len(one.lines) <= 6] == []


@pytest.mark.parametrize("question", ASKED, ids=[one.title for one in ASKED])
def test_a_question_prints_what_the_page_says(question: Question, folder: Path) -> None:
    names: dict[str, Any] = {}
    assert questions()[0].lines == SETUP.splitlines()
    run(SETUP, folder, names)
    assert run(question.code, folder, names) == question.printed


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.filterwarnings("ignore")
def test_other_tools_count_the_same_rows(tool: str, folder: Path, builtin: EventStore) -> None:
    pytest.importorskip(tool)
    (question,) = (one for one in questions() if f"import {tool}" in one.code)
    assert len(question.lines) == 3
    printed = run(question.code, folder, {})
    told = builtin.events(kind="loss_spike", sources="all", derived=False)["run"].value_counts()
    counts = dict(re.findall(r"([a-z][a-z0-9-]*\d[a-z]*|falcon|olmo)\W+(\d+)", printed))
    assert {run: int(count) for run, count in counts.items()} == told.to_dict()


# The answers that the page quotes, as facts


def test_the_criterion_of_opt_175b_names_loss_scale_and_activation_norms(builtin: EventStore) -> None:
    criteria = builtin.events(run="opt-175b", kind="rollback")["detail"].str.get("criterion").dropna()
    assert criteria.tolist() == ["loss_scale >= 1.0, activation_norm falling"]


def test_palm_recomputed_08_percent_and_skipped_at_most_54_percent(builtin: EventStore) -> None:
    from replay.history.lost_work import lost_work, skipped_data

    lost = lost_work(builtin, "palm-540b").iloc[0]
    assert (lost["known"], lost["lost_steps"], lost["total_steps"]) == (20, 2_000, 255_000)
    assert round(lost["share"], 3) == 0.008
    skipped = skipped_data(builtin, "palm-540b").iloc[0]
    assert round(skipped["high_tokens"] / 1e9) == 42
    assert skipped["total_tokens"] == 780e9
    assert round(skipped["high_share"], 3) == 0.054


def test_blooms_one_spike(builtin: EventStore) -> None:
    rows = builtin.events(run="bloom-176b", steps=(31_200, 31_300)).set_index("kind")
    assert rows.loc["grad_norm_spike", ["before", "after"]].tolist() == [0.242, 960.351]
    assert rows.loc["loss_spike", ["before", "after"]].round(3).tolist() == [2.199, 5.098]
    assert rows.loc["recovered_by_itself", "step"] == 31_250


def test_the_explosions_of_glm_130b_and_when_they_came_back(builtin: EventStore) -> None:
    told = builtin.incidents(run="glm-130b", saw="loss_explosion")
    explosions = builtin.events(run="glm-130b", kind="loss_explosion")
    assert explosions["step"].tolist() == [33_740, 35_250, 40_800]
    assert told["recurred_after"].dropna().tolist() == [1_650, 5_600]
    back = builtin.events(run="glm-130b", kind="rollback")
    assert back.loc[back["incident"].isin(told["incident"]), "step"].tolist() == [33_600, 35_200, 40_700]
