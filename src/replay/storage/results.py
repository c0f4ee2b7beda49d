"""What rules and experiments found, kept beside what they found it in: one part a run or scenario."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa

from replay.storage import frames, schema
from replay.storage.errors import StoreError, UnsoundPartError
from replay.storage.layout import create, partition
from replay.storage.part_writer import PartWriter
from replay.storage.parts import read_table, remark, serialise
from replay.storage.query import concatenate
from replay.storage.text import storable

if TYPE_CHECKING:
    from replay.rules import Flag

# The whole name, since that of the folder may be cut short.
_OWNER = "replay.owner"


def put_flags(store: Path, run: str, flags: pd.DataFrame | Iterable[Flag]) -> None:
    """Keep ``flags`` as those of ``run``.  Raises :class:`StoreError`."""
    if isinstance(flags, pd.DataFrame):
        table = flags
    else:
        from replay.rules import flags_frame

        table = flags_frame(list(flags))
    _put(store, "flags", "run", run, table, schema.FLAGS)


def put_effects(store: Path, scenario: str, effects: pd.DataFrame) -> None:
    """Keep ``effects`` as those of ``scenario``.  Raises :class:`StoreError`."""
    _put(store, "effects", "scenario", scenario, effects, schema.EFFECTS)


def flags(store: Path, run: str | None, damaged: dict[str, str] | None = None) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.flags`.

    Parts that are damaged are left out and named in ``damaged``; where none is given, they raise
    :class:`replay.storage.errors.UnsoundPartError`.
    """
    return _get(store, "flags", "run", run, schema.FLAGS, damaged)


def effects(store: Path, damaged: dict[str, str] | None = None) -> pd.DataFrame:
    """The answer to :meth:`replay.store.EventStore.effects`; ``damaged`` as for :func:`flags`."""
    return _get(store, "effects", "scenario", None, schema.EFFECTS, damaged)


def _put(store: Path, table: str, column: str, owner: str, given: pd.DataFrame, columns: pa.Schema) -> None:
    create(store)
    try:
        rows = frames.conform(given.drop(columns=column, errors="ignore"), columns, table)
    except (ValueError, pa.ArrowException) as error:
        raise StoreError(f"{table} of {owner!r} cannot be stored: {error}") from error
    with PartWriter(store) as writer:
        data = serialise(rows, {_OWNER: storable(owner)})
        writer.write_as(f"{table}/{partition(column, owner)}/{table}.parquet", data)
        writer.settle()


def _get(
    store: Path, table: str, column: str, owner: str | None, columns: pa.Schema, damaged: dict[str, str] | None
) -> pd.DataFrame:
    pattern = f"{'*' if owner is None else glob.escape(partition(column, owner))}/{table}.parquet"
    tables = []
    for path in sorted((store / table).glob(pattern)):
        try:
            rows = read_table(path)
            its = remark(path, _OWNER) or unquote(path.parent.name.partition("=")[2])
        except UnsoundPartError as error:
            if damaged is None:
                raise
            damaged[str(path)] = str(error)
            continue
        tables.append(rows.add_column(0, column, pa.array([its] * len(rows), pa.string())))
    return frames.frame(concatenate(tables, pa.schema([(column, pa.string()), *columns])))
