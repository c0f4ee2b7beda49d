"""What holds for every dialect of trainer logs."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_reading import ReadText, read_growing, read_path, rows, values
from sample_logs import SAMPLE_LOGS

from growth import grows_with_its_size
from replay_parsers import detection
from replay_parsers.detection import BUILT_IN, detect
from replay_parsers.records import Evidence
from replay_parsers.trainers import key_value

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


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("megatron", "20/"),
        ("fairseq", '_updates": "2'),
        ("trainer-state", '"step": 20'),
        ("nanotron", "iteration: 11"),
        ("nanogpt", "iter 1"),
        ("deepspeed", "steps: 20"),
        ("json-lines", '"step": 20'),
        ("csv", "0,20"),
        ("key-value", "Iter 20"),
    ],
)
def test_a_record_of_a_step_that_no_run_can_reach_is_a_problem(read_text: ReadText, name: str, step: str) -> None:
    log = SAMPLE_LOGS[name]
    number = "".join(filter(str.isdigit, step.removeprefix("0,")))
    impossible = step.replace(number, "9" * 20)
    assert log.text.count(step) == 1
    read = read_text(log.parser, log.text.replace(step, impossible))
    lost = int(number)
    assert values(read, log.tag) == {at: loss for at, loss in log.losses.items() if at != lost}
    assert "9" * 20 in " ".join(problem.message for problem in read.problems)
    assert read.coverage.lost_records == 1


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


@pytest.mark.parametrize("name", ALL)
def test_a_compressed_log_that_breaks_off_gives_what_stands_before(tmp_path: Path, name: str) -> None:
    log = SAMPLE_LOGS[name]
    path = tmp_path / "x.gz"
    # Flushed on the way, as by a writer that goes on: the last bytes are no end.
    packer = zlib.compressobj(wbits=31)
    path.write_bytes(packer.compress(log.text.encode()) + packer.flush(zlib.Z_SYNC_FLUSH))
    assert detect(path).parser.name == name
    read = detection.read(path, run="run")
    assert values(read, log.tag) == log.losses
    assert "breaks off" in str(read.problems[0])


def test_a_flipped_bit_in_a_compressed_log_is_no_reason_to_raise(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    whole = gzip.compress("".join(f"step {step}, loss: {step * 1.7}\n" for step in range(2_000)).encode())
    read = 0
    for position in range(10, len(whole), 211):
        flipped = bytearray(whole)
        flipped[position] ^= 16
        path.write_bytes(bytes(flipped))
        found = detection.sample(path)
        assert len(found.head) <= len(whole) * 10
        read += bool(found.head)
        if key_value.PARSER.recognise(found) > 0.3:
            assert read_path(key_value.PARSER, path).problems
    assert read > 9


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


EVIL: dict[str, Callable[[int], str]] = {
    "bars": lambda size: "|" * size,
    "braces": lambda size: "{" * size,
    "brackets": lambda size: '{"a":' * (size // 5),
    "quotes": lambda size: "{'a': '" * (size // 7),
    "digits": lambda size: "step: " + "1" * size,
    "steps": lambda size: "step 1 loss 2 " * (size // 14),
    "equals": lambda size: "[step=1/2]\n  " + "a=" * (size // 2),
    "commas": lambda size: "," * size,
    "words": lambda size: "loss " * (size // 5),
    "ends of lines": lambda size: "\n" * size,
    "blanks and ends of lines": lambda size: " \n" * (size // 2),
    "blanks": lambda size: "loss: " + " " * size + "x",
    "epochs": lambda size: "Epoch 1: " * (size // 9) + "loss",
    "bar": lambda size: "Epoch 0: " + "1/2 [1it/s, " * (size // 12) + "reduced_train_loss=1]",
}
"""Lines of about so many bytes that a careless pattern takes long to read."""


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("name", ALL)
def test_no_long_line_takes_long(tmp_path: Path, name: str, evil: str) -> None:
    log = SAMPLE_LOGS[name]

    def reading(size: int) -> Callable[[], object]:
        path = tmp_path / f"{size}.log"
        path.write_text(log.text + EVIL[evil](size) + "\n")
        return lambda: read_path(log.parser, path)

    assert grows_with_its_size(reading, 400_000)


@pytest.mark.parametrize("evil", EVIL)
def test_no_head_of_a_file_takes_long_to_recognise(tmp_path: Path, evil: str) -> None:
    def recognising(size: int) -> Callable[[], object]:
        path = tmp_path / f"{size}.log"
        path.write_text(EVIL[evil](size) + "\n")
        return lambda: [parser.recognise(detection.sample(path)) for parser in detection.all_parsers()]

    assert grows_with_its_size(recognising, 400_000)


CONFIGURATION = "".join(f"  argument_{number} .......................... {number}\n" for number in range(500))
NOTICES = "node-1: NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n" * 6_000


@pytest.mark.parametrize("name", APPENDED)
def test_it_is_detected_behind_a_configuration_and_before_a_crash(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    crash = 'Traceback (most recent call last):\n  File "train.py", line 5, in <module>\n    raise Error\n' * 9
    path.write_text(CONFIGURATION + SAMPLE_LOGS[name].text + crash)
    assert detect(path).parser.name == name


@pytest.mark.parametrize("name", ["megatron", "fairseq", "torchtitan", "key-value"])
def test_it_is_detected_between_hundreds_of_kilobytes_of_other_words(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    path.write_text(NOTICES + SAMPLE_LOGS[name].text * 500 + NOTICES)
    assert detect(path).parser.name == name


@pytest.mark.parametrize("name", ["olmo", "megatron", "json-lines", "csv"])
def test_it_is_detected_as_utf_16_as_powershell_writes_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(SAMPLE_LOGS[name].text.encode("utf-16"))
    assert detect(path).parser.name == name


@pytest.mark.parametrize("columns", [200, 20_000])
def test_records_of_very_many_values_are_detected(tmp_path: Path, columns: int) -> None:
    names = [f"layer_{number}/norm" for number in range(columns)]
    path = tmp_path / "x"
    path.write_text((json.dumps({"step": 1, "loss": 2.5, **dict.fromkeys(names, 1.5)}) + "\n") * 3)
    assert detect(path).parser.name == "json-lines"
    path.write_text(",".join(["step", "loss", *names]) + "\n" + ("1" + ",2.5" * (columns + 1) + "\n") * 3)
    assert detect(path).parser.name == "csv"


NO_LOGS = {
    "empty": "",
    "blank": "\n\n",
    "words": "hello world\n",
    "markdown": "# A heading\n\nSome prose about loss at step 5.\n",
    "html": "<html><body>loss: 5</body></html>\n",
    "code": "import torch\n\nloss = model(batch)\nprint(f'step {step} loss {loss}')\n",
    "python that prints steps": "import torch\n" + "if it % 5 == 0:\n    print(f'step 5 loss: 1.5')\n" * 20,
    "python with an example": '"""It prints:\n  step 5, loss: 7.29\n  step 6, loss: 7.19\n"""\nimport os\n',
    "shell": "#!/bin/bash\npython train.py --lr 1e-4 --loss-scale 65536 --iteration 100 --steps 500\n" * 5,
    "nginx": '10.0.0.1 - - [10/Oct/2023:13:55:01 +0000] "GET /loss?step=5 HTTP/1.1" 200 70 "-" "curl"\n' * 20,
    "ping": "64 bytes from 1.1.1.1: icmp_seq=1 ttl=59 time=3.4 ms\n10 packets transmitted, 0% packet loss\n",
    "readme": "# Train\n\n```\nstep 5, loss: 7.29\nstep 6, loss: 7.19\n```\n\n## Usage\n\nRun it.\n",
    "table": "name,age\nann,5\n",
    "steps walked": "date,steps,calories\n2020-01-01,10234,2000\n2020-01-02,8000,2100\n",
    "batches of bread": "batch_id,product,quantity\n1,a,5\n2,b,6\n",
    "profits": "year,profit_loss,tax\n2001,5,6\n2002,6,7\n",
    "recipe": "step,instruction\n1,mix the flour\n2,bake\n",
    "glossary": "glossary,count\nfoo,1\nbar,2\n",
    "service log": '{"time": "2020-01-01T00:00:00", "level": "info", "msg": "hi", "batch": 5}\n' * 9,
    "prompts": '{"prompt": "a", "completion": "b", "tokens": 5}\n' * 9,
    "model configuration": '{"hidden_size": 5, "train_batch_size": 5, "loss": "mse", "steps": 100}\n',
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
