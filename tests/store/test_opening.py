"""Opening: a store is what it says it is, or the message says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import toy

import replay
from replay.store import EventStore, StoreError


def test_a_store_that_does_not_exist_is_opened_and_made_when_first_written(tmp_path: Path) -> None:
    store = replay.open(tmp_path / "deep" / "down")
    assert (store.exists, store.folder.exists()) == (False, False)
    store.ingest([])
    assert store.exists
    assert json.loads((store.folder / "replay-store.json").read_text()) == {"format": "replay-store", "version": 1}


def test_an_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / ".123-abc.tmp").touch()  # as a kill during the first write leaves it
    replay.open(str(tmp_path)).ingest([])
    assert replay.open(tmp_path).exists


def test_a_folder_of_something_else_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StoreError, match=r"not a replay store.*thesis\.tex"):
        replay.open(tmp_path)
    with pytest.raises(StoreError, match="is a file"):
        replay.open(tmp_path / "thesis.tex")
    with pytest.raises(StoreError, match="is a file"):
        replay.open(tmp_path / "thesis.tex" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_became_something_else_is_not_written_into(tmp_path: Path) -> None:
    store = replay.open(tmp_path / "store")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "thesis.tex").touch()
    with pytest.raises(StoreError, match="not a replay store"):
        store.ingest([])


def test_a_newer_store_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "replay-store.json").write_text('{"format": "replay-store", "version": 2}')
    with pytest.raises(StoreError, match=r"version 2.*upgrade"):
        replay.open(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 1_000_000,
        '{"format": "other", "version": 1}',
        '{"format": "replay-store"}',
        *(f'{{"format": "replay-store", "version": {version}}}' for version in ("0", "-5", "true", "1.0", '"1"')),
        "\0",
    ],
)
def test_a_damaged_format_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "replay-store.json").write_text(content)
    with pytest.raises(StoreError, match=r"replay-store\.json is not the format file"):
        replay.open(tmp_path)


def test_other_places_than_folders_are_refused_in_words() -> None:
    for place in ("s3://bucket/store", Path("s3://bucket/store"), "hdfs://host:9000/store", "file:///tmp/store"):
        with pytest.raises(StoreError, match="a store is a local folder"):
            replay.open(place)


def test_a_store_that_cannot_be_written_says_so(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (logs / "a.log").write_text(toy.log(*toy.losses(0, 3)))
    store = replay.open(tmp_path / "store")
    original = Path.open

    def full(self: Path, mode: str = "r", *arguments, **options):  # type: ignore[no-untyped-def]
        if "w" in mode and "scalars" in str(self):
            raise OSError(28, "No space left on device")
        return original(self, mode, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(StoreError, match="No space left on device"):
            store.ingest([logs])
    assert store.runs().empty
    store.ingest([logs])
    assert len(store.scalars("a")) == 3


def test_importing_replay_is_light() -> None:
    code = (
        "import sys, replay; print([m for m in ('torch', 'altair', 'pandas', 'pyarrow', 'numba') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    assert replay.EventStore is EventStore
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        replay.nothing  # noqa: B018 - asking is what is tested
