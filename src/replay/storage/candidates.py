"""What is found where people point: a file that may be read, or why something is not, and how its run is named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from replay.storage.remote import Remote


class FileStatus(NamedTuple):
    """What a file system says of a file: while it stays, so does the file.

    Of a remote one ``inode`` stands for what the file system tells its versions by.
    """

    size: int
    mtime_ns: int
    inode: int
    device: int = 0

    @property
    def told(self) -> bool:
        """Whether the file system says enough; where it does not, the file may have changed at any time."""
        return self.size >= 0

    @property
    def version(self) -> tuple[int, int, int]:
        """What the ledger keeps of it."""
        return self.size, self.mtime_ns, self.inode


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be read.

    ``source`` is its identity in the store, ``run`` and ``named_by`` the name for its run and how it was come by,
    unless the file itself says; ``file_run`` is the name when the file is no event file; ``folder`` is where it
    lies.  ``asked_for`` tells a file that was named from one that was found in a folder.  A ``portable`` source is
    told from another by its content alone, so that the ledger says the same of it on every machine.

    A ``remote`` one is read from a copy; until then ``path`` is but its name.
    """

    path: Path
    source: str
    run: str
    file_run: str
    named_by: str
    folder: str
    asked_for: bool
    portable: bool = False
    remote: Remote | None = None

    def status(self) -> FileStatus:
        """What is said of the file now; of a remote one, when it was found.  Raises :class:`OSError`."""
        if self.remote is not None:
            return self.remote.status
        now = self.path.stat()
        return FileStatus(now.st_size, now.st_mtime_ns, now.st_ino, now.st_dev)

    @contextmanager
    def at_hand(self, folder: Path, look: Callable[[Candidate], None]) -> Iterator[Candidate]:
        """Itself as a file that can be opened; of a remote one a copy in ``folder``, which is removed afterwards.

        ``look`` may raise, given the beginning of a remote file, to spare the rest.  Raises :class:`OSError`.
        """
        if self.remote is None:
            yield self
            return
        with self.remote.copied(folder, self.path.name, lambda part: look(replace(self, path=part))) as copy:
            status = self.remote.status._replace(size=copy.stat().st_size)
            yield replace(self, path=copy, remote=replace(self.remote, status=status))


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """Something that is not read: why, and whether that is a ``failure`` (it should have been readable)."""

    source: str
    reason: str
    failure: bool = False
    exists: bool = True


Found = Candidate | PassedOver


def is_remote(one: Found) -> bool:
    """Whether it is read from a copy."""
    return isinstance(one, Candidate) and one.remote is not None


def as_text(path: str | os.PathLike[str]) -> str:
    """A path as text that can be stored: bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


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


AnyPath = TypeVar("AnyPath", bound=PurePath)


def run_names(path: PurePath, inside: Sequence[str], root: PurePath) -> tuple[str, str]:
    """What the run of ``path`` is called if it is an event file, and if it is not.

    ``inside`` are the folders that lead to it from ``root``.
    """
    return as_text("/".join(inside) or root.name) or "root", as_text(_own_name(path, inside, root)) or "root"


def _own_name(path: PurePath, inside: Sequence[str], root: PurePath) -> str:
    """The name of a log without its endings (``tr8.log.gz`` is ``tr8``), or of its folder if it has none of its own.

    The history of a run that lies in the folders of its checkpoints belongs to the folder around them.
    """
    name = path.name.removesuffix(".gz")
    stem = PurePath(name).stem or path.name
    if stem.casefold() not in _COMMON_NAMES:
        return stem
    folders = list(inside)
    while folders and _CHECKPOINT_FOLDER.fullmatch(folders[-1]):
        folders.pop()
    if folders:
        return "/".join(folders)
    return root.parent.name if _CHECKPOINT_FOLDER.fullmatch(root.name) else root.name


def around_checkpoints(folder: AnyPath) -> AnyPath:
    """The folder of a run, given that of a checkpoint of it."""
    while _CHECKPOINT_FOLDER.fullmatch(folder.name):
        folder = folder.parent
    return folder
