"""Finding the files to read, and saying of every other one why it is not read.

Paths are given by people and folders are found as they are: with hidden files, loops, pipes, and the store itself
inside.  Each thing found is either a :class:`Candidate` or :class:`PassedOver`; nothing raises.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from replay.storage import remote_sources
from replay.storage.candidates import Candidate, Found, PassedOver, around_checkpoints, as_text, run_names
from replay.storage.errors import StoreError
from replay.storage.layout import FORMAT_FILE, is_url
from replay.storage.urls import path_of_file_url, whole_url


def find(paths: Iterable[str | Path], run: str | None = None) -> list[Found]:
    """Everything under ``paths``, each file once however often it is reached, in a fixed order.

    ``run`` names the run of all files.
    """
    found: dict[str, Found] = {}
    for given in paths:
        for one in _under(given, run):
            found.setdefault(one.source, one)
    return list(found.values())


def builtin() -> list[Found]:
    """The logbooks that come with replay, under names that do not depend on where it is installed.

    Raises :class:`replay.storage.errors.StoreError` when the installation lacks them.
    """
    from replay.builtin import builtin_logbooks

    try:
        logbooks = builtin_logbooks()
    except FileNotFoundError as error:
        raise StoreError(str(error)) from error
    return [
        Candidate(
            path=path,
            source=name,
            run=path.stem,
            file_run=path.stem,
            named_by="place",
            folder="",
            asked_for=True,
            portable=True,
        )
        for name, path in logbooks.items()
    ]


def _under(place: str | Path, run: str | None) -> Iterator[Found]:
    given = Path(place)
    if is_url(place) and not path_exists(given):
        url = whole_url(place)
        here = path_of_file_url(url)
        if here is None:
            yield from remote_sources.under(url, run)
            return
        given = here
    mode, problem = _mode(given)
    if problem is not None:
        yield problem
    elif stat.S_ISDIR(mode):
        yield from _Walk(given.absolute(), run).folder(given, ())
    elif not stat.S_ISREG(mode):
        yield PassedOver(source=identity(given), reason=_special(mode), failure=True)
    else:
        # Seen from its own folder, so that it gets the same name as when the folder is given.
        yield _Walk(given.absolute().parent, run).candidate(given, asked_for=True)


def identity(path: Path) -> str:
    """The name of a file as a source: where it really is."""
    try:
        return as_text(path.resolve())
    except (OSError, RuntimeError):
        return as_text(path.absolute())


def _mode(path: Path) -> tuple[int, PassedOver | None]:
    try:
        return path.stat().st_mode, None
    except FileNotFoundError:
        if path.is_symlink():
            reason = f"a link to {as_text(path.readlink())}, which is not there"
            return 0, PassedOver(source=as_text(path.absolute()), reason=reason, failure=True)
        return 0, PassedOver(
            source=as_text(path.absolute()), reason="no such file or folder", failure=True, exists=False
        )
    except (OSError, RuntimeError, ValueError) as error:
        # ELOOP, a folder that may not be entered, a name too long, or with a NUL character.
        reason = f"cannot be opened: {getattr(error, 'strerror', None) or error}"
        return 0, PassedOver(
            source=as_text(path.absolute()).replace("\0", "\\0"), reason=reason, failure=True, exists=path_exists(path)
        )


def path_exists(path: Path) -> bool:
    """Whether there is anything at ``path``, a broken link included."""
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def _special(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    what = kinds.get(stat.S_IFMT(mode), "neither file nor folder")
    return f"{what}, which cannot be read again later: save its content to a file and ingest that"


class _Walk:
    """The files under one root, links followed once."""

    def __init__(self, root: Path, run: str | None) -> None:
        self.root = root
        self.run = run
        self._seen: set[tuple[int, int]] = set()

    def folder(self, folder: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Found]:
        """Everything in ``folder``; ``above`` are the folders that led here, by device and inode."""
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: (entry.is_symlink(), entry.name))
        except OSError as error:
            reason = f"the folder cannot be opened: {error.strerror or error}"
            yield PassedOver(source=as_text(folder.absolute()), reason=reason, failure=True)
            return
        here = (status.st_dev, status.st_ino)
        if here in self._seen:
            if here in above:
                yield PassedOver(
                    source=as_text(folder.absolute()), reason=f"a link that leads back to {identity(folder)}"
                )
            return
        self._seen.add(here)
        if any(entry.name == FORMAT_FILE for entry in entries):
            yield PassedOver(source=as_text(folder.absolute()), reason="a replay store, not a log")
            return
        for entry in entries:
            yield from self._entry(Path(entry.path), (*above, here))

    def _entry(self, path: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Found]:
        if path.name.startswith("."):
            yield PassedOver(source=as_text(path.absolute()), reason="hidden")
            return
        mode, problem = _mode(path)
        if problem is not None:
            yield problem
        elif stat.S_ISDIR(mode):
            yield from self.folder(path, above)
        elif stat.S_ISREG(mode):
            yield self.candidate(path, asked_for=False)
        else:
            yield PassedOver(source=as_text(path.absolute()), reason=_special(mode))

    def candidate(self, path: Path, *, asked_for: bool) -> Candidate:
        """``path`` as something to read, with the name that its run gets from where it lies."""
        inside = path.absolute().parent.relative_to(self.root).parts
        run, file_run = run_names(path, inside, self.root.resolve())
        return Candidate(
            path=path,
            source=identity(path),
            run=self.run or run,
            file_run=self.run or file_run,
            named_by="given" if self.run else "place",
            folder=identity(around_checkpoints(path.parent)),
            asked_for=asked_for,
        )


def pointer(head: bytes) -> str | None:
    """Why ``head``, the whole of a small file, only stands for the file itself; None when it does not."""
    if head.startswith((b"version https://git-lfs.github.com/spec/", b"version http://git-media.io/v/")) or (
        head.startswith(b"version https://hawser.github.com/spec/")
    ):
        if b"\noid sha256:" in head and b"\nsize " in head:
            return "a Git LFS pointer, not the file itself: fetch it with git lfs pull"
    elif head.startswith((b"/annex/objects/", b"../.git/annex/objects/", b".git/annex/objects/")):
        return "a git-annex pointer, not the file itself: fetch it with git annex get"
    return None


POINTER_BYTES = 1024
"""Pointers are shorter than this."""
