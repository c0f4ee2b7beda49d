"""How the command line shows an ingest: a bar while it reads, and afterwards what became of each source.

Nothing is called fine that was not understood: each source is shown with what was kept, what was left over and
what was lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from replay.cli import left_out
from replay.output import plain, print_json, visible
from replay.storage.reports import IngestReport, Progress, ProgressCallback, SourceReport
from replay_parsers.records import Problem, ProblemKind

EXAMPLES = 3
NAMES = 10


@contextmanager
def progress() -> Iterator[ProgressCallback | None]:
    """A progress bar on standard error while the body runs; none where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")

        def show(state: Progress) -> None:
            name = visible(Path(state.source).name).replace("[", r"\[")
            bar.update(
                task,
                description=f"{state.number}/{state.sources} {name}",
                completed=state.bytes_read,
                total=max(state.size, state.bytes_read),
            )

        yield show


def show(reports: Sequence[IngestReport], *, as_json: bool, folder: Path) -> None:
    """Print what was ingested: JSON to standard output, or a summary there and each problem to standard error."""
    sources = [source for report in reports for source in report.sources]
    notes = [note for report in reports for note in report.notes]
    if as_json:
        print_json(as_json_document(reports, folder))
        return
    _print_sources(sources, notes)
    print(_summary(sources, folder))
    show_left_out([source.coverage.other for source in sources])


def show_news(report: IngestReport) -> None:
    """Print what one look of a follower found."""
    _print_sources(report.sources, report.notes)


def show_left_out(others: Iterable[Mapping[str, int]], stream: TextIO | None = None) -> None:
    """Print what the sources held beside what was kept, summed by kind."""
    for line in left_out.closing_lines(others):
        print(line, file=stream)


def as_json_document(reports: Sequence[IngestReport], folder: Path) -> dict[str, object]:
    """What was ingested, as JSON can hold it."""
    return {
        "store": str(folder),
        "sources": [_as_json(source) for report in reports for source in report.sources],
        "notes": [note for report in reports for note in report.notes],
    }


def _print_sources(sources: Sequence[SourceReport], notes: Sequence[str]) -> None:
    for source in sources:
        print(_line(source))
        for example in source.coverage.examples[:EXAMPLES]:
            print(f"             not understood: {visible(example)}")
    for source in sources:
        for problem in source.problems:
            _warn(problem)
        if source.nothing_kept:
            left = f"{source.coverage.not_understood:,} lines were not understood"
            print(f"problem: {visible(source.source)}: nothing of it could be kept: {left}", file=sys.stderr)
    for note in notes:
        print(f"note: {visible(note)}", file=sys.stderr)


def _line(source: SourceReport) -> str:
    coverage = source.coverage
    facts = [f"{coverage.records:,} records"] if source.status != "skipped" else []
    if source.format:
        facts.append(f"as {source.format} (confidence {source.confidence:.2f})")
    if coverage.not_understood:
        facts.append(f"{coverage.not_understood:,} not understood")
    facts += left_out.not_understood(coverage)
    if coverage.lost_bytes or coverage.lost_records:
        facts.append(f"lost {coverage.lost_bytes:,} bytes, {coverage.lost_records:,} records")
    if source.findings:
        facts.append(f"{len(source.findings)} findings")
    if source.former_run:
        facts.append(f"was run {source.former_run}")
    if source.reason:
        facts.append(source.reason)
    run = f" -> {visible(source.run)}" if source.run else ""
    return f"{source.status:<10}   {visible(source.source)}{run}: {visible(', '.join(facts))}"


def _warn(problem: Problem) -> None:
    word = "unfinished" if problem.kind is ProblemKind.TRUNCATED else "problem"
    print(f"{word}: {visible(str(problem))}", file=sys.stderr)


def _summary(sources: Sequence[SourceReport], folder: Path) -> str:
    counts: dict[str, int] = {}
    for source in sources:
        counts[source.status] = counts.get(source.status, 0) + 1
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    unknown = [source for source in sources if source.tried]
    unclear = sum(_is_unclear(source) for source in sources)
    rest = f"; {unclear} with something not understood or not readable" if unclear else ""
    return f"{len(sources)} sources in {folder}: {told or 'none found'}{rest}{_not_recognised(unknown)}"


def _is_unclear(source: SourceReport) -> bool:
    coverage = source.coverage
    return coverage.not_understood > 0 or bool(source.problems or left_out.not_understood(coverage))


def _not_recognised(unknown: Sequence[SourceReport]) -> str:
    """What was not understood as anything, by name, and once what it was tried as."""
    if not unknown:
        return ""
    names = [visible(Path(source.source).name) for source in unknown[:NAMES]]
    names += ["..."] if len(unknown) > NAMES else []
    tried = ", ".join(dict.fromkeys(name for source in unknown for name in source.tried))
    return f"\nnot recognised: {len(unknown)} ({', '.join(names)}), tried as {tried}"


def _as_json(source: SourceReport) -> dict[str, object]:
    return {name: plain(value) for name, value in asdict(source).items()} | {"nothing_kept": source.nothing_kept}
