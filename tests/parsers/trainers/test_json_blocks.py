"""Many JSON lines at once give what they give one by one."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from log_reading import read_growing, read_path, rows

from replay_parsers.lines import Block
from replay_parsers.records import Records
from replay_parsers.trainers import json_blocks, json_lines, json_runs
from replay_parsers.trainers.json_lines import PARSER, JsonLines

WAYS = ("scanner", "arrow")


def both_ways(
    path: Path, text: str | bytes, patch: pytest.MonkeyPatch, way: str, shortest: int = 1
) -> tuple[Records, Records, int]:
    """A text read at once and line by line, and how many of its lines were left to be read one by one at first."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode("latin-1"))
    left: list[int] = []
    bulk = JsonLines.bulk

    def counted(self: JsonLines, block: Block, book: Any) -> Iterator[tuple[int, int, int]]:
        for begin, end, number in bulk(self, block, book):
            left.append(block.raw.count(b"\n", begin, end))
            yield begin, end, number

    patch.setattr(JsonLines, "bulk", counted)
    patch.setattr(json_runs, "SHORTEST_RUNS", shortest)
    patch.setattr(json_lines, "WORTH_IT", 1 if way == "scanner" else 1 << 40)
    patch.setattr(json_blocks, "WORTH_IT", 1)
    at_once = read_path(PARSER, path)
    lines_left = sum(left)
    patch.setattr(json_lines, "WORTH_IT", 1 << 40)
    patch.setattr(json_blocks, "WORTH_IT", 1 << 40)
    one_by_one = read_path(PARSER, path)
    return at_once, one_by_one, lines_left


def assert_same(left: Records, right: Records) -> None:
    assert rows(left) == rows(right)
    # Rows do not tell the zeros apart.
    assert left.scalars.value.tobytes() == right.scalars.value.tobytes()
    assert left.events == right.events
    assert left.findings == right.findings
    assert left.problems == right.problems
    assert left.coverage == right.coverage
    assert left.state == right.state


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def nested(depth: int, value: object = 1.5) -> object:
    """A value within so many objects."""
    for _ in range(depth):
        value = {"a": value}
    return value


PLAIN = {
    "plain": [{"step": step, "loss": 2.5 + step / 7, "lr": 1e-4} for step in range(1, 50)],
    "nested": [{"step": step, "train": {"loss": 2.5, "norm": {"grad": 1.5}}} for step in range(1, 50)],
    "epochs": [{"epoch": step // 10, "step": step, "loss": 2.5} for step in range(50)],
    "fractions of epochs": [{"epoch": step / 7, "step": step, "loss": 2.5} for step in range(50)],
    "a step back": [{"step": step % 30, "loss": 2.5} for step in range(50)],
    "equal steps": [{"step": step // 2, "loss": 2.5} for step in range(50)],
    "evaluations between": [
        {"step": step, "loss": 2.5, **({"grad_norm": 1.5} if step % 10 else {"lr": 1e-4})} for step in range(50)
    ],
    "times": [{"step": step, "loss": 2.5, "_timestamp": 1.7e9 + step} for step in range(1, 100)],
    "integers and booleans": [
        {"step": step, "loss": 2, "overflow": step % 2 == 0, "tokens": 2**60} for step in range(50)
    ],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PLAIN)
def test_plain_logs_are_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str) -> None:
    at_once, one_by_one, left = both_ways(tmp_path / "log.jsonl", lines(*PLAIN[name]), monkeypatch, way)
    assert_same(at_once, one_by_one)
    assert left == 0
    assert len(at_once.scalars) > 0


INTRICATE = {
    "nan": lines({"step": 1, "loss": 2.5}) + '{"step": 2, "loss": NaN}\n',
    "nan norm": lines({"step": 1, "loss": 2.5, "grad_norm": 1.0}) + '{"step": 2, "loss": 2.5, "grad_norm": NaN}\n',
    "zero loss": lines({"step": 1, "loss": 2.5}, {"step": 2, "loss": 0.0}),
    "infinity as the largest double": lines({"step": 5, "loss": 2.5, "a": 1.7976931348623157e308}),
    "infinity by size": '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 1e999}\n',
    "strings": lines({"step": 1, "loss": "2.5"}, {"step": "2/10", "loss": 2.25}),
    "a configuration": lines({"config": {"lr": 1}}, {"step": 1, "loss": 2.5}),
    "no loss": lines({"step": 1, "lr": 2.5}, {"step": 2, "lr": 2.5}),
    "epochs anew": lines(*({"epoch": epoch, "step": step, "loss": 2.5} for epoch in range(3) for step in range(5))),
    "samples": lines({"samples": 1, "loss": 2.5}, {"samples": 2, "loss": 2.5}),
    "steps that are none": lines({"step": 1.5, "loss": 2.5}, {"step": 2, "loss": 2.5}),
    "huge steps": lines({"step": 2**61, "loss": 2.5}, {"step": 2**61 + 1, "loss": 2.5}),
    "huge integers": '{"step": 1, "loss": 2.5, "a": ' + "9" * 30 + "}\n",
    "lists": lines({"step": 1, "loss": 2.5, "ids": [1, 2]}),
    "blank lines": lines({"step": 1, "loss": 2.5}) + "\n\n" + lines({"step": 2, "loss": 2.5}),
    "two on a line": '{"step": 1, "loss": 2.5}{"step": 2, "loss": 2.5}\n',
    "ranks": '{"step": 1, "loss": 2.5}\n[rank1]: {"step": 1, "loss": 2.5}\n',
    "a word between": lines({"step": 1, "loss": 2.5})
    + "Saving model checkpoint to x/checkpoint-1\n"
    + lines({"step": 2, "loss": 2.5}),
    "the same time and loss": lines(*({"step": 1, "loss": 2.5, "time": 1.7e9} for _ in range(3))),
    "times and none": lines({"step": 1, "loss": 2.5, "time": 1.7e9}, {"step": 2, "loss": 2.5, "time": 5.0}),
    "twice the same key": '{"step": 1, "loss": 2.5, "loss": 2.75}\n',
    "a name in latin-1": '{"step": 1, "loss": 2.5, "gr\xf6\xdfe": 1.5}\n' * 3,
    "a name below in latin-1": '{"step": 1, "loss": 2.5, "a": {"gr\xf6\xdfe": 1.5}}\n' * 3,
    "nulls": lines({"step": 1, "loss": 2.5, "a": None}, {"step": 2, "loss": None, "a": 1.0}),
    "a run's mean at its end": lines(
        *({"step": step, "loss": 2.5} for step in range(100)),
        {"step": 100, "train_runtime": 9.5, "train_loss": 2.25},
    ),
    "a null only": lines(*({"step": step, "loss": 2.5, "gn": None} for step in range(5))),
    "nulls and absences": lines(
        {"step": 1, "loss": 2.5, "a": 1.5, "b": 2},
        {"step": 2, "loss": 2.5, "a": None},
        {"step": 3, "loss": 2.5, "b": 3},
        {"step": 4, "loss": 2.5, "a": None, "b": None},
    ),
    "a loss that is null": lines(*({"step": step, "loss": None if step == 3 else 2.5} for step in range(6))),
    "names with null": lines({"step": 1, "loss": 2.5, "null": 1.5}, {"step": 2, "loss": 2.5, "x": {"null": {}}}),
    "too deep": lines(*({"step": step, "loss": 2.5, "a": nested(6)} for step in range(5))),
    "too deep now and then": lines(
        *({"step": step, "loss": 2.5, **({"a": nested(6)} if step == 3 else {"b": nested(5)})} for step in range(6))
    ),
    "empty, too deep": lines(*({"step": step, "loss": 2.5, "a": nested(7, {})} for step in range(5))),
    "an object once": lines({"step": 1, "loss": 2.5, "more": {"a": 1.0}}, {"step": 2, "loss": 2.5}),
    "slashes": lines({"step": 1, "loss": 2.5, "a/b": 1.0, "a": {"b": 2.0}}),
    "a restart between": lines(*({"step": step, "loss": 2.5, "time": 1.7e9 + step} for step in range(1, 9)))
    + "Training starts at step 5\n"
    + lines(*({"step": step, "loss": 2.5, "time": 1.8e9 + step} for step in range(5, 12))),
    "a restart between, without times": lines(*({"step": step, "loss": 2.5} for step in range(1, 9)))
    + "Training starts at step 5\n"
    + lines(*({"step": step, "loss": 2.5} for step in range(5, 12))),
    "nan norms, then sound ones": lines({"step": 1, "loss": 2.5, "grad_norm": 1.0})
    + '{"step": 2, "loss": 2.5, "grad_norm": NaN}\n' * 2
    + lines(*({"step": step, "loss": 2.5, "grad_norm": 1.0} for step in range(3, 9)))
    + '{"step": 9, "loss": 2.5, "grad_norm": NaN}\n',
    "windows": lines({"step": 1, "loss": 2.5}, {"step": 2, "loss": 2.5}).replace("\n", "\r\n"),
    "names in another order": lines(
        {"step": 1, "loss": 2.5, "a": {"b": 1.0, "c": 2.0}, "gn": 1.5},
        {"gn": 1.5, "a": {"c": 2.0, "b": 1.0}, "loss": 2.5, "step": 2},
        {"gn": 1.5, "loss": 2.5, "step": 3},
        {"step": 4, "loss": 2.5, "gn": 1.5, "more": 5.0, "a": {"b": 1.0, "c": 2.0, "d": 3.0}},
    ),
    "long names in another order": lines(
        {"step": 1, "loss": 2.5, "time/of/the/forward/pass": 1.0, "time/of/the/forward/walk": 2.0},
        {"step": 2, "loss": 2.5, "time/of/the/forward/walk": 2.0, "time/of/the/forward/pass": 1.0},
    ),
    "names with quotation marks in another order": lines(
        {"step": 1, "loss": 2.5, 'a"b': 1.0, "c": 2.0}, {"step": 2, "c": 2.0, 'a"b': 1.0, "loss": 2.5}
    ),
    "two losses in another order": lines(
        {"step": 1, "loss": 2.5, "train/loss": 2.75, "time": 1.7e9},
        {"step": 2, "train/loss": 2.75, "loss": 0.0, "time": 1.7e9 + 1, "grad_norm": 1.5},
        {"step": 2, "train/loss": 2.75, "loss": 0.0, "time": 1.7e9 + 1, "grad_norm": 1.5},
    ),
    "two steps in another order": lines(
        {"step": 1, "Step": 11, "loss": 2.5}, {"Step": 12, "step": 2, "loss": 2.5}, {"step": 3, "Step": 13, "loss": 2.5}
    ),
    "two epochs in another order": lines(
        *({"epoch": 0, "Epoch": step // 5, "step": step % 5, "loss": 2.5} for step in range(5)),
        *({"Epoch": step // 5, "epoch": 0, "step": step % 5, "loss": 2.5} for step in range(5, 10)),
    ),
    "nulls in another order": lines(
        {"step": 1, "loss": 2.5, "a": None, "b": 1.0},
        {"step": 2, "b": 1.0, "loss": 2.5},
        {"step": 3, "loss": 2.5, "b": 1},
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", INTRICATE)
def test_intricate_ones_come_out_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str) -> None:
    assert_same(*both_ways(tmp_path / "log.jsonl", INTRICATE[name], monkeypatch, way)[:2])


def test_ever_new_keys_do_not_cost_the_square_of_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No column of Arrow's is made for any of them."""
    monkeypatch.setattr(json_blocks, "_columns", None)
    path = tmp_path / "keys.jsonl"
    path.write_text(lines(*({"step": step, "loss": 2.5, f"key {step}": 1.5} for step in range(8_000))))
    read = read_path(PARSER, path)
    assert len(read.scalars) == 16_000


DEEP = {
    "on one line": '{"step": 2, "loss": 2.5, "a": ' + '{"a": ' * 60_000 + "1" + "}" * 60_001 + "\n",
    "over many lines": '{"a":\n' * 60_000 + "1" + "}\n" * 60_000,
    "lists": '{"step": 2, "loss": 2.5, "a": ' + "[" * 300_000 + "]" * 300_000 + "}\n",
    "behind closing brackets in a text": '{"step": 2, "b": "' + "}" * 60_000 + '", "a": ' + '{"a": ' * 60_000 + "\n",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_does_not_end_the_process(tmp_path: Path, name: str) -> None:
    """In a process of its own, since Arrow's reader used to run out of stack on it."""
    path = tmp_path / "deep.jsonl"
    path.write_text(lines({"step": 1, "loss": 2.5}) + DEEP[name] + lines({"step": 3, "loss": 2.25}))
    program = (
        "import sys; from pathlib import Path; from replay_parsers.parser import Request\n"
        "from replay_parsers.trainers.json_lines import PARSER\n"
        "path = Path(sys.argv[1])\n"
        "pieces = list(PARSER.read(Request(path=path, source='deep', run='deep')))\n"
        "print(*sorted({step for piece in pieces for step in piece.scalars.step.tolist()}))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= {"1", "3"}


NUMBER = st.one_of(
    st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False), st.floats(0.1, 10.0), st.booleans()
)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.lists(st.sampled_from(["loss", "grad_norm", "lr", "epoch", "time", "tokens"]), unique=True, min_size=1),
    table=st.lists(st.tuples(st.integers(0, 40), st.lists(NUMBER, min_size=6, max_size=6)), min_size=1, max_size=12),
)
def test_any_numbers_come_out_the_same(
    tmp_path: Path, way: str, keys: list[str], table: list[tuple[int, list[float]]]
) -> None:
    records = [{"step": step, **dict(zip(keys, numbers, strict=False))} for step, numbers in table]
    with pytest.MonkeyPatch.context() as patch:
        assert_same(*both_ways(tmp_path / "any.jsonl", lines(*records), patch, way)[:2])


KINDS = st.sampled_from(
    [
        {"a": nested(4)},
        {"a": nested(5)},
        {"a": nested(6)},
        {"a": nested(9, 2)},
        {"a": {"b": nested(5, "text"), "c": 1.5}},
        {"a": nested(6, {})},
        {"gn": None},
        {"gn": 1.5},
        {"ids": []},
        {"ids": [1, 2]},
        {"kind": "train"},
        {"loss": None},
        {"train_runtime": 2.0, "train_loss": 2.5},
        {},
    ]
)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stretches=st.lists(st.tuples(KINDS, KINDS, st.integers(1, 5)), min_size=1, max_size=4),
    block=st.sampled_from([32, 200, 4 << 20]),
    cuts=st.lists(st.integers(0, 600), max_size=3),
)
@example(stretches=[({"a": nested(4)}, {}, 1), ({"gn": 1.5}, {"a": nested(4)}, 1)], block=200, cuts=[])
def test_what_is_left_out_is_the_same_and_is_told_the_same(
    tmp_path: Path, way: str, stretches: list[tuple[dict[str, Any], dict[str, Any], int]], block: int, cuts: list[int]
) -> None:
    """At any size of the blocks, beside any neighbours, and whatever the moments of the reads."""
    of_all = [kinds for first, second, count in stretches for kinds in [first | second] * count]
    text = lines(*({"step": step, "loss": 2.5, **kinds} for step, kinds in enumerate(of_all)))
    path = tmp_path / "any.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replay_parsers.lines.BLOCK_BYTES", block)
        at_once, one_by_one, _ = both_ways(path, text, patch, way)
        assert_same(at_once, one_by_one)
        patch.setattr(json_lines, "WORTH_IT", 1 if way == "scanner" else 1 << 40)
        patch.setattr(json_blocks, "WORTH_IT", 1)
        content = text.encode()
        pieces = read_growing(PARSER, path, content, [min(cut, len(content)) for cut in cuts])
    assert [row for piece in pieces for row in rows(piece)] == rows(at_once)
    assert [event for piece in pieces for event in piece.events] == list(at_once.events)
    counted: Counter[str] = Counter()
    for piece in pieces:
        counted.update(piece.coverage.other)
    assert counted == at_once.coverage.other


def test_a_large_file_is_read_in_blocks_without_being_told(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    path.write_text(lines(*({"step": step, "loss": 2.5 + math.sin(step), "lr": 1e-4} for step in range(60_000))))
    read = read_path(PARSER, path)
    assert len(read.scalars) == 120_000
    assert read.scalars.step[-1] == 59_999
    assert read.coverage.records == 120_000
    assert set(read.scalars.segment.tolist()) == {0}
