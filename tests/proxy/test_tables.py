"""The pages that the proxy's commands write: their form, what they say at the top, and the same bytes each time."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from replay.cli import replay as command_line
from replay.proxy import ProxyConfig, numerics_table, sweep
from replay.proxy.failure_table import markdown
from replay.proxy.numerics import FORMATS, FormatRange, Measured, SumRow, format_ranges, loss_scale_descent
from replay.proxy.resumption import LEFT_OUT, Resumed, resume_each
from replay.proxy.resumption_table import forgotten, summary_rows
from replay.proxy.resumption_table import page as checkpoints_page
from replay.proxy.sweep import SweepRow, learning_rate_sensitivity
from replay.proxy.sweep_table import learning_rate_page, palm_page
from replay.proxy.tables import made_with, mean_told, number, opening, significant, table

SMALL = {
    "learning-rates": "proxy sweep --seeds 1 --steps 2",
    "palm-switches": "proxy sweep --palm --seeds 2 --steps 2",
    "vital-signs": "proxy failures show silent-data-corruption --seed 1000 --around 2",
    "checkpoints": "proxy checkpoints --seeds 2 --before 3 --steps 2",
    "precision": "precision --steps 20",
}


def written(command: str, page: Path) -> str:
    result = CliRunner().invoke(command_line, [*shlex.split(command), "--docs", str(page), "--json"])
    assert result.exit_code == 0, result.output
    return page.read_text(encoding="utf-8")


def tables_of(page: str) -> list[list[str]]:
    """The lines of each table of a page."""
    return [found.strip().split("\n") for found in re.findall(r"(?:^\|.*\n?)+", page, flags=re.MULTILINE)]


# -- Every page ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_a_page_says_what_wrote_it_and_holds_whole_tables(name: str, tmp_path: Path) -> None:
    page = written(SMALL[name], tmp_path / "deep" / "page.md")
    lines = page.split("\n")
    assert lines[0].startswith("# ")
    assert lines[2].startswith(f"Written by `replay {SMALL[name]}")
    assert lines[2].endswith(f"--docs docs/proxy-{name}.md`; do not edit by hand.")
    assert made_with() in page
    assert "a mechanism, not a magnitude" in page
    assert re.search(r"[Ss]eeds? \d", page)
    assert page.endswith("\n")
    assert not page.endswith("\n\n")
    assert tables_of(page)
    for rows in tables_of(page):
        assert len(rows) > 2, "a head, a rule and something to show"
        assert len({row.count("|") for row in rows}) == 1, rows
        assert set(rows[1]) == {"|", "-"}


@pytest.mark.parametrize("name", ["palm-switches", "checkpoints", "precision"])
def test_a_page_is_the_same_each_time_also_in_two_processes(name: str, tmp_path: Path) -> None:
    first = written(SMALL[name], tmp_path / "first.md")
    other = SMALL[name] + (" --jobs 2" if name == "checkpoints" else "")
    assert written(other, tmp_path / "second.md") == first
    assert not re.search(r"\bms\b|seconds|\d+ s\b", first), "times differ from one time to the next"


def sums_as_on_the_documents_machine() -> str:
    """A hash of what torch makes of sums whose rounding differs between processors and libraries; no code of ours."""
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)) / 8
    y = x
    for _ in range(50):
        y = torch.nn.functional.gelu(y @ weight).softmax(dim=-1) + x
        if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            y = y + torch.ops.mkldnn._linear_pointwise(y.detach(), weight, None, "none", [], "")
    y.square().sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return hashlib.sha256(x.grad.numpy().tobytes()).hexdigest()[:16]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vital-signs", "precision"])
def test_the_documents_are_what_their_commands_write(name: str, root: Path, tmp_path: Path) -> None:
    document = root / "docs" / f"proxy-{name}.md"
    if not document.exists():
        pytest.skip(f"{document.name} has not been made: make proxy-tables")
    text = document.read_text(encoding="utf-8")
    if made_with() not in text or sums_as_on_the_documents_machine() != "a59d131a3de12ce5":
        pytest.skip(f"{document.name} was made with another torch or on another processor")
    found = re.search(r"Written by `replay (.*) --docs \S+`", text)
    assert found is not None
    assert written(found[1], tmp_path / "page.md") == text


def test_a_page_that_could_not_be_written_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [*shlex.split("proxy sweep --steps 1000000 --docs"), str(tmp_path / "file" / "page.md")]
    result = CliRunner().invoke(command_line, command)
    assert result.exit_code == 2
    assert "cannot be written" in result.output
    assert "name a file in another folder" in " ".join(result.output.split())


@pytest.mark.parametrize("name", ["learning-rates", "palm-switches", "checkpoints"])
def test_a_page_of_many_intervals_says_that_they_are_not_corrected_for_their_number(name: str, tmp_path: Path) -> None:
    several = re.sub(r"--seeds \d", "--seeds 2", SMALL[name])
    page = written(several, tmp_path / "page.md")
    assert "none is corrected for their number" in page
    assert "One that holds 0 does not show that there is no effect" in page
    assert "shows no effect" not in page
    one = written(several.replace("--seeds 2", "--seeds 1"), tmp_path / "one.md")
    assert "corrected" not in one, "there are no intervals"


def test_the_proxy_knows_nothing_of_the_store_or_of_experiments() -> None:
    code = (
        "import pkgutil, importlib, sys, replay.proxy as p\n"
        "for module in pkgutil.walk_packages(p.__path__, 'replay.proxy.'): importlib.import_module(module.name)\n"
        "known = ('replay.store', 'replay.experiment', 'replay.report', 'replay.history')\n"
        "print([name for name in sys.modules if name.startswith(known)])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# -- Its parts -------------------------------------------------------------------------------------------------------


def test_tables_and_numbers() -> None:
    assert table(["a", "b"], [["1|2", ""]]) == ["| a | b |", "|---|---|", "| 1\\|2 |  |"]
    assert opening("Title", "replay it", "why") == [
        "# Title",
        "",
        "Written by `replay it`; do not edit by hand.",
        "",
        "why",
    ]
    assert [number(-0.001), number(-1.26, 1), number(math.inf)] == ["0.00", "-1.3", "not finite"]
    assert [significant(x) for x in (0.0, -12.0, 0.99999, 1234.5, 3e-7, math.nan)] == [
        "0",
        "-12",
        "1.000",
        "1234",
        "3.00e-07",
        "not finite",
    ]


def test_means_have_student_s_interval_from_two_seeds_on() -> None:
    assert mean_told([0.5]) == "0.500"
    # Mean 2, standard error 1 / sqrt(3), 97.5% point 4.303.
    assert mean_told([1.0, 2.0, 3.0], 2) == "2.00 (-0.48 to 4.48)"
    assert mean_told([1.0, math.nan, math.inf]) == "not finite in 2 of 3"


def test_the_failures_page_is_a_table_and_a_section_for_each() -> None:
    page = markdown([], "2.8")
    assert page.startswith(
        "# Failures of the proxy\n\nWritten by `replay proxy failures verify --docs docs/failures.md`"
    )
    assert [len(rows) for rows in tables_of(page)] == [13] + [2] * 11


# -- Sweeps ----------------------------------------------------------------------------------------------------------


def row(variant: str, rate: float, seed: int, loss: float) -> SweepRow:
    return SweepRow(variant, rate, seed, loss, 10.0 * seed, 1.0, 100, 0.123)


def test_learning_rate_sensitivity_is_that_of_each_seed() -> None:
    losses = {(0.1, 0): 1.0, (0.2, 0): 2.0, (0.1, 1): 4.0, (0.2, 1): 1.0, (0.4, 0): 9.0, (0.4, 1): math.nan}
    rows = [row("plain", rate, seed, loss) for (rate, seed), loss in losses.items()]
    # By hand: (1 + 2 + 3) / 3 - 1 and (3 + 1 + 3) / 3 - 1, a loss counting as 3 at most.
    assert learning_rate_sensitivity(rows, 3.0) == {"plain": [pytest.approx(1.0), pytest.approx(4 / 3)]}


def test_differences_in_a_sweep_are_paired_by_seed() -> None:
    rows = [row("plain", 0.1, seed, 1.0 + seed) for seed in range(3)]
    rows += [row("QK-norm", 0.1, seed, 0.75 + seed) for seed in range(3)]
    page = learning_rate_page(rows, 400)
    assert "| QK-norm | -0.250 (-0.250 to -0.250) |" in page
    assert "| plain | 2.000 (-0.484 to 4.484) |" in page
    assert "| plain | 10.0 (0.0 to 20.0) |" in page
    assert "0.123" not in page, "seconds a step differ from one time to the next"


def test_a_run_that_is_lost_is_told_as_that() -> None:
    rows = [row("base", 0.1, 0, 1.0), row("base", 0.1, 1, 1.0), row("odd", 0.1, 0, math.nan), row("odd", 0.1, 1, 2.0)]
    assert "| odd | 0 | 100 | 0.1 | not finite in 1 of 2 | not finite in 1 of 2 |" in palm_page(rows, 400)
    assert "| odd | " in learning_rate_page(rows, 400)


def test_what_a_choice_of_palm_changes_is_counted() -> None:
    base, choice = next(iter(sweep.SWITCHES)), "Adafactor, decay by lr^2, clip 1, lr 0.01 / sqrt"
    larger = dataclasses.replace(row(choice, 0.1, 0, 1.5), parameters=129)
    page = palm_page([row(base, 0.1, 0, 1.0), larger], 400)
    assert f"| {base} | 0 | 100 | 0.1 |" in page
    assert f"| {choice} | 8 | 129 (+29.0%) | 0.1 |" in page
    assert "in one respect" not in page
    assert "Each row makes one of PaLM's choices" not in page
    assert "the row with biases undoes one" in page


def test_the_base_makes_palm_s_choice_as_to_biases_and_the_row_undoes_it() -> None:
    (biased,) = [name for name, settings in sweep.SWITCHES.items() if settings == {"model__biases": True}]
    assert "PaLM has none" in biased
    assert not ProxyConfig().model.biases


def test_how_far_z_loss_draws_log_z_is_told_beside_the_base() -> None:
    rows = [row("plain", 0.1, seed, 1.0) for seed in range(2)]
    rows += [dataclasses.replace(row("z-loss 1e-4", 0.1, seed, 1.0), log_z=0.75) for seed in range(2)]
    assert "| z-loss 1e-4 | -0.25 (-0.25 to -0.25) |" in learning_rate_page(rows, 400).partition("## log Z")[2]


def test_a_sweep_in_two_processes_has_the_same_bits() -> None:
    one, two = (
        list(sweep.learning_rate_sweep({"plain": {}}, (1e-2, 1e-1), seeds=(0,), steps=5, jobs=jobs)) for jobs in (1, 2)
    )
    assert [(r.loss, r.attention_logit_max, r.log_z) for r in one] == [
        (r.loss, r.attention_logit_max, r.log_z) for r in two
    ]


# -- Checkpoints -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resumed() -> list[Resumed]:
    return resume_each(seed=990, before=40, after=15)


def test_the_full_resume_goes_on_as_if_nothing_had_happened_and_no_other_does(resumed: list[Resumed]) -> None:
    assert [one.left_out for one in resumed] == ["nothing", "optimizer", "scaler", "schedule", "data", "all four"]
    assert {one.left_out for one in resumed if one.same} == {"nothing"}


def test_each_part_that_is_left_out_shows(resumed: list[Resumed]) -> None:
    rows = {row.left_out: row for row in forgotten(resumed)}
    full = rows["nothing"]
    assert (full.peak, full.update_ratio) == ([0.0], [1.0])
    assert rows["optimizer"].update_ratio[0] > 2, "Adam's first steps are as long as they can be"
    assert rows["optimizer"].first[0] > 0.02
    assert rows["scaler"].withheld[0] >= 10, "the scale falls from 2^32, halving by halving"
    assert full.withheld[0] <= 2
    assert rows["schedule"].learning_rate < 0.1 * full.learning_rate, "it warms up again"
    assert (rows["data"].seen_twice, full.seen_twice) == (15, 0)


def test_the_page_of_checkpoints_has_a_row_for_each_part(resumed: list[Resumed]) -> None:
    page = checkpoints_page(resumed, 40, 15)
    loss, signs = tables_of(page)
    assert [line.split("|")[1].strip() for line in loss[2:]] == list(LEFT_OUT)
    assert "| nothing | 1 of 1 | 0.000 | 0.000 | 0.000 |" in loss
    assert next(line for line in signs if line.startswith("| scaler")).split("|")[3].strip() == "withheld"


def test_where_every_step_was_withheld_there_is_no_ratio_of_updates(resumed: list[Resumed]) -> None:
    ratio = {row["left_out"]: row["update_ratio"] for row in summary_rows(resumed)}
    assert ratio["scaler"] is None, "not measured, which is not the same as no number"
    assert ratio["nothing"] == 1.0


# -- Precision -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", format_ranges(), ids=lambda row: row.name)
def test_ranges_of_formats_are_those_of_their_arithmetic(row: FormatRange) -> None:
    def kept(value: float) -> float:
        return torch.tensor(value, dtype=torch.float64).to(FORMATS[row.name]).item()

    assert kept(row.largest) == row.largest
    assert math.isinf(kept(row.largest * (1 + row.epsilon / 2))), "half a gap further it is infinite"
    assert kept(1 + row.epsilon) == 1 + row.epsilon
    assert kept(1 + row.epsilon / 2) == 1, "to the even one"
    assert kept(row.smallest) == row.smallest
    assert kept(row.smallest / 2) == 0
    assert kept(row.smallest_normal) == row.smallest_normal == row.smallest / row.epsilon


def test_exponents_are_gathered_two_by_two_and_told_what_fp16_makes_of_them() -> None:
    histogram = [(-60, 0.1), (-39, 0.1), (-26, 0.2), (-24, 0.2), (-23, 0.1), (-15, 0.1), (-14, 0.1), (16, 0.1)]
    measured = Measured(7, [], [SumRow("fp16", 10_000, 1e-4, 0.25, 1.0)], [], histogram, [], loss_scale_descent())
    page = numerics_table.page(measured)
    shares = [line for line in page.split("\n") if line.startswith(("| 2^", "| below"))]
    assert shares == [
        "| below 2^-38 | 20.00% | zero |",
        "| 2^-26 to 2^-24 | 20.00% | zero, or rounded up to the smallest number |",
        "| 2^-24 to 2^-22 | 30.00% | subnormal: fewer digits |",
        "| 2^-16 to 2^-14 | 10.00% | subnormal: fewer digits |",
        "| 2^-14 to 2^-12 | 10.00% | normal |",
        "| 2^16 to 2^18 | 10.00% | infinite |",
    ]
    assert "| 10 to 16 | 2^15 | made |" in page
