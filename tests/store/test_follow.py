"""Following: the rows are those of one reading at the end, whatever the moments of the looks."""

from __future__ import annotations

import itertools
import math
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest
import toy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replay
from replay.storage import fingerprint
from replay.storage import follow as following
from replay.storage.candidates import Found, PassedOver
from replay.storage.reports import IngestReport, SourceReport
from replay.store import EventStore
from replay_parsers.parser import Request
from replay_parsers.records import Records


class Looks:
    """A follower that looks when it is told to."""

    def __init__(self, store: EventStore, path: Path) -> None:
        self._stop = threading.Event()
        self._reports: Iterator[IngestReport] = iter(())
        self.store, self.path = store, path
        self.memory: following.Memory = {}

    def look(self) -> list[IngestReport]:
        """One look of the same follower: what was new, if anything."""
        from replay.storage import sources
        from replay.storage.ingest import ingest

        return list(
            following.follow(
                lambda: sources.find([self.path]),
                lambda found, memory: ingest(
                    self.store.folder, self.store._ledger, found, progress=None, followed=memory
                ),
                lambda _: None,
                interval=0,
                idle=0,
                stop=self._stop,
                memory=self.memory,
            )
        )


def same_answers(one: EventStore, other: EventStore, run: str) -> None:
    pd.testing.assert_frame_equal(one.scalars(run), other.scalars(run))
    pd.testing.assert_frame_equal(one.events(), other.events())
    pd.testing.assert_frame_equal(one.attempts(run), other.attempts(run))
    volatile = ["parts", "confidence"]
    pd.testing.assert_frame_equal(one.ledger().drop(columns=volatile), other.ledger().drop(columns=volatile))


MEGATRON = "".join(
    f" iteration {step:8d}/ 100000 | consumed samples: {step * 16:12d} | elapsed time per iteration (ms): 100.0 | "
    f"learning rate: 1.000E-04 | global batch size: 16 | lm loss: {5 - math.log(step):.6E} | "
    f"grad norm: 1.000 | number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    for step in [*range(1, 9), *range(5, 12)]
).encode()


def event_file() -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    with tempfile.NamedTemporaryFile() as stream:
        writer = RecordWriter(stream)
        writer.write(Event(wall_time=1.6e9, file_version="brain.Event:2").SerializeToString())
        for step in [*range(8), *range(4, 12)]:
            summary = Summary(value=[Summary.Value(tag="loss", simple_value=1 / (1 + step))])
            writer.write(Event(wall_time=1.6e9 + step, step=step, summary=summary).SerializeToString())
        writer.flush()
        return Path(stream.name).read_bytes()


CONTENTS = {"train-megatron.log": MEGATRON, "events.out.tfevents.1600000000.host": event_file()}


@pytest.mark.parametrize("name", CONTENTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_rows_are_those_of_one_reading_at_the_end(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content = CONTENTS[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    folder = tmp_path_factory.mktemp("followed")
    path = folder / "run" / name
    path.parent.mkdir()
    follower = Looks(replay.open(folder / "store"), path.parent)
    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        with path.open("ab") as stream:
            stream.write(content[begin:end])
        if data.draw(st.booleans()):
            follower.look()
    follower.look()
    at_once = replay.open(folder / "at-once")
    at_once.ingest([path.parent])
    assert len(at_once.scalars(at_once.runs()["run"][0])) > 0
    same_answers(follower.store, at_once, at_once.runs()["run"][0])
    follower.store.compact()
    at_once.compact()
    assert toy.snapshot(follower.store.folder).keys() == toy.snapshot(at_once.folder).keys()


def test_a_line_feed_that_comes_by_itself_ends_the_line(tmp_path: Path) -> None:
    path = tmp_path / "run" / "train-megatron.log"
    path.parent.mkdir()
    path.write_bytes(MEGATRON[:-1])
    follower = Looks(replay.open(tmp_path / "store"), path.parent)
    follower.look()
    path.write_bytes(MEGATRON)
    follower.look()
    at_once = replay.open(tmp_path / "at-once")
    at_once.ingest([path.parent])
    follower.store.compact()
    at_once.compact()
    assert toy.snapshot(follower.store.folder).keys() == toy.snapshot(at_once.folder).keys()


def test_a_record_is_read_again_only_when_it_was_not_complete(
    store: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay_parsers.tensorboard import reader

    starts: list[int] = []
    original = reader.read

    def read(request: Request) -> Iterator[Records]:
        starts.append(request.start)
        return original(request)

    monkeypatch.setattr(reader, "read", read)
    content = CONTENTS["events.out.tfevents.1600000000.host"]
    path = tmp_path / "run" / "events.out.tfevents.1600000000.host"
    path.parent.mkdir()
    path.touch()
    follower = Looks(store, path)
    longest_record = 64
    for begin in range(0, len(content), 37):
        with path.open("ab") as stream:
            stream.write(content[begin : begin + 37])
        follower.look()
        assert begin - starts[-1] < longest_record, "what was complete at the look before is not read again"
    assert len(starts) > 10


def test_what_was_digested_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "BLOCK_BYTES", 100)
    path = tmp_path / "a"
    growing = fingerprint.Growing()
    known: tuple[str, ...] = ()
    length = 0
    for size in (10, 99, 100, 150, 420):
        path.write_bytes(bytes(range(250)) * 2) if not path.exists() else None
        known = growing.digest(path, size, known, length)
        length = size
        assert known == fingerprint.fingerprint(path, size)
    assert growing.continues(path, known, length)
    with path.open("r+b") as stream:
        stream.seek(400)
        stream.write(b"other")
    assert not growing.continues(path, known, length), "written over"
    assert not growing.continues(path, known[:-1], length), "another reading came between"


def test_new_replaced_and_shrunken_files_are_seen(store: EventStore, logs: Path) -> None:
    follower = Looks(store, logs)
    assert follower.look() == []
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    (first,) = follower.look()
    assert [one.status for one in first.sources] == ["ingested"]
    assert follower.look() == [], "nothing is new"
    with (logs / "a.log").open("a") as stream:
        stream.write(toy.lines(*toy.losses(5, 8)))
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 3)))
    (second,) = follower.look()
    assert {Path(one.source).name: one.status for one in second.sources} == {"a.log": "extended", "b.log": "ingested"}
    assert [one.coverage.records for one in second.sources] == [3, 3]
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 2)))
    (third,) = follower.look()
    assert [one.status for one in third.sources] == ["replaced"]
    (logs / "c.log").write_text(toy.log(*toy.losses(100, 120)))
    (logs / "c.log").replace(logs / "b.log")
    (fourth,) = follower.look()
    assert [(Path(one.source).name, one.status) for one in fourth.sources] == [("b.log", "replaced")]
    assert len(store.scalars("b")) == 23


def test_a_file_without_a_beginning_is_recognised_once_it_has_one(store: EventStore, logs: Path) -> None:
    follower = Looks(store, logs)
    (logs / "a.log").write_text('{"toy"')
    assert [one.status for report in follower.look() for one in report.sources] == ["skipped"]
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    assert [one.status for report in follower.look() for one in report.sources] == ["ingested"]


def test_a_log_whose_first_lines_deceive_is_read_anew(store: EventStore, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    follower = Looks(store, folder)
    start = "".join(f"step {step}: loss {5 - step / 10:.4f} lr 0.001\n" for step in range(3))
    (folder / "a.log").write_text(start)
    follower.look()
    (folder / "a.log").write_bytes(start.encode() + MEGATRON)
    follower.look()
    at_once = replay.open(tmp_path / "at-once")
    at_once.ingest([folder])
    assert store.ledger()["format"].tolist() == ["megatron"]
    assert len(store.scalars("a", tag="lm loss")) == 15
    same_answers(store, at_once, "a")


def test_it_ends_when_nothing_is_new_or_when_it_is_asked_to(store: EventStore, logs: Path) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 5)))
    assert len(list(store.follow([logs], interval=0.01, idle=0.05))) == 1
    stop = threading.Event()
    (logs / "b.log").write_text(toy.log(*toy.losses(0, 5)))
    for report in store.follow([logs], interval=0.01, stop=stop):
        assert [one.status for one in report.sources if one.status != "unchanged"] == ["ingested"]
        stop.set()


def test_many_small_parts_are_merged_on_the_way(store: EventStore, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "TIDY_AFTER", 4)
    monkeypatch.setattr(following, "TIDY_SHARE", math.inf)  # however slow the machine, it is merged in time
    (logs / "other.log").write_text(toy.log(*toy.losses(0, 5)))
    store.ingest([logs])
    others = {path for path in toy.snapshot(store.folder) if "run=other/" in path}
    path = logs / "a.log"
    path.write_text(toy.log())
    at = 0
    for _ in store.follow([logs], interval=0.001, idle=0.01):
        if at < 60:
            with path.open("a") as stream:
                stream.write(toy.lines(*toy.losses(at, at + 1)))
            at += 1
    parts = [name for name in toy.snapshot(store.folder) if name.startswith("scalars/run=a/")]
    assert 1 <= len(parts) <= 8
    assert store.scalars("a")["step"].tolist() == list(range(60))
    assert others <= toy.snapshot(store.folder).keys(), "what is not followed stays as it is"


class Clock(threading.Event):
    """A time that passes only while a follower waits for the next look, or where a test lets it pass."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now += timeout
        return self.is_set()


class Simulated:
    """A follower of one source, of which there is something new at a look whenever it has another length.

    ``look_takes`` and ``tidying_takes`` are seconds; ``in_a_look`` and ``in_tidying`` are called while it goes on.
    """

    def __init__(self, *, look_takes: float = 0.0, tidying_takes: float = 0.0) -> None:
        self.clock = Clock()
        self.look_takes, self.tidying_takes = look_takes, tidying_takes
        self.length = 0
        self.looks = 0
        self.seen: list[int] = []
        self.tidied: list[float] = []
        self.in_a_look: Callable[[], None] = lambda: None
        self.in_tidying: Callable[[], None] = lambda: None

    def grow(self, most: int) -> None:
        self.length = min(self.length + 1, most)

    def follow(self, *, idle: float | None) -> Iterator[IngestReport]:
        return following.follow(
            self._look, self._read, self._tidy, interval=1.0, idle=idle, stop=self.clock, clock=self.clock
        )

    def _look(self) -> list[PassedOver]:
        self.looks += 1
        found = [PassedOver(source="a", reason=f"{self.length} bytes")]
        self.clock.now += self.look_takes
        self.in_a_look()
        return found

    def _read(self, found: Sequence[Found], memory: following.Memory) -> IngestReport:  # noqa: ARG002
        (one,) = found
        assert isinstance(one, PassedOver)
        self.seen.append(int(one.reason.split()[0]))
        return IngestReport([SourceReport(source="a", status="extended")])

    def _tidy(self, grown: set[str]) -> None:
        assert grown == {"a"}
        self.tidied.append(self.clock.now)
        self.clock.now += self.tidying_takes
        self.in_tidying()


def test_merging_keeps_to_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "TIDY_AFTER", 4)
    takes = 10.0
    follower = Simulated(tidying_takes=takes)
    begun = follower.clock.now
    for _ in follower.follow(idle=None):
        follower.grow(2_000)
        if follower.length == 2_000:
            follower.clock.set()
    assert follower.tidied[0] - begun == 3.0, "the first is not waited for"
    for number, at in enumerate(follower.tidied):
        assert number * takes <= following.TIDY_SHARE * (at - begun), "what was spent until then"
    rests = [later - earlier for earlier, later in itertools.pairwise(follower.tidied)]
    assert len(rests) > 5
    assert max(rests) < 1.1 * takes / following.TIDY_SHARE, "nor does it rest longer than it must"


def test_what_comes_while_a_report_is_dealt_with_is_seen_however_long_that_takes() -> None:
    follower = Simulated()
    for _ in follower.follow(idle=5.0):
        follower.clock.now += 3600.0
        follower.grow(7)
    assert follower.seen == list(range(8))
    assert follower.clock.now == 1000.0 + 8 * 3600.0 + 7 * 1.0 + 5.0, "and then nothing was new for as long as told"


def test_what_comes_while_parts_are_merged_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "TIDY_AFTER", 1)
    monkeypatch.setattr(following, "TIDY_SHARE", math.inf)
    follower = Simulated(tidying_takes=3600.0)
    follower.in_tidying = lambda: follower.grow(7)
    assert len(list(follower.follow(idle=5.0))) == 8
    assert follower.seen == list(range(8))


def test_what_comes_while_a_look_goes_on_is_seen_by_the_next() -> None:
    follower = Simulated(look_takes=60.0)
    follower.in_a_look = lambda: follower.grow(1) if follower.looks == 2 else None
    list(follower.follow(idle=5.0))
    assert follower.seen == [0, 1]


def test_without_idle_seconds_it_looks_once_however_long_that_takes() -> None:
    follower = Simulated(look_takes=60.0)
    assert len(list(follower.follow(idle=0))) == follower.looks == 1
