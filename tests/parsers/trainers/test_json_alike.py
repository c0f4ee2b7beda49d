"""JSON lines that are alike but for their numbers: read by the scanner, and one by one where they are different."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_json_blocks import assert_same, both_ways, lines

from replay_parsers import machine_code
from replay_parsers.machine_code import EntryPoints
from replay_parsers.trainers import json_layout
from replay_parsers.trainers.json_alike import alike_stretches, template_of


@pytest.fixture(autouse=True, scope="module")
def _scanner() -> None:
    assert json_layout.SCANNER.at_hand()


def scanned(text: str, template: str = "1") -> float | None:
    """A number as the scanner reads it; None when it leaves it to others."""
    block = f'{{"step": {template}}}\n{{"step": {text}}}\n{{"a": 1}}\n'.encode()
    # 200 lines are claimed, so that three stretches are not too many.
    stretches = alike_stretches(block, 200)
    assert stretches is not None
    return next((float(one.values[-1, 0]) for one in stretches if one.values is not None and one.lines == 2), None)


@pytest.fixture(autouse=True)
def _any_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay_parsers.trainers.json_runs.SHORTEST_RUNS", 1)


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


def as_python_has_it(text: str) -> float:
    """A number of JSON as a double."""
    return float(json.loads(text))


PRINTED = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(1e-30, 1e30).map(repr),
    st.floats(2**-20, 100, width=32).map(repr),
    st.integers(-(10**18), 10**18).map(str),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(-(10**6), 10**6, allow_nan=False, places=12).map(lambda number: f"{number:f}"),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


@settings(
    max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=PRINTED)
@example("0.1")
@example("-0")
@example("-0.0")
@example("9007199254740993")  # halfway between two doubles: to the even one
@example("9007199254740995")
@example("9007199254740993.0")
@example("90071992547409930e-1")
@example("0.500000000000000055")
@example("1.00000000000000011")  # nearly halfway
@example("9999999999999999999")
@example("9223372036854775808")
@example("9007199254740991999e-3")
@example("8.10109172351e-10")
@example("1e-80")
@example("9999999999999999999e80")
def test_a_number_is_pythons_bit_by_bit_or_left_to_it(text: str) -> None:
    number = scanned(text)
    assert number is None or bits(number) == bits(as_python_has_it(text))


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(number=st.floats(1e-60, 1e60), negative=st.booleans())
def test_what_logs_print_is_never_left_to_python(number: float, negative: bool) -> None:
    number = -number if negative else number
    for text in (repr(number), f"{number:.6E}", f"{number:.4g}", repr(round(number, 4)), str(int(number) % 10**18)):
        printed = scanned(text)
        assert printed is not None
        assert bits(printed) == bits(as_python_has_it(text))


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(mantissa=st.integers(2**52, 2**53 - 1), power=st.integers(-4, 3))
def test_halves_between_two_doubles_and_their_neighbours(mantissa: int, power: int) -> None:
    """The hardest cases: a decimal number that lies in the middle of two doubles, or next to it."""
    half = (2 * mantissa + 1) * 2**power if power >= 0 else (2 * mantissa + 1) / 2**-power
    exact = str(half) if power >= 0 else f"{(2 * mantissa + 1) * 5**-power}e{power}"
    digits, _, exponent = exact.partition("e")
    for near in (-1, 0, 1):
        text = str(int(digits) + near) + (f"e{exponent}" if exponent else "")
        number = scanned(text)
        assert number is None or bits(number) == bits(as_python_has_it(text))
        assert number is not None or len(digits) > 19


NO_NUMBERS = [
    *("01", "-01", "1.", ".5", "+1", "-", "--1", "1e", "1e+", "0x1", "NaN", "Infinity", "-Infinity", "1_0", "1 ", "٣"),
    *("nul", "tru", "-true", "truee", "True", '"1"', "[1]", "{}", "", "1,", "1}", "1e99999", "1" * 20, "1e200"),
    *("0." + "0" * 100 + "1", "0." + "0" * 100 + "1e99"),
]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_or_no_common_one_is_left_to_python(text: str) -> None:
    assert scanned(text) is None


@pytest.mark.parametrize(("text", "value"), [("true", 1.0), ("false", 0.0), ("1E+05", 1e5), ("2e3", 2e3)])
def test_other_forms_of_numbers(text: str, value: float) -> None:
    assert scanned(text) == value
    assert scanned("7", template=text) == 7.0


TEMPLATES = {
    "flat": (b'{"step": 1, "loss": 2.5}\n', ("step", "loss")),
    "nested": (b'{"step":1,"train":{"loss":2.5,"x":{"y":true}}}\n', ("step", "train/loss", "train/x/y")),
    "nothing": (b'{"step": 1, "ids": [], "a": null, "b": {}}\n', ("step",)),
    "windows": (b'{"step": 1}\r\n', ("step",)),
    "numbers in names": (b'{"step 1": 1, "a\\"2": 2, "\xc3\xa4": 3, "\xfc": 4}\n', ("step 1", 'a"2', "ä", "ü")),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_names_of_the_numbers(name: str) -> None:
    line, names = TEMPLATES[name]
    template = template_of(line)
    assert template is not None
    assert template.names == names


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"words\n",
        b' {"step": 1}\n',
        b'{"step": 1}{"step": 2}\n',
        b'{"step": 1, "kind": "train"}\n',
        b'{"step": 1, "loss": NaN}\n',
        b'{"step": 1, "ids": [1]}\n',
        b'{"step": 1, "step": 2}\n',
        b'{"a/b": 1, "a": {"b": 2}}\n',
        b'{"step": 1\r}\n',
        b'{"step": 1}\r\r\n',
        b'{"step": 1, "\x1b[1mloss": 2}\n',
        b'{"step": 1\0}\n',
        b'{"step": 01}\n',
        b'{"step": 1true}\n',
        b'{"a":{"a":{"a":{"a":{"a":{"a":{"a": 1}}}}}}}\n',
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
        b'{"' + b"a" * (1 << 20) + b'": 1}\n',
        b'{"step": 1',
    ],
    ids=lambda line: line[:40],
)
def test_lines_that_must_be_looked_at_with_care(line: bytes) -> None:
    assert template_of(line) is None


def plain(first: int, count: int) -> str:
    return lines(*({"step": step, "loss": 2.5 + 1 / (step + 1)} for step in range(first, first + count)))


def test_only_the_line_that_is_different_is_read_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = plain(1, 100) + '{"step": 101, "loss": NaN}\n' + plain(102, 100) + "Saving\n{\n" + plain(202, 100)
    at_once, one_by_one, left = both_ways(tmp_path / "log.jsonl", text, monkeypatch, "scanner")
    assert_same(at_once, one_by_one)
    assert left == 3
    assert [event.locator for event in at_once.events] == ["line 101"]


def test_lines_that_differ_all_the_time_are_left_to_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay_parsers.trainers.json_runs.SHORTEST_RUNS", 64)
    text = (plain(1, 1) + '{"step": 2, "loss": 2.5, "lr": 1e-4}\n') * 500
    assert alike_stretches(text.encode(), 1_000) is None
    mostly = alike_stretches((plain(1, 400) + text[:2_000] + plain(1, 400)).encode(), 10_000)
    assert mostly is not None
    assert [one.values is not None for one in mostly] == [True, False, True]


def test_stretches_cover_every_line_once() -> None:
    text = (plain(1, 10) + '{"a": 1}\nx\n\n' + plain(3, 4) + '{"step": 1, "loss": 1' + "1" * 30 + "}\n").encode()
    stretches = alike_stretches(text, 100)
    assert stretches is not None
    assert [one.begin for one in stretches[1:]] + [len(text)] == [one.end for one in stretches]
    assert [(one.begin == 0, one.lines) for one in stretches] == [
        (True, 10),
        (False, 1),
        (False, 2),
        (False, 4),
        (False, 1),
    ]
    for one in stretches:
        assert text[one.begin : one.end].count(b"\n") == one.lines


# -- whole logs, damaged in every way, by three ways of reading ------------------------------------------------------

NUMBER = st.one_of(
    st.floats(0.001, 10.0).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(
        ["0", "0.0", "-0", "-0.0", "true", "1e999", "1.7976931348623157e308", "5e-324", "NaN", "null", '"3"']
    ),
)
KEYS = st.lists(st.sampled_from(["loss", "grad_norm", "lr", "epoch", "time", "tokens", "a/b"]), unique=True, max_size=4)
ODD = st.sampled_from(
    [
        "",
        "{",
        "words",
        "[rank1]: ",
        '{"step": 1}',
        '{"loss": 2.5}',
        '{"config": {"lr": 1}}',
        '{"step": "3/9", "loss": "2.5"}',
        '{"step": 4, "loss": NaN}',
        '{"step": 4, "loss": 2.5, "grad_norm": NaN}',
        '{"step": 5, "loss": 2.5, "ids": [1, 2]}',
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "Training starts at step 5",
    ]
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Stretches of records of the same keys, odd lines between them, and some bytes that are damaged."""
    parts: list[str] = []
    step = 0
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    for _ in range(draw(st.integers(1, 4))):
        keys = draw(KEYS)
        comma, colon = draw(st.sampled_from([(", ", ": "), (",", ":")]))
        steady = draw(st.booleans())
        for _ in range(draw(st.integers(1, 6))):
            step = draw(st.integers(0, 30)) if draw(st.integers(0, 9)) == 0 else step + 1
            numbers = ["2.5" if steady else draw(NUMBER) for _ in keys]
            fields = [
                f'"step"{colon}{step}',
                *(f'"{key}"{colon}{value}' for key, value in zip(keys, numbers, strict=True)),
            ]
            parts.append("{" + comma.join(fields) + "}" + end)
        parts += [line + end for line in draw(st.lists(ODD, max_size=2))]
    text = "".join(parts).encode()
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text) - 1))
        new = draw(
            st.sampled_from([b"", b"\n", b"\r", b"\0", b"9", b"-", b"}", b'"', b",", b" ", b"e", b"\xff", b"\x1b[1m"])
        )
        text = text[:place] + new + text[place + draw(st.integers(0, 3)) :] or b"\n"
    return text


@pytest.mark.parametrize("shortest", [1, 3])
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=logs(), mark=st.sampled_from([b"", b"", b"\xef\xbb\xbf"]), block=st.sampled_from([32, 200, 4 << 20]))
def test_any_log_comes_out_the_same(tmp_path: Path, shortest: int, text: bytes, mark: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replay_parsers.lines.BLOCK_BYTES", block)
        at_once, one_by_one, _ = both_ways(tmp_path / "any.jsonl", mark + text, patch, "scanner", shortest)
        assert_same(at_once, one_by_one)


# -- machine code --------------------------------------------------------------------------------------------------


def test_where_no_machine_code_can_be_kept_nothing_is_compiled_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file, not a folder"
    blocked.touch()
    for name in machine_code.NUMBA_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(blocked))
    scanner = EntryPoints("json-lines", "no_such_module", {"scan": 1})
    assert not scanner.at_hand()
    monkeypatch.setattr(json_layout, "SCANNER", scanner)
    assert alike_stretches(plain(1, 100).encode(), 100) is None


def test_other_code_that_numba_is_asked_for_is_not_made_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert not EntryPoints("json-lines", "no_such_module", {"scan": 1}).at_hand()


READ = """
import sys
from pathlib import Path
from replay_parsers.parser import Request
from replay_parsers.trainers.json_layout import SCANNER
from replay_parsers.trainers.json_lines import PARSER
pieces = list(PARSER.read(Request(path=Path(sys.argv[1]), source="s", run="r")))
print(sum(len(one.scalars) for one in pieces), bool(SCANNER._loaded), "numba" in sys.modules)
"""


@pytest.mark.parametrize(("lines_of_it", "loaded"), [(1_000, "False"), (120_000, "True")], ids=["small", "large"])
def test_a_large_file_is_scanned_without_the_compiler_and_a_small_one_without_the_scanner(
    tmp_path: Path, lines_of_it: int, loaded: str
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(
        "".join(
            f'{{"step": {step}, "loss": 2.5, "some_long_name_of_a_metric": 0.{step}123, "learning_rate": 6e-05}}\n'
            for step in range(lines_of_it)
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.split() == [str(3 * lines_of_it), loaded, "False"]
