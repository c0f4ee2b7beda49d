"""What an event can hold, and how it becomes rows (GOTCHAS 5 to 8 for event files)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from event_file_writer import (
    DTYPES,
    audio,
    bytes_field,
    double_field,
    event,
    histogram,
    image,
    metadata,
    number_field,
    record,
    scalar_record,
    shape_field,
    simple,
    summary,
    tensor,
    text,
    varint,
    version,
)

from replay_parsers.records import NO_TIME, ProblemKind, Records

Read = Callable[..., Records]


def one(*values: bytes, step: int = 3, wall_time: float = 1.6e9) -> bytes:
    """A file with one event of these values."""
    return version() + record(event(summary(*values), step=step, wall_time=wall_time))


def rows(records: Records) -> list[tuple[str, int, float]]:
    """(tag, step, value) of each row."""
    scalars = records.scalars
    return [
        (scalars.tags[tag], int(step), float(value))
        for tag, step, value in zip(scalars.tag, scalars.step, scalars.value, strict=True)
    ]


def packed(field: int, *numbers: int) -> bytes:
    return bytes_field(field, b"".join(varint(number) for number in numbers))


# Every numeric type of types.proto: the number, its field in TensorProto, packed; its bytes in tensor_content.
NUMBERS = [
    ("float32", 0.1, bytes_field(5, struct.pack("<f", 0.1)), struct.pack("<f", 0.1)),
    ("float64", 0.1, bytes_field(6, struct.pack("<d", 0.1)), struct.pack("<d", 0.1)),
    ("float16", 0.1, packed(13, 0x2E66), b"\x66\x2e"),
    ("bfloat16", 0.1, packed(13, 0x3DCD), b"\xcd\x3d"),
    ("int8", -7, packed(7, -7), struct.pack("<b", -7)),
    ("int16", -700, packed(7, -700), struct.pack("<h", -700)),
    ("int32", -70_000, packed(7, -70_000), struct.pack("<i", -70_000)),
    ("int64", -(2**53), packed(10, -(2**53)), struct.pack("<q", -(2**53))),
    ("uint8", 200, packed(7, 200), b"\xc8"),
    ("uint16", 60_000, packed(7, 60_000), struct.pack("<H", 60_000)),
    ("uint32", 4_000_000_000, packed(16, 4_000_000_000), struct.pack("<I", 4_000_000_000)),
    ("uint64", 2**64 - 2**11, packed(17, 2**64 - 2**11), struct.pack("<Q", 2**64 - 2**11)),
    ("bool", True, packed(11, 1), b"\1"),
    ("qint8", -7, packed(7, -7), struct.pack("<b", -7)),
    ("quint8", 200, packed(7, 200), b"\xc8"),
    ("qint16", -700, packed(7, -700), struct.pack("<h", -700)),
    ("quint16", 60_000, packed(7, 60_000), struct.pack("<H", 60_000)),
    ("qint32", -70_000, packed(7, -70_000), struct.pack("<i", -70_000)),
    ("int4", -3, packed(7, -3), b"\xfd"),
    ("uint4", 13, packed(7, 13), b"\x0d"),
    ("int2", -1, packed(7, -1), b"\xff"),
    ("uint2", 3, packed(7, 3), b"\3"),
]


@pytest.mark.parametrize(("dtype", "number", "field", "content"), NUMBERS, ids=[row[0] for row in NUMBERS])
def test_gotcha_5_tensor_scalars_of_every_type_in_both_encodings(
    read_event_file: Read, dtype: str, number: float, field: bytes, content: bytes
) -> None:
    listed = tensor("listed", dtype, field, more=metadata("scalars"))
    raw = tensor("raw", dtype, bytes_field(4, content), more=metadata("scalars"))
    expected = float(number)
    # 0.1 as the nearest number of each short float.
    expected = {"float32": 0.10000000149011612, "float16": 0.0999755859375, "bfloat16": 0.10009765625}.get(
        dtype, expected
    )
    assert rows(read_event_file(one(listed, raw))) == [("listed", 3, expected), ("raw", 3, expected)]


def numbers_of(read_event_file: Read, dtype: str, patterns: Iterable[bytes]) -> np.ndarray:
    """What each bit pattern of ``dtype`` is read as."""
    values = [tensor("x", dtype, bytes_field(4, pattern)) for pattern in patterns]
    content = version() + b"".join(record(event(summary(value), step=0)) for value in values)
    return read_event_file(content).scalars.value


@pytest.mark.parametrize(
    "dtype", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float16", "bfloat16"]
)
def test_every_bit_pattern_of_a_short_float_reads_as_torch_does(read_event_file: Read, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    size = 1 if dtype.startswith("float8") else 2
    patterns = np.arange(256) if size == 1 else np.arange(0, 65_536, 97)
    raw = [int(pattern).to_bytes(size, "little") for pattern in patterns]
    got = numbers_of(read_event_file, dtype, raw)
    expected = torch.frombuffer(bytearray(b"".join(raw)), dtype=getattr(torch, dtype)).double().numpy()
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def test_the_shortest_floats(read_event_file: Read) -> None:
    four_bits = numbers_of(read_event_file, "float4_e2m1fn", [bytes([pattern]) for pattern in range(16)])
    assert four_bits[:8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert four_bits[8:].tolist() == [-0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
    patterns = [bytes([pattern]) for pattern in range(256)]
    # The same but for the bias of the exponent, 11 rather than 8.
    bias_11 = numbers_of(read_event_file, "float8_e4m3b11fnuz", patterns)
    np.testing.assert_array_equal(bias_11, numbers_of(read_event_file, "float8_e4m3fnuz", patterns) / 8)


@pytest.mark.parametrize(
    "pattern", [2**63, 2**63 + 1024, 2**63 + 1025, 2**64 - 1, 2**64 - 1024, 2**64 - 1025, 2**53 + 1]
)
def test_uint64_is_rounded_once(read_event_file: Read, pattern: int) -> None:
    value = tensor("x", "uint64", bytes_field(4, struct.pack("<Q", pattern)))
    assert rows(read_event_file(one(value))) == [("x", 3, float(pattern))]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), None], ids=["rank 0", "one element", "1 x 1", "no shape"])
def test_gotcha_5_rank_0_and_one_element_are_both_scalars(read_event_file: Read, shape: tuple[int, ...] | None) -> None:
    value = tensor("x", "float32", bytes_field(5, struct.pack("<f", 2.5)), shape=shape, more=metadata("scalars"))
    assert rows(read_event_file(one(value))) == [("x", 3, 2.5)]


def test_unpacked_values_and_an_unknown_rank_are_read(read_event_file: Read) -> None:
    unpacked = tensor("unpacked", "float32", b"\x2d" + struct.pack("<f", 2.5))
    doubles = tensor("doubles", "float64", b"\x31" + struct.pack("<d", 2.5))
    integers = tensor("integers", "int64", number_field(10, 9))
    unknown_rank = tensor("rank", "int32", bytes_field(2, number_field(3, 1)), packed(7, 4), shape=None)
    got = rows(read_event_file(one(unpacked, doubles, integers, unknown_rank)))
    assert got == [("unpacked", 3, 2.5), ("doubles", 3, 2.5), ("integers", 3, 9.0), ("rank", 3, 4.0)]


def test_a_zero_that_tensorflow_left_out_is_a_zero(read_event_file: Read) -> None:
    assert rows(read_event_file(one(tensor("x", "float32"), tensor("y", "int64", shape=(1,))))) == [
        ("x", 3, 0.0),
        ("y", 3, 0.0),
    ]


def test_the_type_may_stand_after_the_number(read_event_file: Read) -> None:
    body = bytes_field(5, struct.pack("<f", 2.5)) + shape_field() + number_field(1, DTYPES["float32"])
    assert rows(read_event_file(one(bytes_field(8, body) + bytes_field(1, "x")))) == [("x", 3, 2.5)]


def test_gotcha_5_plugin_only_in_the_first_event(read_event_file: Read) -> None:
    number = bytes_field(4, struct.pack("<f", 1.0))
    curve = [tensor("curve", "float32", number, more=metadata("pr_curves")), tensor("curve", "float32", number)]
    loss = [tensor("loss", "float32", number, more=metadata("scalars")), tensor("loss", "float32", number)]
    content = version() + b"".join(
        record(event(summary(*pair), step=k)) for k, pair in enumerate(zip(curve, loss, strict=True))
    )
    records = read_event_file(content)
    assert rows(records) == [("loss", 0, 1.0), ("loss", 1, 1.0)]
    assert records.coverage.other == {"pr_curves: curve": 2}


def test_data_class_outweighs_an_unknown_plugin(read_event_file: Read) -> None:
    number = bytes_field(4, struct.pack("<f", 1.0))
    value = tensor("x", "float32", number, more=metadata("mine", data_class=1))
    assert rows(read_event_file(one(value))) == [("x", 3, 1.0)]


def test_gotcha_5_what_is_no_scalar_is_counted_and_named(read_event_file: Read) -> None:
    pair = bytes_field(5, struct.pack("<ff", 1.0, 2.0))
    new_style = tensor("weights", "float64", shape=(0, 3), more=metadata("histograms"))
    values = [
        histogram("weights"), histogram("weights"), new_style, image("sample"), audio("voice"), text("notes", "hello"),
        bytes_field(1, "_hparams_/x") + metadata("hparams"), tensor("pair", "float32", pair, shape=(2,)),
        tensor("string", "string", bytes_field(8, "a")), tensor("complex", "complex64"), bytes_field(1, "nothing"),
        bytes_field(1, "old") + bytes_field(3, b""), tensor("mesh", "float32", pair, shape=(2,), more=metadata("mesh")),
    ]  # fmt: skip
    records = read_event_file(one(*values, simple("loss", 1.0)))
    assert records.coverage.other == {
        "histogram: weights": 3, "image: sample": 1, "audio: voice": 1, "text: notes": 1, "hparams: _hparams_/x": 1,
        "tensor: pair": 1, "tensor: string": 1, "tensor: complex": 1, "empty value: nothing": 1, "histogram: old": 1,
        "mesh: mesh": 1,
    }  # fmt: skip
    assert rows(records) == [("loss", 3, 1.0)]
    assert not records.problems


def test_graphs_and_log_messages_are_counted(read_event_file: Read) -> None:
    parts = [
        bytes_field(4, b"graph"),
        bytes_field(9, b"meta"),
        bytes_field(6, b""),
        bytes_field(8, b""),
        bytes_field(10, b""),
    ]
    records = read_event_file(version() + b"".join(record(event(part, wall_time=1.0)) for part in parts))
    assert records.coverage.other == {"graph": 2, "log message": 1, "run metadata": 1}


def test_gotcha_6_several_values_in_one_event_and_tags_in_any_order(read_event_file: Read) -> None:
    content = version() + record(event(summary(simple("b", 1.0), simple("a", 2.0)), step=1))
    content += record(event(summary(simple("a", 3.0), simple("c", 4.0), simple("b", 5.0)), step=2))
    assert rows(read_event_file(content)) == [("b", 1, 1.0), ("a", 1, 2.0), ("a", 2, 3.0), ("c", 2, 4.0), ("b", 2, 5.0)]


def test_gotcha_6_two_thousand_tags(read_event_file: Read) -> None:
    order = np.random.default_rng(6).permutation(np.repeat(np.arange(2000), 3))
    content = version() + b"".join(
        record(
            event(summary(*(simple(f"layer.{tag}/weight/norm", tag) for tag in order[first : first + 50])), step=first)
        )
        for first in range(0, len(order), 50)
    )
    scalars = read_event_file(content).scalars
    assert len(set(scalars.tags)) == 2000
    assert [scalars.tags[code] for code in scalars.tag] == [f"layer.{tag}/weight/norm" for tag in order]
    assert scalars.value.tolist() == order.tolist()


def test_gotcha_6_unicode_and_odd_tags_stay_apart(read_event_file: Read) -> None:
    tags = [
        "lm loss",
        "lm_loss",
        "потери",
        "损失",
        "🙂",
        "a" * 3000,
        "",
        "tab\tnew\nline",
        "a",
        "aa",
        "aaaaaaaa",
        "aaaaaaaaa",
    ]
    got = rows(read_event_file(one(*(simple(tag, k) for k, tag in enumerate(tags)))))
    assert got == [(tag, 3, float(k)) for k, tag in enumerate(tags)]


def test_a_tag_that_is_not_utf8_shows_its_bytes(read_event_file: Read) -> None:
    got = rows(read_event_file(one(simple(b"loss\xff", 1.0), simple(b"loss\xfe", 2.0), simple(b"loss\0", 3.0))))
    assert got == [("loss\\xff", 3, 1.0), ("loss\\xfe", 3, 2.0), ("loss\0", 3, 3.0)]


def test_gotcha_7_an_axis_of_samples_or_tokens_is_kept_as_written(read_event_file: Read) -> None:
    tag = "lm-loss-training/lm loss vs tokens"
    got = rows(
        read_event_file(version() + scalar_record(tag, 4_194_304_000, 2.5) + scalar_record(tag, 8_388_608_000, 2.25))
    )
    assert got == [(tag, 4_194_304_000, 2.5), (tag, 8_388_608_000, 2.25)]


def test_gotcha_8_nan_and_infinities_are_data(read_event_file: Read) -> None:
    values = [math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4028234663852886e38]
    got = read_event_file(one(*(simple(str(k), value) for k, value in enumerate(values)))).scalars.value
    assert got.tobytes() == np.array(values, np.float32).astype(np.float64).tobytes()


def test_gotcha_8_steps_of_any_sign_and_size(read_event_file: Read) -> None:
    steps = [0, -5, 2**63 - 1, -(2**63), 7]
    records = read_event_file(version() + b"".join(scalar_record("x", step, 1.0) for step in steps))
    assert records.scalars.step.tolist() == steps
    assert records.scalars.segment.tolist() == [0, 1, 1, 2, 2]


def test_gotcha_8_wall_times_of_0_backwards_and_nan(read_event_file: Read) -> None:
    times = [1.6e9, 1.5e9, 0.0, -1.0, math.nan, math.inf, -math.inf, 1e300, 1234567890.123457]
    records = read_event_file(version() + b"".join(scalar_record("x", 1, 1.0, time) for time in times))
    expected = [1_600_000_000_000_000, 1_500_000_000_000_000, 0, -1_000_000, *[NO_TIME] * 4, 1_234_567_890_123_457]
    assert records.scalars.wall_time.tolist() == expected


def test_absent_step_and_time_are_zero_as_in_protobuf(read_event_file: Read) -> None:
    records = read_event_file(version() + record(event(summary(simple("x", 1.0)))))
    assert (records.scalars.step[0], records.scalars.wall_time[0]) == (0, 0)


def test_fields_in_any_order_and_unknown_ones_are_read_over(read_event_file: Read) -> None:
    group = b"\xa3\x06" + number_field(3, 5) + b"\xb3\x06" + bytes_field(4, b"x") + b"\xb4\x06" + b"\xa4\x06"
    unknown = number_field(99, 5) + double_field(98, 1.0) + bytes_field(97, b"x") + group + b"\xfd\x06abcd"
    value = unknown + b"\x15" + struct.pack("<f", 2.5) + bytes_field(1, "x") + unknown
    payload = (
        unknown + bytes_field(5, unknown + bytes_field(1, value)) + number_field(2, 7) + unknown + double_field(1, 9.0)
    )
    records = read_event_file(version() + record(payload))
    assert rows(records) == [("x", 7, 2.5)]
    assert records.scalars.wall_time.tolist() == [9_000_000]
    assert not records.problems


def test_a_known_field_of_another_wire_type_counts_as_unknown(read_event_file: Read) -> None:
    payload = (
        number_field(1, 5)
        + bytes_field(2, b"step")
        + summary(number_field(1, 8) + simple("x", 1.0))
        + number_field(2, 4)
    )
    assert rows(read_event_file(version() + record(payload))) == [("x", 4, 1.0)]


def test_several_summaries_in_one_event_are_joined_as_protobuf_does(read_event_file: Read) -> None:
    payload = event(summary(simple("x", 1.0)), summary(simple("y", 2.0)), step=4)
    assert rows(read_event_file(version() + record(payload))) == [("x", 4, 1.0), ("y", 4, 2.0)]


def test_the_last_of_several_values_counts_as_protobuf_has_it(read_event_file: Read) -> None:
    value = bytes_field(1, "x") + bytes_field(5, b"") + b"\x15" + struct.pack("<f", 1.0)
    other = bytes_field(1, "y") + b"\x15" + struct.pack("<f", 1.0) + bytes_field(5, b"")
    records = read_event_file(one(value, other))
    assert rows(records) == [("x", 3, 1.0)]
    assert records.coverage.other == {"histogram: y": 1}


@pytest.mark.parametrize(
    "fault",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x80",
        b"\xff" * 11,
        b"\x00\x01",
        b"\x07",
        b"\x0c",
        b"\xa3\x06\x08",
        b"\x15\0\0",
        b"\x42\x02\x0a\x09",
    ],
    ids=lambda fault: fault.hex(),
)
def test_a_malformed_value_is_told_and_those_before_it_are_kept(read_event_file: Read, fault: bytes) -> None:
    content = one(simple("x", 1.0), bytes_field(1, "y") + fault, simple("z", 1.0)) + scalar_record("x", 4, 2.0)
    records = read_event_file(content)
    assert rows(records) == [("x", 3, 1.0), ("x", 4, 2.0)]
    (problem,) = records.problems
    assert problem.kind is ProblemKind.INVALID
    assert problem.offset == len(version())
    assert "kept the 1 values before" in problem.message
    assert records.coverage.not_understood == 1
    assert records.coverage.examples


@pytest.mark.parametrize("payload", [b"\x0a", b"\x09\0\0", b"\x2a\x09", b"\x12", b"\x10\x80"], ids=lambda p: p.hex())
def test_a_malformed_event_is_told(read_event_file: Read, payload: bytes) -> None:
    records = read_event_file(version() + record(payload) + scalar_record("x", 4, 2.0))
    assert rows(records) == [("x", 4, 2.0)]
    assert [problem.kind for problem in records.problems] == [ProblemKind.INVALID]


def test_an_empty_event_and_an_empty_summary_are_fine(read_event_file: Read) -> None:
    records = read_event_file(version() + record(b"") + record(event(summary())) + record(event(summary(b""))))
    assert len(records.scalars) == 0
    assert not records.problems
    assert records.coverage.other == {"empty value: ": 1}
