"""How fast event files become columns, beside other readers and beside merely checksumming the bytes.

    python benchmarks/event_files.py                # four sets of 1M scalars, all readers: some minutes
    python benchmarks/event_files.py --rows 100000  # a tenth of it
    python benchmarks/event_files.py --ten-million  # also 10M scalars, for replay and the checksum alone

Every figure is CPU seconds of one process that reads one set (and of its data server, where it has one), the
least of several runs for what is fast; memory is the peak of that process.  Ratios are to replay's figure of the
same run.  The sets are written anew into a temporary folder, alike every time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TAGS = [f"train/metric_{number:02d}/value".encode() for number in range(10)]
SMALL_FILES = 200
VALUE_PLUGIN = b"scalars"


# -- the sets ----------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def framed(payload: bytes) -> bytes:
    from replay_parsers.tensorboard.decoder import extend_checksum, mask_checksum

    def checksum(data: bytes) -> bytes:
        padded = np.frombuffer(data + bytes(8), np.uint8)
        return struct.pack("<I", mask_checksum(extend_checksum(0, int(padded.ctypes.data), len(data))))

    length = struct.pack("<Q", len(payload))
    return length + checksum(length) + payload + checksum(payload)


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def event(wall_time: float, step: int, value: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + varint(step) + field(5, field(1, value))


def simple_value(tag: bytes, number: float, _step: int) -> bytes:
    """As torch, tensorboardX and TensorFlow 1 write a scalar."""
    return field(1, tag) + b"\x15" + struct.pack("<f", number)


def tensor_value(tag: bytes, number: float, step: int) -> bytes:
    """As TensorFlow 2 writes a scalar: the plugin stands in a tag's first event only."""
    tensor = b"\x08\x01\x12\x00" + field(4, struct.pack("<f", number))
    return field(1, tag) + field(8, tensor) + (field(9, field(1, field(1, VALUE_PLUGIN))) if step == 0 else b"")


def histogram_value(tag: bytes, rng: random.Random) -> bytes:
    """A histogram of 60 buckets, as torch writes one."""
    limits, counts = (struct.pack("<60d", *(rng.random() for _ in range(60))) for _ in range(2))
    head = b"".join(bytes([number << 3 | 1]) + struct.pack("<d", rng.random()) for number in range(1, 6))
    return field(1, b"weights/" + tag) + field(5, head + field(6, limits) + field(7, counts))


def write_file(path: Path, rows: int, value: Callable[[bytes, float, int], bytes], histograms: float = 0.0) -> None:
    rng = random.Random(path.name)
    with path.open("wb") as stream:
        stream.write(framed(b"\x09" + struct.pack("<d", 1.6e9) + field(3, b"brain.Event:2")))
        for row in range(rows):
            tag, step, wall_time = TAGS[row % len(TAGS)], row // len(TAGS), 1.6e9 + row / 100
            if rng.random() < histograms:
                stream.write(framed(event(wall_time, step, histogram_value(tag, rng))))
            stream.write(framed(event(wall_time, step, value(tag, rng.random(), step))))


def write_sets(folder: Path, rows: int, ten_million: bool) -> Iterator[tuple[str, Path, int]]:
    """Write the sets one by one: a name, the folder, the number of scalars."""
    name = "events.out.tfevents.1600000000.host"
    sets: list[tuple[str, Callable[[bytes, float, int], bytes], float, int]] = [
        ("torch scalars", simple_value, 0.0, rows),
        ("TF2 tensors", tensor_value, 0.0, rows),
        ("with 5% histograms", simple_value, 0.05, rows),
    ]
    if ten_million:
        sets.append(("ten times as many", simple_value, 0.0, 10 * rows))
    for title, value, histograms, count in sets:
        target = folder / title.replace(" ", "-").replace("%", "")
        target.mkdir()
        write_file(target / name, count, value, histograms)
        yield title, target, count
    target = folder / "small-files"
    for number in range(SMALL_FILES):
        (target / f"run-{number:03d}").mkdir(parents=True)
        write_file(target / f"run-{number:03d}" / name, rows // SMALL_FILES, simple_value)
    yield f"{SMALL_FILES} small files", target, rows // SMALL_FILES * SMALL_FILES


# -- the readers: each reads the files of a set and returns the number of scalars that it found ------------------


def replay(files: list[Path]) -> int:
    """Decode to columns, every checksum verified."""
    from replay_parsers.parser import Request
    from replay_parsers.tensorboard import PARSER

    return sum(
        len(piece.scalars) for path in files for piece in PARSER.read(Request(path=path, source=str(path), run="run"))
    )


def checksum_alone(files: list[Path]) -> int:
    """Read the bytes and checksum them, no more: the least that can be done."""
    from replay_parsers.tensorboard.decoder import extend_checksum

    buffer = np.empty((1 << 20) + 64, np.uint8)
    target = buffer.data[: 1 << 20]
    for path in files:
        checksum = 0
        with path.open("rb", buffering=0) as stream:
            while count := stream.readinto(target):
                checksum = extend_checksum(checksum, int(buffer.ctypes.data), count)
    return 0


def tbparse(files: list[Path]) -> int:
    from tbparse import SummaryReader

    tensors = files[0].parent.name == "TF2-tensors"
    return sum(
        len(reader.tensors if tensors else reader.scalars)
        for path in files
        for reader in [SummaryReader(str(path), event_types={"tensors" if tensors else "scalars"})]
    )


def event_accumulator(files: list[Path]) -> int:
    """TensorBoard's own Python reader, nothing dropped, into pandas."""
    import pandas as pd
    from tensorboard.backend.event_processing import event_accumulator as module
    from tensorboard.util.tensor_util import make_ndarray

    count = 0
    for path in files:
        everything = {module.SCALARS: 0, module.TENSORS: 0, module.HISTOGRAMS: 1}
        accumulator = module.EventAccumulator(str(path), size_guidance=everything, purge_orphaned_data=False).Reload()
        for tag in accumulator.Tags()["scalars"]:
            count += len(pd.DataFrame(accumulator.Scalars(tag)))
        for tag in accumulator.Tags()["tensors"]:
            rows = [(e.wall_time, e.step, make_ndarray(e.tensor_proto).item()) for e in accumulator.Tensors(tag)]
            count += len(pd.DataFrame(rows, columns=["wall_time", "step", "value"]))
    return count


def rustboard(files: list[Path]) -> int:
    """TensorBoard's data server: load, then read all scalars by gRPC."""
    from tensorboard.context import RequestContext
    from tensorboard.data import server_ingester
    from tensorboard.util import grpc_util

    ingester = server_ingester.SubprocessServerDataIngester(
        server_binary=server_ingester.get_server_binary(),
        logdir=os.path.commonpath([path.parent for path in files]),
        reload_interval=0,
        channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
        samples_per_plugin={"scalars": 0},
    )
    ingester.start()
    context, still = RequestContext(), 0
    # The server has no call that says when it has loaded everything: it has when the last steps no longer grow.
    last: Any = None
    while still < 3:
        time.sleep(0.2)
        listed = ingester.data_provider.list_scalars(context, experiment_id="", plugin_name="scalars")
        steps = {(run, tag): entry.max_step for run, tags in listed.items() for tag, entry in tags.items()}
        still = still + 1 if steps and steps == last else 0
        last = steps
    read = ingester.data_provider.read_scalars(
        context, experiment_id="", plugin_name="scalars", downsample=2**31 - 1, run_tag_filter=None
    )
    return sum(len(points) for tags in read.values() for points in tags.values())


@dataclass(frozen=True)
class Reader:
    """A reader, how often it is run, the modules it needs, and whether it has a process beside its own."""

    read: Callable[[list[Path]], int]
    runs: int = 1
    needs: tuple[str, ...] = ()
    has_server: bool = False


READERS = {
    "replay": Reader(replay, runs=7),
    "checksum alone": Reader(checksum_alone, runs=7),
    "tbparse": Reader(tbparse, needs=("tbparse",)),
    "EventAccumulator": Reader(event_accumulator, needs=("tensorboard", "pandas")),
    "rustboard": Reader(rustboard, needs=("tensorboard_data_server", "tensorboard", "psutil"), has_server=True),
}


# -- measuring ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """CPU seconds, peak memory in MB, and scalars found."""

    seconds: float
    megabytes: float
    scalars: int


def cpu_seconds_with_server() -> float:
    """CPU time of this process and of those it has started."""
    import psutil

    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def measure(name: str, folder: Path, tiny: Path, answer: Any) -> None:
    """Run in a process of its own: read a ``tiny`` set first, so that no reader's imports count; take the least."""
    reader = READERS[name]
    clock = cpu_seconds_with_server if reader.has_server else time.process_time
    files = sorted(path for path in folder.rglob("events*") if path.is_file())
    reader.read(list(tiny.iterdir()))
    least, scalars = float("inf"), 0
    for _ in range(reader.runs):
        before = clock()
        scalars = reader.read(files)
        least = min(least, clock() - before)
    answer.put((least, peak_megabytes(), scalars))


def peak_megabytes() -> float:
    """The most memory that this process has had.

    Linux tells it of the program alone; what it tells of resources used counts the process that began this one too.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / (1 << 10)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def figure(name: str, folder: Path, tiny: Path) -> Figure | None:
    """The figure of one reader on one set, None where the reader is not installed."""
    if not all(installed(module) for module in READERS[name].needs):
        return None
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=measure, args=(name, folder, tiny, answer))
    process.start()
    process.join()
    if process.exitcode:
        print(f"{name} failed on {folder.name}; its message is above", file=sys.stderr)
        return None
    return Figure(*answer.get())


def installed(module: str) -> bool:
    from importlib.util import find_spec

    if find_spec(module) is not None:
        return True
    print(f"{module} is not installed (pip install {module.replace('_', '-')}): left out", file=sys.stderr)
    return False


def table(results: dict[str, dict[str, Figure | None]]) -> str:
    """The figures as a Markdown table: seconds, and how many times replay's."""
    names = list(READERS)
    lines = ["| set | " + " | ".join(names) + " | replay's peak memory |", "|---" * (len(names) + 2) + "|"]
    for title, figures in results.items():
        own = figures["replay"]
        cells = []
        for name in names:
            measured = figures.get(name)
            if measured is None or own is None:
                cells.append("")
            elif name == "replay":
                cells.append(f"{measured.seconds:.4f} s")
            else:
                cells.append(f"{measured.seconds:.4f} s ({measured.seconds / own.seconds:.2f}x)")
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {own.megabytes:.0f} MB |" if own else f"| {title} |")
    return "\n".join(lines)


def measured(
    folder: Path, rows: int, ten_million: bool, only: list[str] | None = None
) -> dict[str, dict[str, Figure | None]]:
    """Write the sets into ``folder`` and measure the readers on each; of the largest set only the fast ones."""
    results: dict[str, dict[str, Figure | None]] = {}
    tiny = folder / "tiny"
    tiny.mkdir()
    write_file(tiny / "events.out.tfevents.1600000000.host", 100, simple_value)
    for title, target, count in write_sets(folder, rows, ten_million):
        wanted = list(only or READERS)
        if title == "ten times as many":
            wanted = [name for name in wanted if READERS[name].runs > 1]
        results[title] = {name: figure(name, target, tiny) for name in wanted}
        for name, one in results[title].items():
            if one and name != "checksum alone" and one.scalars != count:
                print(f"{name}: {one.scalars:,} of {count:,} scalars of {title}", file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="scalars in a set (default: 1,000,000)")
    parser.add_argument("--ten-million", action="store_true", help="also a set ten times as large, for replay alone")
    parser.add_argument("--only", nargs="+", choices=list(READERS), help="leave the other readers out")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="event-files-") as temporary:
        results = measured(Path(temporary), options.rows, options.ten_million, options.only)
    print(table(results))
    if options.json:
        plain = {title: {name: vars(each) for name, each in row.items() if each} for title, row in results.items()}
        options.json.write_text(json.dumps(plain, indent=1))


if __name__ == "__main__":
    main()
