"""Answers to queries: from one steady state of the store, without the parts that are damaged, which are told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from replay.storage.errors import UnsoundPartError
from replay.storage.ledger import Ledger, Snapshot

Answer = TypeVar("Answer")

LOGGER = logging.getLogger("replay.store")

TRIES = 5
"""How often a query is put when other processes change the store meanwhile."""


class Answers:
    """Answers queries on the store in ``folder``.

    ``left_out``: files that answers had to leave out, by path, with what is wrong and what to do.  ``partial``: answer
    with no rows where nothing of what is asked is left, instead of raising.
    """

    def __init__(self, folder: Path, ledger: Ledger, *, partial: bool) -> None:
        self.left_out: dict[str, str] = {}
        self._folder = folder
        self._ledger = ledger
        self._partial = partial

    def give(
        self,
        query: Callable[[Snapshot], Answer],
        *,
        runs: Collection[str] | None = None,
        table: str | None = None,
    ) -> Answer:
        """``query`` on the present state.

        Parts of ``runs`` (None: all) that are missing or damaged are left out, which is told.  Raises
        :class:`UnsoundPartError` where nothing of what is asked of ``runs``, rows of ``table`` (None: any), is left.
        """
        try:
            return self.steadily(query)
        except UnsoundPartError as error:
            return self._from_what_is_whole(query, runs, table, error)

    def steadily(self, query: Callable[[Snapshot], Answer]) -> Answer:
        """``query`` on the present state; once more when another process merged parts meanwhile."""
        for _ in range(TRIES - 1):
            names = self._ledger.names()
            try:
                return query(self._ledger.snapshot())
            except UnsoundPartError:
                if self._ledger.names() == names:
                    raise
        return query(self._ledger.snapshot())

    def tell_left_out(self, damaged: Mapping[str, str]) -> None:
        """Warn of files that are left out, of each once."""
        for path, said in damaged.items():
            if path not in self.left_out and path not in self._ledger.damaged:
                LOGGER.warning("left out: %s", said)
                self.left_out[path] = said

    def _from_what_is_whole(
        self,
        query: Callable[[Snapshot], Answer],
        runs: Collection[str] | None,
        table: str | None,
        error: UnsoundPartError,
    ) -> Answer:
        from replay.storage.commits import without_unsound_parts

        known: dict[str, str] = {}
        while str(error.path) not in known:
            # Of a large part only the query itself shows that it is damaged.
            known[str(error.path)] = str(error)
            snapshot = without_unsound_parts(self._folder, self._ledger.snapshot(), runs, known)
            if runs is not None and not self._partial and not any(snapshot.has_parts(run, table) for run in runs):
                raise error
            try:
                answer = query(snapshot)
            except UnsoundPartError as another:
                error = another
                continue
            self.tell_left_out(snapshot.damaged)
            return answer
        raise error
