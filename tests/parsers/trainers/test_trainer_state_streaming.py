"""Documents of any size are read piece by piece, and say the same as if they were read at once."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_reading import ReadText, of_kind, read_path, rows, values

from replay_parsers.parser import Request
from replay_parsers.records import ProblemKind, Records
from replay_parsers.trainers import document, json_stream, trainer_state
from replay_parsers.trainers.json_stream import DamageError, JsonText

HISTORY = (
    '{"loss": NaN, "step": 10}',
    '{"loss": 2.5, "grad_norm": -Infinity, "step": 20, "more": {"a": [1, 2], "b": "]}"}}',
    '{"loss": 1.0000000000000002e-05, "step": 30, "\\u00e4 \\"ü": -0.5}',
    '{"eval_loss": 2.25, "step": 30}',
    "5",
)
DOCUMENTS = {
    "state": '{\n "best_metric": null, "global_step": 30,\n "log_history": [\n'
    + ",\n".join(HISTORY)
    + '\n], "max_steps": 100, "state": {"x": [[]]}\n}\n',
    "records": "[" + ",".join(HISTORY) + "]",
    "rows": "[[1700000000.5, 10, 2.5], [1700000001.5, 20, NaN], [1700000002.5, 30, 2]]",
    "rows of tags": '{"loss": [[1700000000.5, 1, 2.5]], "lr": [[1700000000.5, 1, 1e-3]], "none": []}',
    "columns": '{"step": [1, 2, 3], "loss": [2.5, 2.25, -1.5e-1], "x": ["a", null, true, 5], "name": "x"}',
    "two lists of records": '{"metrics": [{"step": 1, "loss": 9}], "log_history": [{"step": 1, "loss": 2.5}]}',
    "a name twice": '{"log_history": [{"step": 1, "loss": 9}], "log_history": [{"step": 1, "loss": 2.5}]}',
}


def told(read: Records) -> tuple[object, ...]:
    run = read.run
    assert run is not None
    return (rows(read), read.events, read.problems, read.findings, read.coverage, dict(run.metadata), read.end)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_narrow_window_changes_nothing(read_text: ReadText, name: str) -> None:
    at_once = told(read_text(trainer_state.PARSER, DOCUMENTS[name]))
    damaged = {}
    chance = random.Random(name)
    for _ in range(40):
        at = chance.randrange(len(DOCUMENTS[name]))
        text = (
            DOCUMENTS[name][:at] + chance.choice(["", "\n", '"', "]", "{", "x", "0", ","]) + DOCUMENTS[name][at + 1 :]
        )
        damaged[text] = told(read_text(trainer_state.PARSER, text))
    assert at_once[0]
    for window in (1, 7, 64):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_stream, "WINDOW", window)
            patch.setattr(document, "_PIECE_BYTES", max(1, window // 2))
            patch.setattr(trainer_state, "_ROWS_AT_ONCE", 2)
            assert told(read_text(trainer_state.PARSER, DOCUMENTS[name])) == at_once
            for text, expected in damaged.items():
                assert told(read_text(trainer_state.PARSER, text)) == expected, text


def test_pieces_lie_one_behind_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "WINDOW", 50)
    monkeypatch.setattr(document, "_PIECE_BYTES", 50)
    monkeypatch.setattr(trainer_state, "_ROWS_AT_ONCE", 2)
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps([{"step": step, "loss": 2.5} for step in range(30)]))
    pieces = list(trainer_state.PARSER.read(Request(path=path, source="s", run="run")))
    assert len(pieces) > 5
    assert [0, *(piece.end for piece in pieces)] == [*(piece.start for piece in pieces), path.stat().st_size]
    assert [step for piece in pieces for step in piece.scalars.step.tolist()] == list(range(30))


@pytest.mark.parametrize("name", [*DOCUMENTS][:4])
def test_cut_anywhere_all_records_before_are_kept(read_text: ReadText, name: str) -> None:
    whole = rows(read_text(trainer_state.PARSER, DOCUMENTS[name]))
    before = 0
    for cut in range(1, len(DOCUMENTS[name].rstrip())):
        read = read_text(trainer_state.PARSER, DOCUMENTS[name][:cut])
        found = rows(read)
        assert found == whole[: len(found)], cut
        assert len(found) >= before
        assert len(read.problems) == 1
        before = len(found)
    assert before == len(whole)


def test_what_stands_before_the_damage_says_what_the_run_was(read_text: ReadText) -> None:
    read = read_text(trainer_state.PARSER, DOCUMENTS["state"][:120])
    assert read.run is not None
    assert read.run.metadata["global_step"] == "30"


def test_damage_before_the_history_does_not_cost_it(read_text: ReadText) -> None:
    read = read_text(trainer_state.PARSER, DOCUMENTS["state"].replace("null", "nul"))
    assert list(values(read, "loss")) == [10, 20, 30]
    (problem,) = read.problems
    assert "line 2: Expecting value" in problem.message
    assert "the 5 records before that are kept" in problem.message
    assert read.coverage.bytes_read == len(DOCUMENTS["state"].encode()) - 1


def test_records_that_are_none_are_shown_with_their_place(read_text: ReadText) -> None:
    read = read_text(trainer_state.PARSER, DOCUMENTS["state"])
    assert (read.coverage.not_understood, read.coverage.examples) == (1, ("record 5 of the history: 5",))


def test_values_that_are_left_out_are_counted(read_text: ReadText) -> None:
    read = read_text(trainer_state.PARSER, DOCUMENTS["state"])
    assert read.coverage.other == {"lists": 1, "texts in place of numbers": 1}


def test_a_loss_that_is_null_is_missing(read_text: ReadText) -> None:
    read = read_text(trainer_state.PARSER, '{"log_history": [{"step": 5, "loss": null, "learning_rate": 0.1}]}')
    (event,) = of_kind(read, "nan_loss")
    assert (event.step, event.locator, event.detail["value"]) == (5, "record 1 of the history", "null")


def test_values_too_long_to_hold_are_told_and_do_not_cost_what_stands_before(
    read_text: ReadText, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "WINDOW", 100)
    monkeypatch.setattr(json_stream, "LONGEST_VALUE", 1_000)
    text = '{"log_history": [{"step": 1, "loss": 2.5}],\n "x": "' + "x" * 5_000 + '"}'
    read = read_text(trainer_state.PARSER, text)
    assert values(read, "loss") == {1: 2.5}
    assert "line 2: a value of more than 1,000 characters" in str(read.problems[0])


def test_columns_too_large_to_hold_are_told(read_text: ReadText, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_state, "LARGEST_COLUMNS", 300)
    read = read_text(trainer_state.PARSER, DOCUMENTS["columns"])
    assert len(read.scalars) == 0
    assert [problem.kind for problem in read.problems] == [ProblemKind.UNREADABLE]
    assert "as JSON lines" in read.problems[0].message


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.write_text(DOCUMENTS["state"])
    writer = threading.Thread(target=pipe.write_text, args=(DOCUMENTS["state"],))
    writer.start()
    read = read_path(trainer_state.PARSER, pipe)
    writer.join()
    assert rows(read) == rows(read_path(trainer_state.PARSER, file))


def test_a_compressed_one_that_breaks_off_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json.gz"
    text = json.dumps({"log_history": [{"step": step, "loss": random.Random(step).random()} for step in range(2_000)]})
    path.write_bytes(gzip.compress(text.encode())[:-3_000])
    read = read_path(trainer_state.PARSER, path)
    assert len(read.scalars) > 1_000
    assert ["breaks off" in problem.message for problem in read.problems] == [True]


class TestNumbersAtTheEdgeOfTheWindow:
    @pytest.mark.parametrize(
        "text", ["1.5", "1e5", "1E+05", "-Infinity", "-12.25e-3", "12345678901234567890123", "NaN"]
    )
    def test_none_is_cut_in_two(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setattr(json_stream, "WINDOW", 1)
        assert repr(JsonText(iter(text + " ")).value()) == repr(json.loads(text))

    def test_where_there_is_no_value_it_is_said(self) -> None:
        text = JsonText(iter("\nx"))
        assert text.peek() == "x"
        with pytest.raises(DamageError, match="line 2: Expecting value"):
            text.value()


PEAK = """
import resource, sys
from pathlib import Path
from replay_parsers.parser import Request
from replay_parsers.trainers.trainer_state import PARSER
rows = sum(len(one.scalars) for one in PARSER.read(Request(path=Path(sys.argv[1]), source="s", run="r")))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def records(count: int) -> Iterator[str]:
    for step in range(count):
        yield (
            f'{{"epoch": 0.{step:07}, "grad_norm": 1.25, "learning_rate": 0.00012, "loss": 2.{step:07}, "step": {step},'
            '"extra": "' + "x" * 320 + '"}'
        )


def test_memory_does_not_grow_with_the_document(tmp_path: Path) -> None:
    """Read as a whole, each megabyte takes twelve."""
    peaks = {}
    for count in (4_000, 40_000):
        path = tmp_path / f"{count}.json"
        path.write_text('{"log_history": [' + ",\n".join(records(count)) + "]}")
        done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
        rows_read, peaks[count] = map(int, done.stdout.split())
        assert rows_read == 4 * count
    assert path.stat().st_size > 16 << 20
    assert peaks[40_000] - peaks[4_000] < 40
