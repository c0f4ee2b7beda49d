"""The processes of a Dask cluster, and what is said of it while it does not read."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from concurrent.futures import Executor

CONNECT_SECONDS = 60
NO_WORKERS_SECONDS = 5.0
"""A cluster may begin workers when there is work, so that having none is told only after a while."""
_LOOK_SECONDS = 0.5


@contextmanager
def executor(address: str) -> Iterator[Executor]:
    """The workers of the cluster whose scheduler listens at ``address``; having none is told, and waited for.

    Raises :class:`click.ClickException` when Dask is missing, nobody answers, or the cluster breaks down.
    """
    try:
        import distributed
    except ImportError:
        raise click.ClickException("--cluster needs Dask: pip install 'training-replay[cluster]'") from None
    # What it would tell by a traceback is told below in one line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        client: Any = distributed.Client(address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise click.ClickException(f"no Dask cluster answers at {address}: {error}") from error
    with client, _watched(client, address):
        try:
            yield client.get_executor()
        except CancelledError:
            raise click.ClickException(f"the Dask cluster at {address} went away; {_ONCE_MORE}") from None
        except distributed.KilledWorker as error:
            told = "workers of the Dask cluster died while they read, which their own logs tell more of"
            raise click.ClickException(f"{told}; {_ONCE_MORE}") from error


_ONCE_MORE = "what was stored before stays stored, so ingest again"


@contextmanager
def _watched(client: Any, address: str) -> Iterator[None]:
    """Say so, once each time, while the cluster has no workers."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(client, address, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(2 * _LOOK_SECONDS)


def _watch(client: Any, address: str, over: threading.Event) -> None:
    since: float | None = None
    told = False
    while not over.wait(_LOOK_SECONDS):
        workers = 0
        with suppress(Exception):  # whatever its connection raises: a scheduler that is gone has no workers either
            workers = len(client.scheduler_info()["workers"])
        if over.is_set():
            return
        if workers:
            if told:
                click.echo(f"the Dask cluster at {address} has workers", err=True)
            since, told = None, False
            continue
        since = time.monotonic() if since is None else since
        if not told and time.monotonic() - since >= NO_WORKERS_SECONDS:
            told = True
            click.echo(f"the Dask cluster at {address} has no workers: waiting for one (Ctrl-C ends it)", err=True)
