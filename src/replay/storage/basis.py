"""Whether what was computed of a run is up to date with the records that it follows from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replay.storage.errors import DamagedPartError
from replay.storage.ledger import Snapshot
from replay.storage.parts import remark
from replay.storage.query import derived_path

BASIS = "replay.basis"
"""The remark in a computed part that digests what it follows from (:meth:`Snapshot.basis`)."""


def is_up_to_date(store: Path, snapshot: Snapshot, run: str, tables: Iterable[str] = ("attempts", "events")) -> bool:
    """Whether the computed parts of ``run`` in ``tables`` follow from the records in ``snapshot``."""
    basis = snapshot.basis(run)
    return all(_basis_of(store / derived_path(table, run)) == basis for table in tables)


def _basis_of(path: Path) -> str | None:
    try:
        return remark(path, BASIS)
    except DamagedPartError:
        return None  # as if it were not there: it is computed anew


def out_of_date(store: Path, snapshot: Snapshot, runs: Iterable[str]) -> list[str]:
    """Those of ``runs`` of which something has to be computed anew."""
    return [run for run in runs if not is_up_to_date(store, snapshot, run)]
