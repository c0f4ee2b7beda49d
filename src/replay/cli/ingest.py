"""`replay ingest`: once, over many processes, on a cluster, or again and again while files grow."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.cli.options import common, open_store, source

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from replay.store import EventStore


@click.command("ingest")
@click.argument("paths", nargs=-1, type=source, metavar="[PATH|URL]...")
@click.option(
    "--run",
    help="Name of the run that the files belong to, where they do not say; "
    "what was ingested under another name is taken from that run.",
)
@click.option("--builtin", is_flag=True, help="Ingest the public logbooks that come with replay.")
@click.option("--follow", is_flag=True, help="Go on reading as files grow and new ones appear, until Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="Seconds between looks."
)
@click.option("--idle", type=click.FloatRange(min=0), help="End a --follow after so many seconds of nothing new.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Processes, where there is much to read (default: all cores)."
)
@click.option(
    "--cluster", metavar="ADDRESS", help="Read on the Dask cluster at tcp://HOST:PORT, which sees the same files."
)
@common
def ingest_command(
    paths: tuple[str | Path, ...],
    run: str | None,
    builtin: bool,
    follow: bool,
    interval: float,
    idle: float | None,
    workers: int | None,
    cluster: str | None,
    folder: Path,
    as_json: bool,
) -> None:
    """Read files and folders into the store; what is there already is left as it is.

    They may lie elsewhere: s3://bucket/logs/, https://host/run.log and whatever else fsspec reads. Such a file is
    copied for as long as it is read, and only when its file system says that it has changed.

    With --follow and --json, each line of output is one JSON document: what was new at one look.
    """
    from replay.cli import ingest_report

    if not paths and not builtin:
        raise click.UsageError("nothing to ingest: name files or folders, or give --builtin")
    if run is not None and not run.strip():
        raise click.UsageError("--run needs a name")
    if follow and (cluster or builtin):
        raise click.UsageError("--follow reads growing files by itself: leave --cluster and --builtin out")
    store = open_store(folder)
    if follow:
        sys.exit(_follow(store, paths, run, interval, idle, as_json=as_json))
    with ingest_report.progress() as progress, _workers(cluster) as executor:
        reports = [store.ingest_builtin(progress=progress)] if builtin else []
        if paths:
            several = workers or os.cpu_count() or 1
            reports.append(store.ingest(paths, run=run, progress=progress, executor=executor, workers=several))
    ingest_report.show(reports, as_json=as_json, folder=folder)
    if any(report.exit_code for report in reports):
        sys.exit(1)


def _workers(address: str | None) -> AbstractContextManager[Executor | None]:
    """The processes of a Dask cluster, None when no address is given."""
    if address is None:
        return nullcontext()
    from replay.cli import cluster

    return cluster.executor(address)


def _follow(
    store: EventStore,
    paths: tuple[str | Path, ...],
    run: str | None,
    interval: float,
    idle: float | None,
    *,
    as_json: bool,
) -> int:
    """Follow until Ctrl-C or a request to end; the exit code tells whether something could not be read at last."""
    from replay import output
    from replay.cli import ingest_report
    from replay.storage import sources
    from replay.storage.reports import IngestReport

    failed: dict[str, bool] = {}
    others: dict[str, Counter[str]] = {}
    with _until_asked_to_stop() as stop:
        for report in store.follow(paths, run=run, interval=interval, idle=idle, stop=stop):
            if as_json:
                sys.stdout.write(
                    output.json_text(ingest_report.as_json_document([report], store.folder), indent=None) + "\n"
                )
            else:
                ingest_report.show_news(report)
            sys.stdout.flush()
            failed |= {one.source: IngestReport([one]).exit_code != 0 for one in report.sources}
            for one in report.sources:
                before = others.get(one.source, Counter()) if one.status == "extended" else Counter[str]()
                others[one.source] = before + Counter(one.coverage.other)
    if not as_json:
        print(f"followed {len(failed)} sources into {store.folder}", file=sys.stderr)
        ingest_report.show_left_out(others.values(), sys.stderr)
    if not any(failed.values()):
        return 0
    # What was missing at first may be there by now, and what was faulty may be gone.
    return int(any(failed.get(one.source, False) for one in sources.find(paths, run)))


@contextmanager
def _until_asked_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, so that what is being written is finished; a second one ends at once."""
    stop = threading.Event()

    def ask(_signal: int, _frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    former = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
