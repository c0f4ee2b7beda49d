"""Ingest a folder of toy logs, pausing between pieces: a process for the tests to kill.

Usage: ingest_slowly.py STORE PAUSE_SECONDS PATH...
"""

from __future__ import annotations

import sys

import toy

import replay
import replay.storage.planning
import replay.storage.reading
import replay_parsers.detection


def main() -> None:
    """Ingest, with commits often enough that kills fall between them."""
    folder, pause, *paths = sys.argv[1:]
    toy.PAUSE = float(pause)
    replay_parsers.detection.all_parsers = replay.storage.planning.all_parsers = lambda: toy.PARSERS
    replay.storage.reading.COMMIT_BYTES = 6000
    print("ready", flush=True)
    replay.open(folder).ingest(paths)


if __name__ == "__main__":
    main()
