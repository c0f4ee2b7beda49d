"""What follows from the records of a run: its attempts, and the events found in its scalars.

Both are kept as one part a run, beside a digest of the parts they follow from.  When that has changed, they are
computed anew, so that it does not matter which process wrote them last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from replay.storage import frames, records_as_tables, schema
from replay.storage.basis import BASIS, is_up_to_date, out_of_date
from replay.storage.errors import DamagedPartError, PartVanishedError, StoreError
from replay.storage.ledger import Ledger, Snapshot
from replay.storage.part_writer import PartWriter
from replay.storage.parts import read_table, serialise
from replay.storage.query import derived_path, events_table
from replay.storage.scalar_frames import measurements

if TYPE_CHECKING:
    from replay_parsers.records import Event

_TRIES = 10
_RUNS_AT_ONCE = 64


def attempts(store: Path, snapshot: Snapshot, run: str) -> pd.DataFrame:
    """The attempts of ``run`` with their pieces, from the kept part if that is up to date."""
    from replay import lineage

    path = store / derived_path("attempts", run)
    if not is_up_to_date(store, snapshot, run, ["attempts"]):
        return _compute_attempts(store, snapshot, run, measurements(store, snapshot, run))
    rows = read_table(path)
    frame = frames.frame(rows.add_column(0, "run", pa.array([run] * len(rows), pa.string())))
    pieces = [[lineage.Piece(**piece) for piece in pieces] for pieces in rows[lineage.PIECES].to_pylist()]
    frame[lineage.PIECES] = pd.Series(pieces, dtype=object, index=frame.index)
    return frame


def _compute_attempts(store: Path, snapshot: Snapshot, run: str, of_run: pd.DataFrame) -> pd.DataFrame:
    from replay import lineage
    from replay.storage.merge import chronological, merged

    rows = merged(events_table(store, snapshot, [run], derived=False).to_pylist(maps_as_pydicts="strict"))
    return lineage.attempts(of_run, events_frame(sorted(rows, key=chronological)))


def events_frame(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    """Rows of events as a DataFrame."""
    columns = pa.schema([("run", pa.string()), *schema.EVENTS])
    detailed = [{**row, "detail": list(dict(row["detail"] or {}).items())} for row in rows]  # type: ignore[call-overload]
    return frames.frame(pa.Table.from_pylist(detailed, schema=columns))


def bring_up_to_date(store: Path, ledger: Ledger, runs: Iterable[str]) -> None:
    """Compute anew what follows from the records of ``runs``, wherever these have changed since.

    Raises :class:`replay.storage.errors.StoreError`; where a part is damaged, when all other runs are done.
    """
    failure: StoreError | None = None
    stale = list(runs)
    # Once more for those whose records another process added to meanwhile.
    for _ in range(_TRIES):
        snapshot = ledger.snapshot()
        stale = out_of_date(store, snapshot, stale)
        for first in range(0, len(stale), _RUNS_AT_ONCE):
            try:
                write(store, snapshot, stale[first : first + _RUNS_AT_ONCE])
            except (DamagedPartError, PartVanishedError) as error:
                failure = failure or error
        if failure is not None:
            raise failure
        if not stale:
            return


def write(store: Path, snapshot: Snapshot, runs: Iterable[str]) -> None:
    """Compute the attempts and derived events of ``runs``, and keep them; equal ones leave their part untouched.

    Raises :class:`replay.storage.errors.StoreError`; where a part is damaged, when all other runs are done.
    """
    failure: StoreError | None = None
    with PartWriter(store) as writer:
        for run in runs:
            try:
                _write(writer, snapshot, run)
            except (DamagedPartError, PartVanishedError) as error:
                failure = failure or error
        writer.settle()
    if failure is not None:
        raise failure


def _write(writer: PartWriter, snapshot: Snapshot, run: str) -> None:
    from replay import derive, lineage, signals

    of_run = measurements(writer.store, snapshot, run)
    its_attempts = _compute_attempts(writer.store, snapshot, run, of_run)
    found: list[Event] = []
    if len(of_run):
        of_run = lineage.assign(of_run, its_attempts)
        of_run["signal"] = _signals(of_run["tag"], signals.signal_of)
        found = derive.events(run, of_run, its_attempts)
    plain = its_attempts.drop(columns="run")
    plain[lineage.PIECES] = [[piece._asdict() for piece in pieces] for pieces in plain[lineage.PIECES]]
    kept = {
        "attempts": frames.conform(plain, schema.ATTEMPTS, "attempts"),
        "events": records_as_tables.events_table(found),
    }
    for table, rows in kept.items():
        writer.write_as(derived_path(table, run), serialise(rows, {BASIS: snapshot.basis(run)}))


def _signals(tags: pd.Series[Any], signal_of: Callable[[str], str | None]) -> Any:
    """The signal of each tag, missing where it has none."""
    signals = [signal_of(str(tag)) for tag in tags.cat.categories]
    names = sorted({signal for signal in signals if signal is not None})
    places = np.array([-1 if signal is None else names.index(signal) for signal in signals], dtype=np.int32)
    return frames.categories(places[tags.cat.codes.to_numpy()], names)
