"""What holds for every dialect of trainer logs."""

from __future__ import annotations

import gzip
import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_reading import ReadText, read_growing, read_path, rows, values
from sample_logs import SAMPLE_LOGS

from replay_parsers import detection
from replay_parsers.detection import BUILT_IN, detect
from replay_parsers.records import Evidence

APPENDED = [name for name, log in SAMPLE_LOGS.items() if log.parser.appends]
ALL = list(SAMPLE_LOGS)


@pytest.mark.parametrize("name", ALL)
def test_the_losses_are_found_at_their_steps(read_text: ReadText, name: str) -> None:
    log = SAMPLE_LOGS[name]
    read = read_text(log.parser, log.text)
    assert values(read, log.tag) == log.losses
    assert set(read.scalars.segment.tolist()) == {0}
    assert read.problems == ()
    assert read.format == log.parser.name


@pytest.mark.parametrize("name", ALL)
def test_it_is_detected_by_content_under_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    path.write_text(SAMPLE_LOGS[name].text)
    found = detect(path)
    assert found.parser.name == name
    # The runner-up is not just as sure.
    assert sorted(found.tried.values())[-2] < found.confidence


@pytest.mark.parametrize("name", ALL)
def test_it_is_built_in(name: str) -> None:
    assert name in {parser.name for parser in detection.all_parsers()}
    assert len(set(BUILT_IN)) == len(BUILT_IN)


@pytest.mark.parametrize("name", ALL)
def test_every_row_and_event_is_accounted_for_and_says_who_said_it(read_text: ReadText, name: str) -> None:
    read = read_text(SAMPLE_LOGS[name].parser, SAMPLE_LOGS[name].text)
    assert read.coverage.records == len(read.scalars) + len(read.events)
    assert read.coverage.bytes_read == len(SAMPLE_LOGS[name].text.encode())
    assert all(event.evidence is Evidence.LOGGED and event.locator and event.source for event in read.events)
    assert len({event.event for event in read.events}) == len(read.events)


@pytest.mark.parametrize("name", ALL)
def test_gotcha_17_windows_line_ends_a_byte_order_mark_and_gzip_change_nothing(
    read_text: ReadText, tmp_path: Path, name: str
) -> None:
    log = SAMPLE_LOGS[name]
    plain = rows(read_text(log.parser, log.text))
    assert rows(read_text(log.parser, b"\xef\xbb\xbf" + log.text.encode())) == plain
    assert rows(read_text(log.parser, log.text.encode("utf-16"))) == plain
    assert rows(read_text(log.parser, log.text.replace("\n", "\r\n"))) == plain
    assert rows(read_text(log.parser, gzip.compress(log.text.encode()))) == plain


@pytest.mark.parametrize("name", APPENDED)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 2_000), max_size=5))
def test_the_same_rows_whatever_the_moments_of_the_reads(tmp_path: Path, name: str, cuts: list[int]) -> None:
    log = SAMPLE_LOGS[name]
    content = log.text.encode()
    path = tmp_path / "grown.log"
    path.write_bytes(content)
    at_once = read_path(log.parser, path)
    pieces = read_growing(log.parser, path, content, [min(cut, len(content)) for cut in cuts])
    assert [row for piece in pieces for row in rows(piece)] == rows(at_once)
    assert [event for piece in pieces for event in piece.events] == list(at_once.events)


@pytest.mark.parametrize("name", APPENDED)
def test_states_are_plain_data(tmp_path: Path, name: str) -> None:
    log = SAMPLE_LOGS[name]
    path = tmp_path / "x.log"
    path.write_text(log.text)
    state = read_path(log.parser, path).state
    assert json.loads(json.dumps(state)) == state


@pytest.mark.parametrize("name", ALL)
def test_no_damage_makes_a_parser_raise(read_text: ReadText, name: str) -> None:
    """Bits flipped, pieces cut, doubled and swapped: whatever comes, it is read or told."""
    log = SAMPLE_LOGS[name]
    chance = random.Random(name)
    content = log.text.encode()
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(damaged))
            match chance.randrange(4):
                case 0:
                    damaged[at] ^= 1 << chance.randrange(8)
                case 1:
                    del damaged[at : at + chance.randint(1, 40)]
                case 2:
                    damaged[at:at] = damaged[at : at + chance.randint(1, 40)]
                case _:
                    damaged[at:at] = chance.choice([b"\0", b"\n", b"\r", b"nan", b"9" * 400, b"|", b"{", b'"', b"-"])
            damaged = damaged or bytearray(b"x")
        read = read_text(log.parser, bytes(damaged))
        assert read.coverage.records == len(read.scalars) + len(read.events)


EVIL = {
    "bars": "|" * 400_000,
    "braces": "{" * 400_000,
    "brackets": '{"a":' * 80_000,
    "quotes": "{'a': '" * 56_000,
    "digits": "step: " + "1" * 400_000,
    "steps": "step 1 loss 2 " * 28_000,
    "equals": "[step=1/2]\n  " + "a=" * 200_000,
    "commas": "," * 400_000,
    "words": "loss " * 80_000,
    "blanks": "loss: " + " " * 400_000 + "x",
    "epochs": "Epoch 1: " * 44_000 + "loss",
    "bar": "Epoch 0: " + "1/2 [1it/s, " * 32_000 + "reduced_train_loss=1]",
}


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("name", ALL)
def test_no_long_line_takes_long(read_text: ReadText, name: str, evil: str) -> None:
    log = SAMPLE_LOGS[name]
    began = time.perf_counter()
    read_text(log.parser, log.text + EVIL[evil] + "\n")
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("evil", EVIL)
def test_no_head_of_a_file_takes_long_to_recognise(tmp_path: Path, evil: str) -> None:
    path = tmp_path / "evil.log"
    path.write_text(EVIL[evil] + "\n")
    began = time.perf_counter()
    for parser in detection.all_parsers():
        parser.recognise(detection.sample(path))
    assert time.perf_counter() - began < 5


NO_LOGS = {
    "empty": "",
    "blank": "\n\n",
    "words": "hello world\n",
    "markdown": "# A heading\n\nSome prose about loss at step 5.\n",
    "html": "<html><body>loss: 5</body></html>\n",
    "code": "import torch\n\nloss = model(batch)\nprint(f'step {step} loss {loss}')\n",
    "table": "name,age\nann,5\n",
    "object": '{"name": "ann"}\n',
    "requirements": "numpy==2.0\ntorch>=2.8\n",
    "configuration": "model:\n  steps: 100\n  loss_scale: 65536\n",
}


@pytest.mark.parametrize("name", NO_LOGS)
def test_what_is_no_log_is_not_taken_for_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    path.write_text(NO_LOGS[name])
    with pytest.raises(detection.UnknownFormatError, match="no parser recognises it"):
        detect(path)
