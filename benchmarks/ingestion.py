"""How fast and in how much memory whole processes ingest, beside other public tools; writes docs/performance.md.

    python benchmarks/ingestion.py                  # as `make bench`: some minutes
    python benchmarks/ingestion.py --rows 100000    # a tenth of it
    python benchmarks/ingestion.py --ten-million    # event files of ten times as many rows too, tbparse included

CPU seconds and peak memory are those of a process and its children, from its start to its end, imports included; the
least of several runs for what is fast.  Every ratio is to replay's figure of the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import event_files

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
MANY_TAGS = 2_000
TBPARSE = "import sys; from tbparse import SummaryReader; SummaryReader(sys.argv[1], event_types={'scalars'}).scalars"
REPLAY = "from replay.cli import main; main()"


@dataclass(frozen=True)
class Cost:
    """What a whole process took: CPU and wall-clock seconds, peak memory in MB."""

    cpu: float
    wall: float
    megabytes: float


def process(arguments: list[str], *, runs: int = 1) -> Cost:
    """The cost of a process, the least of several ``runs``.  Raises :class:`RuntimeError` when it fails.

    Python keeps the bytecode of what it imports, as it does for users, whatever the environment here says.
    """
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    settings.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "replay-benchmark-bytecode"))
    costs = []
    for _ in range(runs):
        began = time.perf_counter()
        child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=settings)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"{arguments} failed")
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        costs.append(Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / unit))
    return min(costs, key=lambda cost: cost.cpu)


def ingest(path: Path, *, runs: int = 3) -> Cost:
    """`replay ingest` of ``path`` into a new store, by one process."""
    costs = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as store:
            command = [sys.executable, "-c", REPLAY, "ingest", str(path), "--workers", "1", "--store", store]
            costs.append(process(command))
    return min(costs, key=lambda cost: cost.cpu)


def write_megatron(path: Path, lines: int) -> None:
    """A log as Megatron-LM prints it."""
    rng = random.Random(1)
    with path.open("w") as stream:
        for step in range(1, lines + 1):
            stream.write(
                f" iteration {step:8d}/ 1000000 | consumed samples: {step * 2048:12d} | "
                f"elapsed time per iteration (ms): {rng.uniform(9e3, 1e4):.1f} | learning rate: 6.000E-05 | "
                f"global batch size:  2048 | lm loss: {rng.uniform(2, 3):.6E} | loss scale: 131072.0 | "
                f"grad norm: {rng.uniform(0, 1):.3f} | "
                "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
            )


def write_json_lines(path: Path, lines: int) -> None:
    """A log as trainers write JSON lines."""
    rng = random.Random(2)
    with path.open("w") as stream:
        for step in range(lines):
            row = {"step": step, "loss": round(rng.uniform(2, 3), 4), "grad_norm": rng.random(), "learning_rate": 6e-05}
            stream.write(json.dumps(row | {"epoch": round(step / 1e5, 4)}) + "\n")


def write_many_tags(path: Path, rows: int) -> None:
    """An event file of torch scalars under 2,000 tags."""
    before, event_files.TAGS = event_files.TAGS, [f"layer_{number:04d}/norm".encode() for number in range(MANY_TAGS)]
    try:
        event_files.write_file(path, rows, event_files.simple_value)
    finally:
        event_files.TAGS = before


def whole_processes(folder: Path, rows: int, ten_million: bool) -> list[str]:
    """The table of whole processes."""
    lines = [
        "| what is read | `replay ingest`: CPU | wall | peak memory | beside it | CPU | times replay's |",
        "|---|---|---|---|---|---|---|",
    ]

    def row(what: str, own: Cost, other: str = "", cost: Cost | None = None) -> None:
        beside = f"{other} | {cost.cpu:.2f} s | {cost.cpu / own.cpu:.1f}" if cost is not None else " | | "
        lines.append(f"| {what} | {own.cpu:.2f} s | {own.wall:.2f} s | {own.megabytes:.0f} MB | {beside} |")
        print(lines[-1], flush=True)

    name = "events.out.tfevents.1600000000.host"
    for count in [rows, 10 * rows] if ten_million else [rows]:
        path = folder / f"{count}" / name
        path.parent.mkdir()
        event_files.write_file(path, count, event_files.simple_value)
        own = ingest(path)
        row(f"event file, {count:,} scalars", own, "tbparse", process([sys.executable, "-c", TBPARSE, str(path)]))
        path.unlink()
    path = folder / "tags" / name
    path.parent.mkdir()
    for count in [2 * rows, 10 * rows] if ten_million else [2 * rows]:
        write_many_tags(path, count)
        row(f"event file, {count:,} scalars of {MANY_TAGS:,} tags", ingest(path))
        path.unlink()
    path = folder / "megatron.log"
    write_megatron(path, rows // 5)
    own = ingest(path)
    row(f"Megatron log, {rows // 5:,} lines ({rows / 5 / own.cpu * 60:,.0f} lines a minute)", own)
    path.unlink()
    path = folder / "train.jsonl"
    write_json_lines(path, rows // 2)
    losslint = [sys.executable, "-c", "from losslint.cli import main; main()", "check", str(path)]
    row(f"JSON lines, {rows // 2:,}", ingest(path), "losslint", process(losslint))
    return lines


def readers(folder: Path, rows: int) -> list[str]:
    """The table of text logs read into columns, without a store."""
    from losslint.parsing import load_run

    from replay_parsers.detection import detect
    from replay_parsers.parser import Request

    def own(path: Path) -> float:
        parser, least = detect(path).parser, float("inf")
        for _ in range(4):
            began = time.process_time()
            for _ in parser.read(Request(path=path, source="s", run="r")):
                pass
            least = min(least, time.process_time() - began)
        return least

    megatron, lines = folder / "megatron.log", folder / "train.jsonl"
    write_megatron(megatron, rows // 10)
    write_json_lines(lines, rows // 2)
    text, objects = own(megatron), own(lines)
    began = time.process_time()
    load_run(lines)
    other = time.process_time() - began
    return [
        "| what is read | replay | losslint |",
        "|---|---|---|",
        f"| Megatron log, {rows // 10:,} lines | {text:.3f} s ({rows / 10 / text * 60:,.0f} lines a minute) | |",
        f"| JSON lines, {rows // 2:,} | {objects:.3f} s | {other:.3f} s ({other / objects:.1f}x) |",
    ]


def machine() -> str:
    """The machine in words, without anything private."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        named = [
            line.partition(":")[2].strip() for line in information.read_text().splitlines() if "model name" in line
        ]
        model = named[0] if named else model
    load = f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"numpy {version('numpy')}, pyarrow {version('pyarrow')}, numba {version('numba')}, tbparse "
        f"{version('tbparse')}, tensorboard {version('tensorboard')}, losslint {version('losslint')}{load}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="scalars in a set (default: 1,000,000)")
    parser.add_argument("--ten-million", action="store_true", help="also ten times as many rows, tbparse included")
    parser.add_argument("--only", nargs="+", help="of the readers of event files only these")
    parser.add_argument("--output", type=Path, default=DOCUMENT, help="the document (default: docs/performance.md)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingestion-") as temporary:
        processes = whole_processes(Path(temporary), options.rows, options.ten_million)
    with tempfile.TemporaryDirectory(prefix="event-files-") as temporary:
        figures = event_files.measured(Path(temporary), options.rows, options.ten_million, options.only)
    # Last: a process that is begun takes over the peak memory of the one that begins it.
    with tempfile.TemporaryDirectory(prefix="ingestion-") as temporary:
        text = readers(Path(temporary), options.rows)
    decoded = event_files.table(figures)
    options.output.write_text(document(processes, text, decoded, options))


def document(processes: list[str], text: list[str], decoded: str, options: argparse.Namespace) -> str:
    """The page with all tables."""
    arguments = f" --rows {options.rows}" * (options.rows != 1_000_000) + " --ten-million" * options.ten_million
    return "\n".join(
        [
            "# Performance",
            "",
            "Written by `make bench`" + (f" (`python benchmarks/ingestion.py{arguments}`)" if arguments else "") + ".",
            f"Measured on: {machine()}.",
            "",
            "## Whole processes",
            "",
            "From the start of the process to its end: imports, reading, checksums, and for replay sorting and the",
            "writing of Parquet. One process each. The compiled decoder is kept from an earlier run.",
            "",
            *processes,
            "",
            "## Event files to columns",
            "",
            "CPU seconds to decode a set, imports left out, and how many times replay's. replay and rustboard verify",
            "every checksum; tbparse and EventAccumulator give columns; rustboard loads and reads by gRPC.",
            "",
            decoded,
            "",
            "## Text logs to columns",
            "",
            "CPU seconds of one process, imports left out.",
            "",
            *text,
            "",
        ]
    )


if __name__ == "__main__":
    main()
