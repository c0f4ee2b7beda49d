"""Numbers, steps, ranges, nodes, options and durations, as logbooks print them."""

from __future__ import annotations

import pytest

from replay_parsers.chronicles import numbers, phrases


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("300_000", 300_000),
        ("1,024", 1024),
        ("15k", 15_000),
        ("9.1k", 9100),
        ("2M", 2_000_000),
        ("8e-6", 8e-6),
        ("1.0E+04", 1e4),
        (".5", 0.5),
        ("n10041", None),
        ("", None),
        ("1e999", float("inf")),
    ],
)
def test_numbers(printed: str, value: float | None) -> None:
    assert numbers.number(printed) == value


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("restart from 4000 step", [4000]),
        ("at global_step3200", [3200]),
        ("from iteration 7,000 on", [7000]),
        ("从第 2400 步重启", [2400]),
        ("5800steps 开始", [5800]),
        ("3740 左右爆炸", [3740]),
        ("从 2800 开始训练", [2800]),
        ("8100 从新配置开始训练", [8100]),
        ("stopped at 9.1k iterations", [9100]),
        ("warm up for 2000 steps", []),
        ("within 500 steps", []),
        ("500 steps later", []),
        ("every 100 steps", []),
        ("at 10% of the way", []),
        ("from 9 am to 5 am", []),
        ("on 128 nodes", []),
        ("from 4M to 8M tokens", []),
        ("at 20:00", []),
        ("after 3 days", []),
        ("lost 640 steps", []),
    ],
)
def test_positions_are_points_of_the_run_and_no_counts(text: str, steps: list[int]) -> None:
    assert [mention.value for mention in phrases.positions(text)] == steps


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("701-900", [(701, 900)]),
        ("11-14 16-18", [(11, 14), (16, 18)]),
        ("2440–2460", [(2440, 2460)]),
        ("steps 100 to 200", [(100, 200)]),
        ("跳过 9001 到 9150", [(9001, 9150)]),
        ("200-100", []),
        ("2022-05-06", []),
    ],
)
def test_ranges_are_ascending_and_no_dates(text: str, found: list[tuple[int, int]]) -> None:
    assert numbers.ranges(text) == found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n10041, n10157 are gone", ["n10041", "n10157"]),
        ("jean-zay-iam12 is slow", ["jean-zay-iam12"]),
        ("node 17 and host 10-0-3-17", ["node 17", "host 10-0-3-17"]),
        ("gpu-node-17", ["gpu-node-17"]),
        ("restart from global_step4000 with bf16 and beta2 on A100", []),
        ("exp 11 of GPT-3, CUDA 11.3, v100", []),
        ("see https://x/y123456 and pr-272", []),
    ],
)
def test_nodes_are_machines_and_nothing_else_with_a_number(text: str, names: list[str]) -> None:
    assert phrases.nodes(text) == names


def test_options_end_where_prose_goes_on() -> None:
    told = [
        str(flag) for flag in phrases.flags("use `--lr 3e-5 --fp16` and --min-lr 0 and then rest; SAVE_INTERVAL=300.")
    ]
    assert told == ["--lr 3e-5", "--fp16", "--min-lr 0", "SAVE_INTERVAL=300"]


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("lost 3.5h of work", 3.5),
        ("18 hours", 18),
        ("1h 40m", 5 / 3),
        ("45 minutes", 0.75),
        ("损失约 2 小时", 2),
        ("3 days", 72),
        ("no duration", None),
    ],
)
def test_durations(text: str, hours: float | None) -> None:
    assert phrases.hours(text) == (None if hours is None else pytest.approx(hours))
