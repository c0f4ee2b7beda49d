"""Finding the files to read, and saying of every other one why it is not read.

Paths are given by people and folders are found as they are: with hidden files, loops, pipes, and the store itself
inside.  Each thing found is either a :class:`Candidate` or :class:`PassedOver`; nothing raises.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.storage.errors import StoreError
from replay.storage.layout import FORMAT_FILE, is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be read.

    ``source`` is its identity in the store, ``run`` and ``named_by`` the name for its run and how it was come by,
    unless the file itself says; ``file_run`` is the name when the file is no event file; ``folder`` is where it
    lies.  ``asked_for`` tells a file that was named from one that was found in a folder.  A ``portable`` source is
    told from another by its content alone, so that the ledger says the same of it on every machine.
    """

    path: Path
    source: str
    run: str
    file_run: str
    named_by: str
    folder: str
    asked_for: bool
    portable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """Something that is not read: why, and whether that is a ``failure`` (it should have been readable)."""

    source: str
    reason: str
    failure: bool = False
    exists: bool = True


Found = Candidate | PassedOver


def as_text(path: str | os.PathLike[str]) -> str:
    """A path as text that can be stored: bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def find(paths: Iterable[str | Path], run: str | None = None) -> list[Found]:
    """Everything under ``paths``, each file once however often it is reached, in a fixed order.

    ``run`` names the run of all files.
    """
    found: dict[str, Found] = {}
    for given in paths:
        for one in _under(Path(given), run):
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


def _under(given: Path, run: str | None) -> Iterator[Found]:
    if is_url(given) and not path_exists(given):
        yield PassedOver(
            source=str(given), reason="only local files can be read: copy it here first", failure=True, exists=False
        )
        return
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
        root = self.root.resolve()
        own_name = _own_name(path, inside, root)
        return Candidate(
            path=path,
            source=identity(path),
            run=self.run or as_text("/".join(inside) or root.name) or "root",
            file_run=self.run or as_text(own_name) or "root",
            named_by="given" if self.run else "place",
            folder=identity(_around_checkpoints(path.parent)),
            asked_for=asked_for,
        )


# What trainers and shells call the log of every run: such a name tells no run from another, but its folder does.
_COMMON_NAMES = frozenset(
    [
        "debug",
        "err",
        "history",
        "log",
        "log_history",
        "logs",
        "main",
        "metrics",
        "out",
        "output",
        "progress",
        "results",
        "run",
        "stderr",
        "stdout",
        "train",
        "train_log",
        "trainer_log",
        "trainer_state",
        "training",
        "training_log",
    ]
)
_CHECKPOINT_FOLDER = re.compile(r"(?:checkpoint|global_step|step)[-_]?\d+")


def _own_name(path: Path, inside: Sequence[str], root: Path) -> str:
    """The name of a log without its endings (``tr8.log.gz`` is ``tr8``), or of its folder if it has none of its own.

    The history of a run that lies in the folders of its checkpoints belongs to the folder around them.
    """
    name = path.name.removesuffix(".gz")
    stem = Path(name).stem or path.name
    if stem.casefold() not in _COMMON_NAMES:
        return stem
    folders = list(inside)
    while folders and _CHECKPOINT_FOLDER.fullmatch(folders[-1]):
        folders.pop()
    if folders:
        return "/".join(folders)
    return root.parent.name if _CHECKPOINT_FOLDER.fullmatch(root.name) else root.name


def _around_checkpoints(folder: Path) -> Path:
    while _CHECKPOINT_FOLDER.fullmatch(folder.name):
        folder = folder.parent
    return folder


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
