"""A log of ever new names: what there is no room for is counted and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from log_reading import ReadText, read_growing, read_path, rows

from replay_parsers.parser import Parser
from replay_parsers.records import ProblemKind, Records
from replay_parsers.trainers import (
    composer_file,
    csv_log,
    json_blocks,
    json_lines,
    json_runs,
    megatron,
    olmo,
    trainer_state,
)

ROOM = 10
COUNTED = f"values of other than the first {ROOM} names"


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("columns", "reading"):
        monkeypatch.setattr(f"replay_parsers.trainers.{module}.MOST_TAGS", ROOM)


def json_record(step: int) -> str:
    return f'{{"step": {step}, "loss": {step}.5, "k{step}": 1.5, "m{step}": 2}}'


LOGS: dict[str, tuple[Parser, Callable[[int], str], str]] = {
    "json-lines": (json_lines.PARSER, json_record, "\n"),
    "csv": (csv_log.PARSER, lambda step: f"step,loss,k{step},m{step}\n{step},{step}.5,1.5,2", "\n"),
    "megatron": (
        megatron.PARSER,
        lambda step: f" iteration {step}/ 100 | lm loss: {step}.5 | k{step}: 1.5 | m{step}: 2 s |",
        "\n",
    ),
    "olmo": (olmo.PARSER, lambda step: f"[step={step}/100]\n    loss={step}.5\n    k{step}=1.5\n    m{step}=2", "\n"),
    "composer-file": (
        composer_file.PARSER,
        lambda step: "\n".join(f"[metric][batch={step}]: {key}: 1.5" for key in ("loss", f"k{step}", f"m{step}")),
        "\n",
    ),
    "trainer-state": (trainer_state.PARSER, json_record, ",\n"),
}


def log(name: str, count: int = 20) -> str:
    _, record, between = LOGS[name]
    text = between.join(map(record, range(1, count + 1))) + "\n"
    return f"[{text}]" if name == "trainer-state" else text


@pytest.mark.parametrize("name", LOGS)
def test_what_there_is_no_room_for_is_counted_and_told_once(read_text: ReadText, name: str) -> None:
    read = read_text(LOGS[name][0], log(name))
    assert len(read.scalars.tags) == ROOM
    assert len(read.scalars) == 20 + 9
    assert read.coverage.other[COUNTED] == 40 - 9
    (problem,) = read.problems
    assert problem.kind is ProblemKind.NOT_UNDERSTOOD
    assert "more than 10 different names" in problem.message
    assert "'m5" in problem.message
    assert problem.line is not None or "record 5 of the history" in problem.message


def test_a_megatron_log_tells_validations_that_it_has_no_room_for(read_text: ReadText) -> None:
    text = log("megatron") + " validation loss at iteration 20 | lm loss value: 2.5 | lm loss PPL: 12.2 |\n"
    read = read_text(megatron.PARSER, text)
    assert len(read.scalars.tags) == ROOM
    assert read.coverage.other[COUNTED] == 40 - 9 + 2


def told(pieces: list[Records]) -> tuple[object, int, list[str]]:
    return (
        [row for piece in pieces for row in rows(piece)],
        sum(piece.coverage.other.get(COUNTED, 0) for piece in pieces),
        [str(problem) for piece in pieces for problem in piece.problems if problem.kind is not ProblemKind.TRUNCATED],
    )


@pytest.mark.parametrize("name", [name for name, (parser, *_) in LOGS.items() if parser.appends])
def test_a_log_that_grows_has_no_more_room_than_one_that_is_there(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.log"
    # Steps that start over: names of an earlier segment take their room all the same.
    content = (log(name, 4) + log(name, 3) + log(name)).encode()
    path.write_bytes(content)
    at_once = told([read_path(LOGS[name][0], path)])
    starts = [number + 1 for number, byte in enumerate(content) if byte == ord("\n")]
    assert told(read_growing(LOGS[name][0], path, content, starts)) == at_once
    assert len(at_once[2]) == 1


def test_many_lines_at_once_fill_the_room_as_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(log("json-lines"))
    one_by_one = told([read_path(json_lines.PARSER, path)])
    monkeypatch.setattr(json_runs, "SHORTEST_RUNS", 1)
    monkeypatch.setattr(json_blocks, "WORTH_IT", 1)
    for block in (100, 300, 4 << 20):
        monkeypatch.setattr("replay_parsers.lines.BLOCK_BYTES", block)
        for scanned in (1, 1 << 40):
            monkeypatch.setattr(json_lines, "WORTH_IT", scanned)
            assert told([read_path(json_lines.PARSER, path)]) == one_by_one
