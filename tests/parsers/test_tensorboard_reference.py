"""Generated event files of every form, against TensorBoard's own reader and protobuf's own decoding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from event_file_writer import record, version
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay_parsers.records import NO_TIME, Records

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.util import tensor_util

Read = Callable[..., Records]

TAGS = ["loss", "lm loss", "lm_loss", "train/grad_norm", "损失/训练", "x" * 70, "eight ch", "acc"]
PLUGIN_OF = {"acc": "scalars", "train/grad_norm": "scalars"}

int64 = st.integers(-(2**63), 2**63 - 1)
tags = st.sampled_from(TAGS)


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    """A tensor of one number, in a type and encoding that TensorBoard can read."""
    dtype = draw(
        st.sampled_from(["float32", "float64", "int32", "int64", "uint8", "uint16", "int16", "int8", "bool", "float16"])
    )
    kind = np.dtype(dtype)
    if kind.kind == "f":
        number = np.array(draw(st.floats(width=8 * kind.itemsize)), kind)
    elif kind.kind == "b":
        number = np.array(draw(st.booleans()))
    else:
        limits = np.iinfo(kind)
        number = np.array(draw(st.integers(int(limits.min), int(limits.max))), kind)
    array = number.reshape(draw(st.sampled_from([(), (1,), (1, 1, 1)])))
    message = tensor_util.make_tensor_proto(array)
    if draw(st.booleans()) and kind.kind != "b":
        # The other encoding: raw bytes, which make_tensor_proto uses for larger arrays only.
        message = tensor_pb2.TensorProto(
            dtype=message.dtype, tensor_shape=message.tensor_shape, tensor_content=array.tobytes()
        )
    return message


@st.composite
def values(draw: st.DrawFn) -> Any:
    """A value: mostly a scalar in either form, sometimes what is none."""
    tag = draw(tags)
    what = draw(
        st.sampled_from(["simple", "simple", "tensor", "tensor", "histogram", "image", "strings", "matrix", "nothing"])
    )
    if what == "simple":
        return summary_pb2.Summary.Value(tag=tag, simple_value=draw(st.floats(width=32)))
    metadata = summary_pb2.SummaryMetadata()
    if draw(st.booleans()) and tag in PLUGIN_OF:
        metadata.plugin_data.plugin_name = PLUGIN_OF[tag]
    value = summary_pb2.Summary.Value(tag=tag, metadata=metadata)
    if what == "tensor":
        value.tensor.CopyFrom(draw(tensors()))
    elif what == "histogram":
        value.histo.bucket.extend(draw(st.lists(st.floats(), max_size=20)))
    elif what == "image":
        value.image.encoded_image_string = draw(st.binary(max_size=30))
    elif what == "strings":
        value.tensor.CopyFrom(tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"a", b"b"]))
    elif what == "matrix":
        value.tensor.CopyFrom(tensor_util.make_tensor_proto(np.ones((2, 2), np.float32)))
    return value


@st.composite
def event_files(draw: st.DrawFn) -> bytes:
    """A whole file; the fields of an event come in any order, as protobuf allows."""
    content = version()
    for _ in range(draw(st.integers(0, 12))):
        parts = [
            event_pb2.Event(wall_time=draw(st.floats(-1e9, 4e9))).SerializeToString(),
            event_pb2.Event(step=draw(int64)).SerializeToString(),
            event_pb2.Event(
                summary=summary_pb2.Summary(value=draw(st.lists(values(), max_size=5)))
            ).SerializeToString(),
        ]
        content += record(b"".join(draw(st.permutations(parts))))
    return content


def reference(path: Path) -> list[tuple[str, int, float, float]]:
    """(tag, step, wall time, value) of every scalar, decoded by TensorBoard's loader and tensor code."""
    rows = []
    for event in event_file_loader.LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if value.HasField("simple_value"):
                rows.append((value.tag, event.step, event.wall_time, value.simple_value))
            elif value.HasField("tensor") and value.tensor.dtype != types_pb2.DT_STRING:
                array = tensor_util.make_ndarray(value.tensor)
                if array.size == 1:
                    rows.append((value.tag, event.step, event.wall_time, float(array.item())))
    return rows


def segments(rows: list[tuple[str, int, float, float]]) -> list[int]:
    """The segment of each row, in the words of the definition: one more when a tag steps back within it."""
    last: dict[str, tuple[int, int]] = {}
    segment, out = 0, []
    for tag, step, _, _ in rows:
        seen_in, seen_step = last.get(tag, (-1, 0))
        if seen_in == segment and step < seen_step:
            segment += 1
        last[tag] = (segment, step)
        out.append(segment)
    return out


def microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def compare(records: Records, rows: list[tuple[str, int, float, float]]) -> None:
    scalars = records.scalars
    assert [scalars.tags[code] for code in scalars.tag] == [row[0] for row in rows]
    assert scalars.step.tolist() == [row[1] for row in rows]
    assert scalars.wall_time.tolist() == [microseconds(row[2]) for row in rows]
    expected = np.array([row[3] for row in rows], np.float64)
    np.testing.assert_array_equal(scalars.value, expected)
    assert scalars.segment.tolist() == segments(rows)
    assert (scalars.wall_time != NO_TIME).all()


relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@relaxed
@given(content=event_files())
def test_generated_files_of_every_form_equal_tensorboards_decoding(
    read_event_file: Read, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(content)
    records = read_event_file(path)
    compare(records, reference(path))
    assert not records.problems
    values_written = sum(
        len(event.summary.value) for event in event_file_loader.LegacyEventFileLoader(str(path)).Load()
    )
    assert len(records.scalars) + sum(records.coverage.other.values()) == values_written


@relaxed
@given(content=event_files(), data=st.data())
def test_resuming_at_any_bytes_gives_the_same_rows(
    read_event_file: Read, tmp_path: Path, content: bytes, data: st.DataObject
) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
    rows: list[tuple[Any, ...]] = []
    start, state, other = 0, {}, 0
    for cut in [*cuts, len(content)]:
        path.write_bytes(content[:cut])
        piece = read_event_file(path, start=start, state=state)
        assert piece.start == start
        start, state = piece.end, dict(piece.state)
        other += sum(piece.coverage.other.values())
        rows += rows_of(piece)
    path.write_bytes(content)
    whole = read_event_file(path)
    assert repr(rows) == repr(rows_of(whole))
    assert start == whole.end == len(content)
    assert other == sum(whole.coverage.other.values())
    assert state == dict(whole.state)


def rows_of(records: Records) -> list[tuple[Any, ...]]:
    scalars = records.scalars
    names = [scalars.tags[code] for code in scalars.tag]
    columns = (scalars.segment, scalars.step, scalars.wall_time, scalars.value)
    return list(zip(names, *(column.tolist() for column in columns), strict=True))


def test_torch_and_tensorboardx_style_writers_in_both_styles(read_event_file: Read, tmp_path: Path) -> None:
    writer_module = pytest.importorskip("torch.utils.tensorboard")
    with writer_module.SummaryWriter(str(tmp_path / "run")) as writer:
        for step in range(20):
            writer.add_scalar("loss", 1 / (step + 1), step)
            writer.add_scalar("new", step / 3, step, new_style=True)
            writer.add_scalar("precise", step / 3, step, new_style=True, double_precision=True)
        writer.add_text("config", "lr: 0.1")
        writer.add_histogram("weights", np.arange(10.0), 0)
        writer.add_hparams({"lr": 0.1, "layers": 4, "name": "small", "amp": True}, {"hparam/loss": 0.5}, run_name=".")
    (path, *more) = sorted((tmp_path / "run").glob("events*"))
    records = read_event_file(path)
    compare(records, reference(path))
    by_tag = {
        tag: records.scalars.value[records.scalars.tag == k].tolist() for k, tag in enumerate(records.scalars.tags)
    }
    assert by_tag["precise"] == [step / 3 for step in range(20)]
    assert by_tag["new"] == [float(np.float32(step / 3)) for step in range(20)]
    assert records.coverage.other == {"text: config/text_summary": 1, "histogram: weights": 1}
    assert records.run is not None
    assert dict(records.run.metadata) == {"text/config/text_summary": "lr: 0.1"}
    hparams = read_event_file(more[0])
    assert hparams.run is not None
    # torch writes a truth value as the number that it is to Python.
    expected = {"hparams/lr": "0.1", "hparams/layers": "4", "hparams/name": "small", "hparams/amp": "1"}
    assert expected.items() <= hparams.run.metadata.items()
    assert hparams.run.metadata["hparams_session/status"] == "success"
