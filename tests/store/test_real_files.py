"""The store on real parsers: files that others wrote, and what TensorBoard shows of the same ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import replay
from replay.store import EventStore

# What is true of the real files, per run: rows, number of tags (where known), first and last step.
TENSORBOARD = {
    "duplicate-steps": (420, 2, 0, 199),
    "resumed-three-files": (2649 + 524 + 782, None, 10_000, 7_850_000),
    "text-summary-that-breaks-tbparse": (91 + 11_442 + 148, 11, 10_000, 13_860_000),
    "v2-one-scalar": (1, 1, None, None),
}


def accumulated(folder: Path, *, purge: bool) -> dict[str, list[tuple[int, float]]]:
    """Tag to steps and values as TensorBoard's own reader tells them."""
    accumulator_module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tensorboard.util import tensor_util

    accumulator = accumulator_module.EventAccumulator(
        str(folder), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=purge
    )
    accumulator.Reload()
    found = {tag: [(row.step, row.value) for row in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    for tag in accumulator.Tags()["tensors"]:
        if accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
            rows = accumulator.Tensors(tag)
            found[tag] = [(row.step, float(tensor_util.make_ndarray(row.tensor_proto).item())) for row in rows]
    return found


def purged(found: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard's data server keeps: a step back throws away what the tag had from that step on.

    Its reader in Python does so only after a session's start, which few trainers write.
    """
    kept: dict[str, list[tuple[int, float]]] = {}
    for tag, rows in found.items():
        kept[tag] = []
        for step, value in rows:
            while kept[tag] and kept[tag][-1][0] >= step:
                kept[tag].pop()
            kept[tag].append((step, value))
    return kept


def stored(store: EventStore, run: str, view: str) -> dict[str, list[tuple[int, float]]]:
    """The same from the store."""
    frame = store.scalars(run, view=view)  # type: ignore[arg-type]
    return {
        str(tag): list(zip(rows["step"].tolist(), rows["value"].tolist(), strict=True))
        for tag, rows in frame.groupby("tag")
    }


def as_float32(found: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, bytes]]]:
    """Values by their bits, so that NaN equals itself, in the order of the steps."""
    return {
        tag: sorted((step, np.float32(value).tobytes()) for step, value in rows) for tag, rows in sorted(found.items())
    }


def test_real_event_files_are_stored_as_they_are(store: EventStore, shared: Path) -> None:
    folders = sorted((shared / "real" / "tensorboard").iterdir())
    report = store.ingest(folders)
    assert report.exit_code == 0
    runs = store.runs().set_index("run")
    assert set(runs.index) == set(TENSORBOARD)
    for folder in folders:
        rows, tags, first, last = TENSORBOARD[folder.name]
        assert runs.loc[folder.name, "n_scalars"] == rows == len(store.scalars(folder.name))
        assert tags in (None, len(store.tags(folder.name)))
        assert first in (None, runs.loc[folder.name, "first_step"])
        assert last in (None, runs.loc[folder.name, "last_step"])
        assert as_float32(stored(store, folder.name, "all")) == as_float32(accumulated(folder, purge=False))


def test_real_event_files_survive_as_tensorboard_shows_them(store: EventStore, shared: Path) -> None:
    folders = sorted((shared / "real" / "tensorboard").iterdir())
    store.ingest(folders)
    for folder in folders:
        assert as_float32(stored(store, folder.name, "surviving")) == as_float32(
            purged(accumulated(folder, purge=True))
        )


@pytest.fixture
def restarted(tmp_path: Path) -> Path:
    """A run of two event files: steps 0 to 99, then from step 60 on to 149, as after a restart from 60."""
    writer_module = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto import event_pb2, summary_pb2

    folder = tmp_path / "runs" / "restarted"
    for number, (first, end) in enumerate([(0, 100), (60, 150)]):
        writer = writer_module.EventFileWriter(str(folder), filename_suffix=f".{number}")
        start = 1_600_000_000 + 1000 * number
        if number:
            session = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            writer.add_event(event_pb2.Event(wall_time=start, step=first, session_log=session))
        for step in range(first, end):
            values = [
                summary_pb2.Summary.Value(tag="loss", simple_value=number + 1 / (step + 1)),
                summary_pb2.Summary.Value(tag="lr", simple_value=float("nan") if step == 80 else 0.1),
            ]
            summary = summary_pb2.Summary(value=values if step % 5 == 0 else values[:1])
            writer.add_event(event_pb2.Event(wall_time=start + step, step=step, summary=summary))
        writer.close()
        # The name begins with the time of writing, by which TensorBoard orders files.
        (written,) = [path for path in folder.iterdir() if path.name.endswith(f".{number}")]
        written.rename(folder / f"events.out.tfevents.{start}.host.1.{number}")
    return folder


def test_an_overlapping_restart_survives_as_tensorboard_shows_it_and_nothing_is_thrown_away(
    store: EventStore, restarted: Path
) -> None:
    assert store.ingest([restarted.parent]).exit_code == 0
    assert len(store.scalars("restarted", tag="loss")) == 190, "every value is kept"
    assert as_float32(stored(store, "restarted", "all")) == as_float32(accumulated(restarted, purge=False))
    shown = accumulated(restarted, purge=True)
    assert [step for step, _ in shown["loss"]] == list(range(150)), "TensorBoard purges"
    assert as_float32(stored(store, "restarted", "surviving")) == as_float32(shown) == as_float32(purged(shown))
    attempts = store.attempts("restarted")
    assert attempts["end_step"].tolist() == [99, 149]
    assert attempts["kept_to"].tolist()[0] == 59
    assert attempts["lost_steps"].tolist()[0] == 40


def test_the_same_incident_from_timeline_and_chronicle_is_one(store: EventStore, shared: Path) -> None:
    store.ingest_builtin()
    before = store.incidents(run="glm-130b")
    report = store.ingest([shared / "upstream" / "glm-130b" / "main-log-en.md"])
    assert report.sources[0].run == "glm-130b"
    after = store.incidents(run="glm-130b")
    assert set(before["incident"]) <= set(after["incident"])
    tellings = store.incidents(run="glm-130b", sources="all")["incident"].value_counts()
    assert (tellings > 1).sum() >= 25, "both sources tell most incidents under the same names"
    explosions = store.incidents(run="glm-130b", saw="loss_explosion")
    assert explosions["recurred_after"].dropna().tolist() == [1650, 5600]
    assert explosions["did"].map(lambda kinds: "rollback" in kinds or "skip_batches" in kinds).all()


def test_real_trainer_logs_twice_are_the_same_bytes(store: EventStore, shared: Path) -> None:
    import toy

    folder = shared / "real" / "trainers" / "megatron-deepspeed"
    store.ingest([folder])
    before = toy.snapshot(store.folder)
    assert {one.status for one in replay.open(store.folder).ingest([folder]).sources} == {"unchanged"}
    assert toy.snapshot(store.folder) == before
    values = store.scalars("tr11_31214", signal="grad_norm", steps=(31_215, 31_225))["value"]
    assert values.max() == 960.351
