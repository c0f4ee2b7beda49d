"""Files on other machines, through fsspec: what is said of one, what lies in a folder, and a copy of one to read here.

Whatever a file system raises, which may be anything, becomes a :class:`RemoteError` of one line without passwords.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from replay.storage.candidates import FileStatus
from replay.storage.files import new_temporary
from replay.storage.layout import digest
from replay.storage.urls import WEB, scrubbed, storable

LOOK_BYTES = 128 << 10
"""So much is copied before a look at whether it is worth the rest."""
_PIECE_BYTES = 1 << 20
_ENDS_BYTES = 1 << 16
_TRIES = 3
_LONGEST_MESSAGE = 300
_LONGEST_NAME = 240

WEB_SECONDS = 60.0
"""So long a web server may say nothing before it is given up.  How long all takes is not limited: logs may be large."""

# What file systems call what changes with the content, and, where they know no such thing, with its writing.
_CONTENT = ("etag", "contentmd5", "md5hash", "md5", "checksum", "digest", "crc32c", "generation", "oid", "sha", "crc")
_WRITTEN = ("mtime", "lastmodified", "modified", "modify", "updated", "modificationtime", "lastwritetime", "datetime")
_QUOTES = "\"'"

UNTOLD = FileStatus(size=-1, mtime_ns=0, inode=0)
"""The status of what may have changed at any time, because its file system does not tell."""


class RemoteError(OSError):
    """A file system could not do what it was asked for.

    ``missing`` tells that there is no such file, or no such file system.
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


@contextmanager
def _faults_told(url: str, system: Any = None) -> Iterator[None]:
    try:
        yield
    except RemoteError:
        raise
    except Exception as error:  # noqa: BLE001 - file systems raise the errors of the packages that they are made of
        told = _told(error, url)
        if system is not None and not told.missing:
            type(system).clear_instance_cache()  # its connection may be dead: the next use is to connect anew
        raise told from None


def _told(error: BaseException, url: str) -> RemoteError:
    scheme = url.partition("://")[0]
    if isinstance(error, ImportError):
        return RemoteError(
            f"{scheme}:// is read by a package that is not installed beside 'training-replay[remote]': "
            f"{scrubbed(str(error), url)}",
            missing=True,
        )
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and cause and (isinstance(cause, OSError) or hasattr(cause, "status")):
        error = cause  # the file system of the web calls everything missing
    code = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or code == 404:
        return RemoteError("no such file or folder", missing=True)
    if isinstance(error, PermissionError) or code in (401, 403):
        return RemoteError("no permission to read it")
    if isinstance(error, TimeoutError):
        return RemoteError("no answer in time: try again later, or copy it here and ingest the copy")
    said = scrubbed(str(getattr(error, "strerror", None) or error), url)[:_LONGEST_MESSAGE]
    # Other packages' errors often say little without their names.
    return RemoteError(said if said and isinstance(error, OSError) else f"{type(error).__name__}: {said}")


def file_system(url: str) -> tuple[Any, str]:
    """The file system of ``url``, which remembers nothing of earlier looks, and the path in it.

    Raises :class:`RemoteError` when a package for it is missing, or it cannot be reached.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise RemoteError("URLs are read by fsspec: pip install 'training-replay[remote]'", missing=True) from None
    with _faults_told(url):
        found, path = url_to_fs(url, **_patience(url))
        found.invalidate_cache()
        return found, str(path)


def _patience(url: str) -> dict[str, dict[str, Any]]:
    """How long web servers are waited for, as fsspec takes it: for each scheme that is in ``url``."""
    schemes = {part.partition("://")[0].lower() for part in url.split("::")} & WEB
    if not schemes:
        return {}
    try:
        import aiohttp
    except ImportError:
        raise RemoteError(
            "web addresses are read by aiohttp: pip install 'training-replay[remote]'", missing=True
        ) from None

    # By itself aiohttp ends whatever takes five minutes, however steadily it goes on.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=WEB_SECONDS, sock_read=WEB_SECONDS)
    return {scheme: {"timeout": timeout} for scheme in schemes}


@dataclass(frozen=True, slots=True)
class Remote:
    """One file or folder of the file system of ``url``: its ``path`` there, and what is said of it.

    ``kind`` is file, directory, or what else the file system calls it.  ``url`` and ``path`` may hold passwords.
    """

    url: str = field(repr=False)
    path: str = field(repr=False)
    kind: str
    status: FileStatus

    @property
    def name(self) -> str:
        """The last part of the path, as text that can be stored and can name a file."""
        return storable(self.path.rstrip("/").rpartition("/")[2])

    def children(self) -> list[Remote]:
        """What lies in this folder, by name.  Raises :class:`RemoteError`."""
        system, _ = file_system(self.url)
        with _faults_told(self.url, system):
            entries = system.ls(self.path, detail=True)
        inside = f"{self.path.strip('/')}/".lstrip("/")
        found: dict[str, Remote] = {}
        for entry in entries:
            path = str(entry["name"])
            # Object stores list the folder itself, web pages what lies elsewhere and the same in another order.
            if not path.lstrip("/").startswith(inside) or path.lstrip("/")[len(inside) :][:1] in ("", "?"):
                continue
            if entry.get("type") == "file" and entry.get("size") is None:  # as web pages list files
                with suppress(Exception):  # what is wrong with it will be told when it is to be read
                    entry = system.info(path)
            one = _remote(self.url, system, path, entry)
            found.setdefault(one.name, one)
        return [found[name] for name in sorted(found)]

    @contextmanager
    def copied(self, folder: Path, name: str, look: Callable[[Path], None]) -> Iterator[Path]:
        """A copy in ``folder`` for as long as it is needed, called ``name`` since formats are told by names too.

        ``look`` is given the beginning of a long file, and may raise to spare the rest.  Raises :class:`RemoteError`.
        """
        place = new_temporary(folder)
        try:
            place.mkdir()
            copy = place / (name.encode()[-_LONGEST_NAME:].decode("utf-8", "ignore") or "file")
            self._copy(copy, look)
            yield copy
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _copy(self, copy: Path, look: Callable[[Path], None]) -> None:
        for _ in range(_TRIES):
            before = find(self.url, self.path).status
            length = 0
            with copy.open("wb") as stream, closing(self._pieces()) as pieces:
                for piece in pieces:
                    stream.write(piece)
                    if length < LOOK_BYTES <= length + len(piece):
                        stream.flush()
                        look(copy)
                    length += len(piece)
            after = find(self.url, self.path).status
            if after.told and after == before:
                if length < before.size:
                    raise RemoteError(f"broke off after {length:,} of {before.size:,} bytes")
                return
            if (after.size >= length or not after.told) and self._has_ends_of(copy):
                return  # it only grew meanwhile
        raise RemoteError("was replaced while it was copied, three times; try again later")

    def _pieces(self) -> Generator[bytes]:
        system, _ = file_system(self.url)
        with _faults_told(self.url, system), _stream(system, self.path) as stream:
            size = LOOK_BYTES
            while piece := stream.read(size):
                yield piece
                size = _PIECE_BYTES

    def _has_ends_of(self, copy: Path) -> bool:
        system, _ = file_system(self.url)
        with copy.open("rb") as here, _faults_told(self.url, system):
            beginning = here.read(_ENDS_BYTES)
            with _stream(system, self.path) as there:
                if there.read(len(beginning)) != beginning:
                    return False
            start = here.seek(max(0, copy.stat().st_size - _ENDS_BYTES))
            end = here.read()
            with system.open(self.path, "rb") as there:
                try:
                    there.seek(start)
                    return bool(there.read(len(end)) == end)
                except ValueError:  # a web server that gives files only from their beginning
                    return True


def _stream(system: Any, path: str) -> Any:
    """``path``, opened to be read once from its beginning."""
    # On the web ranges would be asked for otherwise, and not every server gives them.
    return system.open(path, "rb", **({"block_size": 0} if "http" in system.protocol else {}))


def find(url: str, path: str | None = None) -> Remote:
    """What lies at ``url``, or at another ``path`` of its file system.  Raises :class:`RemoteError`."""
    system, own_path = file_system(url)
    path = own_path if path is None else path
    with _faults_told(url, system):
        described = system.info(path)
    one = _remote(url, system, path, described)
    # A web server's folder is a page of links.
    return replace(one, kind="directory") if described.get("mimetype") == "text/html" else one


def _remote(url: str, system: Any, path: str, described: Mapping[str, Any]) -> Remote:
    kind = str(described.get("type") or "file")
    if kind != "file":
        return Remote(url=url, path=path, kind=kind, status=UNTOLD)
    return Remote(url=url, path=path, kind=kind, status=_status(system, path, described))


def _status(system: Any, path: str, described: Mapping[str, Any]) -> FileStatus:
    told = {re.sub(r"[-_ ]", "", key).lower(): value for key, value in described.items() if value not in (None, "")}
    version = next(
        (f"{key} {str(told[key]).removeprefix('W/').strip(_QUOTES)}" for key in (*_CONTENT, *_WRITTEN) if key in told),
        None,
    )
    if version is None:
        with suppress(Exception):
            version = str(system.modified(path))
    if version is None or not isinstance(told.get("size"), int):
        return UNTOLD
    return FileStatus(size=told["size"], mtime_ns=0, inode=int(digest(version), 16))
