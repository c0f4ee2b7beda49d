"""The event store: what is known of training runs, in a folder of Parquet.

>>> import replay
>>> store = replay.open("store")                                        # doctest: +SKIP
>>> store.ingest(["runs/", "notes.md"])                                 # doctest: +SKIP
>>> store.events(kind="loss_spike", run=["glm-130b", "bloom-176b"])     # doctest: +SKIP

Every query returns a pandas DataFrame whose columns and types are the same however few rows it has: text is
``str`` (missing: NaN), times ``datetime64[us, UTC]``, whole numbers ``int64`` or, where they can be missing,
``Int64``, measures ``float64``; lists and dictionaries are Python's own.  A store that does not exist yet answers
with no rows; whatever writes first creates it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from replay.storage import layout
from replay.storage.answers import LOGGER, TRIES, Answers
from replay.storage.errors import StoreError, UnsoundPartError
from replay.storage.ledger import Ledger, Snapshot
from replay.storage.reports import IngestReport, Progress, ProgressCallback, SourceReport
from replay.storage.selection import Moment, Names, is_merged, members_of, moment_of, names_of, touches
from replay.storage.urls import shown
from replay_parsers.kinds import EventKind, Role
from replay_parsers.records import Evidence

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd

    from replay.rules import Flag
    from replay_parsers.records import Records

__all__ = ["EventStore", "IngestReport", "Progress", "SourceReport", "StoreError"]


class EventStore:
    """A store of training runs in ``folder``.

    A query is answered without the parts that are missing or damaged: each is told by a warning, and stands in
    :attr:`left_out`.  Where of what is asked of some runs nothing else is left, it raises :class:`StoreError`; with
    ``partial`` it answers with no rows even then.

    Raises :class:`StoreError` when the folder holds something else, or a store of a newer version.
    """

    def __init__(self, folder: str | Path, *, partial: bool = False) -> None:
        if layout.is_url(folder):
            raise StoreError(f"{shown(str(folder))}: a store is a local folder")
        self.folder = Path(folder)
        layout.check(self.folder)
        self._ledger = Ledger(self.folder)
        self._partial = partial
        self._answers = Answers(self.folder, self._ledger, partial=partial)
        self._derived_for: Snapshot | None = None

    def __repr__(self) -> str:
        return f"EventStore({str(self.folder)!r})"

    @property
    def exists(self) -> bool:
        """Whether anything was written yet."""
        return layout.check(self.folder)

    @property
    def left_out(self) -> dict[str, str]:
        """What of the store's own files answers had to leave out, by path, with what is wrong and what to do."""
        return {**self._ledger.damaged, **self._answers.left_out}

    # Writing

    def ingest(
        self,
        paths: Iterable[str | Path],
        *,
        run: str | None = None,
        progress: ProgressCallback | None = None,
        executor: Executor | None = None,
        workers: int = 1,
    ) -> IngestReport:
        """Read files and folders, or URLs of such, into the store; what is there already is left as it is.

        A file's run is the one it names itself, else ``run``, else for event files the folder they lie in (seen
        from the given path), else the file's own name, or its folder where it has but a common one (train.log,
        trainer_state.json).  A log that grew is read on from where it ended; a file
        begun again adds to what the former one said, and an edited document replaces it.  ``progress`` is called
        with a :class:`Progress` after each piece.

        A URL is read by fsspec (the extra ``remote``): a file is copied for as long as it is read, and only when
        its file system tells of another version than the last time.  Passwords in a URL are kept nowhere.

        Files are read by ``executor`` (of processes, or of a cluster that sees the same files), else by this process
        and, where there is enough to read, by up to ``workers`` more.  The store's bytes are the same either way.

        Raises :class:`StoreError` when the store cannot be written.  What is wrong with a source is in the report.
        """
        from replay.storage import sources
        from replay.storage.ingest import ingest

        given = _paths(paths, run)
        found = sources.find(given, run)
        # What was damaged may be whole afterwards.
        self._answers.left_out.clear()
        return ingest(self.folder, self._ledger, found, progress=progress, executor=executor, workers=workers)

    def follow(
        self,
        paths: Iterable[str | Path],
        *,
        run: str | None = None,
        interval: float = 1.0,
        idle: float | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[IngestReport]:
        """Ingest files and folders again and again as they grow: a report whenever something was new.

        They are looked at every ``interval`` seconds, until ``stop`` is set or nothing was new for ``idle`` seconds
        (0: look once).  New files are seen, and those that were replaced or became shorter.  Reading goes on after
        the last complete record, in a new copy of what lies at a URL; the rows are those of one :meth:`ingest` at the
        end.  Raises as :meth:`ingest`.
        """
        from replay.storage import compact, follow, sources
        from replay.storage.ingest import ingest

        given = _paths(paths, run)
        return follow.follow(
            lambda: sources.find(given, run),
            lambda found, memory: ingest(self.folder, self._ledger, found, progress=None, followed=memory),
            lambda grown: compact.compact(self.folder, self._ledger, lambda _: None, grown),
            interval=interval,
            idle=idle,
            stop=stop or threading.Event(),
        )

    def ingest_builtin(self, *, progress: ProgressCallback | None = None) -> IngestReport:
        """Read the public logbooks that come with replay into the store.  Raises :class:`StoreError`."""
        from replay.storage import sources
        from replay.storage.ingest import ingest

        return ingest(self.folder, self._ledger, sources.builtin(), progress=progress)

    def compact(self) -> None:
        """Merge the parts of each source, and the ledger.

        Afterwards the store's bytes depend on its rows alone, not on how often or when its sources were read.
        Waits for other writers to end.  Raises :class:`StoreError`.
        """
        from replay.storage.compact import compact

        if self.exists:
            compact(self.folder, self._ledger, self._bring_up_to_date)

    def write_derived(self, run: str) -> None:
        """Compute the attempts and derived events of ``run`` anew.  Raises :class:`StoreError`."""
        from replay.storage import derived

        layout.create(self.folder)
        self._answers.steadily(lambda snapshot: derived.write(self.folder, snapshot, [run]))

    def derive(self) -> None:
        """Bring up to date what follows from the records: attempts, and events found in scalars.

        Queries do so by themselves for the runs they are asked of; other tools see it once it was done.
        Raises :class:`StoreError`.
        """
        if self.exists:
            self._derive(self._ledger.snapshot().runs())

    def _derive(self, runs: Iterable[str]) -> None:
        from replay.storage.basis import out_of_date

        # Looked at first, so that what is up to date does not load what computing takes.
        stale = out_of_date(self.folder, self._ledger.snapshot(), runs)
        if stale:
            from replay.storage.lock import writing

            with writing(self.folder):
                self._bring_up_to_date(stale)

    def _bring_up_to_date(self, runs: Iterable[str]) -> None:
        """As :meth:`_derive`, for who holds the lock."""
        from replay.storage import derived

        derived.bring_up_to_date(self.folder, self._ledger, runs)

    def _derive_for(self, runs: Iterable[str] | None) -> None:
        """Bring up to date what a query of ``runs`` (None: all) needs, where the store can be written."""
        snapshot = self._ledger.snapshot()
        if snapshot is self._derived_for:
            return
        known = snapshot.runs()
        try:
            self._derive(known if runs is None else [run for run in runs if run in known])
        except UnsoundPartError as error:
            self._answers.tell_left_out({str(error.path): str(error)})
            return
        except StoreError as error:
            LOGGER.warning("events found in scalars may be missing or old: %s", error)
            return
        if runs is None:
            self._derived_for = snapshot

    def put_flags(self, run: str, flags: pd.DataFrame | Iterable[Flag]) -> None:
        """Keep ``flags`` as those of ``run``, in place of any kept before.

        Raises :class:`StoreError` for a table with other columns, and when the store cannot be written.
        """
        from replay.storage import results

        results.put_flags(self.folder, run, flags)

    def put_effects(self, scenario: str, effects: pd.DataFrame) -> None:
        """Keep ``effects`` as those of ``scenario``, in place of any kept before.  Raises as :meth:`put_flags`."""
        from replay.storage import results

        results.put_effects(self.folder, scenario, effects)

    # Queries

    def names(self) -> list[str]:
        """The names of all runs that some source tells of, whether or not what is stored of them is whole."""
        return self._ledger.snapshot().runs()

    def runs(self) -> pd.DataFrame:
        """All runs, by name: what sources say of each, and how much the store holds of it.

        Columns: run, title, organisation, parameters, hardware, precision, optimizer, batch, schedule, clock,
        sources (list), metadata (dict), n_events, n_scalars, first_step, last_step (of the scalars), then
        batch_schedule (list of ``{from_step, samples}``), sequence_length, seconds_per_step.
        """
        from replay.storage import overview

        return self._answers.give(lambda snapshot: overview.runs(self.folder, snapshot, self._event_rows(snapshot)))

    def events(
        self,
        *,
        run: Names = None,
        kind: Names = None,
        role: Names = None,
        since: Moment = None,
        until: Moment = None,
        steps: tuple[int | None, int | None] | None = None,
        evidence: Names = None,
        sources: Literal["merged", "all"] = "merged",
        derived: bool = True,
    ) -> pd.DataFrame:
        """What happened, by run, time and step: the columns of :class:`replay_parsers.records.Event`.

        ``since`` is inclusive and ``until`` exclusive (UTC unless they name a zone); ``steps`` is an inclusive
        range that the event must touch.  Events without a time or step are left out where one is asked for.
        With ``sources="merged"`` each event is told once: by a timeline before other people's notes before
        programs; a derived one only if nobody else told it.  ``"all"`` shows every telling.

        Raises :class:`StoreError` for an unknown kind, role or evidence, or an unreadable date.
        """
        from replay.storage import derived as derivation

        wanted = {
            "run": names_of(run),
            "kind": members_of(kind, EventKind, "kind of event"),
            "role": members_of(role, Role, "role"),
            "evidence": members_of(evidence, Evidence, "evidence"),
        }
        first, last = moment_of(since), moment_of(until)

        def matches(row: dict[str, Any]) -> bool:
            return (
                all(names is None or row[column] in names for column, names in wanted.items())
                and (first is None or (row["time"] is not None and row["time"] >= first))
                and (last is None or (row["time"] is not None and row["time"] < last))
                and (steps is None or touches(row, steps))
            )

        merge = is_merged(sources)
        rows = self._answers.give(
            lambda snapshot: self._event_rows(snapshot, wanted["run"], wanted["kind"], merge=merge, derived=derived),
            runs=wanted["run"],
            table="events",
        )
        return derivation.events_frame([row for row in rows if matches(row)])

    def incidents(
        self,
        *,
        run: Names = None,
        saw: Names = None,
        did: Names = None,
        sources: Literal["merged", "all"] = "merged",
    ) -> pd.DataFrame:
        """What was seen, found, done and what came of it: one row for each incident, by run and time.

        Columns: run, incident, time, step, saw, cause, did, then (lists of kinds), recurred_after (steps from the
        checkpoint that was gone back to, to where it came back), lost_steps, lost_hours, text, source, evidence.
        ``saw`` and ``did`` keep the incidents in which any of these kinds was seen or done.  With
        ``sources="all"`` each source's telling is a row.  Raises as :meth:`events`.
        """
        from replay.storage import overview

        names = names_of(run)
        seen = members_of(saw, EventKind, "kind of event")
        done = members_of(did, EventKind, "kind of event")
        apart = not is_merged(sources)
        rows = self._answers.give(
            lambda snapshot: self._event_rows(snapshot, names, merge=not apart), runs=names, table="events"
        )
        return overview.incidents(rows, apart=apart, saw=seen, did=done)

    def scalars(
        self,
        run: str,
        *,
        tag: Names = None,
        signal: str | None = None,
        steps: tuple[int | None, int | None] | None = None,
        view: Literal["all", "surviving"] = "all",
        sources: Literal["merged", "all"] = "merged",
    ) -> pd.DataFrame:
        """Measured values of ``run``, by tag and step.

        Columns: run, source, segment, tag, step, wall_time, value, attempt; with ``signal`` its name besides.
        ``steps`` is an inclusive range.  ``view="surviving"`` leaves out what a later attempt rolled back.
        With ``sources="merged"`` what several sources tell alike (a console log and the histories in two
        checkpoints) is told once; ``"all"`` shows every telling.

        Raises :class:`StoreError` for an unknown view, and when both a tag and a signal are asked for.
        """
        from replay.storage import overview

        if view not in ("all", "surviving"):
            raise StoreError(f"there is no view {view!r}: it is 'all' or 'surviving'")
        if tag is not None and signal is not None:
            raise StoreError("ask for a tag or a signal, not both")
        tags = None if tag is None else sorted(names_of(tag) or ())
        merge = is_merged(sources)
        self._derive_for([run])

        def query(snapshot: Snapshot) -> pd.DataFrame:
            surviving = view != "all"
            return overview.scalars(self.folder, snapshot, run, tags, signal, steps, surviving=surviving, merge=merge)

        return self._answers.give(query, runs=[run], table="scalars")

    def tags(self, run: str) -> pd.DataFrame:
        """What was measured of ``run``.  Columns: tag, signal, rows, first_step, last_step."""
        from replay.storage import overview

        return self._answers.give(
            lambda snapshot: overview.tags(self.folder, snapshot, run), runs=[run], table="scalars"
        )

    def attempts(self, run: str) -> pd.DataFrame:
        """The stretches of training between (re)starts.

        Columns: run, attempt, parent, start_step, end_step, kept_to, lost_steps, start_time, end_time, end_cause.
        """
        from replay import lineage
        from replay.storage import derived

        self._derive_for([run])
        found = self._answers.give(lambda snapshot: derived.attempts(self.folder, snapshot, run), runs=[run])
        return found.drop(columns=lineage.PIECES)

    def flags(self, run: str | None = None) -> pd.DataFrame:
        """What rules fired on.

        Columns: run, rule, signal, step, step_end, time, severity, value, baseline, score, message, attempt.
        """
        from replay.storage import results

        if run is not None and not self._partial:
            return results.flags(self.folder, run)
        damaged: dict[str, str] = {}
        found = results.flags(self.folder, run, damaged)
        self._answers.tell_left_out(damaged)
        return found

    def effects(self) -> pd.DataFrame:
        """What experiments found.

        Columns: scenario, arm, control, metric, n_seeds, mean, low, high, verdict, note.
        """
        from replay.storage import results

        damaged: dict[str, str] = {}
        found = results.effects(self.folder, damaged)
        self._answers.tell_left_out(damaged)
        return found

    def problems(self) -> pd.DataFrame:
        """What could not be read, of sources and of the store's own files.

        Of a part that is damaged, ``source`` is the source that it tells of, and the message names the part.

        Columns: source, kind, message, line, offset, lost_bytes, lost_records.
        """
        from replay.storage import overview
        from replay.storage.commits import without_unsound_parts

        for _ in range(TRIES):
            names = self._ledger.names()
            found = self._answers.give(
                lambda snapshot: overview.problems(self.folder, without_unsound_parts(self.folder, snapshot))
            )
            if self._ledger.names() == names:  # else parts may be missing because they were merged meanwhile
                break
        return found

    def findings(self) -> pd.DataFrame:
        """What was read but cannot be right.

        Columns: run, check, source, locator, readings (list), likely, reasons, incident.
        """
        from replay.storage import overview

        return self._answers.give(lambda snapshot: overview.findings(self.folder, snapshot))

    def records(self, run: str) -> list[Records]:
        """What each source says of ``run``, as its parser gave it and in its own order; without scalars."""
        from replay.storage.as_records import records_of

        return self._answers.give(lambda snapshot: records_of(self.folder, snapshot, run), runs=[run])

    def ledger(self) -> pd.DataFrame:
        """What became of every source, by name.

        Columns: source, run, format, confidence, status, reason, bytes_read, records, not_understood, lost_bytes,
        lost_records, examples (list), other (dict), parts (how many).
        """
        from replay.storage import overview

        return self._answers.give(overview.ledger)

    def _event_rows(
        self,
        snapshot: Snapshot,
        runs: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        *,
        merge: bool = True,
        derived: bool = True,
    ) -> list[dict[str, Any]]:
        from replay.storage.merge import chronological, merged
        from replay.storage.query import events_table

        if derived:
            self._derive_for(runs)
        names = snapshot.runs() if runs is None else [name for name in snapshot.runs() if name in runs]
        damaged: dict[str, str] = {}
        table = events_table(self.folder, snapshot, names, derived=derived, kinds=kinds, damaged=damaged)
        self._answers.tell_left_out(damaged)
        rows = table.to_pylist(maps_as_pydicts="strict")
        return sorted(merged(rows) if merge else rows, key=chronological)


def _paths(given: Iterable[str | Path], run: str | None) -> list[str | Path]:
    if run is not None and not run.strip():
        raise StoreError("a run needs a name: the one given is empty")
    return [given] if isinstance(given, str | Path) else list(given)
