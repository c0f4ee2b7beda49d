"""How an event file is read: recognition, restarts and segments, pieces, resumption, the run's metadata."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from event_file_writer import (
    bytes_field,
    double_field,
    event,
    histogram,
    metadata,
    number_field,
    record,
    scalar_file,
    scalar_record,
    session_log,
    simple,
    summary,
    tensor,
    text,
    version,
)

from replay_parsers.detection import join
from replay_parsers.files import sample
from replay_parsers.parser import Request, Sample
from replay_parsers.records import EventKind, Evidence, ProblemKind, Records, TimePrecision
from replay_parsers.tensorboard import PARSER, buffers, recognise, spare
from replay_parsers.tensorboard import metadata as metadata_module

Read = Callable[..., Records]


def confidence(content: bytes) -> float:
    return recognise(Sample(path=Path("events.out.tfevents.1.host"), head=content, whole=True))


# -- recognition -------------------------------------------------------------------------------------------------


def test_an_event_file_is_recognised_by_its_first_record() -> None:
    assert confidence(scalar_file("x", [1.0])) == 1.0
    assert confidence(version()) == 1.0
    assert confidence(scalar_record("x", 1, 1.0)) == 0.9
    assert confidence(version()[:12]) == 0.9


def test_an_event_file_with_a_damaged_beginning_is_still_recognised() -> None:
    content = scalar_file("x", [1.0, 2.0])
    assert confidence(b"\xff" + content[1:]) == 0.8
    assert confidence(b"\0" * 700 + content[60:]) == 0.6


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        bytes(65_536),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
        b"iteration 1 | loss 2.0\n" * 1000,
        b"\x1f\x8b" + bytes(100),
        bytes(range(256)) * 256,
        scalar_file("x", [1.0])[:11],
    ],
    ids=["empty", "one zero", "zeros", "LFS pointer", "text", "gzip", "bytes", "half a header"],
)
def test_what_is_no_event_file_is_not_recognised(content: bytes) -> None:
    assert confidence(content) == 0.0


def test_a_name_without_host_or_with_a_suffix_does_not_matter(tmp_path: Path) -> None:
    for name in (
        "events.out.tfevents.1600000000",
        "events.out.tfevents.1.v2",
        "events.out.tfevents.1.profile-empty",
        "x",
    ):
        path = tmp_path / name
        path.write_bytes(scalar_file("x", [1.0]))
        assert PARSER.recognise(sample(path)) == 1.0


# -- restarts ----------------------------------------------------------------------------------------------------


def test_gotcha_3_the_overlap_of_a_restart_is_kept_with_its_segments_and_its_nan(read_event_file: Read) -> None:
    before = [scalar_record("loss", step, 1.0 if step < 99 else float("nan")) for step in range(100)]
    after = [scalar_record("loss", step, 2.0) for step in range(60, 150)]
    start = record(event(session_log(1), step=60, wall_time=1.6e9))
    records = read_event_file(version() + b"".join(before) + start + b"".join(after))
    assert records.scalars.step.tolist() == [*range(100), *range(60, 150)]
    assert records.scalars.segment.tolist() == [0] * 100 + [1] * 90
    assert np.isnan(records.scalars.value[99])


def test_gotcha_3_a_session_start_in_midst_of_a_file_is_a_restart(read_event_file: Read) -> None:
    content = version() + record(event(session_log(1), wall_time=1.6e9))
    content += b"".join(scalar_record("loss", step, 1.0) for step in range(100))
    content += record(event(session_log(1), step=60, wall_time=1655716200.5)) + scalar_record("loss", 61, 1.0)
    (restart,) = read_event_file(content).events
    assert (restart.kind, restart.step, restart.before, restart.unit) == (EventKind.RESTART, 60, 99.0, "step")
    assert restart.time == datetime(2022, 6, 20, 9, 10, 0, 500_000, tzinfo=UTC)
    assert restart.time_precision is TimePrecision.SECOND
    assert restart.evidence is Evidence.LOGGED
    assert restart.event == "run/restart@60"
    assert restart.locator.startswith("byte ")


def test_the_start_that_begins_every_file_is_no_event(read_event_file: Read) -> None:
    assert read_event_file(version() + record(event(session_log(1), wall_time=1.0))).events == ()


def test_a_start_at_a_later_step_and_one_from_scratch_are_restarts(read_event_file: Read) -> None:
    later = read_event_file(version() + record(event(session_log(1), step=500, wall_time=float("nan"))))
    assert [(e.kind, e.step, e.before, e.time) for e in later.events] == [(EventKind.RESTART, 500, None, None)]
    again = read_event_file(scalar_file("x", [1.0, 2.0]) + 2 * record(event(session_log(1), wall_time=1.0)))
    assert [(e.event, e.step, e.before) for e in again.events] == [
        ("run/restart@0", 0, 1.0),
        ("run/restart@0-2", 0, 1.0),
    ]


def test_saved_checkpoints_and_the_end_of_a_session_are_events(read_event_file: Read) -> None:
    saved = record(event(session_log(3, "model.ckpt-1000"), step=1000, wall_time=1.0))
    ended = record(event(session_log(2, message="done"), step=1200, wall_time=2.0))
    events = read_event_file(version() + saved + ended + record(event(session_log(0), step=1))).events
    assert [(e.kind, e.step, dict(e.detail)) for e in events] == [
        (EventKind.CHECKPOINT_SAVE, 1000, {"checkpoint": "model.ckpt-1000"}),
        (EventKind.END, 1200, {}),
    ]
    assert "done" in events[1].text


def test_a_segment_is_opened_by_the_first_tag_that_steps_back_and_by_no_later_one(read_event_file: Read) -> None:
    order = [("loss", 10), ("val", 10), ("loss", 20), ("loss", 15), ("loss", 16), ("val", 5), ("val", 5), ("val", 4)]
    records = read_event_file(version() + b"".join(scalar_record(tag, step, 1.0) for tag, step in order))
    assert records.scalars.segment.tolist() == [0, 0, 0, 1, 1, 1, 1, 2]


def test_gotcha_4_two_writers_in_turn_in_one_file_keep_their_order_and_times(read_event_file: Read) -> None:
    rows = [(10, 100.0), (1, 50.0), (11, 101.0), (2, 51.0)]
    records = read_event_file(version() + b"".join(scalar_record("x", step, step, time) for step, time in rows))
    assert records.scalars.step.tolist() == [10, 1, 11, 2]
    assert records.scalars.wall_time.tolist() == [100_000_000, 50_000_000, 101_000_000, 51_000_000]
    assert records.scalars.segment.tolist() == [0, 1, 1, 2]


# -- pieces and resumption ---------------------------------------------------------------------------------------


def test_a_long_file_comes_in_pieces_with_adjacent_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "ROWS_A_PIECE", 100)
    path = tmp_path / "events"
    pairs = (record(event(summary(simple("a", step), simple("b", -step)), step=step)) for step in range(500))
    path.write_bytes(version() + b"".join(pairs))
    pieces = list(PARSER.read(Request(path=path, source="events", run="run")))
    assert [len(piece.scalars) for piece in pieces] == [100] * 10 + [0]
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == path.stat().st_size
    whole = join(pieces)
    assert whole.scalars.step.tolist() == [step for step in range(500) for _ in "ab"]
    assert sum(piece.coverage.bytes_read for piece in pieces) == path.stat().st_size
    for piece in pieces[:-1]:
        rest = join(list(PARSER.read(Request(path=path, source="s", run="r", start=piece.end, state=piece.state))))
        assert len(rest.scalars) == 1000 - sum(len(p.scalars) for p in pieces if p.end <= piece.end)


def test_memory_of_a_piece_is_used_again_only_when_nobody_holds_the_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "ROWS_A_PIECE", 100)
    monkeypatch.setattr(buffers, "_SPARE_ROWS", 10)
    monkeypatch.setattr(spare, "SPARE_BYTES", -1)  # no memory is of this length, so none is handed on
    path = tmp_path / "events"
    path.write_bytes(version() + b"".join(scalar_record("a", step, step) for step in range(1000)))
    request = Request(path=path, source="events", run="run")

    places = set()
    for piece in PARSER.read(request):
        if len(piece.scalars):
            places.add(piece.scalars.step.ctypes.data)
        del piece
    assert len(places) == 1, "all pieces lay in the same memory"

    held = [piece.scalars.step for number, piece in enumerate(PARSER.read(request)) if number in (0, 3, 4)]
    assert [step[0] for step in held] == [0, 300, 400], "one column is enough to keep a piece"
    assert [step[-1] for step in held] == [99, 399, 499]
    part_of_one = [piece.scalars.value[40:60:5] for piece in PARSER.read(request)]
    assert [part.tolist() for part in part_of_one[:2]] == [[40, 45, 50, 55], [140, 145, 150, 155]]


def test_small_files_share_memory_but_never_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "ROWS_A_PIECE", 100)
    monkeypatch.setattr(spare, "_spare", [])
    paths = [tmp_path / f"events-{number}" for number in range(6)]
    for number, path in enumerate(paths):
        path.write_bytes(version() + b"".join(scalar_record(f"tag{number}", step, number) for step in range(150)))
    requests = [Request(path=path, source=str(path), run="run") for path in paths]

    one_by_one = [join(list(PARSER.read(request))) for request in requests]
    assert len(spare._spare) == 2, "one for the bytes of a file, one for its columns"
    readings = [PARSER.read(request) for request in requests]
    in_turn = [[next(reading) for reading in readings] for _ in range(2)]
    left_off = PARSER.read(requests[0])
    next(left_off)
    left_off.close()
    for number, records in enumerate(one_by_one):
        assert set(records.scalars.value.tolist()) == {float(number)}
        assert records.scalars.tags == (f"tag{number}",)
        for first, pieces in zip((0, 100), in_turn, strict=True):
            assert pieces[number].scalars.value.tolist() == [float(number)] * min(100, 150 - first)
            assert pieces[number].scalars.step.tolist() == list(range(first, min(first + 100, 150)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.slow  # writes 250 MB
def test_memory_stays_flat_whatever_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    tags = [f"layers.{layer}.attention.dense.weight/grad_norm" for layer in range(2000)]
    block = b"".join(scalar_record(tag, 1, 1.0) for tag in tags)
    with path.open("wb") as stream:
        stream.write(version())
        for _ in range(1500):
            stream.write(block)
    code = """if True:
        import sys
        from pathlib import Path
        from replay_parsers.parser import Request
        from replay_parsers.tensorboard import PARSER
        pieces = PARSER.read(Request(path=Path(sys.argv[1]), source="events", run="run"))
        rows = sum(len(piece.scalars) for piece in pieces)
        # Not getrusage: its peak is handed down from the process that started this one.
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        print(rows, int(status["VmHWM"].split()[0]) // 1024)
    """
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)  # compiles, where need be
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    rows, megabytes = map(int, done.stdout.split())
    assert rows == 2000 * 1500
    assert megabytes < 350


def test_an_event_with_more_values_than_the_columns_have_room_for(read_event_file: Read) -> None:
    values = [simple(f"tag {k}", k) for k in range(5000)]
    scalars = read_event_file(
        version() + record(event(summary(*values), step=1)) + scalar_record("tag 7", 2, 7.5)
    ).scalars
    assert scalars.value.tolist() == [*range(5000), 7.5]
    assert scalars.tags == tuple(f"tag {k}" for k in range(5000))


@pytest.fixture
def event_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Records]]:
    """A file with one event of 5000 values and a text among others, read in pieces of some 110 rows."""
    monkeypatch.setattr(buffers, "ROWS_A_PIECE", 100)
    monkeypatch.setattr(buffers, "_SPARE_ROWS", 10)
    path = tmp_path / "events"
    values = [simple(f"tag {k % 500}", k) for k in range(5000)]
    values.insert(250, text("config", "lr: 1"))
    many = number_field(6, 1) + summary(*values[:3000]) + summary(*values[3000:])
    before = b"".join(scalar_record("tag 7", step, -1.0) for step in range(30))
    # The step stands behind the values, so that only the whole event tells it.
    path.write_bytes(version() + before + record(many + event(step=31)) + scalar_record("tag 7", 32, 7.5))
    return path, list(PARSER.read(Request(path=path, source="events", run="run")))


def test_an_event_of_very_many_values_is_given_out_in_pieces_of_bounded_size(
    event_in_pieces: tuple[Path, list[Records]],
) -> None:
    path, pieces = event_in_pieces
    assert max(len(piece.scalars) for piece in pieces) == 110
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert all(piece.start < piece.end for piece in pieces)
    assert pieces[-1].end == path.stat().st_size
    whole = join(pieces)
    assert whole.scalars.value.tolist() == [*[-1.0] * 30, *range(5000), 7.5]
    assert whole.scalars.step.tolist() == [*range(30), *[31] * 5000, 32]
    assert not whole.problems
    assert (whole.coverage.bytes_read, whole.coverage.other) == (path.stat().st_size, {"text: config": 1})


def test_reading_goes_on_from_within_an_event(event_in_pieces: tuple[Path, list[Records]]) -> None:
    path, pieces = event_in_pieces
    whole = join(pieces)
    read = 0
    for piece in pieces:
        read += len(piece.scalars)
        state = json.loads(json.dumps(piece.state))
        rest = join(list(PARSER.read(Request(path=path, source="s", run="r", start=piece.end, state=state))))
        assert rest.scalars.value.tolist() == whole.scalars.value.tolist()[read:]
        assert rest.scalars.step.tolist() == whole.scalars.step.tolist()[read:]
        assert rest.end == whole.end


def test_an_event_that_was_cut_off_or_damaged_after_a_part_of_it_was_read(
    event_in_pieces: tuple[Path, list[Records]],
) -> None:
    path, pieces = event_in_pieces
    content = path.read_bytes()
    part = pieces[9]

    def rest(changed: bytes, after: Records) -> Records:
        path.write_bytes(changed)
        request = Request(path=path, source="s", run="r", start=after.end, state=after.state)
        return join(list(PARSER.read(request)))

    cut = rest(content[: part.end + 20], part)
    assert [problem.kind for problem in cut.problems] == [ProblemKind.TRUNCATED]
    assert (cut.start, cut.end) == (part.end, part.end)
    assert rest(content, cut).scalars.value.tolist()[-2:] == [4999.0, 7.5]
    header = content.index(version()) + len(version()) + 30 * len(scalar_record("tag 7", 0, 1.0))
    damaged = rest(content[:header] + b"\xff" * 12 + content[header + 12 :], part)
    assert damaged.scalars.value.tolist() == [7.5]
    assert [problem.kind for problem in damaged.problems] == [ProblemKind.CORRUPT]
    assert damaged.end == len(content)


def test_a_piece_names_only_the_tags_that_have_rows_in_it(read_event_file: Read) -> None:
    content = version() + scalar_record("first", 1, 1.0) + record(event(summary(histogram("weights")), step=1))
    first = read_event_file(content)
    grown = content + scalar_record("second", 1, 1.0) + scalar_record("first", 2, 1.0)
    second = read_event_file(grown, start=first.end, state=dict(first.state))
    assert (first.scalars.tags, second.scalars.tags) == (("first",), ("second", "first"))


def test_values_under_more_tags_than_are_read_of_a_file_are_counted_and_told(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "MOST_TAGS", 100)
    monkeypatch.setattr(buffers, "ROWS_A_PIECE", 50)
    rows = [scalar_record(f"tag {k}", 1, k) for k in range(130)]
    rows.append(record(event(summary(histogram("one more"), simple("tag 2", 0.25), simple("tag 128", 0.0)), step=2)))
    content = version() + b"".join(rows)
    records = read_event_file(content)
    assert records.scalars.tags == tuple(f"tag {k}" for k in range(100))
    assert records.scalars.value.tolist() == [*range(100), 0.25]
    assert records.coverage.not_understood == 32
    assert not records.coverage.other
    (problem,) = records.problems
    assert (problem.kind, problem.offset) == (ProblemKind.NOT_UNDERSTOOD, content.index(rows[100]))
    for said in ("32 values from here on left out", "100 different tags are read", "'tag 100' is one more"):
        assert said in problem.message
    assert "use the same tags at every step" in problem.message

    # The same tags, whatever the moments of the reads.
    first = read_event_file(content[: content.index(rows[60])])
    second = read_event_file(content[: content.index(rows[120])], start=first.end, state=dict(first.state))
    third = read_event_file(content, start=second.end, state=json.loads(json.dumps(second.state)))
    assert join([first, second, third]).scalars.value.tolist() == records.scalars.value.tolist()
    assert [part.coverage.not_understood for part in (first, second, third)] == [0, 20, 12]


def test_the_names_of_all_tags_together_are_of_bounded_size(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "MOST_NAME_BYTES", 100_000)
    names = ["x" * 60_000, "y" * 60_000, "z" * 30_000, "short"]
    records = read_event_file(version() + b"".join(scalar_record(name, 1, k) for k, name in enumerate(names)))
    assert records.scalars.tags == (names[0], names[2], names[3])
    (problem,) = records.problems
    assert "1 value from here on" in problem.message
    assert "of 100000 bytes together" in problem.message
    assert len(problem.message) < 500


def test_a_table_of_tags_grows_after_it_was_restored(read_event_file: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "MOST_TAGS", 150)
    monkeypatch.setattr(buffers, "MOST_NAME_BYTES", 100_000)
    rows = [scalar_record(f"tag {k}", 1, k) for k in range(140)]
    rows.append(scalar_record("x" * 50_000, 1, 140.0))
    first = read_event_file(version() + b"".join(rows[:100]))
    second = read_event_file(version() + b"".join(rows), start=first.end, state=dict(first.state))
    assert second.scalars.value.tolist() == list(range(100, 141))
    assert not second.problems


def test_the_state_survives_json_and_carries_plugins_segments_and_odd_tags(read_event_file: Read) -> None:
    number = bytes_field(4, b"\0\0\x80\x3f")
    content = version() + record(event(summary(tensor("curve", "float32", number, more=metadata("mine"))), step=5))
    content += scalar_record(b"odd\xff", 9, 1.0) + scalar_record(b"odd\xff", 5, 1.0)
    first = read_event_file(content)
    grown = content + record(event(summary(tensor("curve", "float32", number), simple(b"odd\xff", 2.0)), step=4))
    second = read_event_file(grown, start=first.end, state=json.loads(json.dumps(first.state)))
    assert second.coverage.other == {"mine: curve": 1}
    assert second.scalars.tags == ("odd\\xff",)
    assert (first.scalars.segment.tolist(), second.scalars.segment.tolist()) == ([0, 1], [2])


def test_a_file_that_has_shrunk_gives_a_problem(read_event_file: Read) -> None:
    content = scalar_file("x", [1.0, 2.0, 3.0])
    first = read_event_file(content)
    second = read_event_file(content[:100], start=first.end, state=dict(first.state))
    assert len(second.scalars) == 0
    assert second.end == first.end
    (problem,) = second.problems
    assert problem.kind is ProblemKind.UNREADABLE
    assert "100 bytes" in problem.message


def test_gotcha_17_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    content = scalar_file("x", range(3000))
    writer = threading.Thread(target=path.write_bytes, args=[content], daemon=True)
    writer.start()
    records = join(list(PARSER.read(Request(path=path, source="pipe", run="run"))))
    writer.join(timeout=10)
    assert records.scalars.value.tolist() == list(range(3000))
    assert records.end == len(content)


def test_a_file_that_is_not_there_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(PARSER.read(Request(path=tmp_path / "none", source="none", run="run")))


# -- metadata ----------------------------------------------------------------------------------------------------


def hparam(name: str, value: bytes) -> bytes:
    return bytes_field(1, bytes_field(1, name) + bytes_field(2, value))


def test_text_and_hyperparameters_become_metadata(read_event_file: Read) -> None:
    nested = bytes_field(6, bytes_field(1, double_field(2, 0.9)) + bytes_field(1, double_field(2, 0.95)))
    struct_value = bytes_field(5, bytes_field(1, bytes_field(1, "beta") + bytes_field(2, number_field(4, 1))))
    hparams = {
        "lr": double_field(2, 6e-5),
        "layers": double_field(2, 70.0),
        "amp": number_field(4, 1),
        "name": bytes_field(3, "large"),
        "betas": nested,
        "flags": struct_value,
        "none": number_field(1, 0),
    }
    session = b"".join(hparam(name, value) for name, value in hparams.items()) + bytes_field(4, "group a")
    content = number_field(1, 0) + bytes_field(3, session)
    values = [
        bytes_field(1, "_hparams_/session_start_info") + metadata("hparams", content),
        bytes_field(1, "_hparams_/experiment") + metadata("hparams", bytes_field(2, bytes_field(6, "sweep"))),
        text("config", "lr: 6e-5", "betas: 0.9, 0.95"),
    ]
    later = text("config", "something else", first=False)
    records = read_event_file(version() + record(event(summary(*values))) + record(event(summary(later), step=5)))
    assert records.run is not None
    assert records.run.run == "run"
    assert dict(records.run.metadata) == {
        "hparams/lr": "6e-05",
        "hparams/layers": "70",
        "hparams/amp": "true",
        "hparams/name": "large",
        "hparams/betas": "[0.9, 0.95]",
        "hparams/flags": '{"beta": true}',
        "hparams/none": "null",
        "hparams_session/group": "group a",
        "hparams_session/experiment": "sweep",
        "text/config": "lr: 6e-5\nbetas: 0.9, 0.95",
    }
    assert records.coverage.other["text: config"] == 2


def test_metadata_is_of_bounded_size_and_says_what_it_left_out(read_event_file: Read) -> None:
    long = metadata_module.LONGEST_TEXT
    count = metadata_module.LONGEST_METADATA // long + 5
    values = [text(f"text {k}", "x" * (long + 10)) for k in range(count)]
    records = read_event_file(version() + record(event(summary(*values))))
    assert records.run is not None
    assert records.run.metadata["text/text 0"] == "x" * long + "… (10 more characters)"
    assert sum(map(len, records.run.metadata.values())) < metadata_module.LONGEST_METADATA + 50 * count


def test_a_very_long_text_is_never_in_memory_as_a_whole() -> None:
    count, long = 200_000, metadata_module.LONGEST_TEXT
    single = text("config", "é" * 10_000_000)
    several = text("notes", *["ab"] * count)
    metadata = metadata_module.RunMetadata({})
    tracemalloc.start()
    try:
        metadata.add_text("config", single)
        metadata.add_text("notes", several)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    kept = metadata.take()
    assert kept["text/config"] == "é" * long + f"… ({10_000_000 - long} more characters)"
    assert kept["text/notes"].startswith("ab\nab\nab")
    assert kept["text/notes"].endswith(f"… ({3 * count - 1 - long} more characters)")
    assert most < 1_000_000


def test_a_text_is_decoded_alike_in_pieces_and_as_a_whole(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_module, "_DECODED_AT_A_TIME", 3)
    odd = "lr: 6e-5 \N{GREEK SMALL LETTER BETA} \N{ROCKET} end".encode() + b"\xff\xe2\x82"
    value = tensor("config", "string", bytes_field(8, odd), bytes_field(8, b""), shape=(2,), more=metadata("text"))
    records = read_event_file(version() + record(event(summary(value))))
    assert records.run is not None
    assert records.run.metadata["text/config"] == odd.decode(errors="replace") + "\n"


def test_hyperparameters_of_a_size_that_none_have_are_told_and_not_read(
    read_event_file: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_module, "LONGEST_HPARAMS", 1000)
    content = bytes_field(3, hparam("name", bytes_field(3, "x" * 1000)))
    records = read_event_file(version() + record(event(summary(bytes_field(1, "h") + metadata("hparams", content)))))
    assert records.run is not None
    assert list(records.run.metadata) == ["hparams"]
    assert "more than the 1000 that are read" in records.run.metadata["hparams"]


def test_deeply_nested_and_malformed_hyperparameters_are_told_and_not_followed(read_event_file: Read) -> None:
    deep = double_field(2, 1.0)
    for _ in range(500):
        deep = bytes_field(6, bytes_field(1, deep))
    content = bytes_field(3, hparam("deep", deep))
    broken = bytes_field(1, "b") + metadata("hparams", b"\x1a\x7f")
    records = read_event_file(
        version()
        + record(event(summary(bytes_field(1, "h") + metadata("hparams", content))))
        + record(event(summary(broken, simple("x", 1.0)), step=1))
    )
    assert records.run is not None
    assert "…" in records.run.metadata["hparams/deep"]
    assert [problem.kind for problem in records.problems] == [ProblemKind.INVALID]
    assert records.scalars.value.tolist() == [1.0]


def test_a_run_is_told_only_where_there_is_something_to_say(read_event_file: Read) -> None:
    assert read_event_file(scalar_file("x", [1.0])).run is None
