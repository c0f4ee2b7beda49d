"""Real event files, against TensorBoard's own decoding and the facts known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from replay_parsers.files import sample
from replay_parsers.records import Records
from replay_parsers.tensorboard import recognise

Read = Callable[..., Records]

# Folder: rows of each file, number of tags, first and last step of each file (SOURCES.md beside the files).
FACTS = {
    "resumed-three-files": (
        [2649, 524, 782],
        15,
        [(10_000, 2_510_000), (2_520_000, 3_000_000), (7_130_000, 7_850_000)],
    ),
    "duplicate-steps": ([420], 2, [(0, 199)]),
    "text-summary-that-breaks-tbparse": (
        [91, 11_442, 148],
        11,
        [(10_000, 110_000), (120_000, 13_680_000), (13_690_000, 13_860_000)],
    ),
    "v2-one-scalar": ([1], 1, [(0, 0)]),
}


@pytest.fixture(params=list(FACTS))
def folder(request: pytest.FixtureRequest, shared: Path) -> Path:
    path: Path = shared / "real" / "tensorboard" / request.param
    if not path.is_dir():
        pytest.skip(f"{path.name} is not beside this checkout")
    return path


def test_counts_tags_and_step_ranges_of_real_files(read_event_file: Read, folder: Path) -> None:
    rows, tags, ranges = FACTS[folder.name]
    read = [read_event_file(path) for path in sorted(folder.iterdir())]
    assert [len(records.scalars) for records in read] == rows
    assert len({tag for records in read for tag in records.scalars.tags}) == tags
    assert [(records.scalars.step.min(), records.scalars.step.max()) for records in read] == ranges
    assert not [problem for records in read for problem in records.problems]
    assert [records.end for records in read] == [path.stat().st_size for path in sorted(folder.iterdir())]
    assert all(recognise(sample(path)) == 1.0 for path in folder.iterdir())


def test_every_value_of_real_files_equals_tensorboards_bit_for_bit(read_event_file: Read, folder: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for path in sorted(folder.iterdir()):
        theirs = accumulators.EventAccumulator(
            str(path), size_guidance={accumulators.SCALARS: 0, accumulators.TENSORS: 0}, purge_orphaned_data=False
        ).Reload()
        ours = read_event_file(path).scalars
        expected = {
            tag: [(e.step, e.wall_time, e.value) for e in theirs.Scalars(tag)] for tag in theirs.Tags()["scalars"]
        }
        tensor_module = pytest.importorskip("tensorboard.util.tensor_util")
        for tag in theirs.Tags()["tensors"]:
            if theirs.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                expected[tag] = [
                    (e.step, e.wall_time, tensor_module.make_ndarray(e.tensor_proto).item())
                    for e in theirs.Tensors(tag)
                ]
        assert set(ours.tags) == set(expected)
        for number, tag in enumerate(ours.tags):
            mine = ours.tag == number
            steps, times, values = (np.array(column) for column in zip(*expected[tag], strict=True))
            assert ours.step[mine].tolist() == steps.tolist()
            assert ours.value[mine].astype(np.float32).tobytes() == values.astype(np.float32).tobytes()
            assert ours.value[mine].tobytes() == values.astype(np.float64).tobytes()
            np.testing.assert_allclose(ours.wall_time[mine] / 1e6, times, atol=1e-6, rtol=0)


def test_nothing_of_the_overlap_is_purged(read_event_file: Read, shared: Path) -> None:
    records = read_event_file(next((shared / "real" / "tensorboard" / "duplicate-steps").iterdir()))
    written = Counter(zip(records.scalars.tag.tolist(), records.scalars.step.tolist(), strict=True))
    assert sum(count > 1 for count in written.values()) == 20


def test_the_text_that_breaks_other_readers_is_read(read_event_file: Read, shared: Path) -> None:
    for path in (shared / "real" / "tensorboard" / "text-summary-that-breaks-tbparse").iterdir():
        records = read_event_file(path)
        assert records.run is not None
        assert "ppo" in records.run.metadata["text/Hyperparameters"]


def test_histograms_of_real_files_are_counted(read_event_file: Read, shared: Path) -> None:
    files = sorted((shared / "real" / "tensorboard" / "resumed-three-files").iterdir())
    counts = [read_event_file(path).coverage.other for path in files]
    name = "histogram: Environment/Cumulative Reward_hist"
    assert [count[name] for count in counts] == [213, 49, 73]
